// Describes the uses of tiles in tensor memory as data, which Python compares and draws
// (tilelang/layout/tmem_proof.py).
#ifndef TILELANG_LOWER_TENSOR_MEMORY_USES_H_
#define TILELANG_LOWER_TENSOR_MEMORY_USES_H_

#include <utility>

#include "ir/function.h"
#include "layout/tcgen05_layout.h"

namespace tilelang::lower {

// One operator on a region of a tile.
class TmemUseNode : public tvm::ffi::Object {
 public:
  // "store" and "load": tcgen05.st and tcgen05.ld; "cp": tcgen05.cp; "A" and "C": an operand of
  // tcgen05.mma.
  ir::String kind;
  ir::String tile;
  ir::String dtype;            // of its elements
  int64_t column = 0;          // of the tile, in the tensor memory of the CTA
  ir::Array<int64_t> begin;    // of the region; 0 where the kernel decides when it runs
  ir::Array<int64_t> extents;  // of the region
  layout::TmemLayout whole;    // the layout of the tile
  ir::String other;            // the other side of a copy
  ir::Any fragment;            // layout::Fragment of "store" and "load"; else null
  ir::Any plan;                // layout::TmemCopyPlan of them; else null
  int64_t first_thread = 0;
  int64_t threads = 0;
  int64_t rows = 0;     // of the operand of one tcgen05.mma
  int64_t columns = 0;  // likewise
  ir::Span span;

  explicit TmemUseNode(layout::TmemLayout whole) : whole(std::move(whole)) {}
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.TmemUse", TmemUseNode, tvm::ffi::Object);
};

// Returns the uses (TmemUseNode) of all tiles in program order. `func` has layouts, plans and
// places in tensor memory: it is what the pass "lower_tile_ops" gets.
ir::Array<ir::Any> TensorMemoryUses(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_TENSOR_MEMORY_USES_H_
