#include "verify/source_order.h"

#include <algorithm>

namespace tilelang::verify {

namespace {

bool SamePlace(const ir::Span& a, const ir::Span& b) {
  return a.defined() && b.defined() && a->file == b->file && a->line == b->line &&
         a->column == b->column && a->end_line == b->end_line && a->end_column == b->end_column;
}

// Returns how many effects of this kind the program has at this place, on buffers of this name:
// elements of a list of tiles share it.
int CountAt(const Graph& graph, const ir::Effect& effect) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    for (const ir::Effect& other : node.effects) {
      count += other.buffer->name == effect.buffer->name && other.kind == effect.kind &&
               SamePlace(other.span, effect.span);
    }
  }
  return count;
}

// Returns the only effect of the node on the buffer if it reads (or writes), else null.
const ir::Effect* OnlyEffect(const Node& node, const ir::Buffer& buffer, bool writes) {
  const ir::Effect* found = nullptr;
  for (const ir::Effect& effect : node.effects) {
    if (!effect.buffer.same_as(buffer)) continue;
    if (found != nullptr) return nullptr;
    found = &effect;
  }
  auto wanted = writes ? ir::EffectKind::kWrite : ir::EffectKind::kRead;
  return found != nullptr && found->kind == wanted ? found : nullptr;
}

// Returns whether the site belongs to the effect. Among the writes only TMA loads are followed:
// they may run far ahead, and they state what they touch.
bool IsOf(const Site& site, const ir::Span& span, const ir::Buffer& buffer, bool writes) {
  bool wanted = writes ? site.by == OperationKind::kTmaLoad : site.reads;
  return site.space == Space::kShared && wanted && site.buffer->name == buffer->name &&
         SamePlace(site.span, span);
}

}  // namespace

std::vector<Requirement> RequirementsOf(const Graph& graph) {
  std::vector<Requirement> requirements;
  for (const Edge& edge : graph.edges()) {
    bool follows =
        edge.kind == Dependence::kReadAfterWrite && edge.distance == 0 && edge.buffer.IsShared();
    if (!follows) continue;
    const Node& from = graph.nodes()[static_cast<size_t>(edge.from)];
    const Node& to = graph.nodes()[static_cast<size_t>(edge.to)];
    if (from.loops != to.loops || from.branches != to.branches) continue;
    const ir::Effect* write = OnlyEffect(from, edge.buffer, true);
    const ir::Effect* read = OnlyEffect(to, edge.buffer, false);
    if (write == nullptr || read == nullptr) continue;
    if (CountAt(graph, *write) != 1 || CountAt(graph, *read) != 1) continue;
    const auto* load = write->By<ir::CopyNode>();
    bool trimmed = load != nullptr && load->options->existing_rows != 0;
    requirements.push_back({write->span, read->span, edge.buffer, trimmed});
  }
  return requirements;
}

SourceOrder::SourceOrder(const std::vector<Requirement>& requirements, const Program& program,
                         const std::vector<Trace>& traces, ConflictQuery* conflict_test)
    : program_(program),
      conflict_test_(conflict_test),
      earlier_of_(program.sites().size()),
      later_of_(program.sites().size()) {
  for (const Requirement& r : requirements) {
    Followed followed;
    followed.trimmed = r.trimmed;
    followed.earlier.of_agent.resize(traces.size());
    followed.later.of_agent.resize(traces.size());
    std::vector<bool> earlier;
    std::vector<bool> later;
    for (const Site& site : program.sites()) {
      earlier.push_back(IsOf(site, r.earlier, r.buffer, true));
      later.push_back(IsOf(site, r.later, r.buffer, false));
    }
    // The order can be followed if all agents that execute the accesses execute them equally often.
    std::vector<size_t> counts;
    Followed counted = followed;
    for (size_t agent = 0; agent < traces.size(); ++agent) {
      for (const Touch& touch : traces[agent].touches) {
        auto site = static_cast<size_t>(touch.site);
        if (earlier[site]) counted.earlier.Enter(touch, agent);
        if (later[site]) counted.later.Enter(touch, agent);
      }
      size_t written = counted.earlier.of_agent[agent].size();
      size_t read = counted.later.of_agent[agent].size();
      if (written != 0) followed.writers.push_back(agent);
      for (size_t count : {written, read}) {
        if (count != 0) counts.push_back(count);
      }
    }
    bool equal = std::all_of(counts.begin(), counts.end(),
                             [&](size_t count) { return count == counts.front(); });
    if (!equal || followed.writers.empty()) continue;
    int number = static_cast<int>(followed_.size());
    followed_.push_back(std::move(followed));
    for (size_t site = 0; site < earlier.size(); ++site) {
      if (earlier[site]) earlier_of_[site].push_back(number);
      if (later[site]) later_of_[site].push_back(number);
    }
  }
}

// Adds a touch to the execution that it belongs to. The calls of one execution are in one
// iteration, so a site that comes again begins the next execution.
SourceOrder::Execution* SourceOrder::Side::Enter(const Touch& touch, size_t agent) {
  std::vector<Execution>& all = of_agent[agent];
  auto again = [&](const Touch& other) {
    return other.iteration != touch.iteration || other.site == touch.site;
  };
  bool fresh =
      all.empty() || std::any_of(all.back().touches.begin(), all.back().touches.end(), again);
  if (fresh) all.emplace_back();
  all.back().touches.push_back(touch);
  return &all.back();
}

std::optional<Finding> SourceOrder::See(const Touch& touch, size_t agent, size_t line,
                                        uint32_t time, const std::vector<AgentState>& states) {
  auto site = static_cast<size_t>(touch.site);
  for (int number : earlier_of_[site]) {
    Execution* execution = followed_[static_cast<size_t>(number)].earlier.Enter(touch, agent);
    execution->line = line;
    execution->time = time;
  }
  for (int number : later_of_[site]) {
    Followed& followed = followed_[static_cast<size_t>(number)];
    followed.later.Enter(touch, agent);
    if (auto finding = Check(followed, touch, agent, states[agent])) return finding;
  }
  return std::nullopt;
}

std::optional<Finding> SourceOrder::Check(const Followed& followed, const Touch& touch,
                                          size_t agent, const AgentState& state) const {
  size_t number = followed.later.of_agent[agent].size() - 1;
  auto wrong = [&](int earlier) { return Finding{Missing::kProgramOrder, earlier, touch.site}; };
  const auto& sites = program_.sites();
  Access later{&sites[static_cast<size_t>(touch.site)], touch, agent};
  auto meets = [&](const Execution& execution) {
    return std::any_of(execution.touches.begin(), execution.touches.end(), [&](const Touch& other) {
      Access earlier{&sites[static_cast<size_t>(other.site)], other, agent};
      return ConflictQuery::MayConflict(other, touch) && conflict_test_->Conflict(earlier, later);
    });
  };
  bool found = followed.trimmed;
  int site = touch.site;
  for (size_t writer : followed.writers) {
    const std::vector<Execution>& written = followed.earlier.of_agent[writer];
    if (written.empty()) continue;
    site = written.front().touches.front().site;
    if (written.size() > number && meets(written[number])) {
      const Execution& own = written[number];
      if (state.knows.happened[own.line] < own.time) return wrong(site);
      found = true;
    }
    // A write that comes later in the program must not have happened yet.
    for (size_t i = number + 1; i < written.size(); ++i) {
      if (meets(written[i])) return wrong(site);
    }
  }
  if (!found && !conflict_test_->IsEmpty(later)) return wrong(site);
  return std::nullopt;
}

}  // namespace tilelang::verify
