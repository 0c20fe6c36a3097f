#include "transform/widen_indices.h"

#include <tvm/ffi/cast.h>

#include <unordered_map>
#include <unordered_set>

#include "analysis/scoped_mutator.h"
#include "arith/widen.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

bool IsInt32(const Expr& e) { return e.dtype() == ir::dtypes::kInt32; }

class Widener : public analysis::ScopedMutator {
 public:
  explicit Widener(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    return ir::Load(op->buffer, Indices(op->buffer, op->indices), op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    return ir::Store(op->buffer, Indices(op->buffer, op->indices), Mutate(op->value), op->span);
  }
  Expr Rewrite(const ir::BinaryNode* op) override {
    bool compares = ir::IsComparison(op->Op()) && IsInt32(op->a);
    if (!compares || !(KnownToPass(op->a) || KnownToPass(op->b))) return ScopedMutator::Rewrite(op);
    return ir::MakeBinary(op->Op(), Wide(op->a), Wide(op->b), op->span);
  }
  Expr Rewrite(const ir::CastNode* op) override {
    bool widens = op->dtype == ir::dtypes::kInt64 && IsInt32(op->value);
    return widens && KnownToPass(op->value) ? Wide(op->value) : ScopedMutator::Rewrite(op);
  }

  Stmt Rewrite(const ir::BindNode* op) override {
    if (!IsInt32(op->var)) return ScopedMutator::Rewrite(op);
    if (!ir::HasLoad(op->value)) values_.emplace(op->var.get(), op->value);
    if (!KnownToPass(op->value)) return ScopedMutator::Rewrite(op);
    // That the variable wraps is said, or the analyzer takes its value for the one without.
    return ir::Bind(op->var, ir::CastTo(op->var.dtype(), Wide(op->value)), op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    if (ir::AsInt(op->min) && ir::AsInt(op->extent)) constant_.insert(op->var.get());
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    for (size_t i = 0; i < op->vars.size(); ++i) {
      if (ir::AsInt(op->extents[i])) constant_.insert(op->vars[i].get());
    }
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    for (const ir::Var& var : op->thread_vars) constant_.insert(var.get());
    for (size_t i = 0; i < op->block_vars.size(); ++i) {
      if (ir::AsInt(op->grid[i])) constant_.insert(op->block_vars[i].get());
    }
    return ScopedMutator::Rewrite(op);
  }

 protected:
  ir::Region MutateRegion(const ir::Region& region) override {
    ir::Region result = ScopedMutator::MutateRegion(region);
    if (!region->buffer.IsGlobal()) return result;
    std::vector<Expr> mins;
    for (size_t d = 0; d < region->mins.size(); ++d) {
      Expr end = region->mins[d] + ir::CastTo(region->mins[d].dtype(), region->extents[d]);
      bool widens = MustWiden(region->buffer->shape[d], end);
      mins.push_back(widens ? Wide(region->mins[d]) : result->mins[d]);
    }
    return ir::Region(region->buffer, Array<Expr>(mins.begin(), mins.end()), result->extents);
  }

 private:
  Array<Expr> Indices(const Buffer& buffer, const Array<Expr>& indices) {
    if (!buffer.IsGlobal() || indices.size() != buffer->shape.size()) return MutateExprs(indices);
    std::vector<Expr> result;
    for (size_t d = 0; d < indices.size(); ++d) {
      bool widens = MustWiden(buffer->shape[d], indices[d]);
      result.push_back(widens ? Wide(indices[d]) : Mutate(indices[d]));
    }
    return Array<Expr>(result.begin(), result.end());
  }

  bool MustWiden(const Expr& extent, const Expr& index) {
    if (!IsInt32(index)) return false;
    return KnownToPass(index) || (!Fits(extent) && Passes(index));
  }

  bool KnownToPass(const Expr& e) { return HasConstantRanges(e) && Passes(e); }

  // Returns whether int32 may not hold the value of `e`, or of one of its parts. Sums and products
  // of parts are exempt, because they are right modulo 2^32.
  bool Passes(const Expr& e) {
    if (!Fits(Wide(e))) return true;
    bool passes = false;
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* op = part.as<ir::BinaryNode>();
      if (op == nullptr || !IsInt32(op->a)) return IsInt32(part);
      bool is_ring = op->Op() == ir::BinaryOp::kAdd || op->Op() == ir::BinaryOp::kSub ||
                     op->Op() == ir::BinaryOp::kMul;
      passes = passes || (!is_ring && !(Fits(Wide(op->a)) && Fits(Wide(op->b))));
      return !passes;
    });
    return passes;
  }

  bool Fits(const Expr& e) {
    return arith::TypeRange(ir::dtypes::kInt32).Contains(analyzer_.ConstBounds(e));
  }

  Expr Wide(const Expr& e) {
    return arith::Widen(e, [this](const Expr& leaf) {
      auto value = values_.find(leaf.get());
      if (value == values_.end()) return Mutate(leaf);
      Expr wide = Wide(value->second);
      return Fits(wide) ? leaf : wide;
    });
  }

  // Returns whether all leaves of the expression are variables of loops and launches with constant
  // extents.
  bool HasConstantRanges(const Expr& e) {
    bool constant = true;
    ir::WalkExprs(e, [&](const Expr& part) {
      bool is_leaf = part->kind == ir::ExprKind::kVar || part->kind == ir::ExprKind::kLoad ||
                     part->kind == ir::ExprKind::kCall;
      if (!is_leaf || !constant) return constant;
      auto value = values_.find(part.get());
      constant = value != values_.end() ? HasConstantRanges(value->second)
                                        : constant_.count(part.get()) != 0;
      return constant;
    });
    return constant;
  }

  std::unordered_map<const ffi::Object*, Expr> values_;  // of variables without loads
  std::unordered_set<const ffi::Object*> constant_;      // variables of constant ranges
};

}  // namespace

ir::Func WidenIndices(const ir::Func& func) {
  return func.WithBody(Widener(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
