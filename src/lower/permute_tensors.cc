#include "lower/permute_tensors.h"

#include <tvm/ffi/cast.h>

#include <utility>
#include <vector>

#include "analysis/scoped_mutator.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "layout/formula.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

namespace {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

class Permuter : public analysis::ScopedMutator {
 public:
  explicit Permuter(const ir::Func& func) { analyzer_.BindParams(func->params); }

  Stmt MutateStmt(const Stmt& s) override {
    ir::Span outer = std::exchange(span_, s->span);
    Stmt result = ScopedMutator::MutateStmt(s);
    span_ = outer;
    return result;
  }

  using ScopedMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    auto given = op->attrs.Get(kTensorLayouts);
    if (!given) return ffi::GetRef<Stmt>(op);
    layouts_ = (*given).cast<ir::Map<Buffer, layout::Formula>>();
    return ScopedMutator::Rewrite(op);
  }

  Expr Rewrite(const ir::LoadNode* op) override {
    auto layout = layouts_.find(op->buffer);
    if (layout == layouts_.end()) return ScopedMutator::Rewrite(op);
    return ir::Load(op->buffer, Place(op->buffer, (*layout).second, op->indices), op->span);
  }

  Stmt Rewrite(const ir::StoreNode* op) override {
    auto layout = layouts_.find(op->buffer);
    if (layout == layouts_.end()) return ScopedMutator::Rewrite(op);
    return ir::Store(op->buffer, Place(op->buffer, (*layout).second, op->indices),
                     Mutate(op->value), op->span);
  }

 protected:
  ir::Region MutateRegion(const ir::Region& region) override {
    if (layouts_.count(region->buffer) != 0) {
      TL_USER_ERROR(kLayout, span_,
                    "a tile operator works on " << ir::Print(region)
                                                << ", whose elements T.annotate_layout permutes; "
                                                   "T.copy it to a tile of its own");
    }
    return ScopedMutator::MutateRegion(region);
  }

 private:
  // The indices of the element that is in the place of the one at `indices`.
  Array<Expr> Place(const Buffer& buffer, const layout::Formula& layout,
                    const Array<Expr>& indices) {
    std::vector<Expr> coord;
    for (const Expr& index : indices) coord.push_back(Mutate(index));
    std::vector<int64_t> extents = *ir::AsInts(buffer->shape);
    Expr place = analyzer_.Simplify(layout->At(coord));
    Array<Expr> result;
    for (const Expr& index : layout::DelinearizedExprs(extents, place)) {
      result.push_back(analyzer_.Simplify(index));
    }
    return result;
  }

  ir::Map<Buffer, layout::Formula> layouts_;
  ir::Span span_;  // of the statement
};

}  // namespace

ir::Func PermuteTensors(const ir::Func& func) {
  return func.WithBody(Permuter(func).MutateStmt(func->body));
}

}  // namespace tilelang::lower
