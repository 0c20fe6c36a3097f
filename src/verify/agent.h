// The threads of a block by what they do: those that take the same part in every operation are one
// agent, of which one thread stands for all.
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

// Of warps whose threads do the same (and, with wgmma and tensor memory, of one warpgroup) one is
// kept apart from the others, so that what two warps do to each other is seen; the last thread of a
// warp is the one that elect_one() chooses. Threads that are alone in what they do are agents
// alone.
Agents FindAgents(const Program& program);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_AGENT_H_
