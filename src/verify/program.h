// A launch of the thread IR reduced to what matters for the order of accesses.
#ifndef TILELANG_VERIFY_PROGRAM_H_
#define TILELANG_VERIFY_PROGRAM_H_

#include <memory>
#include <unordered_set>
#include <vector>

#include "verify/operation.h"

namespace tilelang::verify {

enum class Space : uint8_t { kShared, kTmem, kRegisters, kBarrier };

// One access in the text of the program.
struct Site {
  Space space = Space::kShared;
  ir::Buffer buffer;  // null: tensor memory
  bool reads = false;
  bool writes = false;
  bool atomic = false;
  OperationKind by = OperationKind::kNone;  // the engine; kNone: the threads themselves
  ir::Span span;
  int step = -1;      // that makes it
  int role = 0;       // the side of a branch that waits on barriers of the program; 0: none
  int64_t begin = 0;  // bytes of the buffer in shared memory
  int64_t end = 0;
  // The argument of an engine that holds the address, and how much of memory it may touch from
  // there on (elements; 32-bit columns of tensor memory). For a descriptor: the part of that size.
  int argument = -1;
  int64_t extent = 0;
  int64_t lanes = 0;
};

enum class StepKind : uint8_t {
  kSeq,
  kIf,
  kFor,
  kWhile,
  kLeave,      // break, continue
  kSet,        // a variable or an element of the thread's memory gets a value
  kOperation,  // a call that orders, or an engine's work
  kAccess,     // statements without any of these
};

// A statement in its place.
struct Step {
  StepKind kind = StepKind::kSeq;
  int id = 0;
  ir::Stmt stmt;
  Operation operation;
  std::vector<int> sites;                // of the statement itself, or of its condition
  std::vector<ir::Expr> barriers;        // calls in its condition or value for which threads wait
  std::vector<ir::Expr> guards;          // conditions around it that depend on the thread
  std::vector<ir::ffi::ObjectRef> free;  // kAccess: variables and local buffers in its indices
  std::vector<std::unique_ptr<Step>> parts;
  bool has_else = false;
  bool is_loop = false;  // kAccess: statements in it may run several times
};

class Program {
 public:
  explicit Program(const ir::KernelLaunchNode* launch);

  const ir::KernelLaunchNode* launch() const { return launch_; }
  const Step& root() const { return *root_; }
  const std::vector<Site>& sites() const { return sites_; }
  const Step& step(int id) const { return *steps_[static_cast<size_t>(id)]; }
  int num_steps() const { return static_cast<int>(steps_.size()); }
  const ir::Map<ir::Buffer, int64_t>& offsets() const { return offsets_; }
  // The buffer that holds the address of tensor memory, or null.
  const ir::BufferNode* tmem_slot() const { return tmem_slot_; }
  // The program has barriers of its own.
  bool has_own_barriers() const { return has_own_barriers_; }
  // Something in it is not followed: a call of this name.
  const std::string& unsupported() const { return unsupported_; }
  // Anything runs beside the threads, or is waited for.
  bool needs_order() const { return !sites_.empty(); }
  // Returns the number of iterations after which loops repeat their behaviour.
  int64_t period() const { return period_; }
  // Integers that the launch gets from outside.
  const std::vector<ir::Var>& parameters() const { return parameters_; }

 private:
  friend class ProgramBuilder;

  const ir::KernelLaunchNode* launch_;
  std::unique_ptr<Step> root_;
  std::vector<Site> sites_;
  std::vector<const Step*> steps_;
  ir::Map<ir::Buffer, int64_t> offsets_;
  const ir::BufferNode* tmem_slot_ = nullptr;
  bool has_own_barriers_ = false;
  std::string unsupported_;
  int64_t period_;
  std::vector<ir::Var> parameters_;
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_PROGRAM_H_
