#include "emulator/algebra/rule.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "emulator/instructions/mma_kind.h"
#include "emulator/isa/row.h"

namespace tilelang::emulator {
namespace {

// The components of an opcode.
class OpcodeParts {
 public:
  explicit OpcodeParts(std::string_view text) {
    while (!text.empty()) {
      const size_t dot = text.find('.');
      parts_.push_back(text.substr(0, dot));
      text = dot == std::string_view::npos ? "" : text.substr(dot + 1);
    }
    for (std::string_view part : parts_) {
      const Type type = ParseType(part);
      if (type != Type::kNone) types_.push_back(type);
    }
  }
  std::string_view base() const { return parts_.front(); }
  bool Has(std::string_view name) const {
    return std::find(parts_.begin() + 1, parts_.end(), name) != parts_.end();
  }
  bool StartsWith(std::string_view prefix) const {
    return std::any_of(parts_.begin() + 1, parts_.end(),
                       [&](std::string_view part) { return part.starts_with(prefix); });
  }
  Type type(size_t i) const { return i < types_.size() ? types_[i] : Type::kNone; }
  int vector() const { return Has("v8") ? 8 : Has("v4") ? 4 : Has("v2") ? 2 : 1; }
  Space space() const {
    if (StartsWith("global")) return Space::kGlobal;
    if (StartsWith("shared")) return Space::kShared;
    if (StartsWith("local")) return Space::kLocal;
    if (StartsWith("param")) return Space::kParam;
    return StartsWith("const") ? Space::kConst : Space::kGeneric;
  }

