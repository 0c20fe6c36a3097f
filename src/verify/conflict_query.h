// Decides whether two accesses touch the same memory, by different threads.
#ifndef TILELANG_VERIFY_CONFLICT_QUERY_H_
#define TILELANG_VERIFY_CONFLICT_QUERY_H_

#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/thread_set.h"
#include "arith/mix_hash.h"
#include "verify/elements.h"
#include "verify/trace.h"

namespace tilelang::verify {

// An access in a run: a site's touch by the threads of an agent.
struct Access {
  const Site* site = nullptr;
  Touch touch;
  size_t agent = 0;
};

class ConflictQuery {
 public:
  ConflictQuery(const Program& program, const Agents& agents, const Instances& instances,
                const Scenario& scenario);

  // Returns whether the sites may touch the same memory at all, and one of them writes.
  static bool MayConflict(const Site& a, const Site& b);
  // Returns whether these touches may conflict. It is cheap, and returns true where only elements
  // tell.
  static bool MayConflict(const Touch& a, const Touch& b);
  // Returns whether some thread of one agent touches an element that another thread of the other
  // agent, or its engine, touches in the other access. With `own`, it may be the same thread.
  bool Conflict(const Access& a, const Access& b, bool own = false);
  // None of the agent's threads touches anything of the buffer (or the scenario's indices leave
  // it).
  bool IsEmpty(const Access& access);

 private:
  using Accesses = std::vector<ElementAccess>;

  // Site, instance and agent of both accesses, and `own`.
  using Pair = std::array<int, 7>;
  struct PairHash {
    size_t operator()(const Pair& pair) const {
      return std::accumulate(pair.begin(), pair.end(), size_t{0}, arith::Mix);
    }
  };

  // Returns whether accesses by threads conflict.
  bool ThreadsConflict(const Access& a, const Access& b, bool own);
  // Returns what the threads touch of the site's buffer, with the values of the instance.
  const Accesses& AccessesOf(const Access& access);
  bool TouchesBytes(const Access& access, int64_t begin, int64_t end);
  bool TouchesBytes(const ElementAccess& part, size_t agent, int64_t begin, int64_t end) const;
  // The bytes of shared memory between the first and the last that the agent's threads touch.
  std::pair<int64_t, int64_t> SpanOf(const Access& access);
  bool OwnersConflict(const ElementAccess& a, size_t agent_a, const ElementAccess& b,
                      size_t agent_b, bool same, bool own) const;
  ir::Stmt Resolved(const ir::Stmt& s, const Step& step, int instance) const;
  bool IsOf(int32_t owner, size_t agent) const;

  const Program& program_;
  const Agents& agents_;
  const Instances& instances_;
  OperandReader operands_;
  std::vector<VariableRange> threads_;
  std::unordered_map<const ir::ffi::Object*, ir::Expr> constants_;  // of the launch
  std::unordered_map<const ir::ffi::Object*, ir::Expr> bound_;  // variables that differ by thread
  std::map<std::pair<int, int>, Accesses> accesses_;            // by site and instance
  std::map<std::tuple<int, int, size_t>, std::pair<int64_t, int64_t>> spans_;  // and agent
  std::unordered_map<Pair, bool, PairHash> pairs_;
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_CONFLICT_QUERY_H_
