#include "lower/lower_tile_ops.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "analysis/uniformity.h"
#include "check/check_layouts.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/same.h"
#include "ir/warp_values.h"
#include "lower/open_indices.h"
#include "memory/cta_resources.h"
#include "op/access.h"
#include "op/copy_tma.h"
#include "op/copy_tmem.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "op/parallel.h"
#include "op/row_vote.h"
#include "op/thread_sync.h"
#include "op/unaligned.h"
#include "op/vectorize.h"
#include "sync/issue_in_order.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;

namespace {

// The physical twins of `globals`, and of the shared tiles of which code generation checks indices.
Map<Buffer, Buffer> KnownTwins(const ir::Func& func, const ir::KernelLaunchNode* launch,
                               const Map<Buffer, Buffer>& globals, const op::LayoutMap& layouts) {
  Map<Buffer, Buffer> twins = globals;
  op::PhysicalBuffers plain(&layouts, globals);
  for (const Buffer& tile : TilesWithOpenIndices(func, launch)) {
    Buffer twin = plain.Get(tile);
    auto attrs = twin->attrs;
    attrs.Set(kOpenIndices, true);
    twins.Set(tile, Buffer(twin->name, twin->dtype, twin->shape, twin->strides, twin->scope, attrs,
                           twin->span));
  }
  return twins;
}

// Lowers the body of one launch. Tile operators lower themselves; the statements between them
// get their buffers replaced.
class KernelLowerer : public analysis::ScopedMutator {
 public:
  KernelLowerer(const ir::Func& func, const ir::KernelLaunchNode* launch,
                const Map<Buffer, Buffer>& globals, const Target& target)
      : one_way_(launch->body),
        threads_(analysis::ThreadsOf(launch)),
        layouts_(launch->attrs["layout_map"].cast<Map<Buffer, ir::Any>>()),
        buffers_(&layouts_, KnownTwins(func, launch, globals, layouts_)),
        ctx_{target, {0, threads_.count}, threads_.linear, threads_.count, &layouts_, &analyzer_},
        scalar_(&buffers_, &ctx_),
        resources_(launch, target) {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
    ctx_.one_way = &one_way_;
    ctx_.tmem = resources_.tensor_memory();
    ctx_.warpgroup = warpgroup_;
    ctx_.in_pairs = resources_.in_pairs();
    bool votes =
        ir::HasCall(launch->body, [](const ir::CallNode* call) { return ir::IsVoteOfWarp(call); });
    if (votes) uniformity_.emplace(launch);
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      const auto* gemm = s.as<ir::GemmNode>();
      if (gemm != nullptr && op::GroupsInFlight(gemm) != 0 &&
          op::InstructionOf(gemm) == op::Wgmma()) {
        in_flight_.push_back(gemm);
      }
      return true;
    });
  }

  // The body between the set-up and the release of what the CTA holds.
  Stmt Lower(const Stmt& body) {
    Stmt lowered = WithWarpgroup(resources_.Wrap(MutateStmt(body)));
    if (tensor_maps_.All().empty()) return lowered;
    return ir::MakeSeq({tensor_maps_.Prefetch(threads_.linear, body->span), lowered});
  }

  using ScopedMutator::Rewrite;
  Stmt MutateStmt(const Stmt& s) override {
    return ir::WithPlace(s.span(), [&] { return ScopedMutator::MutateStmt(s); });
  }
  Expr Mutate(const Expr& e) override {
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    return scalar_.Mutate(e);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    return scalar_.Rewrite(op);
  }
  Stmt Rewrite(const ir::AllocNode* op) override {
    allocated_.push_back(op->buffer);
    return resources_.Owns(op->buffer) ? ir::Seq(ir::Array<Stmt>()) : scalar_.Rewrite(op);
  }
  Stmt Rewrite(const ir::SeqNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    size_t outer = allocated_.size();
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < op->stmts.size();) {
      sync::OperatorGroup group = sync::GroupAt(op->stmts, i, ctx_);
      stmts.push_back(group.empty() ? MutateStmt(op->stmts[i]) : Lower(group));
      i += std::max<size_t>(1, group.size());
    }
    allocated_.resize(outer);
    return ir::MakeSeq(stmts, op->span);
  }
  // Work on tiles that some iterations of a loop skip, such as masks at the edge, stays in a
  // branch: computed in all of them and selected from, it would cost the others as much.
  Stmt Rewrite(const ir::IfNode* op) override {
    if (Buffer flags = op::FlagsOf(op->condition); flags.defined()) return OfRows(op, flags);
    if (uniformity_) CheckWarps(op);
    Stmt lowered = ScopedMutator::Rewrite(op);
    const auto* branch = lowered.as<ir::IfNode>();
    if (branch == nullptr || loops_ == 0 || !HasParallelLoop(op->then_case)) return lowered;
    return ir::If(branch->condition, Staying(branch->then_case), branch->else_case, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    ++loops_;
    Stmt lowered = ScopedMutator::Rewrite(op);
    --loops_;
    if (op->Kind() != ir::ForKind::kVectorized) return lowered;
    return op::LowerVectorized(op, lowered.as<ir::ForNode>()->body, &buffers_, &ctx_);
  }
  Stmt Rewrite(const ir::CopyNode* op) override { return Lower({op}); }
  Stmt Rewrite(const ir::GemmNode* op) override { return Lower({op}); }
  Stmt Rewrite(const ir::ReduceNode* op) override { return Lower({op}); }
  Stmt Rewrite(const ir::ArriveNode* op) override {
    if (op->Kind() != ir::ArriveKind::kIssuerCommit) return ScopedMutator::Rewrite(op);
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    return op::LowerIssuerCommit(op, ctx_);
  }
  // Waits for gemms that the program has left in flight.
  Stmt Rewrite(const ir::WaitGroupNode* op) override {
    if (!op->by_program) return ScopedMutator::Rewrite(op);
    op::Lowering lowering = MakeLowering();
    auto done = ir::Completion::OfWgmma(op::RegistersOf(lowering.in_flight, &lowering));
    return ir::Wait(done, op->left, op->span);
  }
  Stmt Rewrite(const ir::BarrierNode* op) override {
    if (op->Kind() != ir::BarrierKind::kRole) return ScopedMutator::Rewrite(op);
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    auto barrier = op::SyncThreads(ctx_, op->span).as<ir::Barrier>().value();
    return barrier.Giving(MutateGiven(op->gives));
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < op->vars.size(); ++i) {
      analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
    }
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    auto layout = op->annotations["loop_layout"].cast<layout::Fragment>();
    op::ParallelInfo info(op);
    op::CheckIndependent(info, &ctx_);
    return op::LowerParallel(info, layout, &buffers_, &ctx_);
  }

  const op::TensorMaps& tensor_maps() const { return tensor_maps_; }
  const op::TensorMemory* tensor_memory() const { return resources_.tensor_memory(); }

 private:
  // The index of the warpgroup, where it is used. All warps are here to shuffle it.
  Stmt WithWarpgroup(const Stmt& body) const {
    bool used = false;
    ir::WalkExprs(body, [&](const Expr& e) { return !(used |= e.same_as(warpgroup_)); });
    if (!used) return body;
    ir::Map<ir::String, ir::Any> attrs;
    attrs.Set("header", ir::String("mma_sm90.h"));
    Expr index = ir::Call(ir::dtypes::kInt32, "tl::warpgroup_index", {threads_.linear}, attrs);
    return ir::MakeSeq({ir::Bind(warpgroup_, index, body.span()), body});
  }

  Stmt Lower(const sync::OperatorGroup& group) {
    return ir::WithPlace(group.front()->span, [&] {
      op::Lowering lowering = MakeLowering();
      return sync::IssueInOrder(group, &resources_, &lowering);
    });
  }

  op::Lowering MakeLowering() {
    op::Lowering lowering{&ctx_, &buffers_, &scalar_, &tensor_maps_, Expr()};
    for (const ir::GemmNode* gemm : in_flight_) {
      auto exists = [&](const Buffer& b) { return !b.IsFragment() || ir::HasSame(allocated_, b); };
      const auto& operands = gemm->operands;
      bool all = std::all_of(operands.begin(), operands.end(), [&](const ir::GemmOperand& operand) {
        return exists(operand->buffer());
      });
      if (all) lowering.in_flight.push_back(gemm);
    }
    return lowering;
  }

  ir::Optional<Array<Buffer>> MutateGiven(const ir::Optional<Array<Buffer>>& given) override {
    if (!given) return given;
    Array<Buffer> physical;
    for (const Buffer& tile : given.value()) physical.push_back(buffers_.Get(tile));
    return physical;
  }

  static Stmt Staying(const Stmt& body) {
    Stmt stay = op::DeviceEffect("common.h", "stay_branch", {}, body.span());
    return op::Sequence({stay, body}, body.span());
  }

  // Work that changes nothing on rows without a flag: warps that hold none with one skip it.
  Stmt OfRows(const ir::IfNode* op, const Buffer& flags) {
    Stmt body = MutateStmt(op->then_case);
    if (!op::WarpsHoldFlags(flags, op->then_case, ctx_)) return body;
    return ir::If(op::LowerAnyRow(flags, &buffers_, layouts_, op->span), Staying(body), Stmt(),
                  op->span);
  }

  // What warps write in a branch that each takes by its own vote, no other warp holds.
  void CheckWarps(const ir::IfNode* op) {
    analysis::ThreadSet active =
        uniformity_->threads().Of(analysis::ActiveThreads(threads_, &analyzer_));
    bool by_warps = !uniformity_->IsUniform(op->condition, active) &&
                    uniformity_->IsUniformInWarps(op->condition, active);
    if (!by_warps) return;
    ir::WalkEffects(ffi::GetRef<Stmt>(op), [&](const ir::Effect& effect) {
      if (!effect.Writes() || !effect.buffer.IsFragment()) return;
      if (!check::IsSharedByWarps(*layouts_.GetFragment(effect.buffer))) return;
      TL_USER_ERROR(kLayout, op->span,
                    "fragment " << std::string(effect.buffer->name)
                                << " is written in a branch that each warp takes by its own vote, "
                                   "but several warps hold the same elements of it, and some of "
                                   "them would keep old values. Let the block agree: `if "
                                   "T.syncthreads_or(<value>):`");
    });
  }

  static bool HasParallelLoop(const Stmt& s) {
    return ir::HasStmt(
        s, [&](const Stmt& inner) { return inner->kind == ir::StmtKind::kParallelFor; });
  }

  op::OneWayTensors one_way_;
  analysis::LaunchThreads threads_;
  ir::Var warpgroup_{"warpgroup", ir::dtypes::kInt32};
  op::LayoutMap layouts_;
  op::PhysicalBuffers buffers_;
  op::Context ctx_;
  op::AccessLowerer scalar_;
  memory::CtaResources resources_;
  std::vector<const ir::GemmNode*> in_flight_;  // by wgmma, somewhere in the program
  std::vector<Buffer> allocated_;               // what exists where the lowering is
  op::TensorMaps tensor_maps_;
  int loops_ = 0;                                   // around the statement
  std::optional<analysis::Uniformity> uniformity_;  // of programs with votes of warps
};

