#include "ir/stmt.h"

#include "ir/error.h"
#include "ir/make_node.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

// The annotation of a VectorLoop.
constexpr const char* kVectors = "vectors";

}  // namespace

Store::Store(Buffer buffer, Array<Expr> indices, Expr value, Span span) {
  TL_CHECK(buffer->dtype == value.dtype(), span,
           "store of " << ToString(value.dtype()) << " into " << ToString(buffer->dtype)
                       << " buffer " << std::string(buffer->name));
  auto node = MakeNode<StoreNode>(std::move(span));
  node->buffer = std::move(buffer);
  node->indices = std::move(indices);
  node->value = std::move(value);
  data_ = std::move(node);
}

Evaluate::Evaluate(Expr value, Span span) {
  auto node = MakeNode<EvaluateNode>(std::move(span));
  node->value = std::move(value);
  data_ = std::move(node);
}

Bind::Bind(Var var, Expr value, Span span) {
  auto node = MakeNode<BindNode>(std::move(span));
  node->var = std::move(var);
  node->value = std::move(value);
  data_ = std::move(node);
}

Seq::Seq(Array<Stmt> stmts, Span span) {
  auto node = MakeNode<SeqNode>(std::move(span));
  node->stmts = std::move(stmts);
  data_ = std::move(node);
}

namespace {

bool OpensScope(const SeqNode* seq) {
  for (const Stmt& s : seq->stmts) {
    if (s->kind == StmtKind::kBind || s->kind == StmtKind::kAlloc || s->kind == StmtKind::kAssume) {
      return true;
    }
  }
  return false;
}

}  // namespace

Stmt MakeSeq(const std::vector<Stmt>& stmts, Span span) {
  Array<Stmt> flat;
  for (const Stmt& s : stmts) {
    if (!s.defined()) continue;
    const auto* inner = s.as<SeqNode>();
    if (inner == nullptr || OpensScope(inner)) {
      flat.push_back(s);
    } else {
      for (const Stmt& t : inner->stmts) flat.push_back(t);
    }
  }
  if (flat.size() == 1) return flat[0];
  return Seq(std::move(flat), std::move(span));
}

If::If(Expr condition, Stmt then_case, Stmt else_case, Span span) {
  TL_CHECK(IsBool(condition.dtype()), span, "condition of type " << ToString(condition.dtype()));
  auto node = MakeNode<IfNode>(std::move(span));
  node->condition = std::move(condition);
  node->then_case = std::move(then_case);
  node->else_case = std::move(else_case);
  data_ = std::move(node);
}

For::For(Var var, Expr min, Expr extent, ForKind kind, Stmt body, Map<String, Any> annotations,
         Span span) {
  auto node = MakeNode<ForNode>(std::move(span));
  node->var = std::move(var);
  node->min = std::move(min);
  node->extent = std::move(extent);
  node->for_kind = static_cast<int64_t>(kind);
  node->annotations = std::move(annotations);
  node->body = std::move(body);
  data_ = std::move(node);
}

For VectorLoop(Var var, Expr extent, Stmt body, Array<Buffer> vectors, Span span) {
  Expr begin = Const(var.dtype(), 0);
  Map<String, Any> notes = {{kVectors, std::move(vectors)}};
  return For(std::move(var), begin, std::move(extent), ForKind::kVectorized, std::move(body), notes,
             std::move(span));
}

Array<Buffer> VectorsOf(const ForNode* loop) {
  auto it = loop->annotations.find(kVectors);
  TL_CHECK(it != loop->annotations.end(), loop->span, "a vectorized loop was not lowered");
  return (*it).second.cast<Array<Buffer>>();
}

bool IsVectorAccess(const ForNode* loop, const Buffer& buffer, const Array<Expr>& indices) {
  for (const Buffer& vector : VectorsOf(loop)) {
    if (vector.same_as(buffer)) return UsesVar(indices[0], loop->var);
  }
  return false;
}

While::While(Expr condition, Stmt body, Span span) {
  auto node = MakeNode<WhileNode>(std::move(span));
  node->condition = std::move(condition);
  node->body = std::move(body);
  data_ = std::move(node);
}

Break::Break(Span span) { data_ = MakeNode<BreakNode>(std::move(span)); }
Continue::Continue(Span span) { data_ = MakeNode<ContinueNode>(std::move(span)); }

Alloc::Alloc(Buffer buffer, Span span) {
  auto node = MakeNode<AllocNode>(std::move(span));
  node->buffer = std::move(buffer);
  data_ = std::move(node);
}

Assume::Assume(Expr condition, Span span) {
  auto node = MakeNode<AssumeNode>(std::move(span));
  node->condition = std::move(condition);
  data_ = std::move(node);
}

