#include "sync/issue_in_order.h"

#include <algorithm>

#include "arith/structural.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/copy_scales.h"
#include "op/copy_tma.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "op/issue.h"
#include "op/tmem.h"

namespace tilelang::sync {

using ir::Expr;
using ir::Stmt;
using op::DeviceEffect;
using op::Engine;

namespace {

const ir::TileOpNode* PlannedAt(const ir::Array<Stmt>& stmts, size_t i) {
  const auto* op = i < stmts.size() ? stmts[i].as<ir::TileOpNode>() : nullptr;
  return op != nullptr && op->plan.defined() ? op : nullptr;
}

Engine EngineOf(const ir::TileOpNode* op) { return op::InstructionOf(op)->engine(); }

// The barrier of another role on which a load completes; null: its own threads wait for it.
Expr BarrierOf(const ir::TileOpNode* op) {
  return EngineOf(op) == Engine::kTmaLoad ? op::AsCopy(op)->mbar : Expr();
}

bool SameBarrier(const Expr& a, const Expr& b) {
  return a.defined() && b.defined() ? arith::SameStructure(a, b) : a.defined() == b.defined();
}

int64_t MaskOf(const ir::TileOpNode* op) {
  return op->kind == ir::StmtKind::kCopy ? op::AsCopy(op)->options->cluster_mask : 0;
}

// A copy by the tensor core that the program waits for.
bool IsLeftToProgram(const ir::TileOpNode* op) {
  return op->kind == ir::StmtKind::kCopy && op::IsScaleCopy(op::AsCopy(op));
}

bool IsByEachWarp(const ir::TileOpNode* op) {
  return op->kind == ir::StmtKind::kCopy && op::AsCopy(op)->options->by_each_warp;
}

bool SameGroup(const ir::TileOpNode* a, const ir::TileOpNode* b) {
  return MaskOf(a) == MaskOf(b) && IsByEachWarp(a) == IsByEachWarp(b) &&
         EngineOf(a) == EngineOf(b) && IsLeftToProgram(a) == IsLeftToProgram(b) &&
         op::TilePlanOf(a)->threads == op::TilePlanOf(b)->threads &&
         SameBarrier(BarrierOf(a), BarrierOf(b));
}

// The copy's regions do not depend on memory that another writes.
bool HasFixedRegions(const ir::CopyNode* op) {
  bool fixed = true;
  for (const ir::Region& region : {op->src, op->dst}) {
    for (const Expr& min : region->mins) {
      ir::WalkExprs(min, [&](const Expr& e) {
        const auto* load = e.as<ir::LoadNode>();
        fixed = fixed && (load == nullptr || load->buffer->scope == "local.var");
        return fixed;
      });
    }
  }
  return fixed;
}

// The later gemm touches nothing that is in flight, but for the result of an earlier one: wgmma add
// in order.
bool CanFollow(const ir::GemmNode* later, const OperatorGroup& group) {
  return std::all_of(group.begin(), group.end(), [&](const ir::TileOpNode* op) {
    const ir::GemmNode* earlier = op::AsGemm(op);
    return !earlier->HasInput(later->result()->buffer) && op::GroupsInFlight(later) == 0 &&
           !later->HasInput(earlier->result()->buffer) && op::GroupsInFlight(earlier) == 0;
  });
}

bool Independent(const ir::TileOpNode* later, const OperatorGroup& group, const op::Context& ctx) {
  const ir::CopyNode* copy = op::AsCopy(later);
  bool tma = EngineOf(later) != Engine::kTcgen05;
  if (tma && !HasFixedRegions(copy)) return false;
  return std::none_of(group.begin(), group.end(), [&](const ir::TileOpNode* other) {
    const ir::Buffer& written = op::AsCopy(other)->dst->buffer;
    return tma ? written.same_as(copy->dst->buffer)
               : op::ShareColumns(written, copy->dst->buffer, *ctx.layouts, *ctx.tmem);
  });
}

void IssueAll(const OperatorGroup& group, op::Lowering* lowering, std::vector<Stmt>* stmts) {
  for (const ir::TileOpNode* op : group) op::InstructionOf(op)->Issue(op, lowering, stmts);
}

// Arrives at a phase that threads of other blocks complete.
Stmt ArriveAt(const op::Phase& ready, const Expr& block, ir::Scope scope, const ir::Span& span) {
  return ir::Arrive(ir::ArriveKind::kThread, op::ElementOf(ready), span,
                    {.block = block, .scope = scope});
}
Stmt WaitForOtherBlocks(const op::Phase& ready, const ir::Span& span) {
  return ir::WaitParity(op::ElementOf(ready), op::ParityOf(ready), span, ir::Scope::kCluster);
}

// Each block of the mask announces its bytes on its own barrier, and the block of lowest rank loads
// for all of them. If the blocks also wait here, it loads after each block has signalled on `ready`
// that its tile is free.
void IssueMulticast(const OperatorGroup& group, int64_t mask, const op::Phase* ready,
                    memory::CtaResources* resources, op::Lowering* lowering,
                    std::vector<Stmt>* stmts) {
  const ir::Span& span = group.front()->span;
  Expr is_leader = ir::MakeEq(op::BlockRank(), op::I32(op::Leader(mask)));
  std::vector<Stmt> member;
  std::vector<Stmt> load;
  if (ready != nullptr) {
    member.push_back(ArriveAt(*ready, op::U32(op::Leader(mask)), ir::Scope::kCta, span));
    load.push_back(WaitForOtherBlocks(*ready, span));
  }
  lowering->multicast = mask;
  IssueAll(group, lowering, &load);
  lowering->multicast = 0;
  member.push_back(ir::If(is_leader, op::Sequence(load, span), Stmt(), span));
  Stmt members = op::Sequence(member, span);
  Expr in_mask = op::IsInMask(mask, resources->cluster_size());
  if (ir::IsTrue(in_mask)) return stmts->push_back(members);
  std::vector<Stmt> others;
  IssueAll(group, lowering, &others);
  stmts->push_back(ir::If(in_mask, members, op::Sequence(others, span), span));
}

Stmt LoadByTma(const OperatorGroup& group, memory::CtaResources* resources,
               op::Lowering* lowering) {
  const ir::Span& span = group.front()->span;
  Expr others = BarrierOf(group.front());
  op::Phase done;
  if (!others.defined()) done = resources->PhaseOf("tma", lowering->ctx->threads);
  lowering->barrier = others.defined() ? op::BarrierAddress(others) : op::AddressOf(done);
  int64_t bytes = 0;
  for (const ir::TileOpNode* op : group) {
    if (!op::IsAnnounced(op::AsCopy(op))) bytes += op::TmaPlanOf(op)->bytes;
  }
  bool last = std::any_of(group.begin(), group.end(), [](const ir::TileOpNode* op) {
    return op::AsCopy(op)->options->arrives;
  });
  bool at_leader = op::CompletesAtLeader(op::AsCopy(group.front()), lowering->ctx->in_pairs);
  std::vector<Stmt> issue;
  if (bytes != 0 || last) {
    bool arrives = last || (!others.defined() && !at_leader);
    issue.push_back(ir::Arrive(
        arrives ? ir::ArriveKind::kThreadExpect : ir::ArriveKind::kExpect,
        op::ElementAt(lowering->barrier), span,
        {.bytes = op::U32(bytes), .scope = at_leader ? ir::Scope::kPair : ir::Scope::kCta}));
  }
  int64_t mask = op::AsCopy(group.front())->options->cluster_mask;
  const op::Phase* ready = nullptr;
  if (mask != 0 && !others.defined()) {
    ready = &resources->PhaseOf("ready_" + std::to_string(mask), lowering->ctx->threads,
                                op::CountBlocks(mask));
  }
  if (mask == 0) {
    IssueAll(group, lowering, &issue);
  } else {
    IssueMulticast(group, mask, ready, resources, lowering, &issue);
  }
  Stmt all = op::Sequence(issue, span);
  Stmt load = op::AsCopy(group.front())->options->by_each_warp
                  ? op::ByElected(all, lowering->ctx->threads, span)
                  : op::ByOneThread(all, *lowering->ctx, span);
  if (others.defined()) return load;
  load = op::IssueFor(done, Engine::kTmaLoad, load, span);
  return ready == nullptr ? load : op::Sequence({load, op::NextPhase(*ready, span)}, span);
}

// PlaceSynchronization says where the issuing thread waits.
Stmt StoreByTma(const OperatorGroup& group, op::Lowering* lowering) {
  const ir::Span& span = group.front()->span;
  std::vector<Stmt> issue;
  IssueAll(group, lowering, &issue);
  issue.push_back(ir::CommitGroup(Engine::kTmaStore, span));
  const op::ThreadRange& threads = lowering->ctx->threads;
  return ir::Issue(op::ByOneThread(op::Sequence(issue, span), *lowering->ctx, span),
                   ir::Completion::OfStores({threads.begin, threads.count}), span);
}

// Issues copies to other blocks. The waiting threads are in these blocks.
Stmt CopyToBlocks(const OperatorGroup& group, op::Lowering* lowering) {
  const ir::Span& span = group.front()->span;
  std::vector<Stmt> issue;
  IssueAll(group, lowering, &issue);
  return op::ByOneThread(op::Sequence(issue, span), *lowering->ctx, span);
}

// Issues a GEMM of a pair of blocks. A thread of each block signals on `ready` that the block's
// threads have reached the GEMM; the leader's thread then issues for both.
Stmt IssueByLeader(std::vector<Stmt> gemm, const Expr& barrier, const op::Phase& ready,
                   const op::Context& ctx, const ir::Span& span) {
  std::vector<Stmt> issue = {WaitForOtherBlocks(ready, span)};
  issue.insert(issue.end(), gemm.begin(), gemm.end());
  issue.push_back(op::CommitTcgen05(barrier, ctx, span));
  std::vector<Stmt> stmts = {ArriveAt(ready, op::PairLeader(), ir::Scope::kPair, span),
                             ir::If(op::IsPairLeader(), op::Sequence(issue, span), Stmt(), span)};
  return op::ByOneThread(op::Sequence(stmts, span), ctx, span);
}

Stmt RunInPairs(const OperatorGroup& group, memory::CtaResources* resources,
                op::Lowering* lowering) {
  const ir::Span& span = group.back()->span;
  const op::ThreadRange& threads = lowering->ctx->threads;
  const op::Phase& done = resources->PhaseOf("mma", threads);
  const op::Phase& ready = resources->PhaseOf("pair", threads, op::kPairBlocks);
  std::vector<Stmt> gemm;
  IssueAll(group, lowering, &gemm);
  Stmt issue = IssueByLeader(std::move(gemm), op::AddressOf(done), ready, *lowering->ctx, span);
  return op::Sequence(
      {op::IssueFor(done, Engine::kTcgen05, issue, span), op::NextPhase(ready, span)}, span);
}

Stmt RunOnTensorCore(const OperatorGroup& group, memory::CtaResources* resources,
                     op::Lowering* lowering) {
  const ir::TileOpNode* last = group.back();
  const auto* gemm = last->kind == ir::StmtKind::kGemm ? op::AsGemm(last) : nullptr;
  bool waits = gemm == nullptr ? !IsLeftToProgram(last) : op::WaitsItself(gemm);
  if (waits && lowering->ctx->in_pairs) return RunInPairs(group, resources, lowering);
  op::Phase done;
  Expr barrier;
  if (waits) {
    done = resources->PhaseOf(gemm == nullptr ? "cp" : "mma", lowering->ctx->threads);
    barrier = op::AddressOf(done);
  } else if (gemm != nullptr && gemm->mbar.defined()) {
    barrier = op::BarrierAddress(gemm->mbar);
  }
  std::vector<Stmt> issue;
  IssueAll(group, lowering, &issue);
  Stmt all = op::IssueTcgen05(std::move(issue), barrier, *lowering->ctx, last->span);
  return waits ? op::IssueFor(done, Engine::kTcgen05, all, last->span) : all;
}

// Each warpgroup waits for its own: PlaceSynchronization says where, unless the program leaves
// some in flight.
Stmt RunOnWarpgroups(const OperatorGroup& group, op::Lowering* lowering) {
  const ir::Span& span = group.back()->span;
  std::vector<Stmt> issue = {ir::Fence(ir::FenceKind::kWgmma, span)};
  IssueAll(group, lowering, &issue);
  issue.push_back(ir::CommitGroup(Engine::kWgmma, span));
  std::vector<const ir::GemmNode*> complete = lowering->in_flight;
  for (const ir::TileOpNode* op : group) complete.push_back(op::AsGemm(op));
  auto done = ir::Completion::OfWgmma(op::RegistersOf(complete, lowering));
  int64_t left = op::GroupsInFlight(op::AsGemm(group.back()));
  bool awaited = left != 0 || !lowering->in_flight.empty();
  std::vector<Stmt> stmts = lowering->setup;
  stmts.push_back(ir::Issue(op::Sequence(issue, span), done, span, awaited));
  if (awaited && left >= 0) stmts.push_back(ir::Wait(done, left, span));
  return op::Sequence(stmts, span);
}

}  // namespace

OperatorGroup GroupAt(const ir::Array<Stmt>& stmts, size_t first, const op::Context& ctx) {
  const ir::TileOpNode* op = PlannedAt(stmts, first);
  if (op == nullptr) return {};
  OperatorGroup group = {op};
  Engine engine = EngineOf(op);
  bool joins =
      engine != Engine::kThreads && engine != Engine::kTmemLdSt && engine != Engine::kBlockCopy;
  while (joins && group.back()->kind == ir::StmtKind::kCopy) {
    const ir::TileOpNode* next = PlannedAt(stmts, first + group.size());
    if (next == nullptr || !SameGroup(op, next)) break;
    bool is_copy = next->kind == ir::StmtKind::kCopy;
    joins = is_copy ? Independent(next, group, ctx) : op::WaitsItself(op::AsGemm(next));
    if (joins) group.push_back(next);
  }
  while (engine == Engine::kWgmma) {
    const ir::TileOpNode* next = PlannedAt(stmts, first + group.size());
    if (next == nullptr || !SameGroup(op, next) || !CanFollow(op::AsGemm(next), group)) break;
    group.push_back(next);
  }
  return group;
}

Stmt IssueInOrder(const OperatorGroup& group, memory::CtaResources* resources,
                  op::Lowering* lowering) {
  lowering->ctx->threads = op::TilePlanOf(group.front())->threads;
  switch (EngineOf(group.front())) {
    case Engine::kTmaLoad:
      return LoadByTma(group, resources, lowering);
    case Engine::kTmaStore:
      return StoreByTma(group, lowering);
    case Engine::kBlockCopy:
      return CopyToBlocks(group, lowering);
    case Engine::kTcgen05:
      return RunOnTensorCore(group, resources, lowering);
    case Engine::kWgmma:
      return RunOnWarpgroups(group, lowering);
    case Engine::kThreads:
    case Engine::kTmemLdSt:
    case Engine::kCpAsync:
      break;
  }
  std::vector<Stmt> stmts;
  IssueAll(group, lowering, &stmts);
  return ir::MakeSeq(stmts, group.front()->span);
}

}  // namespace tilelang::sync
