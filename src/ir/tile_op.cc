#include "ir/tile_op.h"

#include <utility>

#include "ir/copy_operator.h"
#include "ir/error.h"
#include "ir/function.h"
#include "ir/gemm.h"
#include "ir/make_node.h"
#include "registry/functions.h"

namespace tilelang::ir {

Region::Region(Buffer buffer, Array<Expr> mins, Array<Expr> extents) {
  TL_CHECK(mins.size() == buffer->shape.size() && extents.size() == mins.size(), buffer->span,
           "region of rank " << mins.size() << " of buffer " << std::string(buffer->name));
  auto node = ffi::make_object<RegionNode>();
  node->buffer = std::move(buffer);
  node->mins = std::move(mins);
  node->extents = std::move(extents);
  data_ = std::move(node);
}

Region Region::Whole(const Buffer& buffer) {
  return Region(buffer, Array<Expr>(buffer->shape.size(), Expr(0)), buffer->shape);
}

bool Region::IsWhole() const {
  const RegionNode* node = get();
  for (size_t i = 0; i < node->mins.size(); ++i) {
    const Expr& extent = node->extents[i];
    const Expr& size = node->buffer->shape[i];
    bool same = extent.same_as(size) || (AsInt(extent) && AsInt(extent) == AsInt(size));
    if (!IsConst(node->mins[i], 0) || !same) return false;
  }
  return true;
}

namespace {

template <typename NodeT>
Stmt Planned(const Stmt& op, ffi::ObjectRef plan) {
  auto node = ffi::make_object<NodeT>(*op.as<NodeT>());
  node->plan = std::move(plan);
  return Stmt(std::move(node));
}

}  // namespace

Stmt WithPlan(const Stmt& op, ffi::ObjectRef plan) {
  switch (op->kind) {
    case StmtKind::kCopy:
      return Planned<CopyNode>(op, std::move(plan));
    case StmtKind::kFill:
      return Planned<FillNode>(op, std::move(plan));
    case StmtKind::kReduce:
      return Planned<ReduceNode>(op, std::move(plan));
    case StmtKind::kGemm:
      return Planned<GemmNode>(op, std::move(plan));
    default:
      TL_CHECK(false, op.span(), "a plan for a statement that is no tile operator");
      TVM_FFI_UNREACHABLE();
  }
}

Fill::Fill(Region dst, Expr value, Span span) {
  auto node = MakeNode<FillNode>(std::move(span));
  node->dst = std::move(dst);
  node->value = std::move(value);
  data_ = std::move(node);
}

Reduce::Reduce(Region src, Region dst, String op, int64_t dim, bool clear, bool nan_propagate,
               Expr slack, Span span) {
  auto node = MakeNode<ReduceNode>(std::move(span));
  node->src = std::move(src);
  node->dst = std::move(dst);
  node->op = std::move(op);
  node->dim = dim;
  node->clear = clear;
  node->nan_propagate = nan_propagate;
  node->slack = std::move(slack);
  data_ = std::move(node);
}

int64_t ReduceNode::Partials() const {
  auto from = AsInts(src->extents);
  auto to = AsInts(dst->extents);
  if (!from || !to || from->size() != to->size()) return 1;
  int64_t partials = std::exchange((*to)[dim], (*from)[dim]);
  return *from == *to ? partials : 1;
}

Reduce::Reduce(const ReduceNode* op, Region src, Region dst)
    : Reduce(std::move(src), std::move(dst), op->op, op->dim, op->clear, op->nan_propagate,
             op->slack, op->span) {}

ParallelFor::ParallelFor(Array<Var> vars, Array<Expr> extents, Stmt body,
                         Map<String, Any> annotations, Span span) {
  auto node = MakeNode<ParallelForNode>(std::move(span));
  node->vars = std::move(vars);
  node->extents = std::move(extents);
  node->body = std::move(body);
  node->annotations = std::move(annotations);
  data_ = std::move(node);
}

Func::Func(String name, Array<Any> params, Stmt body, Map<String, Any> attrs, Span span) {
  auto node = MakeNode<FuncNode>(std::move(span));
  node->name = std::move(name);
  node->params = std::move(params);
  node->body = std::move(body);
  node->attrs = std::move(attrs);
  data_ = std::move(node);
}

Func Func::WithBody(Stmt body) const {
  const FuncNode* node = get();
  return Func(node->name, node->params, std::move(body), node->attrs, node->span);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<RegionNode>()
      .def_ro("buffer", &RegionNode::buffer)
      .def_ro("mins", &RegionNode::mins)
      .def_ro("extents", &RegionNode::extents);
  refl::ObjectDef<TileOpNode>().def_ro("plan", &TileOpNode::plan,
                                       refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<FillNode>().def_ro("dst", &FillNode::dst).def_ro("value", &FillNode::value);
  refl::ObjectDef<ReduceNode>()
      .def_ro("src", &ReduceNode::src)
      .def_ro("dst", &ReduceNode::dst)
      .def_ro("op", &ReduceNode::op)
      .def_ro("dim", &ReduceNode::dim)
      .def_ro("clear", &ReduceNode::clear)
      .def_ro("nan_propagate", &ReduceNode::nan_propagate)
      .def_ro("slack", &ReduceNode::slack);
  refl::ObjectDef<ParallelForNode>()
      .def_ro("vars", &ParallelForNode::vars, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("extents", &ParallelForNode::extents)
      .def_ro("body", &ParallelForNode::body)
      .def_ro("annotations", &ParallelForNode::annotations);
  refl::ObjectDef<FuncNode>()
      .def_ro("name", &FuncNode::name, refl::AttachFieldFlag::SEqHashIgnore())
      .def_ro("params", &FuncNode::params, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("body", &FuncNode::body)
      .def_ro("attrs", &FuncNode::attrs)
      .def_ro("span", &FuncNode::span, refl::AttachFieldFlag::SEqHashIgnore());
  registry::Functions()
      .Add("tl.ir.Region",
           [](Buffer b, Array<Expr> mins, Array<Expr> extents) { return Region(b, mins, extents); })
      .Add("tl.ir.Fill", [](Region dst, Expr value, Span s) { return Fill(dst, value, s); })
      .Add("tl.ir.Reduce",
           [](Region src, Region dst, String op, int64_t dim, bool clear, bool nan_propagate,
              Expr slack,
              Span s) { return Reduce(src, dst, op, dim, clear, nan_propagate, slack, s); })
      .Add("tl.ir.ParallelFor",
           [](Array<Var> vars, Array<Expr> extents, Stmt body, Map<String, Any> notes, Span s) {
             return ParallelFor(vars, extents, body, notes, s);
           })
      .Add("tl.ir.Func", [](String name, Array<Any> params, Stmt body, Map<String, Any> attrs,
                            Span s) { return Func(name, params, body, attrs, s); });
}

}  // namespace tilelang::ir
