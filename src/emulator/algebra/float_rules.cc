// Arithmetic and casts of floats in registers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/algebra/element_rows.h"
#include "emulator/algebra/warp_values.h"

namespace tilelang::emulator {
namespace {

constexpr int kMostOperands = 3;
constexpr int kMostElements = 2 * kLanes;  // of a register

// exp2 of numbers below this is zero: programs mask by large negative numbers.
constexpr double kMaskBelow = -10000;

const uint8_t* HostOf(const Warp& warp, size_t place) { return warp.Reg<uint8_t>(0) + place; }

Element Exponential(double argument, const Element& element) {
  return argument < kMaskBelow ? kUnknownElement : Exp2(element);
}

// tanh of numbers from here on is 1 in f32.
constexpr double kTanhIsOne = 0x1.205968p+3;

Element HyperbolicTangent(double argument, const Element& element) {
  if (std::fabs(argument) >= kTanhIsOne) return ElementOfFloat(argument < 0 ? -1 : 1);
  return Tanh(element);
}

// Returns whether the test holds for a bit pattern of `values`. It runs without branches.
template <typename Test>
bool AnyBits(const float* values, int count, Test test) {
  uint32_t found = 0;
  for (int i = 0; i < count; ++i) found |= test(std::bit_cast<uint32_t>(values[i])) ? 1 : 0;
  return found != 0;
}

// A sum with a number from 2^23 to 2^24 is rounded to an integer: the float itself is what is
// meant.
bool RoundsToInteger(uint32_t bits) { return (bits & 0x7F800000) == 0x4B000000; }

// Functions that programs compute by a polynomial in Horner's form.
enum class Polynomial : uint8_t {
  kExp2,   // of 3 to 5 degrees in tl_templates/cuda/math.h, and of 3 in FlashAttention-4
  kLog1p,  // logf of libdevice
  kTanh,   // tanhf of libdevice
  kLog2,   // log2f of libdevice
  // tanh of tl_templates/cuda/math.h, x * numerator / denominator.
  kTanhNumerator,
  kTanhDenominator,
  kNone,
};
constexpr int kPolynomials = 6;

// Returns the function whose polynomial has a step that adds this coefficient.
Polynomial PolynomialOf(uint32_t addend) {
  if (addend == std::bit_cast<uint32_t>(0.6932829022407532F) ||
      addend == std::bit_cast<uint32_t>(0.6931240751717163F) ||
      addend == std::bit_cast<uint32_t>(0.6931470036506653F) ||
      addend == std::bit_cast<uint32_t>(0.6951461434364319F)) {
    return Polynomial::kExp2;
  }
  if (addend == std::bit_cast<uint32_t>(0x1.2073ecp-3F)) return Polynomial::kLog1p;
  if (addend == 0xBE2C7F30) return Polynomial::kLog2;
  if (addend == std::bit_cast<uint32_t>(2.0647425117203966e-05F)) return Polynomial::kTanhNumerator;
  if (addend == std::bit_cast<uint32_t>(0.0003289667365606874F)) {
    return Polynomial::kTanhDenominator;
  }
  const bool tanh = addend == std::bit_cast<uint32_t>(-0x1.ac795cp-5F);
  return tanh ? Polynomial::kTanh : Polynomial::kNone;
}

// The values of unfinished polynomials.
const std::array<Element, kPolynomials>& Unfinished() {
  static const std::array<Element, kPolynomials> elements = {
      Hash(5, ElementOfFloat(1)), Hash(6, ElementOfFloat(1)), Hash(7, ElementOfFloat(1)),
      Hash(8, ElementOfFloat(1)), Hash(9, ElementOfFloat(1)), Hash(10, ElementOfFloat(1))};
  return elements;
}

Polynomial UnfinishedOf(const Element& element) {
  size_t i = 0;
  for (const Element& each : Unfinished()) {
    if (std::memcmp(&element, &each, sizeof element) == 0) break;
    ++i;
  }
  return static_cast<Polynomial>(i);
}

// A step a * b + c, where a is an unfinished polynomial.
Element NextStep(Polynomial polynomial, const Element& a, const Element& b, double b_value,
                 double c_value, bool same) {
  if (polynomial == Polynomial::kExp2) return c_value == 1 ? Exponential(b_value, b) : a;
  if (polynomial == Polynomial::kTanhNumerator) return a;
  if (polynomial == Polynomial::kTanhDenominator) return c_value == 1 ? ElementOfFloat(1) : a;
  if (!same || polynomial == Polynomial::kLog2) return a;
  if (polynomial == Polynomial::kTanh) return Tanh(b);
  return Multiply(Log2(Add(b, ElementOfFloat(1))), ElementOfConstant(M_LN2));
}

// The product of an unfinished polynomial `a` and b.
Element Product(Polynomial polynomial, const Element& a, const Element& b, double b_value) {
  return polynomial == Polynomial::kTanhNumerator ? HyperbolicTangent(b_value, b) : a;
}

Element Signed(bool negative, bool wanted, const Element& element) {
  return negative == wanted ? element : Negate(element);
}

}  // namespace

// The operands of arithmetic: an element for each lane, and each part of a packed register.
struct FloatOperands {
  const Element* row[kMostOperands];
  const uint8_t* host[kMostOperands];  // of the first lane
  size_t stride[kMostOperands];        // from lane to lane
  FloatFormatOf format;                // of the result
  int count;                           // of elements

