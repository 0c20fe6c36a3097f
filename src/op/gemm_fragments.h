// Operands of gemms in fragments, in the layouts that an instruction wants.
#ifndef TILELANG_OP_GEMM_FRAGMENTS_H_
#define TILELANG_OP_GEMM_FRAGMENTS_H_

#include <optional>

#include "layout/mma_layout.h"
#include "op/instruction.h"

namespace tilelang::op {

// Layouts of the matrices (the last two dimensions) of C, of A where it is a fragment, and of the
// metadata of a sparse one.
struct GemmFragments {
  Fragment c;
  std::optional<Fragment> a;
  std::optional<Fragment> metadata;
};
// Returns the layouts of an instruction that computes C, or C^T.
GemmFragments FragmentsOf(const ir::GemmNode* op, const layout::MmaAtom& atom,
                          const layout::WarpGrid& grid, const ThreadRange& threads,
                          bool transposed = false);

// Gives them to the buffers that have none yet and are operands as a whole.
void OfferFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx);
// Returns whether the operands have these layouts.
bool HoldFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx);
// The gemm on copies of the fragments that have others, or of which it takes a slice.
Alternative OnFragmentsOf(const TileInstruction* instruction, const ir::GemmNode* op,
                          const GemmFragments& wanted, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_FRAGMENTS_H_
