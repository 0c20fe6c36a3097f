// Divides the threads of a block into agents: threads that take the same part in every operation
// are one agent, and one thread stands for all of them.
#ifndef TILELANG_VERIFY_AGENT_H_
#define TILELANG_VERIFY_AGENT_H_

#include <vector>

#include "verify/program.h"

namespace tilelang::verify {

struct Agent {
  int64_t thread = 0;  // that stands for the others
  int64_t count = 0;   // how many they are
  bool elected = false;
  int warp = 0;       // agents of one warp, or of warps alike, have one number
  int64_t warps = 1;  // how many warps these are
};

struct Agents {
  std::vector<Agent> all;
  std::vector<int> of_thread;

  size_t size() const { return all.size(); }
  const Agent& operator[](size_t i) const { return all[i]; }
};

// Finds the agents of a program. Among warps whose threads do the same (with wgmma and tensor
// memory: warps of one warpgroup), one warp is a separate agent, so that conflicts between two
// warps are seen. The last thread of a warp is the thread that elect_one() chooses. A thread that
// does something alone is an agent alone.
Agents FindAgents(const Program& program);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_AGENT_H_
