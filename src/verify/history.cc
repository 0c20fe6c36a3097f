#include "verify/history.h"

#include <algorithm>

namespace tilelang::verify {

History::History(const Program& program, const Agents& agents, size_t lines,
                 ConflictQuery* conflict_test)
    : program_(program),
      agents_(agents),
      lines_(lines),
      conflict_test_(conflict_test),
      entries_(program.sites().size()),
      conflicts_(program.sites().size()) {
  const std::vector<Site>& sites = program.sites();
  for (size_t i = 0; i < sites.size(); ++i) {
    for (size_t j = 0; j < sites.size(); ++j) {
      if (ConflictQuery::MayConflict(sites[i], sites[j]))
        conflicts_[i].push_back(static_cast<int>(j));
    }
  }
}

void History::Add(const Touch& touch, size_t line, uint32_t time) {
  std::vector<Entry>& entries = entries_[static_cast<size_t>(touch.site)];
  auto same = [&](const Entry& entry) {
    return entry.touch.begin == touch.begin && entry.touch.end == touch.end &&
           entry.touch.first_lane == touch.first_lane && entry.touch.instance == touch.instance;
  };
  auto it = std::find_if(entries.begin(), entries.end(), same);
  if (it == entries.end()) {
    it = entries.insert(
        entries.end(), {touch, std::vector<uint32_t>(lines_, 0), std::vector<uint64_t>(lines_, 0)});
  }
  it->at[line] = time;
  it->iteration[line] = touch.iteration;
}

std::optional<Finding> History::Check(const Touch& touch, size_t agent,
                                      const std::vector<AgentState>& states) {
  const Site& later = program_.sites()[static_cast<size_t>(touch.site)];
  for (int id : conflicts_[static_cast<size_t>(touch.site)]) {
    const Site& earlier = program_.sites()[static_cast<size_t>(id)];
    for (const Entry& entry : entries_[static_cast<size_t>(id)]) {
      if (!ConflictQuery::MayConflict(entry.touch, touch)) continue;
      for (size_t line = 0; line < lines_; ++line) {
        if (entry.at[line] == 0) continue;
        Missing missing = Lacks(earlier, line, entry.at[line], later, agent, states);
        if (missing == Missing::kNothing) continue;
        // A race inside of one execution of a statement is in the program as written.
        bool one = id == touch.site && entry.iteration[line] == touch.iteration;
        if (one && !program_.step(later.step).is_loop) continue;
        size_t other = AgentOf(line, earlier, agent, states);
        // A thread must wait for its own cp.async copies, too.
        bool own = earlier.by == OperationKind::kCopyAsync && missing == Missing::kCompletion;
        if (!conflict_test_->Conflict({&earlier, entry.touch, other}, {&later, touch, agent},
                                      own)) {
          continue;
        }
        return Finding{missing, id, touch.site};
      }
    }
  }
  return std::nullopt;
}

// Returns the agent whose threads made the access. Only cp.async among the engines needs it.
size_t History::AgentOf(size_t line, const Site& site, size_t otherwise,
                        const std::vector<AgentState>& states) const {
  if (line < agents_.size()) return line;
  if (site.by != OperationKind::kCopyAsync) return otherwise;
  size_t agent = 0;
  while (states[agent].copies.line != line) ++agent;
  return agent;
}

Missing History::Lacks(const Site& earlier, size_t line, uint32_t time, const Site& later,
                       size_t agent, const std::vector<AgentState>& states) const {
  switch (later.space) {
    case Space::kRegisters:
      return LacksRegisters(earlier, line, time, later, agent, states[agent]);
    case Space::kTmem:
      return LacksTmem(earlier, line, time, later, agent, states);
    default:
      return LacksShared(earlier, line, time, later, agent, states[agent]);
  }
}

Missing History::LacksShared(const Site& earlier, size_t line, uint32_t time, const Site& later,
                             size_t agent, const AgentState& state) const {
  bool known = state.knows.happened[line] >= time;
  // cp.async accesses memory through the generic proxy, as threads do.
  bool by_engine = IsAsynchronous(later.by) && later.by != OperationKind::kCopyAsync;
  if (earlier.by == OperationKind::kCopyAsync) {
    bool waited = known || (line == state.copies.line && state.copied >= time);
    if (!waited) return Missing::kCompletion;
    if (!known && agents_[agent].count > 1) return Missing::kBarrier;
    bool seen = !by_engine || !earlier.writes || state.knows.fenced[line] >= time;
    return seen ? Missing::kNothing : Missing::kProxyFence;
  }
  if (IsAsynchronous(earlier.by)) {
    // The tcgen05 instructions of one thread execute in order.
    bool in_pipe = later.by == OperationKind::kTensorCore && line == state.tensor.line;
    return known || in_pipe ? Missing::kNothing : Missing::kCompletion;
  }
  // All lanes of a warp allocate tensor memory together.
  bool together = earlier.by == OperationKind::kAllocTmem && later.by == earlier.by &&
                  agents_[line].warp == agents_[agent].warp;
  if (together) return Missing::kNothing;
  bool alone = line == agent && agents_[agent].count == 1;
  // One of the threads of the agent issues the operation of the engine.
  bool own = alone || (line == agent && by_engine);
  if (!known && !own) return Missing::kBarrier;
  bool fenced = !by_engine || !earlier.writes || state.knows.fenced[line] >= time;
  return fenced ? Missing::kNothing : Missing::kProxyFence;
}

Missing History::LacksTmem(const Site& earlier, size_t line, uint32_t time, const Site& later,
                           size_t agent, const std::vector<AgentState>& states) const {
  const AgentState& state = states[agent];
  if (state.acquired[line] >= time) return Missing::kNothing;
  bool known = state.knows.happened[line] >= time;
  if (earlier.by == OperationKind::kTensorCore) {
    bool in_pipe = later.by == OperationKind::kTensorCore && line == state.tensor.line;
    if (in_pipe) return Missing::kNothing;
    return known ? Missing::kTensorFence : Missing::kCompletion;
  }
  if (earlier.by == OperationKind::kTmemStore) {
    // The instructions of one store write different cells.
    if (later.by == earlier.by && line == state.tmem_stores.line) return Missing::kNothing;
    // All threads of a warp store together, and each of them waits for its own store.
    for (size_t other = 0; other < agents_.size(); ++other) {
      bool together = agents_[other].warp == agents_[agent].warp && other != agent;
      if (together && states[other].tmem_stores.line == line) return Missing::kNothing;
    }
    return known ? Missing::kTensorFence : Missing::kCompletion;
  }
  // Accesses of threads remain. A load is complete before the thread continues.
  bool together = agents_[line].warp == agents_[agent].warp;
  if (together && later.by != OperationKind::kTensorCore) return Missing::kNothing;
  if (line == agent) return Missing::kNothing;
  return known ? Missing::kTensorFence : Missing::kBarrier;
}

Missing History::LacksRegisters(const Site& earlier, size_t line, uint32_t time, const Site& later,
                                size_t agent, const AgentState& state) const {
  if (earlier.by == OperationKind::kWgmma) {
    bool own = line == state.registers_line && later.by != OperationKind::kWgmma;
    bool complete = state.knows.happened[line] >= time;
    return own && !complete ? Missing::kCompletion : Missing::kNothing;
  }
  bool fences = line == agent && later.by == OperationKind::kWgmma;
  return fences && state.register_fence < time ? Missing::kRegisterFence : Missing::kNothing;
}

}  // namespace tilelang::verify
