// The parts of a pipelined loop's body that one role carries out, and what each touches.
#ifndef TILELANG_SCHEDULE_TASK_H_
#define TILELANG_SCHEDULE_TASK_H_

#include <unordered_set>
#include <vector>

#include "ir/gemm.h"

namespace tilelang::schedule {

enum class TaskKind : uint8_t {
  kWork,
  kAcquire,  // waits until tiles are in their slot
  kRelease,  // gives the slot back
};

// A part of a loop's body that stays together.
struct Task {
  TaskKind kind = TaskKind::kWork;
  std::vector<ir::Stmt> stmts;
  std::vector<ir::Buffer> tiles;  // acquired or released
  int64_t part = -1;              // of the program's order (program_order.h); -1: of none
};

// Returns whether the task can move: it neither leaves the loop nor affects anything unknown.
bool CanMove(const Task& task);

// A task and what the schedule needs to know of it.
struct TaskNode {
  using Objects = std::unordered_set<const tvm::ffi::Object*>;

  const Task* task = nullptr;
  Objects reads;  // buffers and variables
  Objects writes;
  const ir::GemmNode* gemm = nullptr;  // that runs beside the threads
  bool follows_gemm = false;           // needs the result of one in its iteration
  int stage = 0;

  explicit TaskNode(const Task& task);
  bool ConflictsWith(const TaskNode& other) const;
  // Registers that a wgmma in flight reads are not even read by threads (PTX ISA,
  // wgmma.wait_group).
  bool KeepsFrom(const TaskNode& other) const;
};

// Gemms that nobody has waited for, in the order in which they were issued.
class GemmsInFlight {
 public:
  explicit GemmsInFlight(const std::vector<TaskNode>& nodes) : nodes_(nodes) {}

  // Returns the number of oldest gemms that must be complete before the node runs.
  size_t Awaited(const TaskNode& node) const;
  void Issue(size_t i) { gemms_.push_back(i); }
  // The oldest are waited for.
  void Retire(size_t count);
  size_t size() const { return gemms_.size(); }

 private:
  const std::vector<TaskNode>& nodes_;
  std::vector<size_t> gemms_;
};

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_TASK_H_
