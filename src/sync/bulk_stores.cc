#include "sync/bulk_stores.h"

#include <algorithm>
#include <optional>

#include "analysis/conflicts.h"
#include "analysis/waits.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/same.h"
#include "ir/visitor.h"

namespace tilelang::sync {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

int CountUses(const Stmt& s, const Buffer& tile) {
  int count = ir::CountEffects(s, tile);
  ir::WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
      count += effect.buffer.same_as(tile);
    }
    return true;
  });
  return count;
}

// Returns whether the wait for a store lasts until the tensor is written.
bool IsWritten(const PendingAccess& store) {
  return store.access->box && store.access->box->written;
}

// A wait of an issuer until its stores have read shared memory, or have written the tensors. The
// last `left` groups that it committed may stay in flight.
struct IssuerWait {
  op::ThreadRange issuer;
  bool written;
  int left;
};

void AddWait(const PendingAccess& store, bool written, std::vector<IssuerWait>* waits) {
  IssuerWait wait{*store.access->issuer, written, std::max(store.groups - 1, 0)};
  auto known = std::find_if(waits->begin(), waits->end(), [&](const auto& other) {
    return other.written == written && SameIssuer(other.issuer, wait.issuer);
  });
  if (known == waits->end()) {
    waits->push_back(wait);
  } else {
    known->left = std::min(known->left, wait.left);
  }
}

// Tensors that are written have read their tiles.
bool IsPartOf(const IssuerWait& wait, const IssuerWait& other) {
  return !wait.written && other.written && other.left <= wait.left &&
         SameIssuer(wait.issuer, other.issuer);
}

std::vector<ir::Wait> StatementsOf(const std::vector<IssuerWait>& waits, const ir::Span& span) {
  std::vector<ir::Wait> stmts;
  for (const IssuerWait& wait : waits) {
    bool part = std::any_of(waits.begin(), waits.end(),
                            [&](const auto& other) { return IsPartOf(wait, other); });
    if (part) continue;
    auto stores = ir::Completion::OfStores({wait.issuer.begin, wait.issuer.count});
    stmts.push_back(ir::Wait::ForStores(stores, wait.written, wait.left, span));
  }
  return stmts;
}

bool Overwrites(const analysis::MemoryAccess& access, const analysis::MemoryAccess& store) {
  return access.write && access.begin < store.end && store.begin < access.end;
}

}  // namespace

bool BulkStores::IsApart(const PendingAccess& store, const analysis::MemoryAccess& access) const {
  if (store.carried_by >= static_cast<int>(loops_.size())) return false;
  const auto &a = store.access->box, &b = access.box;
  if (!a || !b) return false;
  const analysis::LoopTurns& loop = loops_[store.carried_by];
  return loop.ArePromised(b->tensor) ||
         loop.AreApart({{a->corner, a->extents}, {b->corner, b->extents}});
}

bool BulkStores::MayMeet(const PendingAccess& store, const analysis::MemoryAccess& access) const {
  const analysis::MemoryAccess& read = *store.access;
  bool carried = store.carried_by != PendingAccess::kNotCarried;
  bool known = read.place.defined() && access.place.defined() && !loops_.empty() &&
               read.buffer.same_as(access.buffer);
  if (!known || (carried && store.carried_by + 1 != static_cast<int>(loops_.size()))) return true;
  return loops_.back().MayMeet({read.place, read.elements}, {access.place, access.elements},
                               carried ? store.turns : 0, PendingAccess::kMostTurns);
}

bool BulkStores::IssuesAlone(const Stmt& s) const {
  if (const auto* issue = s.as<ir::IssueNode>()) {
    return issue->engine() == ir::Engine::kTmaStore;
  }
  if (const auto* seq = s.as<ir::SeqNode>()) {
    return seq->stmts.size() == 1 && IssuesAlone(seq->stmts[0]);
  }
  const auto* branch = s.as<ir::IfNode>();
  return branch != nullptr && IssuesAlone(branch->then_case) &&
         (!branch->else_case.defined() || IssuesAlone(branch->else_case)) &&
         threads_.Where(branch->condition).has_value();
}

std::vector<ir::Wait> BulkStores::Before(const Stmt& s,
                                         const std::vector<analysis::AccessPtr>& accesses,
                                         const PendingAccesses& state) {
  std::vector<IssuerWait> waits;
  std::optional<bool> unknown;
  for (const PendingAccess& p : state.All()) {
    if (!p.WaitsForStore()) continue;
    if (!unknown) unknown = ir::HasCall(s, ir::IsUnknown);
    bool carried = p.carried_by != PendingAccess::kNotCarried;
    bool due = *unknown || HandsOver(s, p.access->buffer);
    bool again = false;  // stores there
    for (const analysis::AccessPtr& access : accesses) {
      due = due || (Overwrites(*access, *p.access) && MayMeet(p, *access));
      again = again || (analysis::BoxesOverlap(*p.access, *access, carried) &&
                        !(carried && IsApart(p, *access)));
    }
    if (due || again) AddWait(p, again || IsWritten(p), &waits);
  }
  return StatementsOf(waits, s.span());
}

std::vector<ir::Wait> BulkStores::OfAll(const PendingAccesses& state, const ir::Span& span) {
  std::vector<IssuerWait> waits;
  for (const PendingAccess& p : state.All()) {
    if (p.WaitsForStore()) AddWait(p, IsWritten(p), &waits);
  }
  return StatementsOf(waits, span);
}

bool BulkStores::HandsOver(const Stmt& s, const Buffer& tile) {
  return ir::HasStmt(s, [&](const Stmt& part) {
    if (auto tiles = analysis::GivenBackBy(part)) {
      return ir::HasSame(tiles.value(), tile);
    }
    const auto* barrier = part.as<ir::BarrierNode>();
    bool cluster = barrier != nullptr && barrier->Kind() == ir::BarrierKind::kCluster &&
                   barrier->Part() == ir::BarrierPart::kWhole;
    return (cluster || analysis::ArrivesForOthers(part)) && IsUsedByOtherThreads(tile);
  });
}

bool BulkStores::IsUsedByOtherThreads(const Buffer& tile) {
  auto [it, is_new] = region_.shared.try_emplace(tile.get(), false);
  if (is_new) it->second = CountUses(launch_->body, tile) != CountUses(region_.body, tile);
  return it->second;
}

}  // namespace tilelang::sync
