// Checks whether a compiled kernel keeps the order of the program that it was made from: a read
// gets the value of the write before it in the program, and not of a later one.
#ifndef TILELANG_VERIFY_SOURCE_ORDER_H_
#define TILELANG_VERIFY_SOURCE_ORDER_H_

#include <optional>
#include <vector>

#include "verify/graph.h"
#include "verify/history.h"

namespace tilelang::verify {

// Two statements that stand in the same loops and branches, of which the second reads what the
// first has loaded to shared memory: its k-th execution reads what the k-th of the first wrote.
struct Requirement {
  ir::Span earlier;
  ir::Span later;
  ir::Buffer buffer;
  // The first loads the rows that its tensor has (existing_rows of its options): others may be
  // read, too.
  bool trimmed = false;
};
// Returns the requirements of a program whose statements can be told apart by their places.
std::vector<Requirement> RequirementsOf(const Graph& graph);

// Follows the executions of both in a run.
class SourceOrder {
 public:
  SourceOrder(const std::vector<Requirement>& requirements, const Program& program,
              const std::vector<Trace>& traces, ConflictQuery* conflict_test);

  // An access takes place, as step number `time` of a line. What is wrong with it, if anything is.
  std::optional<Finding> See(const Touch& touch, size_t agent, size_t line, uint32_t time,
                             const std::vector<AgentState>& states);

 private:
  // One execution of a side by an agent.
  struct Execution {
    std::vector<Touch> touches;
    size_t line = 0;
    uint32_t time = 0;
  };
  struct Side {
    std::vector<std::vector<Execution>> of_agent;

    // The execution that the touch belongs to.
    Execution* Enter(const Touch& touch, size_t agent);
  };
  struct Followed {
    Side earlier;
    Side later;
    std::vector<size_t> writers;  // agents
    bool trimmed = false;         // as of the requirement
  };

  std::optional<Finding> Check(const Followed& followed, const Touch& touch, size_t agent,
                               const AgentState& state) const;

  const Program& program_;
  ConflictQuery* conflict_test_;
  std::vector<Followed> followed_;
  std::vector<std::vector<int>> earlier_of_;  // by site: the requirements of which it is a side
  std::vector<std::vector<int>> later_of_;
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_SOURCE_ORDER_H_
