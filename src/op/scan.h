// T.cumsum and T.cummax of a fragment: the prefixes of its rows along one dimension.
#ifndef TILELANG_OP_SCAN_H_
#define TILELANG_OP_SCAN_H_

#include <optional>

#include "op/instruction.h"

namespace tilelang::op {

// Describes a Reduce named "cumsum", "cummax", or "reverse_" and one of these. Its result has the
// shape of the source.
struct ScanKind {
  ir::String combine;  // "sum" or "max"
  bool reverse;        // from the end
};
// Nothing for reductions.
std::optional<ScanKind> ScanOf(const ir::ReduceNode* op);

// Prefixes in the registers of each thread, across lanes by shuffles, and across warps by one
// value of each through shared memory.
const TileInstruction* ThreadScan();

}  // namespace tilelang::op

#endif  // TILELANG_OP_SCAN_H_
