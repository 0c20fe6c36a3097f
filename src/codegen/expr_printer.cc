#include "codegen/expr_printer.h"

#include <bit>

#include "codegen/literals.h"
#include "ir/error.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

bool IsNarrowFloat(DType t) { return IsFloat(t) && t.bits < 32; }

std::string_view View(const String& text) { return {text.data(), text.size()}; }

struct Symbol {
  const char* text;
  int precedence;
};

// Operators that C++ writes between their operands.
Symbol InfixSymbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return {"+", kPrecAdd};
    case BinaryOp::kSub:
      return {"-", kPrecAdd};
    case BinaryOp::kMul:
      return {"*", kPrecMul};
    case BinaryOp::kDiv:
      return {"/", kPrecMul};
    case BinaryOp::kEq:
      return {"==", kPrecEquality};
    case BinaryOp::kNe:
      return {"!=", kPrecEquality};
    case BinaryOp::kLt:
      return {"<", kPrecRelation};
    case BinaryOp::kLe:
      return {"<=", kPrecRelation};
    case BinaryOp::kGt:
      return {">", kPrecRelation};
    case BinaryOp::kGe:
      return {">=", kPrecRelation};
    case BinaryOp::kAnd:
      return {"&&", kPrecAnd};
    case BinaryOp::kOr:
      return {"||", kPrecOr};
    case BinaryOp::kBitAnd:
      return {"&", kPrecBitAnd};
    case BinaryOp::kBitOr:
      return {"|", kPrecBitOr};
    case BinaryOp::kBitXor:
      return {"^", kPrecBitXor};
    case BinaryOp::kShl:
      return {"<<", kPrecShift};
    case BinaryOp::kShr:
      return {">>", kPrecShift};
    default:
      return {nullptr, 0};
  }
}

bool IsBitwise(int precedence) {
  return precedence == kPrecShift || (precedence >= kPrecBitOr && precedence <= kPrecBitAnd);
}

// The template argument of an atomic function; none for relaxed ones.
std::string MemoryOrder(const CallNode* op) {
  auto it = op->attrs.find("memory_order");
  if (it == op->attrs.end()) return "";
  String order = (*it).second.cast<String>();
  static constexpr std::pair<std::string_view, const char*> kOrders[] = {
      {"relaxed", ""},
      {"acquire", "<tl::Order::kAcquire>"},
      {"release", "<tl::Order::kRelease>"},
      {"acq_rel", "<tl::Order::kAcqRel>"},
      {"seq_cst", "<tl::Order::kSeqCst>"},
  };
  for (const auto& [name, text] : kOrders) {
    if (name == View(order)) return text;
  }
  TL_USER_ERROR(kSemantics, op->span,
                "unknown memory order " << order << " of " << op->name
                                        << "; use relaxed, acquire, release, acq_rel or seq_cst");
}

}  // namespace

std::string ExprPrinter::Operand(const Expr& e, int precedence) {
  ExprText text = Text(e);
  bool parenthesize = text.precedence < precedence;
  return parenthesize ? "(" + text.text + ")" : text.text;
}

std::string ExprPrinter::Type(DType dtype) {
  if (IsFloat8(dtype)) UseHeader("float8.h");
  return dtype == dtypes::kInt32 ? "int" : CudaName(dtype);
}

std::string ExprPrinter::Element(const Buffer& buffer, const Array<Expr>& indices) {
  TL_CHECK(indices.size() == 1, buffer->span,
           "code generation needs one index for " << buffer->name << ", not " << indices.size());
  const std::string& name = names_->Of(buffer);
  if (buffer->scope == "local.var") return name;
  return name + "[" + Index(buffer, indices[0], 1).text + "]";
}

std::string ExprPrinter::Pointer(const Buffer& buffer, const Array<Expr>& indices,
                                 int64_t elements) {
  TL_CHECK(indices.size() == 1, buffer->span,
           "code generation needs one index for " << buffer->name << ", not " << indices.size());
  const std::string& name = names_->Of(buffer);
  if (buffer->scope == "local.var") return "&" + name;
  if (IsConst(indices[0], 0)) return name;
  ExprText index = Index(buffer, indices[0], elements);
  bool parenthesize = index.precedence <= kPrecAdd;
  return name + " + " + (parenthesize ? "(" + index.text + ")" : index.text);
}

