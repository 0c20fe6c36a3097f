#include "transform/load_first.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/kernel_scope.h"
#include "arith/structural.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "layout/layout.h"
#include "op/copy_async.h"
#include "transform/scoped_mutator.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr int64_t kMostRegisters = 48;  // a thread, for what is loaded

// The tile in registers of an element that a loop loads.
struct Loaded {
  Array<Expr> indices;  // of the tensor
  Buffer tensor;
  Buffer tile;
  Array<Var> vars;  // of the loop, that the element follows
};

// Replaces loads that all iterations make.
class LoadReplacer : public ir::StmtMutator {
 public:
  explicit LoadReplacer(const ir::ParallelForNode* loop) : loop_(loop) {}

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::SelectNode* op) override {
    return ir::Select(Mutate(op->condition), op->true_value, op->false_value, op->span);
  }
  Expr Rewrite(const ir::BinaryNode* op) override {
    bool lazy = op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr;
    return lazy ? ffi::GetRef<Expr>(op) : StmtMutator::Rewrite(op);
  }
  Expr Rewrite(const ir::CallNode* op) override {
    return op->name == "address_of" ? ffi::GetRef<Expr>(op) : StmtMutator::Rewrite(op);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    bool fixed = op->buffer.IsGlobal();
    for (const Expr& index : op->indices)
      fixed = fixed && !ir::HasLoad(index) && arith::IsPure(index);
    if (!fixed) return ffi::GetRef<Expr>(op);
    const Loaded& loaded = Of(op);
    return ir::Load(loaded.tile, Array<Expr>(loaded.vars.begin(), loaded.vars.end()), op->span);
  }

  std::vector<Loaded> loaded;

 private:
  const Loaded& Of(const ir::LoadNode* op) {
    for (const Loaded& known : loaded) {
      bool same = known.tensor.same_as(op->buffer);
      for (size_t d = 0; same && d < op->indices.size(); ++d) {
        same = arith::SameStructure(known.indices[d], op->indices[d]);
      }
      if (same) return known;
    }
    Array<Var> vars;
    Array<Expr> shape;
    for (size_t d = 0; d < loop_->vars.size(); ++d) {
      bool follows = std::any_of(op->indices.begin(), op->indices.end(), [&](const Expr& index) {
        return ir::UsesVar(index, loop_->vars[d]);
      });
      if (!follows) continue;
      vars.push_back(loop_->vars[d]);
      shape.push_back(loop_->extents[d]);
    }
    Buffer tile(ir::String(std::string(op->buffer->name) + "_first"), op->buffer->dtype, shape, {},
                "local.fragment", {}, op->span);
    loaded.push_back({op->indices, op->buffer, tile, vars});
    return loaded.back();
  }

  const ir::ParallelForNode* loop_;
};

class LoadSplitter : public ScopedMutator {
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
    LoadReplacer replacer(op);
    Stmt body = replacer.MutateStmt(op->body);
    if (replacer.loaded.size() < 2 || !InRegisters(replacer.loaded, op)) return self;
    std::vector<Stmt> stmts;
    for (const Loaded& loaded : replacer.loaded) {
      if (loaded.vars.empty()) return self;
      Array<Expr> at(loaded.vars.begin(), loaded.vars.end());
      Stmt load =
          ir::Store(loaded.tile, at, ir::Load(loaded.tensor, loaded.indices, op->span), op->span);
      stmts.push_back(ir::Alloc(loaded.tile, op->span));
      stmts.push_back(ir::FreshCopy().MutateStmt(
          ir::ParallelFor(loaded.vars, loaded.tile->shape, load, {}, op->span)));
    }
    // FreshCopy renews tiles that it sees allocated; these are not.
    stmts.push_back(ir::ParallelFor(op->vars, op->extents, body, op->annotations, op->span));
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

  bool InRegisters(const std::vector<Loaded>& loaded, const ir::ParallelForNode* op) {
    auto extents = ir::AsInts(op->extents);
    if (!extents) return false;
    int64_t threads = std::max<int64_t>(1, analysis::ActiveThreads(threads_, &analyzer_).count);
    int64_t bytes = 0;
    for (const Loaded& one : loaded) {
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
