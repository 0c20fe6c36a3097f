// Gemms as one first writes them: a pipelined loop that loads tiles and multiplies them.
#ifndef TILELANG_TILING_PLAIN_GEMM_H_
#define TILELANG_TILING_PLAIN_GEMM_H_

#include <optional>
#include <vector>

#include "ir/copy_operator.h"
#include "ir/gemm.h"
#include "target/target.h"

namespace tilelang::tiling {

// Bits of the elements of a result that goes through shared memory (epilogue/stage_results.h), by
// stmatrix.
inline constexpr int64_t kResultBits = 16;

struct PlainGemm {
  const ir::ForNode* loop = nullptr;       // pipelined, in no other loop, of two stages or more
  std::vector<const ir::CopyNode*> loads;  // in the loop: of tensors to shared tiles
  std::vector<const ir::GemmNode*> gemms;  // in the loop: of those tiles, into fragments
  std::vector<const ir::CopyNode*> loads_outside;  // of the loop, of a chain
  std::vector<ir::Stmt> computes;  // in the loop: of tiles, by threads, for the gemms
};

// The operands of a plain gemm: tiles that its loop loads, or also tiles that threads compute from
// these, such as weights of few bits.
enum class Operands : uint8_t { kLoaded, kComputed };

// Returns whether a block has the buffer for itself, in shared memory or registers.
inline bool IsTile(const ir::Buffer& buffer) { return buffer.IsShared() || buffer.IsFragment(); }

// An attribute (bool) of launches that few calls run, because another one computes the same in the
// others: fewer kernels are made of them.
inline constexpr const char* kFewCalls = "few_calls";

// Returns whether nothing in the launch depends on which thread runs what, or on how many there
// are: thread indices, barriers, arrays of a thread, calls with effects.
bool LeavesThreadsOpen(const ir::KernelLaunchNode* launch);

// The gemm of a launch whose loop does nothing else than to bring its operands, and which has no
// other pipelined loop and no gemm outside of it, whose operands would keep the program's extents;
// no loop otherwise. The launch leaves its threads open, and sets no layouts, registers and blocks
// of an SM. Nor does it write a tensor that it loads. If threads compute operands, an iteration
// depends on others by its sums alone: it overwrites each tile before it reads it.
PlainGemm FindPlainGemm(const ir::KernelLaunchNode* launch, Operands operands = Operands::kLoaded);

// Two gemms or more that are all gemms of a launch and stand in the body of one loop, such as those
// of attention, where one multiplies what is computed from the result of another; no loop
// otherwise. The launch leaves its threads open as that of a plain gemm.
PlainGemm FindGemmChain(const ir::KernelLaunchNode* launch);

// Returns whether tcgen05.mma computes all gemms, with results that so many threads read.
bool AreByTcgen05(const PlainGemm& plain, int64_t threads, const Target& target);

// Returns the columns of tensor memory that the results take, of up to 128 rows each.
int64_t ColumnsOfSums(const PlainGemm& plain);

// Returns whether the loop has the same number of iterations in each block.
bool HasEqualLoops(const ir::KernelLaunchNode* launch, const PlainGemm& plain);

// The extent of an operand along a dimension; 0 where it is not constant.
int64_t ExtentAlong(const ir::GemmOperandNode* operand, ir::GemmDim dim);

// Returns whether the operand that has the dimension (kM, kN) lies contiguously along it.
bool IsContiguousAlong(const ir::GemmNode* gemm, ir::GemmDim dim);

// The dimension of its tensor along which a load fills a dimension of its tile; none where the tile
// has one element along it.
std::optional<size_t> DimOfTensor(const ir::CopyNode* load, size_t dim_of_tile);

// The extent, along M or N of its first gemm, of the tensor that the operand is loaded from, or
// computed from row by row or column by column; null where none is found.
ir::Expr ExtentOfTensor(const PlainGemm& plain, ir::GemmDim along);

// Returns whether the statement fills all of the tile with zeros.
bool IsZeroFill(const ir::Stmt& s, const ir::Buffer& tile);

// Returns whether what follows the loop of the launch treats elements of the result one by one, by
// parallel loops and copies, without reductions, branches and loops of the block.
bool ComputesByElement(const ir::KernelLaunchNode* launch, const PlainGemm& plain);

// Bytes of the shared tile that its results of 16 bits go through, beside what the program itself
// allocates; none where it stores other results.
std::optional<int64_t> BytesOfResult(const ir::KernelLaunchNode* launch, const PlainGemm& plain);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PLAIN_GEMM_H_
