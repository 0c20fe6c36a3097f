// Arithmetic and casts of floats in registers.
#include <cmath>
#include <cstring>

#include "emulator/algebra/warp_values.h"

namespace tilelang::emulator {
namespace {

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

// A sum with a number so large is rounded to an integer: the float itself is what is meant.
bool RoundsToInteger(double addend) {
  return std::fabs(addend) >= 0x1p23 && std::fabs(addend) < 0x1p24;
}

// Functions that programs compute by a polynomial in Horner's form.
enum class Polynomial : uint8_t {
  kExp2,   // of 3 to 5 degrees in tl_templates/cuda/math.h
  kLog1p,  // logf of libdevice
  kTanh,   // tanhf of libdevice
  kNone,
};
constexpr int kPolynomials = 3;

// Returns the function whose polynomial has a step that adds this coefficient.
Polynomial PolynomialOf(double addend) {
  if (addend == 0.6932829022407532F || addend == 0.6931240751717163F ||
      addend == 0.6931470036506653F) {
    return Polynomial::kExp2;
  }
  if (addend == 0x1.2073ecp-3F) return Polynomial::kLog1p;
  return addend == -0x1.ac795cp-5F ? Polynomial::kTanh : Polynomial::kNone;
}

// The value of an unfinished polynomial.
const Element& Unfinished(Polynomial polynomial) {
  static const Element elements[kPolynomials] = {
      Hash(5, ElementOfFloat(1)), Hash(6, ElementOfFloat(1)), Hash(7, ElementOfFloat(1))};
  return elements[static_cast<int>(polynomial)];
}

Polynomial UnfinishedOf(const Element& element) {
  for (int i = 0; i < kPolynomials; ++i) {
    const auto polynomial = static_cast<Polynomial>(i);
    if (std::memcmp(&element, &Unfinished(polynomial), sizeof element) == 0) return polynomial;
  }
  return Polynomial::kNone;
}

// A step a * b + c, where a is an unfinished polynomial.
Element NextStep(Polynomial polynomial, const Element& a, const Element& b, double b_value,
                 double c_value, bool same) {
  if (polynomial == Polynomial::kExp2) return c_value == 1 ? Exponential(b_value, b) : a;
  if (!same) return a;
  if (polynomial == Polynomial::kTanh) return Tanh(b);
  return Multiply(Log2(Add(b, ElementOfFloat(1))), ElementOfConstant(M_LN2));
}

Element Signed(bool negative, bool wanted, const Element& element) {
  return negative == wanted ? element : Negate(element);
}

}  // namespace

// Chooses the same one of equal operands in whatever order they come.
Element WarpValues::Extreme(const Warp& warp, const Op& op, const ElementRule& rule, int lane,
                            int offset) const {
  Element best = kUnknownElement;
  double best_value = NAN;
  for (int k = 1; k <= rule.operands; ++k) {
    const size_t place = Place(op.slots[k], lane) + static_cast<size_t>(offset);
    const double value = FloatOfBits(rule.type, HostOf(warp, place));
    const Element element = Read(warp, op.slots[k], lane, offset, rule.type);
    const bool further =
        rule.operation == FloatOperation::kMax ? value > best_value : value < best_value;
    const bool first = std::isnan(best_value);
    if (first || further || (value == best_value && ElementBefore(element, best))) {
      best = element;
      best_value = value;
    }
  }
  return best;
}

Element WarpValues::Result(const Warp& warp, const Op& op, const ElementRule& rule, int lane,
                           int part) const {
  const int offset = part * FloatFormatOfType(rule.type).bytes;
  // In operations of mixed precision the last operand has the type of the result.
  const auto operand = [&](int k) {
    const bool mixed = rule.source != rule.type && k != rule.operands;
    const Type type = FloatFormatOfType(mixed ? rule.source : rule.type).type;
    return Read(warp, op.slots[k], lane, mixed ? 0 : offset, type);
  };
  const auto value = [&](int k) {
    const Type type = FloatFormatOfType(rule.type).type;
    return FloatOfBits(type, HostOf(warp, Place(op.slots[k], lane) + static_cast<size_t>(offset)));
  };
  const auto rounds = [&](int k) {
    return RoundsToInteger(value(k)) && !IsTagged(op.slots[k], lane);
  };
  const bool single = FloatFormatOfType(rule.type).type == Type::kF32 && rule.source == rule.type;
  switch (rule.operation) {
    case FloatOperation::kAdd:
    case FloatOperation::kSub:
      if (single && (rounds(1) || rounds(2))) break;
      if (rule.operation == FloatOperation::kSub) return Subtract(operand(1), operand(2));
      return Add(operand(1), operand(2));
    case FloatOperation::kMul: {
      const Element a = operand(1), b = operand(2);
      if (UnfinishedOf(a) != Polynomial::kNone) return a;
      return UnfinishedOf(b) != Polynomial::kNone ? b : Multiply(a, b);
    }
    case FloatOperation::kFma:
      if (single && rounds(3)) break;
      if (single) {
        const Polynomial begun = PolynomialOf(value(3));
        if (begun != Polynomial::kNone) return Unfinished(begun);
        const Element a = operand(1), b = operand(2);
        const Polynomial polynomial = UnfinishedOf(a);
        if (polynomial == Polynomial::kNone) return Add(Multiply(a, b), operand(3));
        return NextStep(polynomial, a, b, value(2), value(3), op.slots[2] == op.slots[3]);
      }
      return Add(Multiply(operand(1), operand(2)), operand(3));
    case FloatOperation::kDiv:
      if (single && IsConstant(op.slots[2])) {
        return Multiply(operand(1), ElementOfConstant(1 / value(2)));
      }
      return Multiply(operand(1), Invert(operand(2)));
    case FloatOperation::kNeg:
      return Negate(operand(1));
    case FloatOperation::kAbs:
      return Signed(std::signbit(value(1)), false, operand(1));
    case FloatOperation::kCopysign:
      return Signed(std::signbit(value(2)), std::signbit(value(1)), operand(2));
    case FloatOperation::kRcp:
      return Invert(operand(1));
    case FloatOperation::kSqrt:
      return Sqrt(operand(1));
    case FloatOperation::kRsqrt:
      return Rsqrt(operand(1));
    case FloatOperation::kEx2:
      return Exponential(value(1), operand(1));
    case FloatOperation::kLg2:
      return Log2(operand(1));
    case FloatOperation::kTanh:
      return HyperbolicTangent(value(1), operand(1));
    case FloatOperation::kSin:
      return Sine(operand(1));
    case FloatOperation::kCos:
      return Cosine(operand(1));
    default:
      break;
  }
  return kUnknownElement;
}

void WarpValues::BeforeFloat(const Warp& warp, const Op& op, const ElementRule& rule,
                             uint32_t lanes) {
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  elements_.resize(static_cast<size_t>(kLanes * format.count));
  const bool extreme =
      rule.operation == FloatOperation::kMin || rule.operation == FloatOperation::kMax;
  ElementRule single = rule;
  single.type = format.type;
  ForEachLane(lanes, [&](int lane) {
    for (int part = 0; part < format.count; ++part) {
      Element& element = elements_[static_cast<size_t>(lane * format.count + part)];
      if (extreme) {
        element = Extreme(warp, op, single, lane, part * format.bytes);
      } else {
        element = Result(warp, op, rule, lane, part);
      }
    }
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
  ForEachLane(lanes, [&](int lane) {
    for (int part = 0; part < format.count; ++part) {
      Element element = elements_[static_cast<size_t>(lane * format.count + part)];
      const int offset = part * format.bytes;
      const uint8_t* host = HostOf(warp, Place(op.slots[0], lane) + static_cast<size_t>(offset));
      if (rule.saturates || rule.positive) {
        const double value = FloatOfBits(format.type, host);
        if (value == 0 || (rule.saturates && value == 1)) element = kUnknownElement;
      }
      Write(op.slots[0], lane, offset, format.type, element);
    }
  });
}

}  // namespace tilelang::emulator
