#include "transform/load_first.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <vector>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/effects.h"
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
    if (!Fits(op)) return self;
    SplitLoop split = SplitLoads(op, [](const ir::LoadNode*) { return false; });
    if (split.loaded.size() < 2 || !InRegisters(split.loaded, op)) return self;
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
  // A loop that reads memory and fragments, and writes fragments alone, under no condition but one
  // around all.
  static bool Fits(const ir::ParallelForNode* op) {
    if (!op->annotations.empty()) return false;
    bool fits = true;
    bool accumulates = false;
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      fits &= s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kStore ||
              (s->kind == ir::StmtKind::kIf && s.same_as(op->body));
      return fits;
    });
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