Assert::Assert(Expr condition, String message, Span span) {
  auto node = MakeNode<AssertNode>(std::move(span));
  node->condition = std::move(condition);
  node->message = std::move(message);
  data_ = std::move(node);
}

KernelLaunch::KernelLaunch(Array<Var> block_vars, Array<Expr> grid, Array<Var> thread_vars,
                           Array<Expr> threads, Map<String, Any> attrs, Stmt body, Span span) {
  auto node = MakeNode<KernelLaunchNode>(std::move(span));
  node->block_vars = std::move(block_vars);
  node->grid = std::move(grid);
  node->thread_vars = std::move(thread_vars);
  node->threads = std::move(threads);
  node->attrs = std::move(attrs);
  node->body = std::move(body);
  data_ = std::move(node);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<StmtNode>().def_ro("span", &StmtNode::span,
                                     refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<StoreNode>()
      .def_ro("buffer", &StoreNode::buffer)
      .def_ro("indices", &StoreNode::indices)
      .def_ro("value", &StoreNode::value);
  refl::ObjectDef<EvaluateNode>().def_ro("value", &EvaluateNode::value);
  refl::ObjectDef<BindNode>()
      .def_ro("var", &BindNode::var, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("value", &BindNode::value);
  refl::ObjectDef<SeqNode>().def_ro("stmts", &SeqNode::stmts);
  refl::ObjectDef<IfNode>()
      .def_ro("condition", &IfNode::condition)
      .def_ro("then_case", &IfNode::then_case)
      .def_ro("else_case", &IfNode::else_case);
  refl::ObjectDef<ForNode>()
      .def_ro("var", &ForNode::var, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("min", &ForNode::min)
      .def_ro("extent", &ForNode::extent)
      .def_ro("for_kind", &ForNode::for_kind)
      .def_ro("annotations", &ForNode::annotations)
      .def_ro("body", &ForNode::body);
  refl::ObjectDef<WhileNode>()
      .def_ro("condition", &WhileNode::condition)
      .def_ro("body", &WhileNode::body);
  refl::ObjectDef<BreakNode>();
  refl::ObjectDef<ContinueNode>();
  refl::ObjectDef<AllocNode>().def_ro("buffer", &AllocNode::buffer,
                                      refl::AttachFieldFlag::SEqHashDefPattern());
  refl::ObjectDef<AssumeNode>().def_ro("condition", &AssumeNode::condition);
  refl::ObjectDef<AssertNode>()
      .def_ro("condition", &AssertNode::condition)
      .def_ro("message", &AssertNode::message);
  refl::ObjectDef<KernelLaunchNode>()
      .def_ro("block_vars", &KernelLaunchNode::block_vars,
              refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("grid", &KernelLaunchNode::grid)
      .def_ro("thread_vars", &KernelLaunchNode::thread_vars,
              refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("threads", &KernelLaunchNode::threads)
      .def_ro("attrs", &KernelLaunchNode::attrs)
      .def_ro("body", &KernelLaunchNode::body);
  registry::Functions()
      .Add("tl.ir.Store", [](Buffer b, Array<Expr> i, Expr v, Span s) { return Store(b, i, v, s); })
      .Add("tl.ir.Evaluate", [](Expr value, Span s) { return Evaluate(value, s); })
      .Add("tl.ir.Bind", [](Var var, Expr value, Span s) { return Bind(var, value, s); })
      .Add("tl.ir.Seq", [](Array<Stmt> stmts, Span s) { return Seq(stmts, s); })
      .Add("tl.ir.If", [](Expr c, Stmt t, Stmt e, Span s) { return If(c, t, e, s); })
      .Add("tl.ir.For",
           [](Var var, Expr min, Expr extent, int64_t kind, Stmt body, Map<String, Any> notes,
              Span s) { return For(var, min, extent, static_cast<ForKind>(kind), body, notes, s); })
      .Add("tl.ir.While", [](Expr c, Stmt body, Span s) { return While(c, body, s); })
      .Add("tl.ir.Break", [](Span s) { return Break(s); })
      .Add("tl.ir.Continue", [](Span s) { return Continue(s); })
      .Add("tl.ir.Alloc", [](Buffer buffer, Span s) { return Alloc(buffer, s); })
      .Add("tl.ir.Assume", [](Expr c, Span s) { return Assume(c, s); })
      .Add("tl.ir.Assert", [](Expr c, String m, Span s) { return Assert(c, m, s); })
      .Add("tl.ir.KernelLaunch",
           [](Array<Var> block_vars, Array<Expr> grid, Array<Var> thread_vars, Array<Expr> threads,
              Map<String, Any> attrs, Stmt body, Span s) {
             return KernelLaunch(block_vars, grid, thread_vars, threads, attrs, body, s);
           });
}

}  // namespace tilelang::ir