ExprText ExprPrinter::Text(const Expr& e) {
  auto replaced = replaced_.find(e.get());
  if (replaced != replaced_.end()) return {replaced->second};
  switch (e->kind) {
    case ExprKind::kIntImm: {
      int64_t value = e.as<IntImmNode>()->value;
      std::string text = IntLiteral(e.dtype(), value);
      return {text, text[0] == '-' ? kPrecUnary : kPrecPrimary};
    }
    case ExprKind::kFloatImm: {
      if (IsFloat8(e.dtype())) UseHeader("float8.h");
      std::string text = FloatLiteral(e.dtype(), e.as<FloatImmNode>()->value);
      return {text, text[0] == '-' ? kPrecUnary : kPrecPrimary};
    }
    case ExprKind::kStringImm:
      return {StringLiteral(e.as<StringImmNode>()->value)};
    case ExprKind::kVar: {
      const auto* var = e.as<VarNode>();
      const std::string& name = names_->Of(var, var->name);
      return tensor_maps_.count(var) ? ExprText{"&" + name, kPrecUnary} : ExprText{name};
    }
    case ExprKind::kBinary:
      return Text(e.as<BinaryNode>());
    case ExprKind::kUnary:
      return Text(e.as<UnaryNode>());
    case ExprKind::kSelect:
      return Text(e.as<SelectNode>());
    case ExprKind::kCast:
      return Text(e.as<CastNode>());
    case ExprKind::kLoad:
      return {Element(e.as<LoadNode>()->buffer, e.as<LoadNode>()->indices)};
    case ExprKind::kCall:
      return Text(e.as<CallNode>());
  }
  ThrowInternalError(e.span(), "expression of unknown kind");
}

ExprText ExprPrinter::Narrowed(DType dtype, ExprText text) {
  if (!IsIntegral(dtype) || dtype.bits >= 32 || IsBool(dtype)) return text;
  return {Type(dtype) + "(" + text.text + ")"};
}

ExprText ExprPrinter::Infix(const char* symbol, int precedence, const BinaryNode* op) {
  // && and || chains associate; the right operand of the others must bind more tightly.
  bool is_and = op->Op() == BinaryOp::kAnd;
  bool is_or = op->Op() == BinaryOp::kOr;
  int right = is_and || is_or ? precedence : precedence + 1;
  ExprText a = Text(op->a);
  ExprText b = is_and  ? TextUnder(op->a, op->b)
               : is_or ? TextUnder(Not(op->a), op->b)
                       : Text(op->b);
  auto operand = [&](const ExprText& text, int needed) {
    // Adds parentheses that C++ does not need but readers do: around shifts and bit operations, and
    // around && inside ||.
    bool unfamiliar = (IsBitwise(precedence) && text.precedence < kPrecUnary) ||
                      (precedence == kPrecOr && text.precedence == kPrecAnd);
    bool parenthesize = text.precedence < needed || (unfamiliar && text.precedence != precedence);
    return parenthesize ? "(" + text.text + ")" : text.text;
  };
  return {operand(a, precedence) + " " + symbol + " " + operand(b, right), precedence};
}

ExprText ExprPrinter::Text(const BinaryNode* op) {
  BinaryOp kind = op->Op();
  if (kind == BinaryOp::kFloorDiv || kind == BinaryOp::kFloorMod) return Division(op);
  if (kind == BinaryOp::kMin || kind == BinaryOp::kMax) {
    std::string name = kind == BinaryOp::kMin ? "min" : "max";
    return Narrowed(op->dtype, {name + "(" + Print(op->a) + ", " + Print(op->b) + ")"});
  }
  Symbol symbol = InfixSymbol(kind);
  ExprText text = Infix(symbol.text, symbol.precedence, op);
  bool computed_in_int = kind == BinaryOp::kAdd || kind == BinaryOp::kSub ||
                         kind == BinaryOp::kMul || kind == BinaryOp::kShl ||
                         kind == BinaryOp::kShr || IsBitwise(symbol.precedence);
  return computed_in_int ? Narrowed(op->dtype, text) : text;
}

