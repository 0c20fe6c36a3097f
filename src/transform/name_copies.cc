#include "transform/name_copies.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "analysis/loop_box.h"
#include "arith/analyzer.h"
#include "arith/structural.h"
#include "ir/copy_operator.h"
#include "ir/same.h"
#include "ir/visitor.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether the condition holds for each element of the load's tensor.
bool HoldsInside(const Expr& condition, const ir::LoadNode* load, arith::Analyzer* analyzer) {
  arith::Analyzer::Scope scope(analyzer);
  for (size_t d = 0; d < load->indices.size(); ++d) {
    const Expr& index = load->indices[d];
    analyzer->Assume(ir::Const(index.dtype(), 0) <= index);
    analyzer->Assume(index < ir::CastTo(index.dtype(), load->buffer->shape[d]));
  }
  return analyzer->CanProve(condition);
}

// Returns whether the value is the zero that copies fill with: no negative one.
bool IsZero(const Expr& value) {
  if (const auto* cast = value.as<ir::CastNode>()) return IsZero(cast->value);
  const auto* number = value.as<ir::FloatImmNode>();
  return ir::IsConst(value, 0) ||
         (number != nullptr && number->value == 0 && !std::signbit(number->value));
}

class CopyNamer : public ir::StmtMutator {
 public:
  explicit CopyNamer(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    auto self = ffi::GetRef<Stmt>(op);
    if (!op->annotations.empty()) return self;
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < op->vars.size(); ++i) {
      analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
    }
    const auto* seq = op->body.as<ir::SeqNode>();
    ir::Array<Stmt> parts = seq != nullptr ? seq->stmts : ir::Array<Stmt>{op->body};
    ir::Array<Stmt> copies;
    std::vector<ir::Buffer> tiles;
    for (const Stmt& part : parts) {
      Stmt copy = CopyOf(part, op);
      if (!copy.defined()) return self;
      const ir::Buffer& tile = copy.as<ir::CopyNode>()->dst->buffer;
      if (ir::HasSame(tiles, tile)) return self;
      tiles.push_back(tile);
      copies.push_back(copy);
    }
    return ir::Seq(copies, op->span);
  }

 private:
  // Returns the copy that the statement is in all iterations of the loop; null if it is none.
  Stmt CopyOf(const Stmt& s, const ir::ParallelForNode* loop) {
    if (const auto* branch = s.as<ir::IfNode>()) {
      const auto* store = branch->then_case.as<ir::StoreNode>();
      const auto* other =
          branch->else_case.defined() ? branch->else_case.as<ir::StoreNode>() : nullptr;
      bool fills = store != nullptr && other != nullptr && other->buffer.same_as(store->buffer) &&
                   IsZero(other->value) && AreSame(store->indices, other->indices);
      return fills ? CopyOf(store, branch->condition, store->value, loop) : Stmt();
    }
    const auto* store = s.as<ir::StoreNode>();
    if (store == nullptr) return Stmt();
    Expr value = store->value;
    if (const auto* cast = value.as<ir::CastNode>()) {
      if (cast->value->kind == ir::ExprKind::kSelect) value = cast->value;
    }
    const auto* select = value.as<ir::SelectNode>();
    if (select == nullptr) return CopyOf(store, Expr(), value, loop);
    bool fills = IsZero(select->false_value);
    return fills ? CopyOf(store, select->condition, select->true_value, loop) : Stmt();
  }

  Stmt CopyOf(const ir::StoreNode* store, const Expr& condition, const Expr& value,
              const ir::ParallelForNode* loop) {
    const auto* cast = value.as<ir::CastNode>();
    const auto* load = (cast != nullptr ? cast->value : value).as<ir::LoadNode>();
    // Two conversions in turn may round otherwise than one.
    bool converts = cast != nullptr && cast->dtype != store->buffer->dtype;
    if (load == nullptr || converts || !load->buffer.IsGlobal() || !store->buffer.IsShared()) {
      return Stmt();
    }
    auto from = analysis::BoxOf(load->buffer, load->indices, loop, &analyzer_);
    auto to = analysis::BoxOf(store->buffer, store->indices, loop, &analyzer_);
    bool copies = from && to && from->vars == to->vars &&
                  (!condition.defined() || HoldsInside(condition, load, &analyzer_));
    return copies ? Stmt(ir::Copy(from->region, to->region, loop->span)) : Stmt();
  }

  static bool AreSame(const ir::Array<Expr>& a, const ir::Array<Expr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), arith::SameStructure);
  }

  arith::Analyzer analyzer_;
};

}  // namespace

ir::Func NameCopies(const ir::Func& func) {
  return func.WithBody(CopyNamer(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