  double Value(int operand, int i) const {
    const int lane = i / format.count, part = i % format.count;
    return FloatOfBits(format.type, host[operand] + static_cast<size_t>(lane) * stride[operand] +
                                        static_cast<size_t>(part * format.bytes));
  }
  const float* Singles(int operand) const { return reinterpret_cast<const float*>(host[operand]); }
};

namespace {

// The largest or smallest of numbers, whatever their order.
class Choice {
 public:
  explicit Choice(const ElementRule& rule) : rule_(rule) {}
  void Take(const Element& element, double own) {
    const double value = rule_.absolute ? std::fabs(own) : own;
    negative_ ^= rule_.xors_signs && std::signbit(own);
    const bool largest = rule_.operation == FloatOperation::kMax;
    const bool further = largest ? value > value_ : value < value_;
    const bool before = value == value_ && ElementBefore(element, element_);
    if (!std::isnan(value_) && !further && !before) return;
    element_ = element;
    value_ = value;
    taken_negative_ = std::signbit(own);
  }
  Element Taken() const {
    return rule_.absolute && taken_negative_ != negative_ ? Negate(element_) : element_;
  }

 private:
  const ElementRule& rule_;
  Element element_ = kUnknownElement;
  double value_ = NAN;
  bool negative_ = false, taken_negative_ = false;
};

// Calls each(i) for the elements of lanes.
template <typename Each>
void ForEachElement(uint32_t lanes, int parts, Each each) {
  ForEachLane(lanes, [&](int lane) {
    for (int part = 0; part < parts; ++part) each(lane * parts + part);
  });
}

// Chooses the same one of equal operands in whatever order they come.
void Extreme(const FloatOperands& operands, const ElementRule& rule, uint32_t lanes,
             Element* results) {
  ForEachElement(lanes, operands.format.count, [&](int i) {
    Choice choice(rule);
    for (int k = 0; k < rule.operands; ++k) choice.Take(operands.row[k][i], operands.Value(k, i));
    results[i] = choice.Taken();
  });
}

// The function of an operation with one operand.
Element Unary(FloatOperation operation, const Element& a, double value) {
  switch (operation) {
    case FloatOperation::kNeg:
      return Negate(a);
    case FloatOperation::kAbs:
      return Signed(std::signbit(value), false, a);
    case FloatOperation::kRcp:
      return Invert(a);
    case FloatOperation::kSqrt:
      return Sqrt(a);
    case FloatOperation::kRsqrt:
      return Rsqrt(a);
    case FloatOperation::kEx2:
      return Exponential(value, a);
    case FloatOperation::kLg2:
      return Log2(a);
    case FloatOperation::kTanh:
      return HyperbolicTangent(value, a);
    case FloatOperation::kSin:
      return Sine(a);
    case FloatOperation::kCos:
      return Cosine(a);
    default:
      return kUnknownElement;
  }
}

// Lanes often hold the same number, such as the sum of a row.
void UnaryRow(const FloatOperands& operands, FloatOperation operation, uint32_t lanes,
              Element* results) {
  if (operation == FloatOperation::kRcp) return InvertRow(operands.row[0], operands.count, results);
  int last = -1;
  double last_value = 0;
  ForEachElement(lanes, operands.format.count, [&](int i) {
    const Element& a = operands.row[0][i];
    const double value = operands.Value(0, i);
    const bool again = last >= 0 && value == last_value &&
                       std::signbit(value) == std::signbit(last_value) &&
                       std::memcmp(&a, &operands.row[0][last], sizeof a) == 0;
    results[i] = again ? results[last] : Unary(operation, a, value);
    last = i;
    last_value = value;
  });
}

}  // namespace

const Element* WarpValues::ReadRow(const Warp& warp, uint32_t slot, const FloatFormatOf& format,
                                   Element* buffer) const {
  const int count = kLanes * format.count;
  if (format.bytes == 4 && BytesOf(slot) == 4 * format.count) {
    if (!tagged_[slot / 32]) {
      ElementsOfFloats(warp.Reg<float>(slot), count, buffer);
      return buffer;
    }
    if (const Element* row = registers_.Singles(slot, count)) return row;
  }
  for (int i = 0; i < count; ++i) {
    const int lane = i / format.count, part = i % format.count;
    buffer[i] = Read(warp, slot, lane, part * format.bytes, format.type);
  }
  return buffer;
}

namespace {

// Sums, products and quotients.
void LinearRow(const FloatOperands& operands, FloatOperation operation, Element* results) {
  thread_local Element scratch[kMostElements];
  const int count = operands.count;
  const Element *a = operands.row[0], *b = operands.row[1];
  switch (operation) {
    case FloatOperation::kAdd:
      return AddRow(a, b, count, results);
    case FloatOperation::kSub:
      NegateRow(b, count, scratch);
      return AddRow(a, scratch, count, results);
    case FloatOperation::kFma:
      MultiplyRow(a, b, count, scratch);
      return AddRow(scratch, operands.row[2], count, results);
    default:
      return MultiplyRow(a, b, count, results);
  }
}

}  // namespace

// Sums that round to integers, and steps of polynomials, are none of the field.
void WarpValues::ReplaceSums(const Op& op, const ElementRule& rule, const FloatOperands& operands,
                             uint32_t lanes) {
  const bool fused = rule.operation == FloatOperation::kFma;
  for (int k = fused ? 2 : 0; k < (fused ? 3 : 2); ++k) {
    const float* values = operands.Singles(k);
    if (!AnyBits(values, operands.count, RoundsToInteger)) continue;
    ForEachElement(lanes, operands.format.count, [&](int i) {
      const bool rounds = RoundsToInteger(std::bit_cast<uint32_t>(values[i]));
      if (rounds && !IsTagged(op.slots[k + 1], i / operands.format.count)) {
        elements_[static_cast<size_t>(i)] = kUnknownElement;
      }
    });
  }
}

void WarpValues::ReplaceSteps(const Op& op, const ElementRule& rule, const FloatOperands& operands,
                              uint32_t lanes) {
  const bool fused = rule.operation == FloatOperation::kFma;
  const auto begins = [](uint32_t bits) { return PolynomialOf(bits) != Polynomial::kNone; };
  const bool begin = fused && AnyBits(operands.Singles(2), operands.count, begins);
  state_.has_polynomials |= begin;
  if (!state_.has_polynomials) return;
  const bool same = op.slots[2] == op.slots[3];
  ForEachElement(lanes, operands.format.count, [&](int i) {
    Element& result = elements_[static_cast<size_t>(i)];
    const Element &a = operands.row[0][i], &b = operands.row[1][i];
    const Polynomial polynomial = UnfinishedOf(a);
    if (!fused) {
      const Polynomial second = UnfinishedOf(b);
      if (polynomial != Polynomial::kNone) {
        result = Product(polynomial, a, b, operands.Value(1, i));
      } else if (second != Polynomial::kNone) {
        result = Product(second, b, a, operands.Value(0, i));
      }
      return;
    }
    const float addend = operands.Singles(2)[i];
    const Polynomial begun = PolynomialOf(std::bit_cast<uint32_t>(addend));
    if (begun != Polynomial::kNone) {
      result = Unfinished()[static_cast<size_t>(begun)];
    } else if (polynomial != Polynomial::kNone) {
      result = NextStep(polynomial, a, b, operands.Value(1, i), addend, same);
    } else if (const Polynomial second = UnfinishedOf(b); second != Polynomial::kNone) {
      result = NextStep(second, b, a, operands.Value(0, i), addend, op.slots[1] == op.slots[3]);
    } else if (UnfinishedOf(operands.row[2][i]) == Polynomial::kLog2) {
      result = Log2(Add(a, ElementOfFloat(1)));  // x * log2(e) and the rest
    }
  });
}

// The operand's reciprocals.
void WarpValues::InvertOperand(const Op& op, int operand, FloatOperands& operands, uint32_t lanes,
                               bool single, Element* inverses) const {
  if (single && IsConstant(op.slots[operand + 1])) {
    ForEachElement(lanes, operands.format.count,
                   [&](int i) { inverses[i] = ElementOfConstant(1 / operands.Value(operand, i)); });
  } else {
    InvertRow(operands.row[operand], operands.count, inverses);
  }
  operands.row[operand] = inverses;
}

void WarpValues::BeforeFloat(const Warp& warp, const Op& op, const ElementRule& rule,
                             uint32_t lanes) {
  thread_local Element buffers[kMostOperands + 1][kMostElements];
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  const FloatFormatOf source = FloatFormatOfType(rule.source);
  FloatOperands operands;
  operands.format = format;
  operands.count = kLanes * format.count;
  elements_.resize(static_cast<size_t>(operands.count));
  for (int k = 0; k < std::min<int>(rule.operands, kMostOperands); ++k) {
    // In operations of mixed precision the last operand has the type of the result.
    const bool mixed = rule.source != rule.type && k + 1 != rule.operands;
    const uint32_t slot = op.slots[k + 1];
    operands.row[k] = ReadRow(warp, slot, mixed ? source : format, buffers[k]);
    operands.host[k] = HostOf(warp, slot);
    operands.stride[k] = static_cast<size_t>(BytesOf(slot));
  }
  const bool single = format.type == Type::kF32 && rule.source == rule.type;
  Element* results = elements_.data();
  switch (rule.operation) {
    case FloatOperation::kMin:
    case FloatOperation::kMax:
      return Extreme(operands, rule, lanes, results);
    case FloatOperation::kCopysign:
      return ForEachElement(lanes, format.count, [&](int i) {
        const bool wanted = std::signbit(operands.Value(0, i));
        results[i] = Signed(std::signbit(operands.Value(1, i)), wanted, operands.row[1][i]);
      });
    case FloatOperation::kDiv:
      InvertOperand(op, 1, operands, lanes, single, buffers[kMostOperands]);
      return LinearRow(operands, rule.operation, results);
    case FloatOperation::kAdd:
    case FloatOperation::kSub:
    case FloatOperation::kMul:
    case FloatOperation::kFma:
      LinearRow(operands, rule.operation, results);
      break;
    default:
      return UnaryRow(operands, rule.operation, lanes, results);
  }
  const bool adds = rule.operation != FloatOperation::kMul;
  const bool steps =
      rule.operation == FloatOperation::kMul || rule.operation == FloatOperation::kFma;
  if (single && steps) ReplaceSteps(op, rule, operands, lanes);
  if (single && adds) ReplaceSums(op, rule, operands, lanes);
}

// redux.sync: every lane gets the extreme of those in the mask.
void WarpValues::BeforeReduce(const Warp& warp, const Op& op, const ElementRule& rule,
                              uint32_t lanes) {
  thread_local Element buffer[kLanes];
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  const Element* row = ReadRow(warp, op.slots[1], format, buffer);
  const float* values = warp.Reg<float>(op.slots[1]);
  elements_.resize(kLanes);
  ForEachLane(lanes, [&](int lane) {
    Choice choice(rule);
    ForEachLane(warp.Reg<uint32_t>(op.slots[2])[lane],
                [&](int other) { choice.Take(row[other], values[other]); });
    elements_[static_cast<size_t>(lane)] = choice.Taken();
  });
}

// Reads elements of one register, or of two, of which the first becomes the upper element.
void WarpValues::BeforeConvert(const Warp& warp, const Op& op, const ElementRule& rule,
                               uint32_t lanes) {
  const FloatFormatOf to = FloatFormatOfType(rule.type), from = FloatFormatOfType(rule.source);
  elements_.resize(static_cast<size_t>(kLanes * to.count));
  const bool pair = to.count == 2 && from.count == 1;
  ForEachLane(lanes, [&](int lane) {
    for (int part = 0; part < to.count; ++part) {
      const uint32_t slot = pair ? op.slots[2 - part] : op.slots[1];
      const int offset = pair ? 0 : part * from.bytes;
      elements_[static_cast<size_t>(lane * to.count + part)] =
          Read(warp, slot, lane, offset, from.type);
    }
  });
  if (rule.narrows) {
    state_.Remark(RemarkKind::kPrecision, kernel_, op,
                  static_cast<uint64_t>(LanesOf(lanes) * to.count));
  }
}

void WarpValues::AfterFloat(const Warp& warp, const Op& op, const ElementRule& rule,
                            uint32_t lanes) {
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  const uint32_t slot = op.slots[0];
  const int count = kLanes * format.count;
  const bool clamps = rule.saturates || rule.positive;
  const bool dense = format.bytes == 4 && BytesOf(slot) == 4 * format.count;
  const auto known = [](const Element& element) { return element.known(); };
  if (dense && lanes == kAllLanes && !clamps &&
      std::all_of(elements_.begin(), elements_.begin() + count, known)) {
    tagged_[slot / 32] = 1;
    return registers_.SetSingles(slot, count, elements_.data());
  }
  ForEachElement(lanes, format.count, [&](int i) {
    Element element = elements_[static_cast<size_t>(i)];
    const int lane = i / format.count, offset = i % format.count * format.bytes;
    if (clamps) {
      const uint8_t* host = HostOf(warp, Place(slot, lane) + static_cast<size_t>(offset));
      const double value = FloatOfBits(format.type, host);
      if (value == 0 || (rule.saturates && value == 1)) element = kUnknownElement;
    }
    Write(slot, lane, offset, format.type, element);
  });
}

}  // namespace tilelang::emulator
