// Elements that belong to floats in memory and registers, beside their bytes.
//
// A shadow block covers a run of host bytes. Each byte has a tag: the width of the float whose
// first byte it is and that has an element, or which byte of such a float it is. A float without an
// element stands for its exact value. Instructions that move bytes move tags and elements with
// them, whatever the type of the instruction.
#ifndef TILELANG_EMULATOR_ALGEBRA_ELEMENT_SHADOW_H_
#define TILELANG_EMULATOR_ALGEBRA_ELEMENT_SHADOW_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/algebra/field.h"
#include "emulator/memory/global.h"
#include "emulator/memory/zeroed_bytes.h"

namespace tilelang::emulator {

class ShadowBlock {
 public:
  // Floats begin at multiples of their width.
  explicit ShadowBlock(size_t bytes) : bytes_(bytes), tags_(bytes + kPad) {}

  // The element of the float at `offset`, if there is one. `host`: its bytes.
  bool Get(size_t offset, int width, const uint8_t* host, Element* element) const;
  void Set(size_t offset, int width, const Element& element);
  // Get and set the bits of two or more floats that xor has mixed (Mixed in move_rules.cc).
  bool GetMixed(size_t offset, int width, Element* element) const;
  void SetMixed(size_t offset, int width, const Element& element);
  // Returns the elements of f32 that follow each other, or nullptr if one has none.
  const Element* Singles(size_t offset, int count) const;
  void SetSingles(size_t offset, int count, const Element* elements);
  void Clear(size_t offset, size_t bytes) { std::memset(tags_.data() + offset, 0, bytes); }
  bool IsClear(size_t offset, size_t bytes) const;
  void Copy(size_t offset, const ShadowBlock& from, size_t from_offset, size_t bytes);

 private:
  static constexpr uint8_t kMixed = 0x08;   // plus the width of the floats
  static constexpr uint8_t kInside = 0x10;  // plus the place in the float
  static constexpr size_t kPad = 16;

  // Elements of floats lie in four planes, by the place of their first byte in its word: that of
  // f32 is dense.
  const Element& At(size_t offset) const {
    return reinterpret_cast<const Element*>(planes_[offset % 4].data())[offset / 4];
  }
  Element& Place(size_t offset);

  size_t bytes_;
  ZeroedBytes tags_;
  std::array<ZeroedBytes, 4> planes_;
};

// The shadows of all memory of the emulated machine, by host address.
class ShadowMemory {
 public:
  static constexpr size_t kPageBytes = 4096;

  bool Get(const void* at, int width, Element* element);
  void Set(void* at, int width, const Element& element);
  void Clear(const void* at, size_t bytes);
  bool IsClear(const void* at, size_t bytes) const;
  void Copy(void* to, const void* from, size_t bytes);
  void ToBlock(ShadowBlock& block, size_t offset, const void* from, size_t bytes);
  // Forgets what lies outside of these disjoint ranges, which are in order.
  void KeepOnly(const std::vector<HostRange>& ranges);
  void FromBlock(void* to, const ShadowBlock& block, size_t offset, size_t bytes);

 private:
  ShadowBlock* Find(uintptr_t page) const;
  ShadowBlock& Make(uintptr_t page);

  std::unordered_map<uintptr_t, std::unique_ptr<ShadowBlock>> pages_;
  // The last that was looked for by the low bits of its number.
  struct Recent {
    uintptr_t page = ~uintptr_t{0};
    ShadowBlock* block = nullptr;
  };
  mutable std::array<Recent, 1024> recent_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_ELEMENT_SHADOW_H_
