// T.Parallel: the operator every SIMT tile operation is expressed in (copies and fills too).
#ifndef TILELANG_OP_PARALLEL_H_
#define TILELANG_OP_PARALLEL_H_

#include <functional>
#include <optional>
#include <vector>

#include "op/context.h"
#include "op/guards.h"

namespace tilelang::op {

class PhysicalBuffers;

// One Load or Store in the body of a parallel loop.
struct Access {
  Buffer buffer;
  Array<Expr> indices;
  bool is_write = false;
  Span span;
  const ffi::Object* node = nullptr;  // the Load or Store
  std::vector<Guard> guards;
};

// The value of a variable, where it has one.
using VarValues = std::function<std::optional<int64_t>(const Var&)>;

// Says whether an index outside of its buffer is a mistake of the program. It need not be one where
// the values of the variables are arbitrary, since the program may never reach them.
enum class Outside : uint8_t { kRefused, kUnknown };

// A parallel loop and what its body touches.
class ParallelInfo {
 public:
  explicit ParallelInfo(const ir::ParallelForNode* loop);

  const ir::ParallelForNode* loop() const { return loop_; }
  const Coord& extents() const { return extents_; }
  const std::vector<Access>& accesses() const { return accesses_; }
  bool TouchesFragments() const;
  // Shared or global memory.
  bool TouchesMemory() const;
  // The body reads nothing and writes registers alone.
  bool OnlyFillsRegisters() const;
  // The body may write registers of the thread (fragments and private arrays) and memory that
  // threads share.
  bool WritesRegisters() const { return writes_registers_; }
  bool WritesMemory() const { return !written_memory_.empty() || has_effects_; }
  // Threads that hold copies of an element cannot run its iteration each, leaving writes of memory
  // to one of them: registers get what an atomic operation returns, or the body reads memory that
  // it writes.
  bool MustRunOnce() const { return WritesRegisters() && WritesMemory() && must_run_once_; }

  // The element that an access touches in every iteration (row-major), as linear indices into
  // the buffer, the nearest one where a condition keeps it from an element outside; `outer` gives
  // the variables around the loop. Nothing when an index is not
  // computable (it loads from memory, or uses a variable without a value), or lies outside of
  // memory that a condition may guard, or `outside` says so.
  std::optional<std::vector<int64_t>> TouchedElements(const Access& access, const VarValues& outer,
                                                      Outside outside = Outside::kRefused) const;
  // For every iteration, whether the conditions around an access let it touch its element; one
  // that is not computable does.
  std::vector<bool> Reached(const Access& access, const VarValues& outer) const;
  // For each dimension of the buffer: the loop variable that is its index, or -1 for index 0 of
  // a dimension of extent 1. Nothing unless the access has that simple form and covers the
  // buffer exactly.
  std::optional<std::vector<int>> DirectAxes(const Access& access) const;
  // Every loop variable of extent > 1 appears in the indices.
  bool UsesAllVars(const Access& access) const;

 private:
  void FindWrites();

  const ir::ParallelForNode* loop_;
  Coord extents_;
  std::vector<Access> accesses_;
  std::vector<Buffer> written_memory_;
  bool writes_registers_ = false;
  bool has_effects_ = false;  // statements that are calls
  bool must_run_once_ = false;
  bool conditional_ = false;  // some of the body is for some iterations alone
};

// Refuses a loop in which one iteration reads an element of memory that another writes: the
// iterations of T.Parallel run in no order. Variables around the loop take their lowest values.
void CheckIndependent(const ParallelInfo& info, Context* ctx);

// Infers the layout of the loop and of the fragments that it touches. Returns the loop's layout if
// it is known at this level.
std::optional<Fragment> InferParallel(const ParallelInfo& info, InferLevel level, Context* ctx);

// A fragment of the body that does not hold its element on the thread that needs it.
struct Mismatch {
  Access access;
  std::string reason;
};
std::optional<Mismatch> FindMismatch(const ParallelInfo& info, const Fragment& loop_layout,
                                     Context* ctx);

// Thread IR of the loop.
Stmt LowerParallel(const ParallelInfo& info, const Fragment& loop_layout, PhysicalBuffers* buffers,
                   Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_PARALLEL_H_
