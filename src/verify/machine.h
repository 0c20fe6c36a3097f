// Runs the traces of all agents together.
#ifndef TILELANG_VERIFY_MACHINE_H_
#define TILELANG_VERIFY_MACHINE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/source_order.h"

namespace tilelang::verify {

// Each agent goes on until it has to wait. What comes before what does not depend on who goes
// first: whoever may go on may go on later, too. So one run decides for all.
class Machine {
 public:
  // requirements: of the program that was compiled
  Machine(const Program& program, const Agents& agents, const std::vector<Trace>& traces,
          const std::vector<Requirement>& requirements, ConflictQuery* conflict_test);

  // The first thing that is wrong; none when nothing is, or when the run cannot be followed.
  std::optional<Finding> Run();
  const std::string& obstacle() const { return obstacle_; }

 private:
  struct Phase {
    explicit Phase(size_t lines) : gathered(lines), complete(lines) {}

    bool initialized = false;
    int64_t expected = 0;
    int64_t pending = 0;
    int64_t bytes = 0;
    int64_t number = 0;  // of the phase that runs
    Knowledge gathered;
    Knowledge complete;                               // of the phase before
    std::vector<std::pair<size_t, uint32_t>> waited;  // agents, and when, for the phase before
    int waited_at = -1;                               // the last of these steps
    size_t init_agent = 0;
    uint32_t init_time = 0;
    int init_step = -1;
    size_t line = 0;  // of loads that complete on it
    uint32_t loads = 0;
  };
  struct Meeting {
    std::vector<size_t> agents;
    int64_t threads = 0;
  };
  using Barrier = std::pair<const ir::BufferNode*, int64_t>;

  void Step(size_t agent);
  bool Execute(size_t agent, const Event& event);
  bool ExecuteBarrier(size_t agent, const Event& event);
  bool Meet(size_t agent, std::pair<int, int64_t> place, int64_t threads);
  bool Wait(size_t agent, const Event& event, Phase* phase);
  void Arrive(size_t agent, const Event& event, Phase* phase);
  void Count(size_t agent, const Event& event, Phase* phase);
  void Complete(const Event& event, Phase* phase);
  void ExecuteEngine(size_t agent, const Event& event);
  bool HaveCommitted(size_t agent, const Event& event) const;
  void Issue(size_t agent, const Event& event);
  void Commit(size_t agent, Phase* phase);
  void Fence(size_t agent, const Event& event);
  void Touch(size_t agent, const Event& event, size_t line, uint32_t time);
  void Release(size_t agent, Knowledge* to) const;
  void Acquire(size_t agent, const Knowledge& from);
  bool IsInitialized(size_t agent, const Event& event, const Phase& phase);
  void CheckEnd();
  void Find(Missing missing, int earlier, int later) {
    if (!finding_) finding_ = Finding{missing, earlier, later};
  }

  const Program& program_;
  const Agents& agents_;
  const std::vector<Trace>& traces_;
  size_t lines_ = 0;
  std::vector<AgentState> states_;
  std::map<Barrier, Phase> phases_;
  std::map<std::pair<int, int64_t>, Meeting> meetings_;
  std::optional<History> history_;
  SourceOrder source_order_;
  std::optional<Finding> finding_;
  std::string obstacle_;
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_MACHINE_H_
