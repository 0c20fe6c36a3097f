#include "emulator/algebra/state.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "emulator/algebra/warp_values.h"
#include "emulator/base/json.h"
#include "emulator/core/report.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

template <typename Word>
Word WordAt(const uint8_t* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

double FloatOfBits(Type type, const uint8_t* bits) {
  switch (type) {
    case Type::kF16:
      return F16ToF32(WordAt<uint16_t>(bits));
    case Type::kBF16:
      return Bf16ToF32(WordAt<uint16_t>(bits));
    case Type::kF64:
      return WordAt<double>(bits);
    case Type::kE4M3:
      return DecodeFloat(kE4m3, *bits);
    case Type::kE5M2:
      return DecodeFloat(kE5m2, *bits);
    default:
      return WordAt<float>(bits);
  }
}

Element ElementOfBits(Type type, const uint8_t* bits) {
  const double value = FloatOfBits(type, bits);
  return type == Type::kF64 ? ElementOf(value) : ElementOfFloat(static_cast<float>(value));
}

std::unique_ptr<RegisterChecks> AlgebraState::MakeWarpValues(const Warp& warp) {
  return std::make_unique<WarpValues>(*this, warp);
}

const std::vector<ElementRule>& AlgebraState::RulesFor(const Kernel& kernel) {
  std::vector<ElementRule>& rules = rules_[&kernel];
  if (rules.empty()) rules = RulesOf(kernel);
  return rules;
}

void AlgebraState::Remark(RemarkKind kind, const Kernel& kernel, const Op& op, uint64_t count) {
  AlgebraRemark*& known = by_op_[{kind, &op}];
  if (!known) {
    const SourceLine& source = kernel.sources[op.source];
    known = &remarks_[{kind, {kernel.name, source.ptx_line}}];
    known->kind = kind;
    known->spelling = source.spelling;
    known->where = PlaceOf(kernel, static_cast<uint32_t>(&op - kernel.code.data()));
  }
  known->count += count;
}

std::string AlgebraState::DescribeRemarks() const {
  Json json;
  json.Open('[');
  for (const auto& [key, remark] : remarks_) {
    json.Open('{').Field("broken", remark.kind == RemarkKind::kBroken ? 1 : 0);
    json.Field("spelling", remark.spelling).Field("count", remark.count);
    WriteWhere(json, remark.where);
    json.Close('}');
  }
  return json.Close(']').Take();
}

void AlgebraState::BeginLaunch() {
  rules_.clear();
  by_op_.clear();
}

void AlgebraState::EndLaunch(const std::vector<HostRange>& global) {
  for (const HostRange& range : global) Keep(range);
  std::vector<HostRange> ranges;
  for (const auto& [begin, end] : kept_) ranges.push_back({begin, end});
  memory.KeepOnly(ranges);
}

void AlgebraState::Keep(HostRange range) {
  auto next = kept_.upper_bound(range.begin);
  if (next != kept_.begin() && std::prev(next)->second >= range.begin) --next;
  while (next != kept_.end() && next->first <= range.end) {
    range = {std::min(range.begin, next->first), std::max(range.end, next->second)};
    next = kept_.erase(next);
  }
  kept_.emplace(range.begin, range.end);
}

}  // namespace tilelang::emulator
