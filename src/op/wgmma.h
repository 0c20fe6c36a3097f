// The forms of wgmma.mma_async: types and shapes, and each as a device function.
// Source: PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#ifndef TILELANG_OP_WGMMA_H_
#define TILELANG_OP_WGMMA_H_

#include <optional>
#include <string>

#include "ir/dtype.h"
#include "layout/mma_layout.h"

namespace tilelang::op {

constexpr int64_t kWgmmaRows = 64;  // M of one instruction

struct WgmmaKind {
  // Types as PTX spells them.
  std::string a;
  std::string b;
  std::string d;
  // The part of a warp: rows of 16, and K of one instruction.
  layout::MmaAtom atom;

  bool IsInteger() const { return d == "s32"; }
  // Returns whether operands in shared memory may have M or N contiguous.
  bool HasMnMajor() const { return a == "f16" || a == "bf16"; }
  bool HasWidth(int64_t n) const;
  // 32-bit registers that hold D.
  int64_t Registers(int64_t n) const { return n / (d == "f16" ? 4 : 2); }
};

// For operand types and an accumulator type; none where wgmma has none.
std::optional<WgmmaKind> ChooseWgmmaKind(ir::DType a, ir::DType b, ir::DType c);

// One instruction.
struct WgmmaForm {
  WgmmaKind kind;
  int64_t n = 0;
  bool a_in_registers = false;
  bool a_mn_major = false;
  bool b_mn_major = false;
  bool overwrites = false;   // D whatever it holds
  int sparse_selector = -1;  // of a sparse A: which lanes have the metadata
};
// A device function of that name:
//   void name(void* accumulators, uint64_t a, uint64_t b, bool accumulate)
// with a descriptor or, `const void* a`, four registers of A; without the last argument where it
// overwrites; before that, of a sparse A, `const void* metadata`, a register.
std::string WgmmaFunctionName(const WgmmaForm& form);
// Its definition, in namespace tl.
std::string WgmmaFunction(const WgmmaForm& form);

}  // namespace tilelang::op

#endif  // TILELANG_OP_WGMMA_H_