class LaunchLowerer : public ir::StmtMutator {
 public:
  LaunchLowerer(const ir::Func& func, const Map<Buffer, Buffer>& globals, const Target& target)
      : func_(func), globals_(globals), target_(target) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    KernelLowerer lowerer(func_, op, globals_, target_);
    Stmt body = lowerer.Lower(op->body);
    Map<ir::String, ir::Any> attrs = op->attrs;
    attrs.erase("layout_map");
    if (lowerer.tensor_memory()->base.defined()) {
      attrs.Set("tmem_base", lowerer.tensor_memory()->base);
    }
    if (!lowerer.tensor_maps().All().empty()) {
      attrs.Set("tensor_maps", lowerer.tensor_maps().All());
    }
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, body,
                            op->span);
  }
  // Allocations beside the launches: scratch in global memory.
  Stmt Rewrite(const ir::AllocNode* op) override {
    return ir::Alloc(globals_[op->buffer], op->span);
  }

 private:
  const ir::Func& func_;
  const Map<Buffer, Buffer>& globals_;
  Target target_;
};

Map<Buffer, Buffer> FlattenGlobals(const ir::Func& func) {
  Map<Buffer, Buffer> globals;
  for (const ir::Any& param : func->params) {
    if (auto buffer = param.as<Buffer>()) {
      globals.Set(*buffer, op::PhysicalBuffers::FlatGlobal(*buffer));
    }
  }
  ir::WalkStmts(func->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && alloc->buffer.IsGlobal()) {
      globals.Set(alloc->buffer, op::PhysicalBuffers::FlatGlobal(alloc->buffer));
    }
    return true;
  });
  return globals;
}

}  // namespace

ir::Func LowerTileOps(const ir::Func& func, const Target& target) {
  Map<Buffer, Buffer> globals = FlattenGlobals(func);
  Stmt body = LaunchLowerer(func, globals, target).MutateStmt(func->body);
  ir::Array<ir::Any> params;
  for (const ir::Any& param : func->params) {
    auto buffer = param.as<Buffer>();
    params.push_back(buffer ? ir::Any(globals[*buffer]) : param);
  }
  return ir::Func(func->name, params, body, func->attrs, func->span);
}

}  // namespace tilelang::lower
