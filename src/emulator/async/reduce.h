// Element-wise reductions of bulk copies to memory.
#ifndef TILELANG_EMULATOR_ASYNC_REDUCE_H_
#define TILELANG_EMULATOR_ASYNC_REDUCE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "emulator/async/tensor_map.h"
#include "emulator/base/types.h"

namespace tilelang::emulator {

enum class ReduceOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

std::optional<ReduceOp> ParseReduceOp(std::string_view name);
// The elements that a reduction of this PTX type works on; none for other types.
std::optional<TensorType> ReduceTypeOf(Type type);
// Returns whether PTX has this operation on this element type.
bool ReduceExists(ReduceOp op, TensorType type);

// Returns whether memory is the same after reductions in any order. It is not after sums that
// round, or with counters of different bounds.
bool Commutes(ReduceOp op, TensorType type);

// destination[i] = destination[i] op source[i] for every element, each atomically. `flush` makes
// f32 subnormals zero.
void Reduce(ReduceOp op, TensorType type, const uint8_t* source, uint8_t* destination,
            uint32_t bytes, bool flush);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_REDUCE_H_
