#include "schedule/program_order.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/copy_async.h"
#include "op/effect.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Stmt;

namespace {

constexpr int64_t kAhead = -1;  // of loads
constexpr const char* kOrder = "order";
constexpr const char* kStage = "stage";

std::vector<int64_t> Numbers(const ir::ForNode* loop, const char* name) {
  auto given = loop->annotations.Get(name);
  if (!given) return {};
  auto numbers = (*given).cast<ir::Array<int64_t>>();
  return std::vector<int64_t>(numbers.begin(), numbers.end());
}

// The name of something that both touch.
std::string SharedName(const TaskNode& a, const TaskNode& b) {
  std::string name;
  auto visit = [&](const ir::Buffer& buffer) {
    auto touched = [&](const TaskNode& node) {
      const auto* memory = ir::MemoryOf(buffer);
      return node.reads.count(memory) + node.writes.count(memory) != 0;
    };
    if (name.empty() && touched(a) && touched(b)) name = buffer->name;
  };
  for (const Stmt& s : a.task->stmts) {
    ir::WalkEffects(s, [&](const ir::Effect& effect) { visit(effect.buffer); });
  }
  return name;
}

bool IsLoad(const Stmt& s) {
  if (op::AsTileCopy(s)) return true;
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared();
}

// Places and stages that the program gives parts.
class Places {
 public:
  explicit Places(const ir::ForNode* loop)
      : loop_(loop), order_(Numbers(loop, kOrder)), stage_(Numbers(loop, kStage)) {}

  // Parts that are not listed keep the order of the program, in the first stage.
  int64_t OrderOf(int64_t part) const {
    if (part < 0) return kAhead;
    return order_.empty() ? part : order_[static_cast<size_t>(part)];
  }
  int64_t StageOf(int64_t part) const {
    return part < 0 || stage_.empty() ? 0 : stage_[static_cast<size_t>(part)];
  }

  // Stages count from that of the first node that has one: loads may be listed before.
  void SetStages(std::vector<TaskNode>* nodes) const {
    std::vector<int64_t> stages;
    for (const TaskNode& node : *nodes) {
      bool listed = node.task->kind == TaskKind::kWork && StageOf(node.task->part) != kAhead;
      if (listed && node.task->part >= 0) stages.push_back(StageOf(node.task->part));
    }
    int64_t first = stages.empty() ? 0 : *std::min_element(stages.begin(), stages.end());
    int64_t most = std::count_if(nodes->begin(), nodes->end(), [](const TaskNode& node) {
      return node.task->kind == TaskKind::kWork;
    });
    for (TaskNode& node : *nodes) {
      int64_t stage = std::max<int64_t>(StageOf(node.task->part) - first, 0);
      if (stage >= most) {
        TL_USER_ERROR(kSemantics, loop_->span,
                      "T.Pipelined: stage lets statements run "
                          << stage << " iterations apart, but there are only " << most
                          << " of them to divide into stages");
      }
      node.stage = static_cast<int>(stage);
    }
  }

 private:
  const ir::ForNode* loop_;
  std::vector<int64_t> order_;
  std::vector<int64_t> stage_;
};

// Sets the stage of acquires and releases, that of all users of their tiles.
void FollowUsers(const ir::ForNode* loop, std::vector<TaskNode>* nodes) {
  for (TaskNode& node : *nodes) {
    if (node.task->kind == TaskKind::kWork) continue;
    std::optional<int> stage;
    for (const TaskNode& user : *nodes) {
      if (user.task->kind != TaskKind::kWork || !node.ConflictsWith(user)) continue;
      if (stage && *stage != user.stage) {
        TL_USER_ERROR(kSemantics, loop->span,
                      "T.Pipelined: stage lets statements of two stages use "
                          << SharedName(user, node)
                          << ", which is loaded once an iteration; give them the same stage");
      }
      stage = user.stage;
    }
    node.stage = stage.value_or(0);
  }
}

[[noreturn]] void RefuseOrder(const ir::ForNode* loop, const TaskNode& earlier,
                              const TaskNode& later, bool next) {
  auto line = [](const TaskNode& node) { return node.task->stmts.back().span()->line; };
  std::string name = SharedName(earlier, later);
  TL_USER_ERROR(kSemantics, loop->span,
                "T.Pipelined: with this order and stage, line "
                    << line(later) << (next ? " of the next iteration" : "")
                    << " would run before line " << line(earlier)
                    << ", although it must follow it: both use "
                    << (name.empty() ? "the same variable" : name) << ". Give line " << line(later)
                    << " a larger number in order= or stage=");
}

// If one node depends on another one of the same or the previous iteration, it must run later.
void CheckOrder(const ir::ForNode* loop, const std::vector<TaskNode>& nodes,
                const std::vector<size_t>& place) {
  auto time = [&](size_t i, int iteration) {
    return std::pair(iteration + nodes[i].stage, place[i]);
  };
  for (size_t v = 0; v < nodes.size(); ++v) {
    for (size_t u = 0; u < v; ++u) {
      bool work = nodes[u].task->kind == TaskKind::kWork && nodes[v].task->kind == TaskKind::kWork;
      if (!work || !nodes[u].ConflictsWith(nodes[v])) continue;
      if (time(v, 0) < time(u, 0)) RefuseOrder(loop, nodes[u], nodes[v], false);
      if (time(u, 1) < time(v, 0)) RefuseOrder(loop, nodes[v], nodes[u], true);
    }
  }
}

}  // namespace

