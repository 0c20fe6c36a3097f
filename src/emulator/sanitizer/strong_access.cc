// Strong reads and writes of shared and global memory: what they make known, and to whom.
#include <algorithm>

#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

constexpr uint32_t kWord = 4;

Scope ScopeOf(uint8_t order) {
  return order & kGpuScope ? Scope::kGpu : order & kClusterScope ? Scope::kCluster : Scope::kCta;
}

// Calls body(address) for each location of an access.
template <typename F>
void ForEachLocation(uint64_t address, uint32_t bytes, F&& body) {
  for (uint32_t at = 0; at < bytes; at += kWord) body(address + at);
}

}  // namespace

uint64_t Sanitizer::CtaKey(const Issuer& issuer) const {
  return cluster_.linear_id * cluster_.ctas.size() + issuer.cta->rank;
}

// Returns what a relaxed write tells: everything that fences of at least this scope have covered.
Knowledge Sanitizer::ToldByFences(const WarpState& state, Scope scope) {
  const Knowledge& own = state.knowledge;
  Knowledge told;
  told.happened = own.PerformedFor(scope).happened;
  told.grid = own.PerformedFor(scope).grid;
  told.performed = own.performed;
  told.fenced = own.fenced;
  told.passed = own.passed;
  told.executed = own.executed;
  told.executed.Join(own.happened);
  return told;
}

void Sanitizer::Release(const Issuer& issuer, Knowledge* into) {
  WarpState& state = StateOf(issuer);
  if (issuer.op->order & kRelaxed) {
    into->Join(ToldByFences(state, ScopeOf(issuer.op->order)));
    return;
  }
  into->Join(state.knowledge);
  Advance(state);
}

void Sanitizer::Acquire(const Issuer& issuer, const Knowledge& from) {
  WarpState& state = StateOf(issuer);
  if (issuer.op->order & kRelaxed) {
    state.pending[0].Join(from);
    state.has_pending = true;
    state.knowledge.passed.Join(from.passed);
    state.knowledge.executed.Join(from.executed);
    state.knowledge.executed.Join(from.happened);
  } else {
    Learn(state, issuer, from);
  }
}

void Sanitizer::Fence(const Issuer& issuer) {
  WarpState& state = StateOf(issuer);
  const int last = static_cast<int>(ScopeOf(issuer.op->order));
  for (int scope = 0; state.has_pending && scope <= last; ++scope) {
    Learn(state, issuer, state.pending[scope]);
    state.pending[scope].Clear();
  }
  if (last == kScopes - 1) state.has_pending = false;
  const Covered covered{state.knowledge.happened, state.knowledge.grid};
  for (int scope = 0; scope <= last; ++scope) state.knowledge.performed[scope].Join(covered);
  Advance(state);
}

void Sanitizer::Receive(const Issuer& issuer, SyncLocations& locations, uint64_t address,
                        uint32_t bytes) {
  const uint8_t order = issuer.op->order;
  const Scope reach = ScopeOf(order);
  WarpState& state = StateOf(issuer);
  const auto take = [&](Scope scope, const Knowledge& known) {
    if (order & kAcquire) return Learn(state, issuer, known);
    state.pending[static_cast<int>(scope)].Join(known);
    state.has_pending = true;
  };
  ForEachLocation(address, bytes, [&](uint64_t at) {
    const SyncLocation* location = locations.Find(at);
    if (!location) return;
    const auto cta = location->cta.find(CtaKey(issuer));
    if (cta != location->cta.end()) take(Scope::kCta, cta->second);
    if (reach == Scope::kCta) return;
    const auto cluster = location->cluster.find(cluster_.linear_id);
    if (cluster != location->cluster.end()) take(Scope::kCluster, cluster->second);
    if (reach == Scope::kCluster || location->wide.empty()) return;
    Knowledge known;
    known.grid = location->wide;
    if (const VectorClock* mine = known.grid.At(cluster_.linear_id)) known.happened.Join(*mine);
    take(Scope::kGpu, known);
  });
}

void Sanitizer::Publish(const Issuer& issuer, SyncLocations& locations, uint64_t address,
                        uint32_t bytes, bool replaces) {
  WarpState& state = StateOf(issuer);
  const uint8_t order = issuer.op->order;
  const uint64_t self = CtaKey(issuer) * kMaxWarps + static_cast<uint64_t>(issuer.warp);
  const bool tells = (order & kRelease) || !state.knowledge.PerformedFor(Scope::kCta).empty();
  ForEachLocation(address, bytes, [&](uint64_t at) {
    if (replaces) {
      const SyncLocation* before = locations.Find(at);
      if (before && before->storer != self) locations.Erase(at);
    }
    if (!tells) return;
    SyncLocation& location = locations.At(at);
    if (replaces) location.storer = self;
    Tell(issuer, order, state, location);
  });
  if (order & kRelease) Advance(state);
}

void Sanitizer::Tell(const Issuer& issuer, uint8_t order, const WarpState& state,
                     SyncLocation& location) const {
  const auto told = [&](Scope scope) {
    return order & kRelease ? state.knowledge : ToldByFences(state, scope);
  };
  const Scope reach = ScopeOf(order);
  location.cta[CtaKey(issuer)].Join(told(Scope::kCta));
  if (reach == Scope::kCta) return;
  location.cluster[cluster_.linear_id].Join(told(Scope::kCluster));
  if (reach == Scope::kCluster || !grid_->follows_grid()) return;
  const Knowledge known = told(Scope::kGpu);
  location.wide.Join(known.grid);
  if (!known.happened.empty()) location.wide.Raise(cluster_.linear_id, known.happened);
}

void Sanitizer::EngineTells(const Issuer& issuer, const EngineStep& engine, uint64_t address) {
  if (!(engine.order & kRelease)) return;
  WarpState state;
  state.knowledge = *engine.knowledge;
  Tell(issuer, engine.order, state, grid_->locations().At(address));
}

}  // namespace tilelang::emulator
