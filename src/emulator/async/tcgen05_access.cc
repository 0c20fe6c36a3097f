#include "emulator/async/tcgen05_access.h"

#include <cmath>

#include "emulator/algebra/warp_values.h"

namespace tilelang::emulator {

void LoadElements(Warp& w, const Op& op, const AccessForm& form, const Rectangles& place,
                  TensorMemory& tensor) {
  WarpValues& values = WarpValues::Of(w);
  const uint32_t* cells = tensor.Row(0);
  for (int r = 0; r < form.registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t* cell = cells + CellIndex(form, place, r, lane);
      values.LoadPart(op.slots[r], lane, 0, cell, form.packed ? 2 : 4);
      if (form.packed) values.LoadPart(op.slots[r], lane, 2, cell + 1, 2);
    }
  }
}

void ChooseElements(Warp& w, const Op& op, int registers, bool of_floats) {
  WarpValues& values = WarpValues::Of(w);
  const uint32_t result = op.slots[registers];
  for (int lane = 0; lane < kLanes; ++lane) {
    const float chosen = w.Reg<float>(result)[lane];
    Element best = kUnknownElement;
    for (int r = 0; of_floats && r < registers; ++r) {
      const float value = w.Reg<float>(op.slots[r])[lane];
      if (value != chosen && std::fabs(value) != chosen) continue;
      Element element = values.Read(w, op.slots[r], lane, 0, Type::kF32);
      if (value != chosen) element = Negate(element);
      if (!best.known() || ElementBefore(element, best)) best = element;
    }
    values.Write(result, lane, 0, Type::kF32, best);
  }
}

std::shared_ptr<ShadowBlock> ElementsOf(Warp& w, const Op& op, const AccessForm& form) {
  const size_t bytes = static_cast<size_t>(form.registers) * kLanes * (form.packed ? 8 : 4);
  auto block = std::make_shared<ShadowBlock>(bytes);
  bool any = false;
  size_t place = 0;
  for (int r = 0; r < form.registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const size_t part = form.packed ? 2 : 4;
      for (size_t offset = 0; offset < 4; offset += part, place += 4) {
        any |= WarpValues::Of(w).TakePart(*block, place, op.slots[r], lane, offset, part);
      }
    }
  }
  return any ? block : nullptr;
}

void StoreElements(TensorMemory& tensor, const Cells& cells, const ShadowBlock* elements) {
  ShadowMemory& memory = AlgebraState::Current()->memory;
  for (size_t i = 0; i < cells.size(); ++i) {
    uint32_t* cell = tensor.Row(0) + cells[i].index;
    if (elements) {
      memory.FromBlock(cell, *elements, 4 * i, 4);
    } else {
      memory.Clear(cell, 4);
    }
  }
}

}  // namespace tilelang::emulator
