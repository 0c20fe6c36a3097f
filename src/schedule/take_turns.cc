#include "schedule/take_turns.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "layout/layout.h"
#include "op/effect.h"
#include "op/gemm_wgmma.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "schedule/operation_counter.h"
#include "target/warp.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using op::I32;
using op::U32;

namespace {

const ir::GemmNode* AsWgmma(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  return gemm != nullptr && op::InstructionOf(gemm) == op::Wgmma() ? gemm : nullptr;
}

// Returns whether the statement waits for tiles of a producer.
bool IsWaitForTiles(const Stmt& s) { return s->kind == ir::StmtKind::kWaitParity; }

// The statements of a loop's body between which a warpgroup has its turn.
struct TurnRange {
  size_t first = 0;  // gemm
  size_t last = 0;
};

// Returns the begin of an iteration that contains all its gemms, before it uses their results.
std::optional<TurnRange> TurnOf(const ir::SeqNode* body) {
  std::optional<TurnRange> turn;
  std::vector<const ir::GemmNode*> gemms;
  bool uses_results = false;
  bool has_tiles = false;
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    has_tiles |= IsWaitForTiles(s);
    const ir::GemmNode* gemm = AsWgmma(s);
    if (gemm == nullptr) {
      uses_results |= std::any_of(gemms.begin(), gemms.end(), [&](const ir::GemmNode* issued) {
        return ir::CountEffects(s, issued->result()->buffer) > 0;
      });
      continue;
    }
    if (uses_results) return std::nullopt;
    gemms.push_back(gemm);
    if (!turn) turn = TurnRange{i, i};
    turn->last = i;
  }
  bool several = turn && turn->first != turn->last;
  return several && uses_results && has_tiles ? turn : std::nullopt;
}

// Returns whether a barrier of all threads may stand in the turn. A warpgroup that waits at it
// would never pass the turn on to the warpgroups that have to arrive. Threads wait for each other
// before a gemm reads data that they have written, and between uses of their own shared memory.
bool MayMeet(const ir::SeqNode* body, const TurnRange& turn) {
  auto is_operand = [&](const Buffer& tile) {
    return std::any_of(body->stmts.begin(), body->stmts.end(), [&](const Stmt& s) {
      const ir::GemmNode* gemm = AsWgmma(s);
      return gemm != nullptr && gemm->HasInput(tile);
    });
  };
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    if (AsWgmma(s) != nullptr || IsWaitForTiles(s)) continue;
    bool within = i > turn.first && i < turn.last;
    if (within && ir::HasStmt(s, ir::IsOrdering)) return true;
    for (const ir::Effect& effect : ir::EffectsOf(s)) {
      if (!effect.buffer.IsShared()) continue;
      if (within || (effect.Writes() && is_operand(effect.buffer))) return true;
    }
  }
  return false;
}

// Clock cycles of an SM.
struct Cycles {
  double tensor = 0;
  double special = 0;  // functions
};

Cycles CyclesOf(const ir::SeqNode* body) {
  constexpr double kMultiplications = 2048;  // of 16-bit elements
  constexpr double kFunctions = 16;
  Cycles cycles;
  OperationCounter operations;
  for (const Stmt& s : body->stmts) {
    if (const ir::GemmNode* gemm = AsWgmma(s)) {
      auto result = ir::AsInts(gemm->result()->extents);
      auto depth = ir::AsInt(gemm->Depth());
      if (!result || !depth) continue;
      double products = static_cast<double>(layout::Product(*result) * *depth);
      int bits = gemm->Inputs().front()->buffer()->dtype.bits;
      cycles.tensor += products * bits / 16 / kMultiplications;
    } else if (const auto* loop = s.as<ir::ParallelForNode>()) {
      auto extents = ir::AsInts(loop->extents);
      if (extents) operations.Count(loop->body, layout::Product(*extents));
    }
  }
  cycles.special = static_cast<double>(operations.mufu) / kFunctions;
  return cycles;
}

// Measured on an H200: with 0.25 (attention of 256 dimensions) turns make no difference, with 0.5
// and 1 (128 and 64) they gain 1 to 8 %.
constexpr double kWorthIt = 0.4;  // special functions / tensor cores

class Launch : public analysis::ScopedMutator {
 public:
  explicit Launch(const ir::KernelLaunchNode* op) : threads_(analysis::ThreadsOf(op)) {}

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ScopedMutator::Rewrite(op);
    if (!turn_.barrier.defined()) return self;
    const auto* launch = self.as<ir::KernelLaunchNode>();
    Expr is_first = threads_.linear < I32(kWarpgroup);
    Stmt first =
        ir::If(is_first, ir::Store(turn_.parity, {I32(0)}, U32(1), op->span), Stmt(), op->span);
    Stmt body = ir::MakeSeq({ir::Alloc(turn_.barrier, op->span), ir::Alloc(turn_.parity, op->span),
                             first, launch->body},
                            op->span);
    return ir::WithBody(launch, body);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt self = ScopedMutator::Rewrite(op);
    const auto* loop = self.as<ir::ForNode>();
    const auto* body = loop->body.as<ir::SeqNode>();
    op::ThreadRange active = analysis::ActiveThreads(threads_, &analyzer_);
    bool several = op::IsWarpgroups(active) && active.begin == 0 && active.count > kWarpgroup;
    int64_t groups = active.count / kWarpgroup;
    bool others = turn_.barrier.defined() && groups_ != groups;
    auto turn = body == nullptr || !several || others ? std::nullopt : TurnOf(body);
    if (!turn || MayMeet(body, *turn)) return self;
    Cycles cycles = CyclesOf(body);
    if (cycles.special < kWorthIt * cycles.tensor) return self;
    Allocate(groups, loop->span);
    Remark(loop->span, "pipeline", "warpgroups issue the gemms of an iteration in turn");
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < body->stmts.size(); ++i) {
      if (i == turn->first) {
        std::vector<Stmt> wait = op::WaitForPhase(turn_, body->stmts[i].span());
        stmts.insert(stmts.end(), wait.begin(), wait.end());
      }
      stmts.push_back(body->stmts[i]);
      if (i == turn->last) stmts.push_back(Pass(body->stmts[i].span()));
    }
    return ir::For(loop->var, loop->min, loop->extent, loop->Kind(), ir::MakeSeq(stmts, body->span),
                   loop->annotations, loop->span);
  }

 private:
  // A barrier for each warpgroup, on which the one before arrives; the first turn is that of the
  // first, whose barrier counts as complete.
  void Allocate(int64_t groups, const ir::Span& span) {
    if (turn_.barrier.defined()) return;
    groups_ = groups;
    turn_ = op::PhaseOf(op::MakeRingBarrier("turn", groups, I32(kWarpgroup), span), Own());
  }
  Expr Own() const { return ir::FloorDiv(threads_.linear, I32(kWarpgroup)); }
  Stmt Pass(const ir::Span& span) const {
    Expr next = ir::FloorMod(Own() + I32(1), I32(groups_));
    return ir::Arrive(ir::ArriveKind::kThread, ir::Load(turn_.barrier, {next}), span,
                      {.gives = ir::Array<Buffer>()});
  }

  analysis::LaunchThreads threads_;
  int64_t groups_ = 0;
  op::Phase turn_;  // of each warpgroup
};

class TurnTaker : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    return Launch(op).MutateStmt(ffi::GetRef<Stmt>(op));
  }
};

}  // namespace

ir::Func TakeTurns(const ir::Func& func) {
  return func.WithBody(TurnTaker().MutateStmt(func->body));
}

}  // namespace tilelang::schedule