std::optional<int64_t> PartAt(const Stmt& s) {
  const ir::CallNode* call = op::CallOf(s);
  if (call == nullptr || !call->Is(ir::Builtin::kPipelinePart)) return std::nullopt;
  return ir::AsInt(call->args[0]);
}

bool HasProgramOrder(const ir::ForNode* loop) {
  bool marked = false;
  if (const auto* body = loop->body.as<ir::SeqNode>()) {
    for (const Stmt& s : body->stmts) marked |= PartAt(s).has_value();
  }
  return marked;
}

bool OrdersLoadsAlone(const ir::ForNode* loop) {
  std::vector<int64_t> stages = Numbers(loop, kStage);
  const auto* body = loop->body.as<ir::SeqNode>();
  if (stages.empty() || body == nullptr) return false;
  std::map<int64_t, bool> loads;  // by part: whether it does nothing else
  int64_t part = -1;
  for (const Stmt& s : body->stmts) {
    if (auto begins = PartAt(s)) {
      part = *begins;
    } else if (part >= 0 && s->kind != ir::StmtKind::kBind) {
      loads.emplace(part, true).first->second &= IsLoad(s);
    }
  }
  Places places(loop);
  int64_t last_load = kAhead, stage = kAhead, place = kAhead;
  for (const auto& [number, only_loads] : loads) {
    int64_t own = places.StageOf(number);
    if (own == kAhead) return false;
    if (only_loads) {
      last_load = std::max(last_load, own);
      continue;
    }
    if ((stage != kAhead && own != stage) || places.OrderOf(number) < place) return false;
    stage = own;
    place = places.OrderOf(number);
  }
  return last_load != kAhead && last_load < stage;
}

ir::For WithoutProgramOrder(const ir::ForNode* loop) {
  std::vector<Stmt> stmts;
  for (const Stmt& s : loop->body.as<ir::SeqNode>()->stmts) {
    if (!PartAt(s)) stmts.push_back(s);
  }
  auto annotations = loop->annotations;
  annotations.erase(kOrder);
  annotations.erase(kStage);
  return ir::For(loop->var, loop->min, loop->extent, loop->Kind(),
                 op::Sequence(stmts, loop->body.span()), annotations, loop->span);
}

std::vector<size_t> ProgramOrder(const ir::ForNode* loop, std::vector<TaskNode>* nodes) {
  Places places(loop);
  places.SetStages(nodes);
  FollowUsers(loop, nodes);
  auto order_of = [&](size_t i) {
    const TaskNode& node = (*nodes)[i];
    if (node.task->kind == TaskKind::kWork) return std::pair(places.OrderOf(node.task->part), 1);
    // A load comes before the first user of its tiles.
    int64_t first = INT64_MAX;
    for (const TaskNode& user : *nodes) {
      bool uses = user.task->kind == TaskKind::kWork && node.ConflictsWith(user);
      if (uses) first = std::min(first, places.OrderOf(user.task->part));
    }
    return std::pair(first, 0);
  };
  std::vector<size_t> wanted;
  for (size_t i = 0; i < nodes->size(); ++i) {
    if ((*nodes)[i].task->kind != TaskKind::kRelease) wanted.push_back(i);
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [&](size_t a, size_t b) { return order_of(a) < order_of(b); });
  std::vector<size_t> place(nodes->size(), nodes->size());
  for (size_t i = 0; i < wanted.size(); ++i) place[wanted[i]] = i;
  CheckOrder(loop, *nodes, place);

  std::vector<size_t> order;
  GemmsInFlight in_flight(*nodes);
  std::vector<bool> done(nodes->size());
  // Releases whose gemms are complete when so many are.
  auto release = [&](size_t awaited) {
    for (size_t i = 0; i < nodes->size(); ++i) {
      const TaskNode& node = (*nodes)[i];
      if (done[i] || node.task->kind != TaskKind::kRelease) continue;
      bool ready = in_flight.Awaited(node) <= awaited;
      for (size_t j = 0; j < i; ++j) ready &= done[j] || !node.ConflictsWith((*nodes)[j]);
      if (!ready) continue;
      done[i] = true;
      order.push_back(i);
    }
  };
  for (size_t i : wanted) {
    size_t awaited = in_flight.Awaited((*nodes)[i]);
    release(awaited);
    in_flight.Retire(awaited);
    if ((*nodes)[i].gemm != nullptr) in_flight.Issue(i);
    done[i] = true;
    order.push_back(i);
  }
  release(in_flight.size());
  return order;
}

void RemarkLoadAhead(const ir::ForNode* loop, int64_t part, const Stmt& s) {
  Places places(loop);
  bool given = places.OrderOf(part) != kAhead || places.StageOf(part) > 0;
  if (part < 0 || !given) return;
  Remark(s.span(), "argument",
         "T.Pipelined: the place and stage of this load have no effect: another warp loads, as far "
         "ahead as num_stages slots allow");
}

void RemarkNotAhead(const ir::ForNode* loop, int64_t part, const Stmt& s) {
  if (part < 0 || Places(loop).OrderOf(part) != kAhead) return;
  Remark(s.span(), "argument",
         "T.Pipelined: place -1 lets nothing run ahead here: the threads execute this statement, "
         "first in each round");
}

void RemarkProgramOrder(const ir::ForNode* loop, const std::string& reason) {
  Remark(loop->span, "argument", "T.Pipelined: order and stage have no effect: " + reason);
}

}  // namespace tilelang::schedule
