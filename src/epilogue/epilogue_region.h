// The epilogue of a gemm: what threads do with its result, and whether slices of columns can do it.
#ifndef TILELANG_EPILOGUE_EPILOGUE_REGION_H_
#define TILELANG_EPILOGUE_EPILOGUE_REGION_H_

#include <optional>
#include <string>
#include <vector>

#include "epilogue/column_slices.h"
#include "ir/copy_operator.h"

namespace tilelang::epilogue {

// A tile whose last dimension the slices divide.
struct EpilogueTile {
  enum class Kind : uint8_t {
    kAccumulator,  // of gemms: each slice loads its columns
    kRegisters,    // a fragment that the epilogue fills: each slice has one of its own
    kStaging,      // shared memory that nothing else uses: slices take slots in turn
    kWhole,        // shared memory with other uses or a layout of the program: stays as it is
  };
  ir::Buffer buffer;
  int64_t width = 0;
  Kind kind = Kind::kRegisters;
  bool added = false;  // the program has no such tile
};

// A statement of the epilogue.
struct EpilogueStep {
  enum class Place : uint8_t {
    kBefore,  // uses no tile: stands before all slices
    kSliced,
    kAfter,  // uses what the slices leave: stands after them
  };
  ir::Stmt stmt;
  Place place = Place::kSliced;
  size_t column = 0;   // of a sliced T.Parallel: the variable that goes through columns
  bool ahead = false;  // loads what nothing writes, to where nothing was: may run a slice earlier
};

// The statements [begin, end) of a sequence, after the last gemm into the accumulators.
struct EpilogueRegion {
  size_t begin = 0;
  size_t end = 0;
  std::vector<EpilogueStep> steps;
  std::vector<EpilogueTile> tiles;
  std::vector<ir::Stmt> hoisted;         // stand before the gemms
  std::vector<ir::Buffer> loads_before;  // the tensors that these load
  std::vector<ir::Buffer> loads_ahead;   // the buffers that steps ahead load
  ColumnSlices slices;

  const EpilogueTile* Find(const ir::Buffer& buffer) const;
  // Returns which half of a tile in two parts the region is, if it is one.
  std::optional<int64_t> HalfOf(const ir::Region& region) const;
};

// The results of gemms that a sequence stores to global memory, and its first statement after them.
struct EpilogueCandidate {
  std::vector<ir::Buffer> accumulators;
  size_t begin = 0;
};
// Returns the epilogue after a gemm; it has no accumulators if there is none.
EpilogueCandidate FindEpilogue(const ir::SeqNode* seq);
// Returns the epilogue of gemms that the program waits for itself, anywhere in the launch: what
// follows a wait or barrier of the sequence and uses their results.
EpilogueCandidate FindOwnEpilogue(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq);

// The reason why tiles stay whole, and the statement that causes it.
struct EpilogueObstacle {
  std::string text;
  ir::Span span;
};

// The epilogue that begins there, in slices: what a slice of a statement needs is in the same slice
// of the statements before it, and nobody uses the tiles later. Slices one after another give the
// result of the whole tile, to the bit: only reductions whose order does not matter go along the
// columns. Sets `obstacle` where something is in the way.
EpilogueRegion CollectEpilogue(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq,
                               const EpilogueCandidate& candidate, const ColumnSlices& slices,
                               EpilogueObstacle* obstacle);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_EPILOGUE_REGION_H_