ExprText ExprPrinter::Division(const BinaryNode* op) {
  bool modulo = op->Op() == BinaryOp::kFloorMod;
  std::optional<int64_t> divisor = AsInt(op->b);
  if (divisor && *divisor > 0 && std::has_single_bit(static_cast<uint64_t>(*divisor))) {
    // Shifts and masks round toward minus infinity for every sign.
    int precedence = modulo ? kPrecBitAnd : kPrecShift;
    int64_t value = modulo ? *divisor - 1 : std::countr_zero(static_cast<uint64_t>(*divisor));
    std::string text = Operand(op->a, kPrecUnary) + (modulo ? " & " : " >> ") +
                       IntLiteral(modulo ? op->dtype : dtypes::kInt32, value);
    return Narrowed(op->dtype, {text, precedence});
  }
  if (IsUInt(op->dtype) ||
      (analyzer_.CanProveNonNegative(op->a) && analyzer_.CanProveNonNegative(op->b))) {
    return Narrowed(op->dtype, Infix(modulo ? "%" : "/", kPrecMul, op));
  }
  std::string function = modulo ? "tl::floormod" : "tl::floordiv";
  return {function + "<" + Type(op->dtype) + ">(" + Print(op->a) + ", " + Print(op->b) + ")"};
}

ExprText ExprPrinter::Text(const UnaryNode* op) {
  const char* symbol = op->Op() == UnaryOp::kNeg ? "-" : op->Op() == UnaryOp::kNot ? "!" : "~";
  std::string operand = Operand(op->a, kPrecUnary);
  // "- -x" must not become a decrement.
  if (operand[0] == symbol[0]) operand = "(" + operand + ")";
  return Narrowed(op->dtype, {symbol + operand, kPrecUnary});
}

ExprText ExprPrinter::Text(const SelectNode* op) {
  auto bracketed = [](const ExprText& part, int precedence) {
    return part.precedence < precedence ? "(" + part.text + ")" : part.text;
  };
  ExprText chosen = TextUnder(op->condition, op->true_value);
  ExprText otherwise = TextUnder(Not(op->condition), op->false_value);
  return {Operand(op->condition, kPrecTernary + 1) + " ? " + bracketed(chosen, kPrecTernary + 1) +
              " : " + bracketed(otherwise, kPrecTernary),
          kPrecTernary};
}

ExprText ExprPrinter::Text(const CastNode* op) {
  DType from = op->value.dtype();
  DType to = op->dtype;
  if (IsBool(to)) {
    if (IsNarrowFloat(from)) return {AsFloat(op->value) + " != 0.0f", kPrecEquality};
    return {Operand(op->value, kPrecEquality) + " != 0", kPrecEquality};
  }
  // 8- and 16-bit floats convert by way of float, which holds all of them exactly.
  bool via_float = IsNarrowFloat(from) && to != dtypes::kFloat32;
  std::string value = via_float ? AsFloat(op->value) : Print(op->value);
  if (to == dtypes::kHandle) return {"reinterpret_cast<void*>(" + value + ")"};
  return {Type(to) + "(" + value + ")"};
}

std::string ExprPrinter::AsFloat(const Expr& e) {
  std::string text = Print(e);
  return e.dtype() == dtypes::kFloat32 ? text : "float(" + text + ")";
}

ExprText ExprPrinter::Function(const std::string& name, const Array<Expr>& args, size_t first) {
  std::string text = name + "(";
  for (size_t i = first; i < args.size(); ++i) {
    if (i != first) text += ", ";
    text += Argument(args[i]);
  }
  return {text + ")"};
}

std::string ExprPrinter::Argument(const Expr& arg) {
  // Device functions take barriers by reference.
  const LoadNode* load = AddressedElement(arg);
  if (load != nullptr && load->buffer.IsBarrier()) return Element(load->buffer, load->indices);
  return Print(arg);
}

