// Accesses of memory that a block's threads share: shared memory, tensor memory, and tensors that a
// block both writes and reads or writes in two places.
#ifndef TILELANG_ANALYSIS_MEMORY_ACCESS_H_
#define TILELANG_ANALYSIS_MEMORY_ACCESS_H_

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/owner_map.h"
#include "ir/async.h"
#include "ir/intrinsics.h"
#include "op/context.h"

namespace tilelang::analysis {

// The statements around an access, as far as they decide which thread touches what.
struct AccessContext {
  struct Range {
    ir::Var var;
    int64_t min;
    int64_t extent;
  };
  std::vector<Range> threads;    // thread variables, x first
  std::vector<Range> blocks;     // block indices in grids of constant extents
  std::vector<Range> loops;      // loops with constant bounds, outermost first
  std::vector<ir::Expr> guards;  // conditions that hold
  // Variables of other kinds, each with one arbitrary value. Indices of tensors are polynomials in
  // sizes and block indices. Their terms without threads and loops are compared as formulas: a
  // fixed row is the own row of some blocks only. Other terms that are equal for an arbitrary value
  // are equal for all, or leave the bounds of the tensor.
  std::vector<Range> samples;
  std::vector<Range> moving;          // the ranges that are variables of loops
  ir::Map<ir::Var, ir::Expr> values;  // of Bind variables
  // Stands for all of the block's tensor memory, if it has any; its address counts as zero.
  ir::Buffer tensor_memory;
  ir::Var tensor_memory_base;
  std::optional<op::ThreadRange> issuer;  // inside an Issue of stores by TMA
  // An access with more pairs of a thread and an iteration counts as an access of all threads.
  int64_t most_points = 1 << 17;

  void Bind(const ir::BindNode* op);
  // The body of what issues stores; and out of it.
  void Enter(const ir::IssueNode* op);
  void Leave() { issuer.reset(); }
};

// Owners of tensor memory are those of cells: so many lanes of a column.
inline constexpr int64_t kTmemCellLanes = 16;

struct MemoryAccess {
  ir::Buffer buffer;
  bool read = false;
  bool write = false;
  bool atomic = false;
  ir::Proxy proxy = ir::Proxy::kGeneric;
  bool by_warpgroup = false;  // of wgmma
  bool by_copy = false;       // the write of a cp.async that the program waits for
  // For a TMA store: the threads, one of which issues it and waits for its bulk groups.
  std::optional<op::ThreadRange> issuer;
  bool ordered = false;  // with all but stores by TMA, by barriers that stand in the program
  // Bytes of the buffer in shared memory; tensors have ranges of their own, and so have the columns
  // of the tile in tensor memory.
  int64_t begin = 0;
  int64_t end = 0;
  // For tensor memory: whether each warpgroup accesses only its rows of the tile, and the number of
  // 32-bit registers per thread.
  bool in_rows_of_warpgroup = false;
  int64_t registers = 0;
  ir::Buffer barrier;  // the mbarrier that an engine's call names; null: none
  bool moves = false;  // the elements depend on a loop's variable that is not enumerated
  // If they depend on one such variable: by how many elements an iteration moves them. 0: unknown.
  ir::Var turn;
  int64_t step = 0;
  // For a box in shared memory that the tensor memory accelerator moves: its first element and how
  // many there are; null where that is not known.
  ir::Expr place;
  int64_t elements = 0;
  // The element that a thread touches; null for several adjacent ones.
  ir::Expr index;
  // The elements are `uniform` plus what `owners` says; without owners any thread may touch any.
  ir::Expr uniform;
  std::shared_ptr<OwnerMap> owners;
  // For a TMA store: the elements of a tensor that it writes.
  struct Box {
    ir::Buffer tensor;
    ir::Array<ir::Expr> corner;  // innermost dimension first
    ir::Array<int64_t> extents;
    bool adds = false;     // to what is there
    bool written = false;  // when it has been waited for
  };
  std::shared_ptr<const Box> box;
  // The one thread that executes the access, or -1. Elected threads count from kElected.
  int32_t single_thread = -1;
  static constexpr int32_t kElected = 1 << 20;
  // All that may execute it lie in this range; of an elected thread: its warp.
  op::ThreadRange actors;
};
using AccessPtr = std::shared_ptr<const MemoryAccess>;

// The tensors among whose accesses by threads barriers may be needed: a block writes and reads
// them, or writes them in two places. What one statement writes in several iterations counts as
// different elements; and so does what functions that are given an address do.
std::vector<ir::Buffer> SharedTensors(const ir::KernelLaunchNode* launch);

// Returns whether both contexts are inside of the same loops and branches of one launch.
bool IsSamePlace(const AccessContext& a, const AccessContext& b);

// The context of a launch's body.
AccessContext ContextOf(const ir::KernelLaunchNode* launch);

// The accesses that a statement without control flow makes, in no particular order, appended to
// `out`. offsets: places of the buffers, bytes; of others nothing is said.
void CollectAccesses(const ir::Stmt& s, const AccessContext& context,
                     const ir::Map<ir::Buffer, int64_t>& offsets, std::vector<AccessPtr>* out);

// A write of all of a tile; in tensor memory, of all columns.
AccessPtr WriteOf(const ir::Buffer& tile, const ir::Map<ir::Buffer, int64_t>& offsets);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_MEMORY_ACCESS_H_
