#include "emulator/async/reduce.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/algebra/state.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"add", "min", "max", "inc",
                                                    "dec", "and", "or",  "xor"};

struct TypePair {
  Type type;
  TensorType element;
};

constexpr std::array<TypePair, 10> kTypePairs = {{
    {Type::kU32, TensorType::kU32},
    {Type::kB32, TensorType::kU32},
    {Type::kS32, TensorType::kS32},
    {Type::kU64, TensorType::kU64},
    {Type::kB64, TensorType::kU64},
    {Type::kS64, TensorType::kS64},
    {Type::kF16, TensorType::kF16},
    {Type::kBF16, TensorType::kBf16},
    {Type::kF32, TensorType::kF32},
    {Type::kF64, TensorType::kF64},
}};

template <typename T>
T CombineInteger(ReduceOp op, T old, T value) {
  switch (op) {
    case ReduceOp::kAdd:
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(value));
    case ReduceOp::kMin:
      return std::min(old, value);
    case ReduceOp::kMax:
      return std::max(old, value);
    case ReduceOp::kInc:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case ReduceOp::kDec:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case ReduceOp::kAnd:
      return static_cast<T>(old & value);
    case ReduceOp::kOr:
      return static_cast<T>(old | value);
    case ReduceOp::kXor:
      return static_cast<T>(old ^ value);
  }
  return old;
}

// The exact sum of two f16, bf16 or f32 values fits the rounding to odd of a double.
double CombineFloat(ReduceOp op, double old, double value) {
  if (op == ReduceOp::kMin) return std::fmin(old, value);
  if (op == ReduceOp::kMax) return std::fmax(old, value);
  return AddToOdd(old, value);
}

float MaybeFlush(float value, bool flush) { return flush ? FlushSubnormal(value) : value; }

template <typename Word, typename Combine>
void Apply(const uint8_t* source, uint8_t* destination, uint32_t bytes, Combine combine) {
  for (uint32_t at = 0; at + sizeof(Word) <= bytes; at += sizeof(Word)) {
    Word value;
    std::memcpy(&value, source + at, sizeof value);
    std::atomic_ref<Word> cell(*reinterpret_cast<Word*>(destination + at));
    Word old = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(old, combine(old, value), std::memory_order_relaxed)) {
    }
  }
}

template <typename Word, typename Value>
void ApplyInteger(ReduceOp op, const uint8_t* source, uint8_t* destination, uint32_t bytes) {
  Apply<Word>(source, destination, bytes, [op](Word old, Word value) {
    return static_cast<Word>(
        CombineInteger<Value>(op, static_cast<Value>(old), static_cast<Value>(value)));
  });
}

void ApplyHalf(ReduceOp op, const FloatFormat& format, const uint8_t* source, uint8_t* destination,
               uint32_t bytes) {
  Apply<uint16_t>(source, destination, bytes, [&](uint16_t old, uint16_t value) {
    const double result = CombineFloat(op, DecodeFloat(format, old), DecodeFloat(format, value));
    return static_cast<uint16_t>(EncodeFloat(format, result, Rounding::kNearestEven, false));
  });
}

Type FloatOf(TensorType type) {
  switch (type) {
    case TensorType::kF16:
      return Type::kF16;
    case TensorType::kBf16:
      return Type::kBF16;
    case TensorType::kF32:
    case TensorType::kF32Ftz:
      return Type::kF32;
    default:
      return type == TensorType::kF64 ? Type::kF64 : Type::kNone;
  }
}

// Reduces the elements of the algebraic mode. Must be called before the bytes change.
void ReduceElements(ReduceOp op, TensorType type, const uint8_t* source, uint8_t* destination,
                    uint32_t bytes) {
  ShadowMemory& memory = AlgebraState::Current()->memory;
  const Type of = op == ReduceOp::kAdd ? FloatOf(type) : Type::kNone;
  if (of == Type::kNone) return memory.Clear(destination, bytes);
  const int size = FloatFormatOfType(of).bytes;
  for (uint32_t at = 0; at + static_cast<uint32_t>(size) <= bytes;
       at += static_cast<uint32_t>(size)) {
    Element old, value;
    if (!memory.Get(destination + at, size, &old)) old = ElementOfBits(of, destination + at);
    if (!memory.Get(source + at, size, &value)) value = ElementOfBits(of, source + at);
    const Element sum = Add(old, value);
    memory.Clear(destination + at, static_cast<size_t>(size));
    if (sum.known()) memory.Set(destination + at, size, sum);
  }
}

}  // namespace

std::optional<ReduceOp> ParseReduceOp(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ReduceOp>(found - kNames.begin());
}

std::optional<TensorType> ReduceTypeOf(Type type) {
  for (const TypePair& pair : kTypePairs) {
    if (pair.type == type) return pair.element;
  }
  return std::nullopt;
}

bool ReduceExists(ReduceOp op, TensorType type) {
  switch (type) {
    case TensorType::kU32:
      return true;
    case TensorType::kS32:
    case TensorType::kU64:
    case TensorType::kS64:
      return op != ReduceOp::kInc && op != ReduceOp::kDec;
    case TensorType::kF16:
    case TensorType::kBf16:
      return op == ReduceOp::kAdd || op == ReduceOp::kMin || op == ReduceOp::kMax;
    case TensorType::kF32:
    case TensorType::kF32Ftz:
    case TensorType::kF64:
      return op == ReduceOp::kAdd;
    default:
      return false;
  }
}

bool Commutes(ReduceOp op, TensorType type) {
  if (op == ReduceOp::kInc || op == ReduceOp::kDec) return false;
  return op != ReduceOp::kAdd || !IsFloatTensor(type);
}

void Reduce(ReduceOp op, TensorType type, const uint8_t* source, uint8_t* destination,
            uint32_t bytes, bool flush) {
  if (current_algebra) ReduceElements(op, type, source, destination, bytes);
  switch (type) {
    case TensorType::kS32:
      return ApplyInteger<uint32_t, int32_t>(op, source, destination, bytes);
    case TensorType::kU64:
      return ApplyInteger<uint64_t, uint64_t>(op, source, destination, bytes);
    case TensorType::kS64:
      return ApplyInteger<uint64_t, int64_t>(op, source, destination, bytes);
    case TensorType::kF16:
      return ApplyHalf(op, kF16, source, destination, bytes);
    case TensorType::kBf16:
      return ApplyHalf(op, kBf16, source, destination, bytes);
    case TensorType::kF32:
    case TensorType::kF32Ftz:
      return Apply<uint32_t>(source, destination, bytes, [&](uint32_t old, uint32_t value) {
        const float sum = MaybeFlush(std::bit_cast<float>(old), flush) +
                          MaybeFlush(std::bit_cast<float>(value), flush);
        return std::bit_cast<uint32_t>(MaybeFlush(sum, flush));
      });
    case TensorType::kF64:
      return Apply<uint64_t>(source, destination, bytes, [](uint64_t old, uint64_t value) {
        return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(value));
      });
    default:
      return ApplyInteger<uint32_t, uint32_t>(op, source, destination, bytes);
  }
}

}  // namespace tilelang::emulator
