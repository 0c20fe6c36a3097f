#include "memory/cta_resources.h"

#include "analysis/kernel_scope.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"
#include "op/effect.h"

namespace tilelang::memory {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::String;
using op::DeviceEffect;
using op::Effect;
using op::I32;
using op::Sequence;
using op::U32;

namespace {

constexpr size_t kTensorCopyBarriers = 16;

}  // namespace

CtaResources::CtaResources(const ir::KernelLaunchNode* launch, const Target& target)
    : span_(launch->span),
      thread_(analysis::ThreadsOf(launch).linear),
      has_async_proxy_(target->has_tma) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && alloc->buffer.IsBarrier()) barriers_.push_back(alloc->buffer);
    return true;
  });
  cluster_ = op::ClusterSize(launch);
  reaches_blocks_ = op::ReachesOtherBlocks(launch->body);
  leaves_blocks_open_ = op::LeavesOtherBlocksOpen(launch->body);
  in_pairs_ = op::HasGemmsInPairs(launch->body);
  if (auto columns = launch->attrs.Get("tmem_columns")) {
    tmem_.columns = (*columns).cast<ir::Map<Buffer, int64_t>>();
    columns_ = launch->attrs["tmem_allocation"].cast<int64_t>();
    tmem_.base = ir::Var("tmem", ir::dtypes::kUInt32, span_);
    tmem_slot_ = Buffer("tmem_slot", ir::dtypes::kUInt32, {I32(1)}, {}, "shared.dyn", {}, span_);
  }
}

bool CtaResources::Owns(const Buffer& buffer) const {
  return buffer.IsBarrier() || buffer.IsTmem();
}

const op::Phase& CtaResources::PhaseOf(const std::string& engine, const op::ThreadRange& threads,
                                       int64_t arrivals) {
  PhasesInTurn& ring = rings_[{engine, threads.begin, threads.count}];
  size_t most = engine == "tma" ? kTensorCopyBarriers : 1;
  size_t at = ring.uses++ % most;
  if (at == ring.phases.size()) {
    ring.phases.push_back(op::MakePhase(engine, threads, span_, arrivals));
    barriers_.push_back(ring.phases.back().barrier);
  }
  return ring.phases[at];
}

void CtaResources::SetUpBarriers(std::vector<Stmt>* stmts) const {
  if (barriers_.empty()) return;
  std::vector<Stmt> init;
  for (const Buffer& barrier : barriers_) {
    stmts->push_back(ir::Alloc(barrier, barrier->span));
    auto counts = barrier->attrs["arrive_counts"].cast<Array<Expr>>();
    for (size_t i = 0; i < counts.size(); ++i) {
      Expr element = ir::Load(barrier, {I32(static_cast<int64_t>(i))});
      init.push_back(ir::MbarrierInit(element, counts[i], barrier->span));
    }
  }
  // Targets with an async proxy or clusters need the fence; on others the barrier of the CTA is
  // enough.
  if (has_async_proxy_) init.push_back(ir::Fence(ir::FenceKind::kMbarrierInit, span_));
  stmts->push_back(ir::If(ir::MakeEq(thread_, I32(0)), Sequence(init, span_), Stmt(), span_));
}

void CtaResources::AllocateTensorMemory(std::vector<Stmt>* stmts) const {
  if (columns_ == 0) return;
  stmts->push_back(ir::Alloc(tmem_slot_, span_));
  Expr slot = ir::AddressOf(tmem_slot_, {I32(0)});
  Stmt alloc = ir::TmemAlloc(/*frees=*/false, in_pairs_, slot, U32(columns_), span_);
  stmts->push_back(
      ir::If(ir::MakeEq(ir::FloorDiv(thread_, I32(32)), I32(0)), alloc, Stmt(), span_));
}

void CtaResources::ReleaseTensorMemory(std::vector<Stmt>* stmts) const {
  if (columns_ == 0) return;
  // The other CTA of a pair is done, too. Threads of one CTA wait for each other only where
  // PlaceSynchronization finds accesses that may not be over.
  if (in_pairs_) stmts->push_back(AllThreads(/*of_cluster=*/true));
  // Reading the slot keeps its bytes from being used for something else meanwhile.
  Expr base = ir::Load(tmem_slot_, {I32(0)});
  Stmt free = ir::TmemAlloc(/*frees=*/true, in_pairs_, base, U32(columns_), span_);
  stmts->push_back(ir::If(ir::MakeEq(ir::FloorDiv(thread_, I32(32)), I32(0)), free, Stmt(), span_));
}

Stmt CtaResources::AllThreads(bool of_cluster) const {
  return ir::Barrier(of_cluster ? ir::BarrierKind::kCluster : ir::BarrierKind::kBlock, span_);
}

Stmt CtaResources::Wrap(const Stmt& body) {
  if (barriers_.empty() && columns_ == 0 && !reaches_blocks_) return body;
  std::vector<Stmt> stmts;
  SetUpBarriers(&stmts);
  AllocateTensorMemory(&stmts);
  // Other blocks run, with their barriers ready, before this one reaches them.
  stmts.push_back(AllThreads(reaches_blocks_));
  if (columns_ != 0) stmts.push_back(ir::Bind(tmem_.base, ir::Load(tmem_slot_, {I32(0)}), span_));
  for (const auto& [key, ring] : rings_) {
    for (const op::Phase& phase : ring.phases) {
      stmts.push_back(ir::Alloc(phase.parity, span_));
    }
  }
  stmts.push_back(body);
  ReleaseTensorMemory(&stmts);
  // Shared memory that others may reach still must not end before they are done.
  if (leaves_blocks_open_ && !in_pairs_) stmts.push_back(AllThreads(/*of_cluster=*/true));
  return Sequence(stmts, span_);
}

}  // namespace tilelang::memory
