// Global memory: accesses of warps and engines, and what atomics and fences make known.
#include <algorithm>
#include <cstring>

#include "emulator/sanitizer/grid_footprint.h"
#include "emulator/sanitizer/previous_grid.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

uint64_t LineMask(uint64_t address, uint32_t bytes) {
  const uint64_t ones = bytes >= 64 ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1;
  return ones << (address % GridShadow::kLineBytes);
}

}  // namespace

GridAccess Sanitizer::GlobalStep(const Issuer& issuer, AccessKind kind, uint8_t order) {
  GridAccess access;
  const WarpState& state = StateOf(issuer);
  access.cluster = static_cast<uint32_t>(cluster_.linear_id);
  access.actor = state.actor;
  access.step = state.knowledge.happened.At(state.actor);
  access.op = static_cast<uint32_t>(issuer.op - cluster_.kernel().code.data());
  access.write = kind != AccessKind::kRead;
  access.strong = kind == AccessKind::kAtomic || (order & kStrong);
  access.rank = static_cast<uint8_t>(issuer.cta->rank);
  access.warp = static_cast<uint8_t>(issuer.warp);
  return access;
}

void Sanitizer::WarpGlobal(const WarpAccess& access) {
  const uint8_t order = access.issuer.op->order;
  GridAccess step = GlobalStep(access.issuer, access.kind, order);
  if (step.strong) {
    WarpState& state = StateOf(access.issuer);
    const bool reads = access.kind != AccessKind::kWrite;
    ForEachLane(access.mask, [&](int lane) {
      const uint64_t address = access.addresses[lane];
      Issuer issuer = access.issuer;
      issuer.lane = lane;
      if (reads) Receive(issuer, grid_->locations(), address, access.bytes);
      TouchGlobal(issuer, address, access.bytes, step);
      if (step.write) {
        const bool replaces = access.kind == AccessKind::kWrite;
        Publish(issuer, grid_->locations(), address, access.bytes, replaces);
      }
      step.step = state.knowledge.happened.At(state.actor);
    });
    return;
  }
  if (access.contiguous) {
    Issuer issuer = access.issuer;
    issuer.lane = 0;
    return TouchGlobal(issuer, access.addresses[0], access.bytes * kLanes, step, access.values);
  }
  // Bytes of one line at a time; lanes side by side usually share lines.
  uint64_t line = ~uint64_t{0};
  Issuer issuer = access.issuer;
  uint8_t values[GridShadow::kLineBytes];
  const auto flush = [&] {
    if (step.bytes) TouchLine(issuer, line, step, access.values ? values : nullptr);
    step.bytes = 0;
  };
  ForEachLane(access.mask, [&](int lane) {
    const uint64_t address = access.addresses[lane];
    if ((address & ~(GridShadow::kLineBytes - 1)) != line) {
      flush();
      line = address & ~(GridShadow::kLineBytes - 1);
      issuer.lane = lane;
    }
    step.bytes |= LineMask(address, access.bytes);
    if (access.values) {
      std::memcpy(values + (address - line), access.values + size_t{access.bytes} * lane,
                  access.bytes);
    }
  });
  flush();
}

void Sanitizer::EngineGlobal(const Access& access, const EngineStep& engine) {
  if (engine.actor == kNoActor) return;
  GridAccess step = GlobalStep(access.issuer, access.kind, engine.order);
  step.engine = true;
  step.actor = engine.actor;
  step.step = engine.step;
  engine_knowledge_ = engine.knowledge.get();
  TouchGlobal(access.issuer, access.address, access.bytes, step, access.value);
  engine_knowledge_ = nullptr;
  EngineTells(access.issuer, engine, access.address);
}

void Sanitizer::TouchGlobal(const Issuer& issuer, uint64_t address, uint32_t bytes,
                            GridAccess access, const uint8_t* values) {
  const uint64_t start = address, end = address + bytes;
  while (address < end) {
    const uint64_t line = address & ~(GridShadow::kLineBytes - 1);
    const uint64_t stop = std::min(end, line + GridShadow::kLineBytes);
    access.bytes = LineMask(address, static_cast<uint32_t>(stop - address));
    TouchLine(issuer, line, access, values ? values + static_cast<int64_t>(line - start) : nullptr);
    address = stop;
  }
}

void Sanitizer::TouchLine(const Issuer& issuer, uint64_t line, GridAccess& access,
                          const uint8_t* values) {
  if (values && access.write && grid_->merges()) {
    access.digest = GridShadow::Digest(access.bytes, values);
  }
  const Knowledge& knowledge = engine_knowledge_ ? *engine_knowledge_ : Of(issuer);
  if (cluster_.launch.previous) CheckPreviousGrid(issuer, line, access, knowledge);
  if (cluster_.launch.footprint && access.write && !access.strong) {
    if (const auto host = HostLine(cluster_.launch, line, access.bytes)) {
      cluster_.launch.footprint->Keep(*host, access.bytes);
    }
  }
  const GridAccess* earlier = grid_->Touch(line, access, knowledge, values);
  if (!earlier) return;
  const uint64_t at = line + static_cast<uint64_t>(__builtin_ctzll(earlier->bytes & access.bytes));
  // A thread's own access can only be unordered with its engine's if that has not been waited for.
  const bool own = earlier->cluster == access.cluster;
  const bool waits = own && (earlier->engine || (access.engine && earlier->rank == access.rank &&
                                                 earlier->warp == access.warp));
  Found(issuer, waits ? "missing-wait" : "race",
        GridRaceMessage(cluster_.launch, access, *earlier, at), at,
        cluster_.launch.global.NameOf(at), earlier->op);
}

void Sanitizer::CheckPreviousGrid(const Issuer& issuer, uint64_t line, const GridAccess& access,
                                  const Knowledge& knowledge) {
  if (knowledge.happened.At(kPreviousGrid) != 0) return;
  const GridFootprint& previous = cluster_.launch.previous->footprint();
  const auto host = HostLine(cluster_.launch, line, access.bytes);
  const auto conflict = host ? previous.Find(*host, access) : std::nullopt;
  if (!conflict) return;
  for (uint64_t other = 0; other < cluster_.launch.clusters(); ++other) {
    const VectorClock* clock = knowledge.grid.At(other);
    if (clock && clock->At(kPreviousGrid) != 0) return;  // one that told of it has waited
  }
  const uint64_t at = line + static_cast<uint64_t>(conflict->byte);
  const Where& earlier = previous.Place(conflict->op);
  std::string text = std::string(access.write ? "write" : "read") + " of global memory, " +
                     cluster_.launch.global.Describe(at) +
                     ", before griddepcontrol.wait: the grid of " + previous.kernel() +
                     " before this one " + (conflict->write ? "writes" : "reads") +
                     " it at PTX line " + std::to_string(earlier.ptx_line) + " of its module";
  if (earlier.source_line > 0) {
    text += " (" + earlier.source_file + ":" + std::to_string(earlier.source_line) + ")";
  }
  EmulatorError error("race",
                      text +
                          ", and may still run; execute griddepcontrol.wait first, in this "
                          "thread or in one that a barrier orders before it",
                      WhereOf(issuer));
  error.where.has_address = true;
  error.where.address = at;
  error.where.buffer = cluster_.launch.global.NameOf(at);
  error.earlier = earlier;
  cluster_.launch.Report(error);
}

void Sanitizer::LaunchDependents(const Issuer& issuer) {
  if (launched_dependents_.insert(issuer.cta->rank).second) {
    grid_->Release(cluster_.linear_id, Of(issuer).PerformedFor(Scope::kGpu).happened);
  }
}

}  // namespace tilelang::emulator
