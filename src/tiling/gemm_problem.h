// The GEMM of a launch as a problem: what is to be computed, apart from the tiles that compute it.
#ifndef TILELANG_TILING_GEMM_PROBLEM_H_
#define TILELANG_TILING_GEMM_PROBLEM_H_

#include <cstdint>
#include <optional>

#include "ir/stmt.h"
#include "tiling/plain_gemm.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

// Extents are elements. A dynamic extent counts as `kDynamicExtent`.
struct GemmProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;       // grids of tiles, along further axes of the launch
  TileExtents tile{0, 0};    // of the program
  int64_t depth = 0;         // elements of K that an iteration loads
  int64_t operand_bits = 0;  // of an element of A or B, the larger
  int64_t factor_bytes = 0;  // of the scale factors of 128 rows or columns, an iteration; 0: none
  int64_t result_bytes = 0;  // that the epilogue stores for an element of the result
  int64_t threads = 0;
  int64_t products = 1;    // gemms of an iteration: as of a gated unit, which has two
  int64_t tiles_of_a = 1;  // that an iteration loads for them; of B
  int64_t tiles_of_b = 1;
  int64_t sums = 1;           // tiles of results
  bool a_by_threads = false;  // threads bring A to tensor memory
  bool a_computed = false;    // by threads, in shared memory: such as weights of few bits
  bool b_computed = false;
  bool a_in_registers = false;  // computed, in a fragment that goes to tensor memory
  // For an element of a computed operand: elements that threads compute, with those of tiles
  // between, and bytes that an iteration loads.
  double computed_elements = 0;
  double computed_bytes = 0;
  bool a_along_m = false;  // the rows of A in memory are contiguous along M; of B, along N
  bool b_along_n = false;
  bool dynamic_m = false;  // m is known only at launch; the same of others
  bool dynamic_n = false;
  bool dynamic_k = false;

  int64_t Iterations() const { return CeilDiv(k, depth); }
  bool IsComputed() const { return a_computed || b_computed; }
  bool IsDynamic() const { return dynamic_m || dynamic_n; }
};

inline constexpr int64_t kDynamicExtent = 4096;

// Describes the GEMM of a launch; nothing where an extent of a tile is not constant, an operand is
// not loaded along its rows and columns, or several gemms of an iteration are not alike.
std::optional<GemmProblem> Describe(const ir::KernelLaunchNode* launch, const PlainGemm& plain);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_GEMM_PROBLEM_H_
