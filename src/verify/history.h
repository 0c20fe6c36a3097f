// The accesses of a run so far, and which of them an access does not come after.
#ifndef TILELANG_VERIFY_HISTORY_H_
#define TILELANG_VERIFY_HISTORY_H_

#include <optional>
#include <vector>

#include "verify/clock.h"
#include "verify/conflict_query.h"

namespace tilelang::verify {

// The kind of order that an access lacks to come after another one.
enum class Missing : uint8_t {
  kNothing,
  kBarrier,     // threads do not synchronize in between
  kCompletion,  // nothing waits for the engine
  kProxyFence,
  kTensorFence,
  kRegisterFence,
  kProgramOrder,  // of accesses: not that of the program
  kInit,          // an mbarrier is used before its initialization is seen
  kCount,         // more arrivals at an mbarrier than a phase has
  kFirstFence,    // of wgmma
  kPhase,         // a wait may come too late for its phase
  kProgress,      // an agent waits for ever
  kDrain,         // the block may end before
};

struct Finding {
  Missing missing = Missing::kNothing;
  int earlier = -1;  // sites; from kInit on steps
  int later = -1;
};

// The pipes of an agent, and what it knows.
struct AgentState {
  AgentState(size_t lines) : knows(lines), arrived(lines), acquired(lines) {}

  uint32_t time = 0;
  size_t next = 0;  // event
  bool waits = false;
  Knowledge knows;
  Clock arrived;   // published by agents with whom it has synchronized
  Clock acquired;  // of it, what tcgen05 instructions of the agent come after
  uint32_t register_fence = 0;
  // Lines of its pipes, and how much has been given to each; groups that were committed.
  struct Pipe {
    size_t line = 0;
    uint32_t issued = 0;
    std::vector<uint32_t> groups;

    // Returns the work that is over when all groups except the last `left` are.
    uint32_t Before(int64_t left) const {
      auto count = static_cast<int64_t>(groups.size()) - left;
      return count <= 0 ? 0 : groups[static_cast<size_t>(count) - 1];
    }
  };
  Pipe wgmma;
  size_t registers_line = 0;  // of what wgmma does to the agent's registers
  Pipe stores;
  Pipe copies;
  uint32_t copied = 0;  // of them, what each thread has waited for by itself: its own copies
  Pipe tensor;
  Pipe tmem_stores;
};

class History {
 public:
  History(const Program& program, const Agents& agents, size_t lines, ConflictQuery* conflict_test);

  // Returns which order between an agent's access and an earlier one is missing.
  std::optional<Finding> Check(const Touch& touch, size_t agent,
                               const std::vector<AgentState>& states);
  // It takes place as step number `time` of a line.
  void Add(const Touch& touch, size_t line, uint32_t time);

 private:
  struct Entry {
    Touch touch;
    std::vector<uint32_t> at;  // of each line, the last time
    std::vector<uint64_t> iteration;
  };

  size_t AgentOf(size_t line, const Site& site, size_t otherwise,
                 const std::vector<AgentState>& states) const;
  Missing Lacks(const Site& earlier, size_t line, uint32_t time, const Site& later, size_t agent,
                const std::vector<AgentState>& states) const;
  Missing LacksShared(const Site& earlier, size_t line, uint32_t time, const Site& later,
                      size_t agent, const AgentState& state) const;
  Missing LacksTmem(const Site& earlier, size_t line, uint32_t time, const Site& later,
                    size_t agent, const std::vector<AgentState>& states) const;
  Missing LacksRegisters(const Site& earlier, size_t line, uint32_t time, const Site& later,
                         size_t agent, const AgentState& state) const;

  const Program& program_;
  const Agents& agents_;
  size_t lines_;
  ConflictQuery* conflict_test_;
  std::vector<std::vector<Entry>> entries_;  // by site
  std::vector<std::vector<int>> conflicts_;  // by site, the sites that may conflict with it
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_HISTORY_H_
