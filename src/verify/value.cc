#include "verify/value.h"

#include <limits>
#include <string_view>

#include "ir/fold.h"
#include "ir/next_tile.h"
#include "target/warp.h"

namespace tilelang::verify {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

uint64_t HashName(const ir::String& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < name.size(); ++i) {
    hash = (hash ^ static_cast<uint8_t>(name.data()[i])) * 0x100000001b3;
  }
  return hash;
}

bool IsNonZero(const Value& v) { return v.IsNumber() && v.number != 0; }
bool IsZero(const Value& v) { return v.IsNumber() && v.number == 0; }

}  // namespace

uint64_t Arbitrary(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15 + b + 0x7F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

void Environment::Store(const ir::Buffer& buffer, const Value& index, const Value& value) {
  if (index.IsNumber()) {
    elements_[{buffer.get(), index.number}] = value;
    return;
  }
  auto begin = elements_.lower_bound({buffer.get(), std::numeric_limits<int64_t>::min()});
  auto end = elements_.upper_bound({buffer.get(), std::numeric_limits<int64_t>::max()});
  elements_.erase(begin, end);
}

Value Environment::Evaluate(const Expr& e) const {
  switch (e->kind) {
    case ExprKind::kIntImm:
      return Value::Number(e.as<ir::IntImmNode>()->value);
    case ExprKind::kVar: {
      auto it = variables_.find(e.get());
      return it == variables_.end() ? Value() : it->second;
    }
    case ExprKind::kBinary:
      return Binary(e.as<ir::BinaryNode>());
    case ExprKind::kUnary:
      return Unary(e.as<ir::UnaryNode>());
    case ExprKind::kSelect: {
      const auto* op = e.as<ir::SelectNode>();
      Value condition = Evaluate(op->condition);
      if (!condition.IsNumber()) return {};
      return Evaluate(condition.number != 0 ? op->true_value : op->false_value);
    }
    case ExprKind::kCast: {
      const auto* op = e.as<ir::CastNode>();
      if (!ir::IsIntegral(e.dtype()) || !ir::IsIntegral(op->value.dtype())) return {};
      Value value = Evaluate(op->value);
      if (value.IsNumber()) value.number = ir::Wrap(e.dtype(), value.number);
      return value;
    }
    case ExprKind::kLoad:
      return Load(e.as<ir::LoadNode>());
    case ExprKind::kCall:
      return Call(e.as<ir::CallNode>());
    default:
      return {};
  }
}

Value Environment::EvaluateElected(const Expr& e) {
  bool self = std::exchange(elected_, true);
  Value value = Evaluate(e);
  elected_ = self;
  return value;
}

Value Environment::Logical(const ir::BinaryNode* op) const {
  bool conjunction = op->Op() == BinaryOp::kAnd;
  auto decides = [&](const Value& v) { return conjunction ? IsZero(v) : IsNonZero(v); };
  Value a = Evaluate(op->a);
  if (decides(a)) return a;
  Value b = Evaluate(op->b);
  if (decides(b)) return b;
  return a.IsNumber() ? b : a;
}

Value Environment::Binary(const ir::BinaryNode* op) const {
  if (op->Op() == BinaryOp::kAnd || op->Op() == BinaryOp::kOr) return Logical(op);
  if (!ir::IsIntegral(op->a.dtype()) && !ir::IsBool(op->a.dtype())) return {};
  Value a = Evaluate(op->a);
  Value b = Evaluate(op->b);
  // The sum is a descriptor and the offset of another part of its tile.
  if (op->Op() == BinaryOp::kAdd && a.IsAddress()) return a;
  if (op->Op() == BinaryOp::kAdd && b.IsAddress()) return b;
  if (!a.IsNumber() || !b.IsNumber()) return {};
  auto result = ir::FoldInt(op->Op(), op->a.dtype(), a.number, b.number);
  if (!result) return {};
  return Value::Number(ir::IsComparison(op->Op()) ? *result : ir::Wrap(op->dtype, *result));
}

Value Environment::Unary(const ir::UnaryNode* op) const {
  Value a = Evaluate(op->a);
  if (!a.IsNumber()) return {};
  switch (op->Op()) {
    case ir::UnaryOp::kNeg:
      return Value::Number(ir::Wrap(op->dtype, -a.number));
    case ir::UnaryOp::kNot:
      return Value::Number(a.number == 0);
    case ir::UnaryOp::kBitNot:
      return Value::Number(ir::Wrap(op->dtype, ~a.number));
  }
  return {};
}

Value Environment::Load(const ir::LoadNode* op) const {
  if (op->buffer.get() == base_) return Value::Number(0);
  if (!op->buffer.IsLocal()) return LoadShared(op);
  Value index = Evaluate(op->indices[0]);
  if (!index.IsNumber()) return {};
  auto it = elements_.find({op->buffer.get(), index.number});
  return it == elements_.end() ? Value() : it->second;
}

Value Environment::LoadShared(const ir::LoadNode* op) const {
  constexpr uint64_t kMost = 16;
  if (op->buffer->attrs.count(ir::kTileNumbers) != 0) return Value::Number(tile_);
  if (!ir::IsIntegral(op->dtype) && !ir::IsBool(op->dtype)) return {};
  Value index = Evaluate(op->indices[0]);
  if (!index.IsNumber()) return {};
  uint64_t number = Arbitrary(HashName(op->buffer->name), static_cast<uint64_t>(index.number));
  return Value::Number(static_cast<int64_t>(number % (ir::IsBool(op->dtype) ? 2 : kMost)));
}

Value Environment::Call(const ir::CallNode* op) const {
  std::string_view name(op->name.data(), op->name.size());
  if (op->Is(ir::Builtin::kElectOne)) return Value::Number(elected_);
  if (op->Is(ir::Builtin::kAddressOf)) {
    const auto* load = op->args[0].as<ir::LoadNode>();
    Value index = Evaluate(load->indices[0]);
    return index.IsNumber() ? Value::Address(load->buffer.get(), index.number) : Value();
  }
  // A shuffle gives the value of its operand, because programs shuffle indices that all lanes of a
  // warp share.
  if (op->Is(ir::Builtin::kShuffle) || name == "tl::matrix_descriptor")
    return Evaluate(op->args[0]);
  if (name == "tl::warpgroup_index") {
    Value thread = Evaluate(op->args[0]);
    return thread.IsNumber() ? Value::Number(thread.number / kWarpgroup) : Value();
  }
  return {};
}

}  // namespace tilelang::verify
