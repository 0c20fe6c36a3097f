#include "verify/machine.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <set>

#include "op/issue.h"
#include "op/wgmma.h"
#include "target/warp.h"

namespace tilelang::verify {

using enum OperationKind;

namespace {

// Returns the number of the pipe that the agent uses. A warpgroup has one wgmma pipe, because a
// wgmma is complete for all of its warps at once.
size_t PipeOf(const Agent& agent, size_t number, OperationKind kind) {
  return kind == kWgmma ? static_cast<size_t>(agent.thread / kWarpgroup) : number;
}

bool IsOfProgram(const Event& event) {
  return op::IsProgramBarrier(tvm::ffi::GetRef<ir::Buffer>(event.barrier));
}

}  // namespace

Machine::Machine(const Program& program, const Agents& agents, const std::vector<Trace>& traces,
                 const std::vector<Requirement>& requirements, ConflictQuery* conflict_test)
    : program_(program),
      agents_(agents),
      traces_(traces),
      lines_(agents.size()),
      source_order_(requirements, program, traces, conflict_test) {
  // Knowledge has a line for each agent, for each pipe that an agent uses, and for the loads of
  // each mbarrier.
  std::map<std::pair<size_t, OperationKind>, size_t> pipes;
  std::map<size_t, size_t> registers;
  std::map<Barrier, size_t> loads;
  std::set<Barrier> barriers;
  for (size_t agent = 0; agent < agents.size(); ++agent) {
    for (const Event& event : traces[agent].events) {
      if (event.barrier != nullptr) barriers.insert({event.barrier, event.element});
      if (event.kind == kTmaLoad) {
        auto [it, is_new] = loads.try_emplace({event.barrier, event.element}, lines_);
        lines_ += is_new;
      } else if (IsAsynchronous(event.kind) || event.kind == kTmemStore) {
        auto [it, is_new] =
            pipes.try_emplace({PipeOf(agents[agent], agent, event.kind), event.kind}, lines_);
        lines_ += is_new;
        if (event.kind == kWgmma && registers.try_emplace(agent, lines_).second) ++lines_;
      }
    }
  }
  size_t unused = lines_++;  // for pipes that there are not
  auto line = [&](size_t agent, OperationKind kind) {
    auto it = pipes.find({PipeOf(agents[agent], agent, kind), kind});
    return it == pipes.end() ? unused : it->second;
  };
  for (size_t agent = 0; agent < agents.size(); ++agent) {
    AgentState& state = states_.emplace_back(lines_);
    state.wgmma.line = line(agent, kWgmma);
    state.registers_line = registers.count(agent) != 0 ? registers[agent] : unused;
    state.stores.line = line(agent, kTmaStore);
    state.copies.line = line(agent, kCopyAsync);
    state.tensor.line = line(agent, kTensorCore);
    state.tmem_stores.line = line(agent, kTmemStore);
  }
  for (const Barrier& barrier : barriers) {
    Phase phase(lines_);
    auto it = loads.find(barrier);
    phase.line = it == loads.end() ? 0 : it->second;
    phases_.emplace(barrier, std::move(phase));
  }
  history_.emplace(program, agents, lines_, conflict_test);
}

std::optional<Finding> Machine::Run() {
  bool progress = true;
  while (progress && !finding_ && obstacle_.empty()) {
    progress = false;
    for (size_t agent = 0; agent < agents_.size(); ++agent) {
      size_t before = states_[agent].next;
      Step(agent);
      progress |= states_[agent].next != before;
      if (finding_ || !obstacle_.empty()) break;
    }
  }
  if (!finding_ && obstacle_.empty()) CheckEnd();
  return finding_;
}

// Executes events of the agent until it waits.
void Machine::Step(size_t agent) {
  AgentState& state = states_[agent];
  const std::vector<Event>& events = traces_[agent].events;
  while (!state.waits && state.next < events.size() && !finding_ && obstacle_.empty()) {
    if (!Execute(agent, events[state.next])) return;
    ++state.next;
  }
}

void Machine::Release(size_t agent, Knowledge* to) const {
  const AgentState& state = states_[agent];
  to->Join(state.knows);
  to->reached.Set(agent, state.time);
  to->happened.Set(agent, state.time);
  to->happened.Set(state.copies.line, state.copied);
}

void Machine::Acquire(size_t agent, const Knowledge& from) {
  AgentState& state = states_[agent];
  state.knows.Join(from);
  state.arrived.Join(from.published);
}

// Executes an event. Returns false if the agent must wait for it.
bool Machine::Execute(size_t agent, const Event& event) {
  AgentState& state = states_[agent];
  ++state.time;
  switch (event.kind) {
    case kNone:
    case kAllocTmem:
    case kFreeTmem:
    case kTmemLoad:
      Touch(agent, event, agent, state.time);
      return true;
    case kBarrier:
    case kWarpBarrier:
    case kElect:
    case kInit:
    case kArrive:
    case kExpect:
    case kArriveExpect:
    case kWaitPhase:
      return ExecuteBarrier(agent, event);
    case kInitFence:
    case kProxyFence:
    case kWgmmaFence:
    case kBeforeSync:
    case kAfterSync:
      Fence(agent, event);
      return true;
    case kWaitWgmma:
      if (!HaveCommitted(agent, event)) return false;
      ExecuteEngine(agent, event);
      return true;
    default:
      ExecuteEngine(agent, event);
      return true;
  }
}

// Returns whether the other warps of the warpgroup have also issued the groups that the agent waits
// for. A group is complete for all warps at once.
bool Machine::HaveCommitted(size_t agent, const Event& event) const {
  auto wanted = static_cast<int64_t>(states_[agent].wgmma.groups.size()) - event.number;
  for (size_t other = 0; other < agents_.size(); ++other) {
    bool together = states_[other].wgmma.line == states_[agent].wgmma.line &&
                    agents_[other].thread / kWarpgroup == agents_[agent].thread / kWarpgroup;
    auto committed = static_cast<int64_t>(states_[other].wgmma.groups.size());
    if (together && committed < wanted) return false;
  }
  return true;
}

void Machine::Touch(size_t agent, const Event& event, size_t line, uint32_t time) {
  for (size_t i = 0; i < event.num_touches && !finding_; ++i) {
    const verify::Touch& touch = traces_[agent].touches[event.first_touch + i];
    finding_ = history_->Check(touch, agent, states_);
    const Site& site = program_.sites()[static_cast<size_t>(touch.site)];
    bool threads = !IsAsynchronous(site.by) && site.by != kTmemStore;
    bool registers = !threads && site.space == Space::kRegisters;
    size_t where = threads ? agent : registers ? states_[agent].registers_line : line;
    uint32_t when = threads ? states_[agent].time : time;
    history_->Add(touch, where, when);
    if (!finding_) finding_ = source_order_.See(touch, agent, where, when, states_);
  }
}

bool Machine::ExecuteBarrier(size_t agent, const Event& event) {
  AgentState& state = states_[agent];
  if (event.kind == kBarrier) {
    int64_t all = static_cast<int64_t>(agents_.of_thread.size());
    return Meet(agent, {0, event.element}, event.number == 0 ? all : event.number);
  }
  if (event.kind == kWarpBarrier || event.kind == kElect) {
    int64_t threads = 0;
    for (const Agent& other : agents_.all) {
      if (other.warp == agents_[agent].warp) threads += other.count;
    }
    int kind = event.kind == kElect ? 2 : 1;
    return Meet(agent, {kind, agents_[agent].warp}, threads);
  }
  Phase& phase = phases_.at({event.barrier, event.element});
  if (event.kind == kInit) {
    phase.initialized = true;
    phase.expected = phase.pending = event.number;
    phase.init_agent = agent;
    phase.init_step = event.step;
    phase.init_time = state.time;
    return true;
  }
  if (!IsInitialized(agent, event, phase)) return false;
  if (event.kind == kWaitPhase) return Wait(agent, event, &phase);
  if (event.kind != kArrive) phase.bytes += event.number * agents_[agent].count;
  if (event.kind != kExpect) Arrive(agent, event, &phase);
  return true;
}

// Brings an agent to a meeting. place.first is 0 for a barrier of the block, 1 for a barrier of a
// warp, and 2 for an election in a warp; place.second is its number.
bool Machine::Meet(size_t agent, std::pair<int, int64_t> place, int64_t threads) {
  Meeting& meeting = meetings_[place];
  meeting.agents.push_back(agent);
  meeting.threads += agents_[agent].count;
  if (meeting.threads > threads) obstacle_ = "more threads than a barrier waits for arrive at it";
  if (meeting.threads < threads) {
    states_[agent].waits = true;
    return false;
  }
  Knowledge all(lines_);
  for (size_t member : meeting.agents) Release(member, &all);
  for (size_t member : meeting.agents) {
    if (place.first == 2) {
      states_[member].knows.reached.Join(all.reached);
    } else {
      Acquire(member, all);
    }
    // The other agents stopped at the barrier; let them continue after it.
    if (states_[member].waits) ++states_[member].next;
    states_[member].waits = false;
  }
  meeting = {};
  return true;
}

bool Machine::IsInitialized(size_t agent, const Event& event, const Phase& phase) {
  if (!phase.initialized) {
    obstacle_ = "an mbarrier is used before its initialization is reached";
    return false;
  }
  const Knowledge& knows = states_[agent].knows;
  bool own = phase.init_agent == agent;
  if (!own && knows.happened[phase.init_agent] < phase.init_time) {
    Find(Missing::kInit, phase.init_step, event.step);
    return false;
  }
  bool engine = event.kind == kTmaLoad || event.kind == kCommitTensorCore;
  if (engine && knows.fenced[phase.init_agent] < phase.init_time) {
    Find(Missing::kInit, phase.init_step, event.step);
    return false;
  }
  return true;
}

bool Machine::Wait(size_t agent, const Event& event, Phase* phase) {
  // The awaited phase is over if a phase of the other parity runs.
  if (((phase->number & 1) != 0) == ((event.number & 1) != 0)) return false;
  if (phase->number == 0) return true;
  Acquire(agent, phase->complete);
  phase->waited.emplace_back(agent, states_[agent].time);
  phase->waited_at = event.step;
  return true;
}

void Machine::Arrive(size_t agent, const Event& event, Phase* phase) {
  Release(agent, &phase->gathered);
  Count(agent, event, phase);
}

void Machine::Count(size_t agent, const Event& event, Phase* phase) {
  phase->pending -= agents_[agent].count;
  if (phase->pending >= 0) return Complete(event, phase);
  if (IsOfProgram(event)) {
    obstacle_ = "an mbarrier of the program gets more arrivals than a phase has";
  } else {
    Find(Missing::kCount, event.step, event.step);
  }
}

void Machine::Complete(const Event& event, Phase* phase) {
  if (phase->pending != 0 || phase->bytes != 0) return;
  // A wait by parity cannot tell a phase from the phase after the next one. All agents that wait
  // for the previous phase must therefore have seen its completion.
  for (const auto& [agent, time] : phase->waited) {
    bool seen = phase->gathered.reached[agent] >= time;
    if (!seen && !IsOfProgram(event)) Find(Missing::kPhase, phase->waited_at, event.step);
  }
  phase->waited.clear();
  phase->complete.Join(phase->gathered);
  phase->pending = phase->expected;
  ++phase->number;
}

void Machine::Fence(size_t agent, const Event& event) {
  AgentState& state = states_[agent];
  Knowledge& knows = state.knows;
  switch (event.kind) {
    case kInitFence:
    case kProxyFence:
      knows.fenced.Join(knows.happened);
      knows.fenced.Set(agent, state.time);
      knows.fenced.Set(state.copies.line, state.copied);
      break;
    case kWgmmaFence:
      state.register_fence = state.time;
      break;
    case kBeforeSync:
      knows.published.Join(state.acquired);
      knows.published.Set(agent, state.time);
      break;
    default:
      state.acquired.Join(state.arrived);
  }
}

void Machine::ExecuteEngine(size_t agent, const Event& event) {
  AgentState& state = states_[agent];
  Clock& happened = state.knows.happened;
  switch (event.kind) {
    case kCommitStores:
      state.stores.groups.push_back(state.stores.issued);
      break;
    case kWaitStores:
      happened.Set(state.stores.line, state.stores.Before(event.number));
      break;
    case kCommitCopies:
      state.copies.groups.push_back(state.copies.issued);
      break;
    case kWaitCopies:
      state.copied = std::max(state.copied, state.copies.Before(event.number));
      break;
    case kCommitWgmma:
      state.wgmma.groups.push_back(state.wgmma.issued);
      break;
    case kWaitWgmma:
      happened.Set(state.wgmma.line, state.wgmma.Before(event.number));
      happened.Set(state.registers_line, state.wgmma.Before(event.number));
      break;
    case kWaitTmemStores:
      state.acquired.Set(state.tmem_stores.line, state.tmem_stores.issued);
      happened.Set(state.tmem_stores.line, state.tmem_stores.issued);
      break;
    case kCommitTensorCore: {
      Phase& phase = phases_.at({event.barrier, event.element});
      if (!IsInitialized(agent, event, phase)) return;
      Commit(agent, &phase);
      Count(agent, event, &phase);
      break;
    }
    default:
      Issue(agent, event);
  }
}

// Adds to the phase everything that the tensor core has done for the agent, and the agent's earlier
// knowledge.
void Machine::Commit(size_t agent, Phase* phase) {
  const AgentState& state = states_[agent];
  Knowledge& to = phase->gathered;
  to.reached.Join(state.knows.reached);
  to.reached.Set(agent, state.time);
  to.happened.JoinExcept(state.knows.happened, agent);
  to.fenced.JoinExcept(state.knows.fenced, agent);
  to.published.JoinExcept(state.acquired, agent);
  to.happened.Set(state.tensor.line, state.tensor.issued);
  to.published.Set(state.tensor.line, state.tensor.issued);
}

void Machine::Issue(size_t agent, const Event& event) {
  AgentState& state = states_[agent];
  if (event.kind == kTmaLoad) {
    Phase& phase = phases_.at({event.barrier, event.element});
    if (!IsInitialized(agent, event, phase)) return;
    Touch(agent, event, phase.line, ++phase.loads);
    phase.gathered.reached.Join(state.knows.reached);
    phase.gathered.reached.Set(agent, state.time);
    phase.gathered.happened.JoinExcept(state.knows.happened, agent);
    phase.gathered.happened.Set(phase.line, phase.loads);
    phase.bytes -= event.number * agents_[agent].count;
    Complete(event, &phase);
    return;
  }
  AgentState::Pipe& pipe = event.kind == kTmaStore     ? state.stores
                           : event.kind == kCopyAsync  ? state.copies
                           : event.kind == kWgmma      ? state.wgmma
                           : event.kind == kTensorCore ? state.tensor
                                                       : state.tmem_stores;
  ++pipe.issued;
  if (event.kind == kWgmma && state.register_fence == 0) {
    Find(Missing::kFirstFence, event.step, event.step);
  }
  Touch(agent, event, pipe.line, pipe.issued);
}

void Machine::CheckEnd() {
  for (size_t agent = 0; agent < agents_.size(); ++agent) {
    const AgentState& state = states_[agent];
    const std::vector<Event>& events = traces_[agent].events;
    if (state.next < events.size()) {
      int step = events[state.next].step;
      if (program_.has_own_barriers()) {
        obstacle_ = "threads wait for what the program orders";
      } else {
        Find(Missing::kProgress, step, step);
      }
      return;
    }
  }
  for (size_t agent = 0; agent < agents_.size(); ++agent) {
    const AgentState& state = states_[agent];
    // Shared memory goes to another block when this one exits, so its stores and wgmma must be
    // complete.
    for (const auto& [pipe, kind] :
         {std::pair(&state.stores, kTmaStore), std::pair(&state.wgmma, kWgmma)}) {
      if (state.knows.happened[pipe->line] >= pipe->issued) continue;
      for (const Event& event : traces_[agent].events) {
        if (event.kind == kind) return Find(Missing::kDrain, event.step, event.step);
      }
    }
  }
}

}  // namespace tilelang::verify
