// Gives handlers of mma.sync access to the matrices that a warp's registers hold.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MMA_REGISTERS_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MMA_REGISTERS_H_

#include <string>

#include "emulator/core/machine.h"
#include "emulator/instructions/mma_form.h"

namespace tilelang::emulator {

// Calls `each(row, column, bits)` for every element that the registers hold.
template <typename Word = uint32_t, typename Each>
void ForEachElement(Warp& w, const uint32_t* slots, const Fragment& fragment, Each each) {
  const int count = fragment.per_register();
  const Word mask = static_cast<Word>(~0ull >> (64 - fragment.bits));
  for (int r = 0; r < fragment.registers(); ++r) {
    const Word* words = w.Reg<Word>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < count; ++e) {
        const Place place = fragment.At(lane, r * count + e);
        each(place.row, place.column, words[lane] >> (fragment.bits * e) & mask);
      }
    }
  }
}

// Fills the registers with the elements that `get(row, column)` returns.
template <typename Word = uint32_t, typename Get>
void SetEachElement(Warp& w, const uint32_t* slots, const Fragment& fragment, Get get) {
  const int count = fragment.per_register();
  for (int r = 0; r < fragment.registers(); ++r) {
    Word* words = w.Reg<Word>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      Word word = 0;
      for (int e = 0; e < count; ++e) {
        const Place place = fragment.At(lane, r * count + e);
        word |= static_cast<Word>(get(place.row, place.column)) << (fragment.bits * e);
      }
      words[lane] = word;
    }
  }
}

// Calls `put(row, k, place)` for the elements that a sparse A of 16 rows stores.
template <typename Put>
void ForEachPlace(Warp& w, const SparseOperand& sparse, int stored, Put put) {
  const uint32_t* words = w.Reg<uint32_t>(sparse.slot);
  const auto index_of = [&](int row, int chunk) {
    const WarpMetadata::Place at = sparse.metadata.At(row, chunk);
    return words[at.lane] >> at.shift;
  };
  const std::string problem = VisitPlaces(sparse.pattern, sparse.order, 16, stored, index_of, put);
  if (!problem.empty()) Fail(w.Here(0), "illegal-operand", problem);
}

using MmaFunction = void (*)(Warp&, const Op&);

template <MmaFunction run>
Flow Multiply(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  run(w, op);
  return Flow::kNext;
}

inline void PushRegisters(Decoder& d, size_t index, const char* name, const Fragment& fragment,
                          Type type) {
  const std::string what = std::string("registers for ") + name;
  for (const ptx::Operand* element : d.Vector(d.operand(index), fragment.registers(), what)) {
    d.Push(index == 0 ? d.Destination(*element, type) : d.Source(*element, type));
    if (index == 3) d.use.accumulators.push_back(d.slots.back());
  }
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MMA_REGISTERS_H_
