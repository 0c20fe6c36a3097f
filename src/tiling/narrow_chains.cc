#include "tiling/narrow_chains.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/running_softmax.h"
#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/named_values.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/idle_iterations.h"
#include "tiling/plain_gemm.h"
#include "tiling/retile.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kKeys = 64;        // of an iteration
constexpr int64_t kUsualRows = 128;  // of blocks in programs whose author measured none
// Columns of a result of which three blocks fit a multiprocessor, and of which two do.
constexpr int64_t kFewOfResult = 64;
constexpr int64_t kMostOfResult = 128;
// Keys of a block that gains with more than `kFewOfResult`.
constexpr int64_t kFewKeys = 512;

int64_t Extent(const ir::GemmNode* gemm, ir::GemmDim dim) {
  return ExtentAlong(gemm->Operand(ir::GemmOperandKind::kC), dim);
}

// Proves that the first key of the first iteration counts for each row, and that an iteration
// passes to the next one what a running softmax does alone.
class FirstKey {
 public:
  FirstKey(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& chain,
           const analysis::RunningSoftmax& softmax)
      : loop_(chain.loop), softmax_(softmax) {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
  }

  bool Counts() {
    bool counts = true;
    ir::WalkStmts(loop_->body, [&](const Stmt& s) {
      counts = counts && Holds(s);
      return counts && s->kind != ir::StmtKind::kParallelFor;
    });
    return counts && PassesSoftmaxAlone();
  }

 private:
  bool Holds(const Stmt& s) {
    if (const auto* loop = s.as<ir::ParallelForNode>()) return HoldsIn(loop);
    if (const auto* fill = s.as<ir::FillNode>()) {
      const auto* number = fill->value.as<ir::FloatImmNode>();
      return fill->dst->buffer->shape.size() == 1 || (number != nullptr && number->value == 0);
    }
    return true;
  }

  // Values of scores follow from those of the row, and from conditions that hold for the first key.
  bool HoldsIn(const ir::ParallelForNode* loop) {
    Stmt body = ir::WithoutNames(loop->body);
    const auto* store = body.as<ir::StoreNode>();
    if (store == nullptr || !store->buffer.IsFragment()) return false;
    if (store->indices.size() == 1) return true;
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      analyzer_.Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
    }
    const auto* key = store->indices.back().as<ir::VarNode>();
    if (key == nullptr) return false;
    ir::Map<ir::Var, Expr> first;
    for (const ir::Var& var : {ir::ffi::GetRef<ir::Var>(key), loop_->var}) {
      first.Set(var, ir::Const(var.dtype(), 0));
    }
    bool holds = true;
    ir::WalkExprs(store->value, [&](const Expr& e) {
      const auto* choice = e.as<ir::SelectNode>();
      const auto* load = e.as<ir::LoadNode>();
      if (load != nullptr) holds = holds && load->buffer.IsFragment();
      if (choice != nullptr && (IsMask(choice->true_value) || IsMask(choice->false_value))) {
        holds = holds && !IsMask(choice->true_value) &&
                IsTrue(ir::Substitute(choice->condition, first));
      }
      return holds;
    });
    return holds && !IsMask(store->value);
  }

  // Returns whether a value takes a key out: any negative number may.
  static bool IsMask(const Expr& e) {
    if (const auto* cast = e.as<ir::CastNode>()) return IsMask(cast->value);
    if (const auto* unary = e.as<ir::UnaryNode>()) return unary->a->kind == ir::ExprKind::kFloatImm;
    const auto* number = e.as<ir::FloatImmNode>();
    return number != nullptr && !(number->value >= 0);
  }

  bool IsTrue(const Expr& condition) {
    const auto* op = condition.as<ir::BinaryNode>();
    if (op != nullptr && (op->Op() == BinaryOp::kAnd || op->Op() == BinaryOp::kBitAnd)) {
      return IsTrue(op->a) && IsTrue(op->b);
    }
    return analyzer_.CanProve(condition);
  }

  // Returns whether each tile that an iteration writes is new in it, but for those of the softmax.
  bool PassesSoftmaxAlone() const {
    bool passes = true;
    ir::WalkEffects(loop_->body, [&](const ir::Effect& effect) {
      const ir::Buffer& buffer = effect.buffer;
      if (!effect.Writes() || effect.By<ir::AllocNode>() != nullptr) return;
      bool of_softmax = buffer.same_as(softmax_.highest) || buffer.same_as(softmax_.before) ||
                        ir::HasSame(softmax_.sums, buffer);
      passes = passes && IsTile(buffer) && (of_softmax || ir::OverwritesFirst(loop_->body, buffer));
    });
    return passes;
  }

  const ir::ForNode* loop_;
  const analysis::RunningSoftmax& softmax_;
  arith::Analyzer analyzer_;
};

