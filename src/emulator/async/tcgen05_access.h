// The registers of a warp and the cells of tensor memory that tcgen05.ld and st read and write.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_ACCESS_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_ACCESS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/algebra/element_shadow.h"
#include "emulator/async/tcgen05_layout.h"
#include "emulator/core/machine.h"
#include "emulator/memory/tensor_memory.h"

namespace tilelang::emulator {

struct AccessForm {
  AddressOperand address;
  AccessShape shape = AccessShape::k32x32b;
  int registers = 1;    // of each thread
  int columns = 1;      // from the address on, after packing
  bool packed = false;  // .pack::16b or .unpack::16b
  uint32_t half_offset = 0;
  // Cell of [register * 32 + lane] relative to the address, as lane * kStride + column; the second
  // half of 16x32bx2 is relative to its own address. With packing the first of two columns.
  std::vector<int32_t> cells;
};

// The addresses of the rectangles that an access covers, and their lanes.
struct Rectangles {
  TmemAddress first{0};
  TmemAddress second{0};  // of lanes 16..31 with 16x32bx2
  int count = 1;
};

// Index of the first cell of register `r` of `lane` in the linear order of tensor memory.
inline int32_t CellIndex(const AccessForm& form, const Rectangles& place, int r, int lane) {
  const TmemAddress base = place.count == 2 && lane >= 16 ? place.second : place.first;
  return base.lane() * TensorMemory::kStride + base.column() + form.cells[r * kLanes + lane];
}

// The cells that a store writes, by their index, and the values.
struct StoredCell {
  int32_t index = 0;
  uint32_t value = 0;
  bool undefined = false;  // the value is of a register that nothing has written
};
using Cells = std::vector<StoredCell>;

// Loads the elements of floats in the algebraic mode.
void LoadElements(Warp& w, const Op& op, const AccessForm& form, const Rectangles& place,
                  TensorMemory& tensor);
// The element of the least or greatest of so many registers, which the register after them has got,
// in each lane.
void ChooseElements(Warp& w, const Op& op, int registers, bool of_floats);
// The elements of the floats that a store takes, by the places of its cells; nullptr if there are
// none.
std::shared_ptr<ShadowBlock> ElementsOf(Warp& w, const Op& op, const AccessForm& form);
// Stores the elements when the store acts.
void StoreElements(TensorMemory& tensor, const Cells& cells, const ShadowBlock* elements);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_ACCESS_H_
