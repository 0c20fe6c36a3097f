#include "lower/column_pieces.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/row_vote.h"

namespace tilelang::lower {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::Var;

namespace {

// Columns of a piece: as many as leave registers for other tiles; each piece waits for a load.
constexpr int64_t kUnit = 32;
int64_t PieceOf(int64_t columns) { return columns % (2 * kUnit) == 0 ? 2 * kUnit : kUnit; }

bool UsesVar(const Array<Expr>& indices, const Var& var) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return ir::UsesVar(index, var); });
}

// Iteration (i, j) touches element [i, j] of C, and of other fragments what j does not choose.
bool IsElementwise(const ir::ParallelForNode* loop, const Buffer& c) {
  bool elementwise = true;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    if (effect.buffer.same_as(c)) {
      elementwise = elementwise && effect.indices.size() == 2 &&
                    effect.indices[0].same_as(loop->vars[0]) &&
                    effect.indices[1].same_as(loop->vars[1]);
    } else if (effect.region.defined() || effect.kind == ir::EffectKind::kAddress) {
      elementwise = false;
    } else if (effect.buffer.IsFragment() || effect.Writes()) {
      elementwise = elementwise && !effect.Writes() && !UsesVar(effect.indices, loop->vars[1]);
    }
  });
  return elementwise;
}

// The loop on the columns from `first` on that `piece` holds.
Stmt OnPiece(const ir::ParallelForNode* loop, const Buffer& c, const Buffer& piece, int64_t first) {
  class Shifter : public ir::StmtMutator {
   public:
    Shifter(const Buffer& c, const Buffer& piece, const Var& column, const Expr& shifted)
        : c_(c), piece_(piece), column_(column), shifted_(shifted) {}
    using StmtMutator::Rewrite;
    Expr Rewrite(const ir::VarNode* op) override {
      return op == column_.get() ? shifted_ : StmtMutator::Rewrite(op);
    }
    Expr Rewrite(const ir::LoadNode* op) override {
      if (!op->buffer.same_as(c_)) return StmtMutator::Rewrite(op);
      return ir::Load(piece_, op->indices, op->span);
    }
    Stmt Rewrite(const ir::StoreNode* op) override {
      return ir::Store(piece_, op->indices, Mutate(op->value), op->span);
    }

   private:
    Buffer c_;
    Buffer piece_;
    Var column_;
    Expr shifted_;
  };
  const Var& column = loop->vars[1];
  Expr shifted = column + ir::Const(column.dtype(), first);
  Stmt body = Shifter(c, piece, column, shifted).MutateStmt(loop->body);
  Array<Expr> extents = {loop->extents[0], piece->shape[1]};
  return ir::ParallelFor(loop->vars, extents, body, loop->annotations, loop->span);
}

// The condition on the row of all that the loop does, where it has one that is known without C.
Expr ConditionOfRow(const ir::ParallelForNode* loop, const Buffer& c) {
  const auto* branch = loop->body.as<ir::IfNode>();
  if (branch == nullptr || branch->else_case.defined()) return Expr();
  bool of_row = !ir::UsesVar(branch->condition, loop->vars[1]);
  ir::WalkExprs(branch->condition, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    return of_row &= load == nullptr || !load->buffer.same_as(c);
  });
  return of_row ? branch->condition : Expr();
}

// Returns the condition under which a loop changes rows of C, if it multiplies each row by a factor
// in a fragment: the factor is not 1.
Expr FactorIsNotOne(const ir::ParallelForNode* loop, const Buffer& c) {
  const auto* store = loop->body.as<ir::StoreNode>();
  const auto* product = store != nullptr ? store->value.as<ir::BinaryNode>() : nullptr;
  if (product == nullptr || product->Op() != ir::BinaryOp::kMul) return Expr();
  auto of = [](const Expr& e, auto fits) {
    const auto* load = e.as<ir::LoadNode>();
    return load != nullptr && fits(load->buffer);
  };
  auto is_c = [&](const Buffer& buffer) { return buffer.same_as(c); };
  auto is_other = [&](const Buffer& buffer) { return buffer.IsFragment() && !is_c(buffer); };
  for (bool first : {true, false}) {
    const Expr& element = first ? product->a : product->b;
    const Expr& factor = first ? product->b : product->a;
    if (!of(element, is_c) || !of(factor, is_other) || !ir::IsFloat(factor.dtype())) continue;
    return ir::Not(ir::MakeEq(factor, ir::Const(factor.dtype(), 1)));
  }
  return Expr();
}

// `body` by the warps that hold a row for which the condition is true.
std::vector<Stmt> WhereAnyRow(const ir::ParallelForNode* loop, const Expr& condition,
                              const Buffer& c, const std::vector<Stmt>& body) {
  const ir::Span& span = loop->span;
  Buffer flags(ir::String(std::string(c->name) + "_rows"), ir::dtypes::kBool, {c->shape[0]}, {},
               c->scope, {}, c->span);
  Var row(loop->vars[0]->name, loop->vars[0].dtype(), loop->vars[0]->span);
  Stmt set = ir::Store(flags, {row}, ir::Substitute(condition, {{loop->vars[0], row}}), span);
  return {ir::Alloc(flags, span), ir::ParallelFor({row}, {loop->extents[0]}, set, {}, span),
          ir::If(op::AnyRow(flags, span), ir::MakeSeq(body, span), Stmt(), span)};
}

}  // namespace

std::vector<Stmt> InColumnPieces(const Stmt& s, const Buffer& c, const Buffer& tmem) {
  const auto* loop = s.as<ir::ParallelForNode>();
  auto shape = ir::AsInts(c->shape);
  if (loop == nullptr || !shape || shape->size() != 2 || (*shape)[1] % kUnit != 0) return {};
  if (ir::AsInts(loop->extents) != shape || !IsElementwise(loop, c)) return {};
  std::vector<Stmt> stmts;
  int64_t width = PieceOf((*shape)[1]);
  for (int64_t first = 0; first < (*shape)[1]; first += width) {
    Array<Expr> extents = {c->shape[0], ir::Const(c->shape[1].dtype(), width)};
    Buffer piece(ir::String(std::string(c->name) + "_piece"), c->dtype, extents, {}, c->scope, {},
                 c->span);
    Expr zero = ir::Const(c->shape[0].dtype(), 0);
    Region columns(tmem, {zero, ir::Const(c->shape[1].dtype(), first)}, extents);
    Region whole = Region::Whole(piece);
    stmts.push_back(ir::Alloc(piece, s.span()));
    stmts.push_back(ir::Copy(columns, whole, s.span()));
    stmts.push_back(OnPiece(loop, c, piece, first));
    stmts.push_back(ir::Copy(whole, columns, s.span()));
  }
  Expr condition = ConditionOfRow(loop, c);
  if (!condition.defined()) condition = FactorIsNotOne(loop, c);
  return condition.defined() ? WhereAnyRow(loop, condition, c, stmts) : stmts;
}

}  // namespace tilelang::lower
