#include "transform/load_first.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <vector>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "layout/layout.h"
#include "transform/loaded_elements.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kMostRegisters = 48;  // a thread, for what is loaded

class LoadSplitter : public analysis::ScopedMutator {
 public:
  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    bool has_gemm = false;
    ir::WalkStmts(op->body,
                  [&](const Stmt& s) { return !(has_gemm |= s->kind == ir::StmtKind::kGemm); });
    if (has_gemm) return ffi::GetRef<Stmt>(op);
    threads_ = analysis::ThreadsOf(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    size_t fewest = AddsAtomically(op) ? 1 : Computes(op) ? 2 : 0;
    if (fewest == 0) return self;
    SplitLoop split = SplitLoads(
        op, [&](const ir::LoadNode* load) { return ir::MayWrite(op->body, load->buffer); });
    if (split.loaded.size() < fewest || !InRegisters(split.loaded, op)) return self;
    std::vector<Stmt> stmts;
    for (const LoadedElements& elements : split.loaded) {
      if (elements.vars.empty()) return self;
      stmts.push_back(ir::Alloc(elements.tile, op->span));
      stmts.push_back(elements.Load(op->span));
    }
    stmts.push_back(ir::ParallelFor(op->vars, op->extents, split.body, op->annotations, op->span));
    return ir::MakeSeq(stmts, op->span);
  }

 private:
  // Returns whether the loop only adds to elements of memory by atomic operations, whose results
  // nobody uses.
  static bool AddsAtomically(const ir::ParallelForNode* op) {
    bool adds = op->annotations.empty() && HasKinds(op, ir::StmtKind::kEvaluate);
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* evaluate = s.as<ir::EvaluateNode>();
      const auto* call = evaluate != nullptr ? evaluate->value.as<ir::CallNode>() : nullptr;
      adds = adds && (evaluate == nullptr || (call != nullptr && ir::IsAtomic(call)));
      return adds;
    });
    return adds;
  }

  // Returns whether all statements of the loop are of a kind, under no condition but one around
  // all.
  static bool HasKinds(const ir::ParallelForNode* op, ir::StmtKind kind) {
    return !ir::HasStmt(op->body, [&](const Stmt& s) {
      return s->kind != ir::StmtKind::kSeq && s->kind != kind &&
             !(s->kind == ir::StmtKind::kIf && s.same_as(op->body));
    });
  }

  // Returns whether the loop reads memory and fragments, and writes fragments alone.
  static bool Computes(const ir::ParallelForNode* op) {
    if (!op->annotations.empty()) return false;
    bool fits = HasKinds(op, ir::StmtKind::kStore);
    bool accumulates = false;
    ir::WalkEffects(op->body, [&](const ir::Effect& e) {
      if (e.Writes()) fits &= e.buffer.IsFragment();
      accumulates |= e.buffer.IsFragment() && e.Reads();
    });
    return fits && accumulates;
  }

  bool InRegisters(const std::vector<LoadedElements>& loaded, const ir::ParallelForNode* op) {
    auto extents = ir::AsInts(op->extents);
    if (!extents) return false;
    int64_t threads = std::max<int64_t>(1, analysis::ActiveThreads(threads_, &analyzer_).count);
    int64_t bytes = 0;
    for (const LoadedElements& one : loaded) {
      auto shape = ir::AsInts(one.tile->shape);
      bytes += layout::Product(*shape) * ir::Bytes(one.tensor->dtype);
    }
    bool several = layout::Product(*extents) > threads;
    return several && bytes <= 4 * kMostRegisters * threads;
  }

  analysis::LaunchThreads threads_{Expr(), 0};
};

}  // namespace

ir::Func LoadFirst(const ir::Func& func) {
  return func.WithBody(LoadSplitter().MutateStmt(func->body));
}

}  // namespace tilelang::transform
