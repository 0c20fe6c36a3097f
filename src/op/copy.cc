#include "op/copy.h"

#include "ir/error.h"
#include "ir/padded.h"
#include "ir/printer.h"
#include "op/safe_values.h"

namespace tilelang::op {

MovingDims Moving(const Region& region) {
  MovingDims moving;
  for (size_t d = 0; d < region->extents.size(); ++d) {
    if (ir::IsConst(region->extents[d], 1)) continue;
    moving.dims.push_back(d);
    moving.extents.push_back(region->extents[d]);
  }
  return moving;
}

namespace {

const char* const kIndexNames[] = {"i", "j", "k", "l", "m", "n"};

Array<Var> IndexVars(size_t count, const Span& span) {
  Array<Var> vars;
  for (size_t i = 0; i < count; ++i) {
    String name = i < 6 ? String(kIndexNames[i]) : String("i" + std::to_string(i));
    vars.push_back(Var(name, ir::dtypes::kInt32, span));
  }
  return vars;
}

// Returns the indices region.mins plus the offsets in the moving dimensions.
Array<Expr> ElementAt(const Region& region, const MovingDims& moving, const Array<Expr>& offsets) {
  std::vector<Expr> indices(region->mins.begin(), region->mins.end());
  for (size_t i = 0; i < moving.dims.size(); ++i) {
    Expr& index = indices[moving.dims[i]];
    index = index + ir::CastTo(index.dtype(), offsets[i]);
  }
  return Array<Expr>(indices.begin(), indices.end());
}

Stmt SerialLoops(const Array<Var>& vars, const Array<Expr>& extents, Stmt body, const Span& span) {
  for (size_t i = vars.size(); i-- > 0;) {
    body = ir::For(vars[i], 0, extents[i], ir::ForKind::kSerial, body, {}, span);
  }
  return body;
}

Stmt TileLoop(const Array<Var>& vars, const Array<Expr>& extents, Stmt body, TileWork work,
              const Map<String, Any>& annotations, const Span& span) {
  if (work == TileWork::kShared) {
    if (!vars.empty()) return ir::ParallelFor(vars, extents, body, annotations, span);
    // One thread, or every holder of a fragment, still stores a single element.
    return ir::ParallelFor({Var("i", ir::dtypes::kInt32, span)}, {Expr(1)}, body, annotations,
                           span);
  }
  return SerialLoops(vars, extents, std::move(body), span);
}

TileWork WorkOn(const Buffer& dst, TileWork work) {
  return dst.IsLocal() ? TileWork::kOfEachThread : work;
}

// Holds the loop variables of a copy. If a type is padded, the last dimension of both sides is
// divided in two, and the inner variable counts the bytes of a unit.
struct CopyVars {
  Array<Var> vars;
  Array<Expr> extents;
  Array<Expr> from;  // what is added to the corner of src, and of dst, in the moving dimensions
  Array<Expr> to;
};

CopyVars VarsOf(const ir::CopyNode* op, const MovingDims& to) {
  const ir::SmallFloat* padded = ir::PaddedType(op);
  size_t more = padded != nullptr ? 1 : 0;
  CopyVars found{IndexVars(to.dims.size() + more, op->span), to.extents, {}, {}};
  for (size_t i = 0; i < to.dims.size(); ++i) {
    found.from.push_back(found.vars[i]);
    found.to.push_back(found.vars[i]);
  }
  if (padded == nullptr) return found;
  auto last = static_cast<int64_t>(to.dims.size()) - 1;
  auto number = [](int64_t n) { return ir::Const(ir::dtypes::kInt32, n); };
  Expr bytes = number(padded->UnitBytes());
  Expr unit = number(ir::kPaddedUnit);
  bool loads = op->dst->buffer.IsShared();
  found.extents.Set(last, ir::FloorDiv(to.extents[last], loads ? unit : bytes));
  found.extents.push_back(bytes);
  Expr tensor = found.vars[last] * bytes + found.vars[last + 1];
  Expr tile = found.vars[last] * unit + found.vars[last + 1];
  found.from.Set(last, loads ? tensor : tile);
  found.to.Set(last, loads ? tile : tensor);
  return found;
}

}  // namespace

Stmt CopyLoop(const ir::CopyNode* op,
              const std::function<Stmt(const Expr& target, const Expr& value)>& move,
              TileWork work) {
  MovingDims from = Moving(op->src);
  MovingDims to = Moving(op->dst);
  if (from.dims.size() != to.dims.size()) {
    TL_USER_ERROR(kShape, op->span,
                  "T.copy between regions of different rank: " << ir::Print(op->src) << " and "
                                                               << ir::Print(op->dst));
  }
  CopyVars vars = VarsOf(op, to);
  Expr value = ir::Load(op->src->buffer, ElementAt(op->src, from, vars.from), op->span);
  if (op->safe_value.defined()) {
    value = ir::Call(value.dtype(), kLoadOr, {value, op->safe_value}, {}, op->span);
  }
  Expr target = ir::Load(op->dst->buffer, ElementAt(op->dst, to, vars.to), op->span);
  Stmt body = move(target, ir::CastTo(op->dst->buffer->dtype, value, op->span));
  return TileLoop(vars.vars, vars.extents, body, WorkOn(op->dst->buffer, work),
                  op->options->OfLoop(), op->span);
}

Stmt ExpandCopy(const ir::CopyNode* op, TileWork work) {
  auto move = [&](const Expr& target, const Expr& value) -> Stmt {
    const auto* element = target.as<ir::LoadNode>();
    if (!op->Adds()) {
      return ir::Store(element->buffer, element->indices, value, op->span);
    }
    Expr address = ir::AddressOf(element->buffer, element->indices);
    return ir::Evaluate(ir::Call(target.dtype(), "atomic_add", {address, value}, {}), op->span);
  };
  return CopyLoop(op, move, work);
}

Stmt ExpandFill(const ir::FillNode* op, TileWork work) {
  MovingDims to = Moving(op->dst);
  Array<Var> vars = IndexVars(to.dims.size(), op->span);
  Stmt body = ir::Store(op->dst->buffer, ElementAt(op->dst, to, {vars.begin(), vars.end()}),
                        op->value, op->span);
  return TileLoop(vars, to.extents, body, WorkOn(op->dst->buffer, work), {}, op->span);
}

Stmt RunByEachThread(const ir::ParallelForNode* loop) {
  return SerialLoops(loop->vars, loop->extents, loop->body, loop->span);
}

}  // namespace tilelang::op
