#include "ir/expr.h"

#include <limits>

#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/make_node.h"
#include "registry/functions.h"

namespace tilelang::ir {

const char* Spelling(BinaryOp op) {
  static const char* const kNames[] = {
      "+",  "-", "*",  "/",   "//", "%", "min", "max", "==", "!=", "<",
      "<=", ">", ">=", "and", "or", "&", "|",   "^",   "<<", ">>"};
  return kNames[static_cast<int>(op)];
}

const char* Spelling(UnaryOp op) {
  static const char* const kNames[] = {"-", "not ", "~"};
  return kNames[static_cast<int>(op)];
}

namespace {

template <typename NodeT>
ffi::ObjectPtr<NodeT> NewExpr(DType dtype, Span span) {
  auto node = MakeNode<NodeT>(std::move(span));
  node->dtype = dtype;
  return node;
}

}  // namespace

Expr::Expr(int value) : Expr(IntImm(dtypes::kInt32, value)) {}

IntImm::IntImm(DType dtype, int64_t value, Span span) {
  TL_CHECK(IsIntegral(dtype), span, "IntImm of type " << ToString(dtype));
  auto node = NewExpr<IntImmNode>(dtype, std::move(span));
  node->value = value;
  data_ = std::move(node);
}

FloatImm::FloatImm(DType dtype, double value, Span span) {
  TL_CHECK(IsFloat(dtype), span, "FloatImm of type " << ToString(dtype));
  auto node = NewExpr<FloatImmNode>(dtype, std::move(span));
  node->value = value;
  data_ = std::move(node);
}

StringImm::StringImm(String value, Span span) {
  auto node = NewExpr<StringImmNode>(dtypes::kHandle, std::move(span));
  node->value = std::move(value);
  data_ = std::move(node);
}

Var::Var(String name, DType dtype, Span span) {
  auto node = NewExpr<VarNode>(dtype, std::move(span));
  node->name = std::move(name);
  data_ = std::move(node);
}

Binary::Binary(BinaryOp op, Expr a, Expr b, Span span) {
  TL_CHECK(a.dtype() == b.dtype(), span,
           "operands of " << Spelling(op) << " have types " << ToString(a.dtype()) << " and "
                          << ToString(b.dtype()));
  auto node = NewExpr<BinaryNode>(IsComparison(op) ? dtypes::kBool : a.dtype(), std::move(span));
  node->op = static_cast<int64_t>(op);
  node->a = std::move(a);
  node->b = std::move(b);
  data_ = std::move(node);
}

Unary::Unary(UnaryOp op, Expr a, Span span) {
  auto node = NewExpr<UnaryNode>(a.dtype(), std::move(span));
  node->op = static_cast<int64_t>(op);
  node->a = std::move(a);
  data_ = std::move(node);
}

Select::Select(Expr condition, Expr true_value, Expr false_value, Span span) {
  TL_CHECK(IsBool(condition.dtype()), span, "condition of type " << ToString(condition.dtype()));
  TL_CHECK(true_value.dtype() == false_value.dtype(), span, "branches of different types");
  auto node = NewExpr<SelectNode>(true_value.dtype(), std::move(span));
  node->condition = std::move(condition);
  node->true_value = std::move(true_value);
  node->false_value = std::move(false_value);
  data_ = std::move(node);
}

Cast::Cast(DType dtype, Expr value, Span span) {
  auto node = NewExpr<CastNode>(dtype, std::move(span));
  node->value = std::move(value);
  data_ = std::move(node);
}

Buffer::Buffer(String name, DType dtype, Array<Expr> shape, Array<Expr> strides, String scope,
               Map<String, Any> attrs, Span span) {
  TL_CHECK(strides.empty() || strides.size() == shape.size(), span,
           "buffer " << std::string(name) << ": " << strides.size() << " strides for rank "
                     << shape.size());
  auto node = ffi::make_object<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->strides = std::move(strides);
  node->scope = std::move(scope);
  node->attrs = std::move(attrs);
  node->span = std::move(span);
  data_ = std::move(node);
}

Array<Expr> Buffer::Strides() const {
  const BufferNode* node = get();
  if (!node->strides.empty()) return node->strides;
  std::vector<Expr> strides(node->shape.size(), Expr(1));
  // Extents of 32 bits may have products beyond them.
  for (size_t i = node->shape.size(); i-- > 1;) {
    const Expr& extent = node->shape[i];
    if (IsConst(strides[i], 1)) {
      strides[i - 1] = extent;
      continue;
    }
    Expr product = CastTo(dtypes::kInt64, extent) * CastTo(dtypes::kInt64, strides[i]);
    auto value = AsInt(product);
    bool is_small = value && *value <= std::numeric_limits<int32_t>::max();
    strides[i - 1] = is_small ? Const(extent.dtype(), *value) : product;
  }
  return Array<Expr>(strides.begin(), strides.end());
}

Load::Load(Buffer buffer, Array<Expr> indices, Span span) {
  auto node = NewExpr<LoadNode>(buffer->dtype, std::move(span));
  node->buffer = std::move(buffer);
  node->indices = std::move(indices);
  data_ = std::move(node);
}

Call::Call(DType dtype, String name, Array<Expr> args, Map<String, Any> attrs, Span span) {
  auto node = NewExpr<CallNode>(dtype, std::move(span));
  node->intrinsic = FindIntrinsic({name.data(), name.size()});
  if (node->intrinsic != nullptr) node->builtin = node->intrinsic->builtin;
  node->name = std::move(name);
  node->args = std::move(args);
  node->attrs = std::move(attrs);
  data_ = std::move(node);
}

Expr AddressOf(const Buffer& buffer, Array<Expr> indices) {
  return Call(dtypes::kHandle, "address_of", {Load(buffer, std::move(indices))});
}

const LoadNode* AddressedElement(const Expr& e) {
  const auto* call = e.as<CallNode>();
  bool address = call != nullptr && call->Is(Builtin::kAddressOf);
  return address ? call->args[0].as<LoadNode>() : nullptr;
}

std::optional<int64_t> AsInt(const Expr& e) {
  if (!e.defined() || e->kind != ExprKind::kIntImm) return std::nullopt;
  return static_cast<const IntImmNode*>(e.get())->value;
}

std::optional<std::vector<int64_t>> AsInts(const Array<Expr>& exprs) {
  std::vector<int64_t> values;
  for (const Expr& e : exprs) {
    std::optional<int64_t> value = AsInt(e);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<ExprNode>()
      .def_ro("dtype", &ExprNode::dtype)
      .def_ro("span", &ExprNode::span, refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<IntImmNode>().def_ro("value", &IntImmNode::value);
  refl::ObjectDef<FloatImmNode>().def_ro("value", &FloatImmNode::value);
  refl::ObjectDef<StringImmNode>().def_ro("value", &StringImmNode::value);
  refl::ObjectDef<VarNode>().def_ro("name", &VarNode::name, refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<BinaryNode>()
      .def_ro("op", &BinaryNode::op)
      .def_ro("a", &BinaryNode::a)
      .def_ro("b", &BinaryNode::b);
  refl::ObjectDef<UnaryNode>().def_ro("op", &UnaryNode::op).def_ro("a", &UnaryNode::a);
  refl::ObjectDef<SelectNode>()
      .def_ro("condition", &SelectNode::condition)
      .def_ro("true_value", &SelectNode::true_value)
      .def_ro("false_value", &SelectNode::false_value);
  refl::ObjectDef<CastNode>().def_ro("value", &CastNode::value);
  refl::ObjectDef<BufferNode>()
      .def_ro("name", &BufferNode::name, refl::AttachFieldFlag::SEqHashIgnore())
      .def_ro("dtype", &BufferNode::dtype)
      .def_ro("shape", &BufferNode::shape)
      .def_ro("strides", &BufferNode::strides)
      .def_ro("scope", &BufferNode::scope)
      .def_ro("attrs", &BufferNode::attrs)
      .def_ro("span", &BufferNode::span, refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<LoadNode>()
      .def_ro("buffer", &LoadNode::buffer)
      .def_ro("indices", &LoadNode::indices);
  refl::ObjectDef<CallNode>()
      .def_ro("name", &CallNode::name)
      .def_ro("args", &CallNode::args)
      .def_ro("attrs", &CallNode::attrs);
  registry::Functions()
      .Add("tl.ir.IntImm", [](DType t, int64_t v, Span s) { return IntImm(t, v, s); })
      .Add("tl.ir.FloatImm", [](DType t, double v, Span s) { return FloatImm(t, v, s); })
      .Add("tl.ir.StringImm", [](String v, Span s) { return StringImm(v, s); })
      .Add("tl.ir.Var", [](String name, DType t, Span s) { return Var(name, t, s); })
      .Add("tl.ir.Buffer", [](String name, DType t, Array<Expr> shape, Array<Expr> strides,
                              String scope, Map<String, Any> attrs,
                              Span s) { return Buffer(name, t, shape, strides, scope, attrs, s); })
      .Add("tl.ir.Load",
           [](Buffer buffer, Array<Expr> indices, Span s) { return Load(buffer, indices, s); })
      .Add("tl.ir.Call", [](DType t, String name, Array<Expr> args, Map<String, Any> attrs,
                            Span s) { return Call(t, name, args, attrs, s); });
}

}  // namespace tilelang::ir
