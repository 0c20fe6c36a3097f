#include "transform/lower_tile_ops.h"

#include <tvm/ffi/cast.h>

#include "ir/error.h"
#include "op/access.h"
#include "op/copy_tma.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/reduce.h"
#include "op/vectorize.h"
#include "transform/cta_resources.h"
#include "transform/kernel_scope.h"
#include "transform/scoped_mutator.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;

namespace {

// Lowers the body of one launch. Tile operators lower themselves; the statements between them
// get their buffers replaced.
class KernelLowerer : public ScopedMutator {
 public:
  KernelLowerer(const ir::Func& func, const ir::KernelLaunchNode* launch,
                const Map<Buffer, Buffer>& globals, const Target& target)
      : threads_(ThreadsOf(launch)),
        layouts_(launch->attrs["layout_map"].cast<Map<Buffer, ir::Any>>()),
        buffers_(&layouts_, globals),
        ctx_{target, {0, threads_.count}, threads_.linear, threads_.count, &layouts_, &analyzer_},
        scalar_(&buffers_, &ctx_),
        resources_(launch, target),
        across_warps_(op::TmemSharedByWarps(launch->body, layouts_, *resources_.tensor_memory(),
                                            threads_.count)) {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
    ctx_.tmem = resources_.tensor_memory();
  }

  // The body between the set-up and the release of what the CTA holds.
  Stmt Lower(const Stmt& body) {
    Stmt lowered = resources_.Wrap(MutateStmt(body));
    if (tensor_maps_.All().empty()) return lowered;
    return ir::MakeSeq({tensor_maps_.Prefetch(threads_.linear, body->span), lowered});
  }

  using ScopedMutator::Rewrite;
  Stmt MutateStmt(const Stmt& s) override {
    return ir::WithPlace(s.span(), [&] { return ScopedMutator::MutateStmt(s); });
  }
  Expr Mutate(const Expr& e) override {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    return scalar_.Mutate(e);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    return scalar_.Rewrite(op);
  }
  Stmt Rewrite(const ir::AllocNode* op) override {
    return resources_.Owns(op->buffer) ? ir::Seq(ir::Array<Stmt>()) : scalar_.Rewrite(op);
  }
  Stmt Rewrite(const ir::SeqNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < op->stmts.size();) {
      auto loads = op::TmaGroup(op->stmts, i);
      auto copies = op::TmemCpGroup(op->stmts, i, ctx_);
      if (!loads.empty()) {
        stmts.push_back(LowerTma(loads));
      } else if (!copies.empty()) {
        const ir::GemmNode* gemm = WaitingGemm(op->stmts, i + copies.size());
        stmts.push_back(gemm != nullptr ? LowerGemm(gemm, copies) : LowerTmemCps(copies));
        if (gemm != nullptr) ++i;
      } else {
        stmts.push_back(MutateStmt(op->stmts[i]));
      }
      i += std::max<size_t>(1, loads.size() + copies.size());
    }
    return ir::MakeSeq(stmts, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt lowered = ScopedMutator::Rewrite(op);
    if (op->Kind() != ir::ForKind::kVectorized) return lowered;
    return op::LowerVectorized(op, lowered.as<ir::ForNode>()->body, &buffers_, &ctx_);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (op::IsTmaCopy(op)) return LowerTma({op});
    if (op::IsTmemCp(op)) return LowerTmemCps({op});
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    const Buffer& tmem = op->src->buffer.IsTmem() ? op->src->buffer : op->dst->buffer;
    bool across_warps = false;
    for (const Buffer& b : across_warps_) across_warps = across_warps || b.same_as(tmem);
    return op::LowerTmemCopy(op, across_warps, &buffers_, &ctx_);
  }
  Stmt Rewrite(const ir::GemmNode* op) override { return LowerGemm(op, {}); }
  Stmt Rewrite(const ir::EvaluateNode* op) override {
    const auto* call = op->value.as<ir::CallNode>();
    bool syncs = call != nullptr && call->name == op::kSyncForTcgen05;
    bool arrives = call != nullptr && op::IsTcgen05Arrive(call);
    if (!syncs && !arrives) return ScopedMutator::Rewrite(op);
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    if (syncs) return op::Sequence(op::SyncForTcgen05(ctx_, op->span), op->span);
    return op::LowerTcgen05Arrive(call, op->span, &ctx_);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < op->vars.size(); ++i) {
      analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
    }
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    auto layout = op->annotations["loop_layout"].cast<layout::Fragment>();
    op::ParallelInfo info(op);
    op::CheckIndependent(info, &ctx_);
    return op::LowerParallel(info, layout, &buffers_, &ctx_);
  }
  Stmt Rewrite(const ir::ReduceNode* op) override {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    return op::LowerReduce(op, &buffers_, &ctx_);
  }

  const op::TensorMaps& tensor_maps() const { return tensor_maps_; }

 private:
  Stmt LowerTma(const std::vector<const ir::CopyNode*>& group) {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    bool waits = op::IsTmaLoad(group.front());
    return op::LowerTmaGroup(
        group, waits ? resources_.CompletionOf("tma", ctx_.threads) : op::Completion(),
        &tensor_maps_, &buffers_, &scalar_, &ctx_);
  }

  // The gemm that follows copies into tensor memory, if its wait can serve them too.
  static const ir::GemmNode* WaitingGemm(const ir::Array<Stmt>& stmts, size_t i) {
    const auto* gemm = i < stmts.size() ? stmts[i].as<ir::GemmNode>() : nullptr;
    return gemm != nullptr && op::WaitsItself(gemm) ? gemm : nullptr;
  }
  Stmt LowerGemm(const ir::GemmNode* op, const std::vector<const ir::CopyNode*>& copies) {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    op::Completion completion;
    if (op::WaitsItself(op)) completion = resources_.CompletionOf("mma", ctx_.threads);
    return op::LowerGemmTcgen05(op, copies, &buffers_, completion, &ctx_);
  }
  Stmt LowerTmemCps(const std::vector<const ir::CopyNode*>& copies) {
    ctx_.threads = ActiveThreads(threads_, &analyzer_);
    return op::LowerTmemCps(copies, resources_.CompletionOf("cp", ctx_.threads), &buffers_, &ctx_);
  }

  LaunchThreads threads_;
  op::LayoutMap layouts_;
  op::PhysicalBuffers buffers_;
  op::Context ctx_;
  op::AccessLowerer scalar_;
  CtaResources resources_;
  std::vector<Buffer> across_warps_;  // tensor memory that changes hands between warps
  op::TensorMaps tensor_maps_;
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

}  // namespace tilelang::transform