ExprText ExprPrinter::Text(const CallNode* op) {
  const Intrinsic* intrinsic = op->intrinsic;
  if (intrinsic == nullptr) {
    TL_CHECK(View(op->name).starts_with("tl::"), op->span, "unknown intrinsic " << op->name);
    if (auto header = op->attrs.find("header"); header != op->attrs.end()) {
      UseHeader(View((*header).second.cast<String>()));
    }
    if (auto texts = op->attrs.find("definitions"); texts != op->attrs.end()) {
      for (const String& text : (*texts).second.cast<Array<String>>()) {
        definitions_.emplace(View(text));
      }
    }
    return Function(op->name, op->args);
  }
  UseHeader(intrinsic->header);
  switch (intrinsic->print) {
    case PrintRule::kFunction:
      return Narrowed(op->dtype, Function(std::string(intrinsic->spelling), op->args));
    case PrintRule::kAtomic:
      return Function(std::string(intrinsic->spelling) + MemoryOrder(op), op->args);
    case PrintRule::kSpecial:
      return SpecialCall(op);
    default:
      return MathCall(*intrinsic, op);
  }
}

ExprText ExprPrinter::MathCall(const Intrinsic& intrinsic, const CallNode* op) {
  DType argument = op->args[0].dtype();
  bool is_double = argument == dtypes::kFloat64;
  std::string spelling(intrinsic.spelling);
  size_t count = op->args.size();
  if (intrinsic.print == PrintRule::kRounded) {
    const auto* mode = op->args[count - 1].as<StringImmNode>();
    TL_CHECK(mode != nullptr, op->span, op->name << " needs a rounding mode as last argument");
    if (is_double) spelling.replace(2, 1, "d");  // __fadd -> __dadd
    if (is_double && spelling == "__dmaf") spelling = "__fma";
    spelling += "_" + std::string(mode->value);
    --count;
  } else if (intrinsic.print == PrintRule::kMath && !is_double && !spelling.starts_with("tl::")) {
    spelling += "f";
  }
  std::string text = spelling + "(";
  for (size_t i = 0; i < count; ++i) {
    bool as_is = is_double && intrinsic.print != PrintRule::kFast;
    text += (i != 0 ? ", " : "") + (as_is ? Print(op->args[i]) : AsFloat(op->args[i]));
  }
  text += ")";
  bool gives_float = !is_double || intrinsic.print == PrintRule::kFast;
  if (intrinsic.print != PrintRule::kPredicate && gives_float && op->dtype != dtypes::kFloat32) {
    text = Type(op->dtype) + "(" + text + ")";
  }
  return {text};
}

ExprText ExprPrinter::SpecialCall(const CallNode* op) {
  switch (op->builtin) {
    case Builtin::kAddressOf: {
      const LoadNode* load = op->args[0].as<LoadNode>();
      TL_CHECK(load != nullptr, op->span, "address_of takes an element of a buffer");
      std::string text = Pointer(load->buffer, load->indices);
      return {text, text.find(' ') != std::string::npos ? kPrecAdd : kPrecUnary};
    }
    case Builtin::kReinterpret:
      if (auto half = HalfOfWord(op)) return *half;
      return Function("tl::reinterpret<" + Type(op->dtype) + ">", op->args);
    case Builtin::kExtern: {
      const auto* callee = op->args[0].as<StringImmNode>();
      TL_CHECK(callee != nullptr, op->span, "call_extern needs the function's name first");
      return Function(callee->value, op->args, 1);
    }
    case Builtin::kMaxRegisters: {
      bool increase = !IsConst(op->args[1], 0);
      return {std::string(increase ? "tl::increase" : "tl::decrease") + "_registers<" +
              Print(op->args[0]) + ">()"};
    }
    case Builtin::kLdexp: {
      std::string value = AsFloat(op->args[0]);
      if (op->dtype == dtypes::kFloat64) return Function("ldexp", op->args);
      std::string text = "ldexpf(" + value + ", " + Print(op->args[1]) + ")";
      return {op->dtype == dtypes::kFloat32 ? text : Type(op->dtype) + "(" + text + ")"};
    }
    case Builtin::kPrint:
      return {PrintfCall(op)};
    default:
      ThrowInternalError(op->span, "no printing rule for " + std::string(op->name));
  }
}

// Variadic functions take doubles and ints.
std::string ExprPrinter::PrintfCall(const CallNode* op) {
  std::string text = "printf(" + Print(op->args[0]);
  for (size_t i = 1; i < op->args.size(); ++i) {
    text += ", " + (IsNarrowFloat(op->args[i].dtype()) ? AsFloat(op->args[i]) : Print(op->args[i]));
  }
  return text + ")";
}

}  // namespace tilelang