class ChainNarrower : public ir::StmtMutator {
 public:
  explicit ChainNarrower(const ir::Func& func) : func_(func) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm chain = FindGemmChain(op);
    if (chain.loop == nullptr || op->threads.size() != 1 || !Gains(op, chain)) return self;
    auto softmax = analysis::FindRunningSoftmax(op, chain.loop);
    if (!softmax || !FirstKey(func_, op, chain, *softmax).Counts()) return self;
    Stmt narrow = Narrow(op, chain);
    if (!narrow.defined()) return self;
    Remark(op->span, "tiles",
           "T.Kernel: blocks of 128 threads compute 64 rows and take 64 keys an iteration instead "
           "of " +
               std::to_string(Extent(chain.gemms[0], ir::GemmDim::kM)) + " and " +
               std::to_string(Extent(chain.gemms[0], ir::GemmDim::kN)) +
               ": several of them share a multiprocessor, of which one multiplies while others "
               "compute. Sums have another order. The pass option tl.disable_tile_choice turns "
               "this off");
    return narrow;
  }

 private:
  // Returns whether smaller tiles take less time.
  static bool Gains(const ir::KernelLaunchNode* op, const PlainGemm& chain) {
    int64_t rows = Extent(chain.gemms[0], ir::GemmDim::kM);
    int64_t keys = Extent(chain.gemms[0], ir::GemmDim::kN);
    int64_t columns = Extent(chain.gemms.back(), ir::GemmDim::kN);
    bool tiles = (rows == kUsualRows || rows == kWgmmaRows) && keys % kKeys == 0 &&
                 rows * keys > kWgmmaRows * kKeys;
    bool wgmma = op::MultipliesByWgmma(chain.gemms[0], kWarpgroup);
    for (const ir::GemmNode* gemm : chain.gemms) {
      for (const ir::GemmOperandNode* input : gemm->Inputs()) {
        wgmma = wgmma && input->buffer()->dtype.bits == kResultBits;
      }
    }
    if (!tiles || !wgmma || columns == 0 || columns > kMostOfResult) return false;
    arith::Analyzer analyzer;
    analyzer.BindLaunch(op);
    arith::Interval iterations = analyzer.ConstBounds(chain.loop->extent);
    return columns <= kFewOfResult || (iterations.hi > 0 && iterations.hi <= kFewKeys / keys);
  }

  // Returns the launch with small tiles; null where it cannot have them.
  Stmt Narrow(const ir::KernelLaunchNode* op, const PlainGemm& chain) const {
    int64_t rows = Extent(chain.gemms[0], ir::GemmDim::kM);
    int64_t keys = Extent(chain.gemms[0], ir::GemmDim::kN);
    Stmt launch = WithThreads(op, kWarpgroup);
    auto node = [&] { return launch.as<ir::KernelLaunchNode>(); };
    if (rows > kWgmmaRows) {
      launch = CutTile(func_, node(), chain, ir::GemmDim::kM, rows, kWgmmaRows);
      if (!launch.defined()) return launch;
    }
    if (keys > kKeys) {
      PlainGemm of_rows = FindGemmChain(node());
      if (of_rows.loop == nullptr) return Stmt();
      launch = CutIterations(func_, node(), of_rows, keys, kKeys);
      if (!launch.defined()) return launch;
    }
    PlainGemm small = FindGemmChain(node());
    if (small.loop == nullptr) return Stmt();
    Stmt until = EndingInTime(op, chain, node(), small);
    return until.defined() ? until : launch;
  }

  // Returns the launch whose blocks end after the last key that one of their rows sees: as many
  // iterations as the block of this number had, of fewer rows and keys. Null where those that are
  // left out could change something.
  Stmt EndingInTime(const ir::KernelLaunchNode* op, const PlainGemm& chain,
                    const ir::KernelLaunchNode* narrow, const PlainGemm& small) const {
    const ir::ForNode* loop = small.loop;
    for (const ir::Var& block : op->block_vars) {
      bool depends =
          ir::HasExpr(chain.loop->extent, [&](const Expr& e) { return e.same_as(block); });
      if (!depends || !IdlesAfterEnd(func_, op, chain.loop, block)) continue;
      Stmt shorter = ir::For(loop->var, loop->min, chain.loop->extent, loop->Kind(), loop->body,
                             loop->annotations, loop->span);
      Stmt launch = WithLoop(narrow, loop, shorter);
      const auto* node = launch.as<ir::KernelLaunchNode>();
      bool idles = IdlesAfterEnd(func_, node, FindGemmChain(node).loop, block);
      if (idles) return launch;
    }
    return Stmt();
  }

  ir::Func func_;
};

}  // namespace

ir::Func NarrowChains(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(ChainNarrower(func).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