 private:
  std::vector<std::string_view> parts_;
  std::vector<Type> types_;
};

const std::map<std::string_view, FloatOperation> kFloatOperations = {
    {"add", FloatOperation::kAdd},   {"sub", FloatOperation::kSub},
    {"mul", FloatOperation::kMul},   {"fma", FloatOperation::kFma},
    {"mad", FloatOperation::kFma},   {"div", FloatOperation::kDiv},
    {"min", FloatOperation::kMin},   {"max", FloatOperation::kMax},
    {"neg", FloatOperation::kNeg},   {"abs", FloatOperation::kAbs},
    {"rcp", FloatOperation::kRcp},   {"copysign", FloatOperation::kCopysign},
    {"sqrt", FloatOperation::kSqrt}, {"rsqrt", FloatOperation::kRsqrt},
    {"ex2", FloatOperation::kEx2},   {"lg2", FloatOperation::kLg2},
    {"tanh", FloatOperation::kTanh}, {"sin", FloatOperation::kSin},
    {"cos", FloatOperation::kCos},
};

const std::map<std::string_view, RuleKind> kMoves = {
    {"prmt", RuleKind::kPermute},
    {"and", RuleKind::kMask},
    {"or", RuleKind::kMask},
    {"xor", RuleKind::kMask},
    {"shl", RuleKind::kShift},
    {"shr", RuleKind::kShift},
    {"add", RuleKind::kAddBits},
    {"sub", RuleKind::kAddBits},
    {"selp", RuleKind::kSelect},
    {"slct", RuleKind::kSelectSign},
    {"ldmatrix", RuleKind::kLoadMatrix},
    {"stmatrix", RuleKind::kStoreMatrix},
    {"movmatrix", RuleKind::kTransposeMatrix},
};

bool Moves(RuleKind kind, Type type) {
  if (kind == RuleKind::kAddBits) return type == Type::kS32 || type == Type::kU32;
  return type != Type::kPred;
}

bool IsFollowedByEngines(const isa::Row& row) {
  return row.cost == isa::Cost::kTensorLoad || row.cost == isa::Cost::kWgmma;
}

void FloatRule(const Op& op, const OpcodeParts& spelling, ElementRule& rule) {
  rule.kind = RuleKind::kFloat;
  rule.type = spelling.type(0);
  rule.source = spelling.type(1) == Type::kNone ? rule.type : spelling.type(1);
  rule.operands = static_cast<uint8_t>(op.slot_count - 1);
  rule.saturates = spelling.Has("sat");
  rule.positive = spelling.Has("relu");
  rule.absolute = spelling.Has("abs");
  rule.xors_signs = spelling.Has("xorsign");
}

void ConvertRule(const OpcodeParts& spelling, ElementRule& rule) {
  rule.type = spelling.type(0);
  rule.source = spelling.type(1);
  const bool integers = !IsFloat(rule.type) && !IsFloat(rule.source);
  if (integers && !spelling.Has("sat")) rule.kind = RuleKind::kResize;
  const FloatFormatOf to = FloatFormatOfType(rule.type), from = FloatFormatOfType(rule.source);
  const bool rounds =
      spelling.Has("rni") || spelling.Has("rzi") || spelling.Has("rmi") || spelling.Has("rpi");
  if (to.bytes == 0 || from.bytes == 0 || rounds || spelling.StartsWith("scaled")) return;
  rule.kind = RuleKind::kConvert;
  rule.saturates = spelling.Has("sat");
  rule.positive = spelling.Has("relu");
  rule.narrows = to.bytes < from.bytes;
}

void MemoryRule(const Kernel& kernel, const Op& op, const OpcodeParts& spelling,
                ElementRule& rule) {
  const SourceLine& source = kernel.sources[op.source];
  rule.type = spelling.type(0);
  rule.vector = static_cast<uint8_t>(spelling.vector());
  rule.space = spelling.space();
  if (spelling.base() == "st" && spelling.Has("bulk")) {
    rule.kind = RuleKind::kZeroMemory;
  } else if (spelling.base() == "st") {
    rule.kind = spelling.Has("async") ? RuleKind::kNothing : RuleKind::kStore;
  } else {
    const bool parameter = rule.space == Space::kParam && !source.use.addresses.empty() &&
                           source.use.addresses[0].symbol_space == Space::kParam;
    rule.kind = parameter ? RuleKind::kParameter : RuleKind::kLoad;
  }
  if (!source.use.addresses.empty() && source.use.addresses[0].symbol_space == Space::kLocal) {
    rule.space = Space::kLocal;
  }
}

void MoveRule(const Kernel& kernel, const Op& op, const OpcodeParts& spelling, ElementRule& rule) {
  rule.type = spelling.type(0);
  if (rule.type == Type::kPred) return;
  rule.vector = static_cast<uint8_t>(op.flags);
  if (spelling.vector() > 1) {
    rule.kind = RuleKind::kElements;
  } else if (op.flags > 1) {
    const std::vector<uint32_t>& writes = kernel.sources[op.source].use.writes;
    const bool packs = writes.size() == 1 && writes[0] == op.slots[0];
    rule.kind = packs ? RuleKind::kPack : RuleKind::kUnpack;
  } else {
    rule.kind = RuleKind::kMove;
  }
}

ElementRule RuleOf(const Kernel& kernel, const Op& op) {
  const SourceLine& source = kernel.sources[op.source];
  const OpcodeParts spelling(source.spelling);
  ElementRule rule;
  if (IsFollowedByEngines(*source.row)) return rule;
  rule.kind = source.use.writes.empty() ? RuleKind::kNothing : RuleKind::kBits;
  const std::string_view base = spelling.base();
  if (base == "ld" || base == "ldu" || base == "st") {
    MemoryRule(kernel, op, spelling, rule);
  } else if (base == "atom" || base == "red") {
    if (spelling.Has("async")) return rule;
    rule.kind = RuleKind::kAtomic;
    rule.type = spelling.type(0);
    rule.vector = static_cast<uint8_t>(spelling.vector());
    rule.space = spelling.space();
    rule.returns = base == "atom";
    const auto found = kFloatOperations.find(spelling.Has("add")   ? "add"
                                             : spelling.Has("min") ? "min"
                                             : spelling.Has("max") ? "max"
                                                                   : "");
    if (found != kFloatOperations.end()) rule.operation = found->second;
    if (!IsFloat(rule.type)) rule.operation = FloatOperation::kNone;
  } else if (base == "mma" && (op.flags == kHasMmaForm || op.flags == kHasMmaKind)) {
    rule.kind = RuleKind::kMma;
  } else if (base == "mov" && !source.use.writes.empty()) {
    MoveRule(kernel, op, spelling, rule);
  } else if (base == "cvt" && !spelling.Has("pack")) {
    ConvertRule(spelling, rule);
  } else if (base == "shfl") {
    rule.kind = RuleKind::kShuffle;
  } else if (base == "redux" && spelling.type(0) == Type::kF32) {
    FloatRule(op, spelling, rule);
    rule.kind = RuleKind::kReduce;
    rule.operation = spelling.Has("max") ? FloatOperation::kMax : FloatOperation::kMin;
  } else if (const auto move = kMoves.find(base);
             move != kMoves.end() && Moves(move->second, spelling.type(0))) {
    rule.kind = move->second;
    rule.type = spelling.type(0);
    rule.left = base == "shl" || base == "add";
    rule.transposed = spelling.Has("trans");
    rule.space = Space::kShared;
    rule.vector = spelling.Has("x4") ? 4 : spelling.Has("x2") ? 2 : 1;
    const bool plain = spelling.Has("m8n8") && spelling.Has("b16");
    const bool matrix = base.ends_with("matrix");
    if (matrix && !plain) rule.kind = RuleKind::kBits;
  } else if (const auto found = kFloatOperations.find(base);
             found != kFloatOperations.end() && FloatFormatOfType(spelling.type(0)).bytes != 0) {
    rule.operation = found->second;
    FloatRule(op, spelling, rule);
  }
  return rule;
}

}  // namespace

std::vector<ElementRule> RulesOf(const Kernel& kernel) {
  std::vector<ElementRule> rules;
  rules.reserve(kernel.code.size());
  for (const Op& op : kernel.code) rules.push_back(RuleOf(kernel, op));
  return rules;
}

}  // namespace tilelang::emulator
