// Lists what one agent does in a launch, one operation and access after the other.
#ifndef TILELANG_VERIFY_TRACE_H_
#define TILELANG_VERIFY_TRACE_H_

#include <map>
#include <vector>

#include "verify/agent.h"
#include "verify/value.h"

namespace tilelang::verify {

// Says where and when a site touches memory.
struct Touch {
  int site = 0;
  // Bytes of shared memory, or 32-bit columns of tensor memory.
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_lane = 0;  // of tensor memory
  int64_t end_lane = 0;
  // The index in Instances of the values of the step's free variables, for accesses of threads.
  int instance = 0;
  uint64_t iteration = 0;  // of the loops around

  bool operator==(const Touch&) const = default;
};

struct Event {
  int step = 0;
  OperationKind kind = OperationKind::kNone;
  // The mbarrier of an operation. For kBarrier it is null, and `element` is the barrier's number.
  const ir::BufferNode* barrier = nullptr;
  int64_t element = 0;
  // Arrivals of a phase, bytes, parity, threads of a barrier, groups left.
  int64_t number = 0;
  size_t first_touch = 0;
  size_t num_touches = 0;

  bool operator==(const Event&) const = default;
};

struct Trace {
  std::vector<Event> events;
  std::vector<Touch> touches;
  bool decided = false;  // a condition was not known

  bool operator==(const Trace&) const = default;
};

// Values of free variables, by number; 0 is for steps that have none.
class Instances {
 public:
  int NumberOf(const std::vector<Value>& values);
  const std::vector<Value>& operator[](int number) const {
    return values_[static_cast<size_t>(number) - 1];
  }

 private:
  using Key = std::vector<std::pair<int, int64_t>>;
  std::map<Key, int> numbers_;
  std::vector<std::vector<Value>> values_;
};

// Chooses the values that are unknown.
struct Scenario {
  int64_t block = 0;       // index along each dimension of the grid, or the last one
  int64_t size = 0;        // of tensors, and the value of other parameters
  uint64_t decisions = 0;  // of branches whose condition is not known: 0 none, 1 all, else some
};

// Chooses which iterations of loops are left out. Executions that belong together leave out the
// same number: the roles that a loop was divided into, or loops of about the same length that a
// program wrote for them.
class LeftOut {
 public:
  // Returns how many of `extent` iterations of a loop to leave out, so that `least` and a few more
  // run. `around` identifies the iterations of the loops around it.
  int64_t Of(const ir::Span& loop, uint64_t around, int64_t extent, int64_t least, int64_t period);

 private:
  struct Execution {
    ir::Span loop;
    uint64_t around;
    int64_t extent;
    int64_t left_out;
    bool as_another;  // as many as of an execution that is about as long
  };
  std::vector<Execution> known_;
};

// The values of parameters and of the block's indices.
std::vector<std::pair<ir::Var, int64_t>> ConstantsOf(const Program& program,
                                                     const Scenario& scenario);

struct TraceResult {
  Trace trace;
  std::string obstacle;  // why there is none; empty when there is
};

// Loops run a few iterations from their beginning and a few before their end, with a multiple of
// what the rings repeat after left out in between.
TraceResult MakeTrace(const Program& program, const Agent& agent, const Scenario& scenario,
                      Instances* instances, LeftOut* left_out);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_TRACE_H_
