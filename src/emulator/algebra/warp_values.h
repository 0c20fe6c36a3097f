// The elements in the registers of a warp.
#ifndef TILELANG_EMULATOR_ALGEBRA_WARP_VALUES_H_
#define TILELANG_EMULATOR_ALGEBRA_WARP_VALUES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/algebra/state.h"
#include "emulator/numerics/tensor_core.h"
#include "emulator/sanitizer/warp_checks.h"

namespace tilelang::emulator {

struct FloatOperands;
struct Fragment;

class WarpValues : public WarpChecks {
 public:
  WarpValues(AlgebraState& state, const Warp& warp);
  static WarpValues& Of(Warp& warp) { return static_cast<WarpValues&>(warp.register_checks()); }

  void Before(const Warp& warp, const Op& op, uint32_t lanes) override;
  void After(const Warp& warp, const Op& op, uint32_t lanes) override;

  // The element of a float in a lane's register, `offset` bytes from its start.
  Element Read(const Warp& warp, uint32_t slot, int lane, int offset, Type type) const;
  // Clears it if the element is unknown.
  void Write(uint32_t slot, int lane, int offset, Type type, const Element& element);
  // Moves the shadow of bytes of memory into a lane's register, and back.
  void LoadShadow(uint32_t slot, int lane, const void* from, size_t bytes);
  void StoreShadow(uint32_t slot, int lane, void* to, size_t bytes);
  // The same of a part of the register, `offset` bytes from its start.
  void LoadPart(uint32_t slot, int lane, size_t offset, const void* from, size_t bytes);
  // Into another block, for a store that acts later; false if there is nothing to move.
  bool TakePart(ShadowBlock& to, size_t place, uint32_t slot, int lane, size_t offset,
                size_t bytes) const;
  // Returns the offset of a lane's part of a register from the start of the register file.
  size_t Place(uint32_t slot, int lane) const {
    return slot + static_cast<size_t>(lane) * static_cast<size_t>(BytesOf(slot));
  }
  int BytesOf(uint32_t slot) const { return kernel_.slot_bits[slot / 32] / 8; }

 private:
  // Each function applies one kind of rules before the instruction, which may overwrite its
  // operands.
  void BeforeFloat(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeReduce(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeConvert(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeMove(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeWholeMove(const Op& op, const ElementRule& rule, uint32_t lanes);
  void MoveRow(uint32_t to, size_t place, uint32_t from, size_t offset, size_t bytes,
               uint32_t lanes);
  void BeforeSelect(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeShuffle(const Warp& warp, const Op& op, uint32_t lanes);
  void BeforeBytes(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeMemory(const Warp& warp, const Op& op, uint32_t lanes);
  void BeforeMatrix(const Warp& warp, const Op& op, const ElementRule& rule);
  void BeforeAtomic(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void BeforeMma(const Warp& warp, const Op& op);
  void BeforeKindMma(const Warp& warp, const Op& op);
  // Each function completes one kind of rules after the instruction.
  void AfterFloat(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void AfterMove(uint32_t lanes);
  void AfterLoad(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void AfterStore(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void AfterZeroMemory(const Warp& warp, const Op& op, uint32_t lanes);
  void AfterParameter(const Warp& warp, const Op& op, const ElementRule& rule, uint32_t lanes);
  void AfterStoreMatrix(const Warp& warp, const Op& op, const ElementRule& rule);
  void AfterAtomic(const Op& op, const ElementRule& rule, uint32_t lanes);
  void AfterMma(const Op& op);
  void StoreProduct(const Op& op, const Fragment& d, Type type, int n);

  void ClearWrites(const SourceLine& source, uint32_t lanes);
  void ClearRegister(uint32_t slot, uint32_t lanes);
  void RemarkBits(const Op& op, uint32_t lanes);
  bool IsConstant(uint32_t slot) const { return constant_[slot / 32] != 0; }
  // Returns the elements of a register's floats, lane by lane: those of the shadow if it holds all
  // of them in this order, else `buffer`.
  const Element* ReadRow(const Warp& warp, uint32_t slot, const FloatFormatOf& format,
                         Element* buffer) const;
  void InvertOperand(const Op& op, int operand, FloatOperands& operands, uint32_t lanes,
                     bool single, Element* inverses) const;
  void ReplaceSteps(const Op& op, const ElementRule& rule, const FloatOperands& operands,
                    uint32_t lanes);
  void ReplaceSums(const Op& op, const ElementRule& rule, const FloatOperands& operands,
                   uint32_t lanes);
  // The shadow of bytes of a lane's register becomes that of a result.
  void Stage(int result, size_t place, uint32_t slot, int lane, size_t offset, size_t bytes);
  void StageMemory(int result, size_t place, int lane, const void* from, size_t bytes);
  void StagePermuted(const Warp& warp, const Op& op, int lane);
  void StageMasked(const Warp& warp, const Op& op, int lane);
  void StageSigns(const Warp& warp, uint32_t slot, int lane, const uint8_t* mask,
                  std::string_view spelling);
  void StageShifted(const Warp& warp, const Op& op, const ElementRule& rule, int lane);
  void StageMixed(const Warp& warp, const Op& op, int lane);
  void StageScaled(const Warp& warp, const Op& op, const ElementRule& rule, int lane);
  bool IsTagged(uint32_t slot, int lane) const;

  AlgebraState& state_;
  const Kernel& kernel_;
  const std::vector<ElementRule>& rules_;
  ShadowBlock registers_;
  ShadowBlock staged_;                 // results of moves, one after the other
  std::span<const uint32_t> results_;  // of the move
  bool moves_elements_ = false;        // whether results are staged; else they have none
  std::vector<uint8_t> tagged_;        // by slot / 32: whether the register may hold elements
  std::vector<uint8_t> constant_;      // by slot / 32: whether the register holds a constant
  std::vector<Element> elements_;      // results of arithmetic
  uint64_t addresses_[kLanes];         // of a load
};

// The PTX type of elements of a matrix; kNone of those below eight bits and of integers.
Type FloatTypeOf(MatrixType type);
// Returns whether programs are likely to hold the number as a constant; 32-bit integers do not
// count.
bool IsUsualConstant(float value);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_WARP_VALUES_H_
