#include "schedule/overlap.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ir/effects.h"
#include "ir/fresh_copy.h"
#include "op/effect.h"
#include "op/gemm_wgmma.h"

namespace tilelang::schedule {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

using Objects = std::unordered_set<const tvm::ffi::Object*>;

bool Intersect(const Objects& a, const Objects& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto* object) { return b.count(object) != 0; });
}

// A task and what the schedule needs to know of it.
struct Node {
  const Task* task = nullptr;
  Objects reads;  // buffers and variables
  Objects writes;
  const ir::GemmNode* gemm = nullptr;  // that runs beside the threads
  bool follows_gemm = false;           // needs the result of one in its iteration
  int stage = 0;

  bool ConflictsWith(const Node& other) const {
    return Intersect(writes, other.writes) || Intersect(writes, other.reads) ||
           Intersect(reads, other.writes);
  }
};

const ir::GemmNode* AsyncGemm(const Task& task) {
  if (task.kind != TaskKind::kWork || task.stmts.size() != 1) return nullptr;
  const auto* gemm = task.stmts.front().as<ir::GemmNode>();
  bool async = gemm != nullptr && op::InstructionOf(gemm) != nullptr &&
               op::InstructionOf(gemm)->engine() == op::Engine::kWgmma &&
               op::GroupsInFlight(gemm) == 0;
  return async ? gemm : nullptr;
}

Node MakeNode(const Task& task) {
  Node node;
  node.task = &task;
  node.gemm = AsyncGemm(task);
  for (const Stmt& s : task.stmts) {
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      if (effect.Reads()) node.reads.insert(effect.buffer.get());
      if (effect.Writes()) node.writes.insert(effect.buffer.get());
    });
    ir::WalkExprs(s, [&](const Expr& e) {
      if (e->kind == ir::ExprKind::kVar) node.reads.insert(e.get());
      return true;
    });
    if (const auto* bind = s.as<ir::BindNode>()) node.writes.insert(bind->var.get());
  }
  for (const ir::Buffer& tile : task.tiles) node.writes.insert(tile.get());
  return node;
}

// Whether the task can be moved: it neither leaves the loop nor acts on what is not in sight.
bool CanMove(const Task& task) {
  if (task.kind != TaskKind::kWork) return true;
  const Stmt& s = task.stmts.front();
  bool visible = s->kind != ir::StmtKind::kEvaluate && s->kind != ir::StmtKind::kAssume &&
                 s->kind != ir::StmtKind::kAssert;
  const auto* alloc = s.as<ir::AllocNode>();
  if (alloc != nullptr && alloc->buffer->attrs.count("init") != 0) return false;
  return visible && !ir::MayLeaveLoop(s);
}

// Sets the stages; whether there are two. Otherwise all are in the first.
bool AssignTwoStages(std::vector<Node>* nodes) {
  for (size_t v = 0; v < nodes->size(); ++v) {
    Node& later = (*nodes)[v];
    for (size_t u = 0; u < v; ++u) {
      const Node& earlier = (*nodes)[u];
      if (!earlier.ConflictsWith(later)) continue;
      bool result = earlier.gemm != nullptr || earlier.follows_gemm;
      later.follows_gemm |= result;
      bool crosses = later.gemm != nullptr && earlier.gemm == nullptr && earlier.follows_gemm;
      later.stage = std::max(later.stage, earlier.stage + (crosses ? 1 : 0));
    }
  }
  // Tiles are acquired and released in the stage that uses them.
  bool one_stage_each = true;
  for (Node& node : *nodes) {
    if (node.task->kind == TaskKind::kWork) continue;
    std::vector<int> stages;
    for (const Node& user : *nodes) {
      if (user.task->kind == TaskKind::kWork && node.ConflictsWith(user)) {
        stages.push_back(user.stage);
      }
    }
    auto [least, most] = std::minmax_element(stages.begin(), stages.end());
    one_stage_each &= !stages.empty() && *least == *most;
    if (one_stage_each) node.stage = *least;
  }
  int last = 0;
  for (const Node& node : *nodes) last = std::max(last, node.stage);
  if (one_stage_each && last == 1) return true;
  for (Node& node : *nodes) node.stage = 0;
  return false;
}

// What the tensor core waits for comes first.
int Urgency(const Node& node, const std::vector<Node>& nodes) {
  if (node.gemm != nullptr) return 0;
  if (node.task->kind == TaskKind::kRelease) return 2;
  if (node.task->kind == TaskKind::kAcquire) {
    bool for_gemm = std::any_of(nodes.begin(), nodes.end(), [&](const Node& user) {
      return user.gemm != nullptr && node.ConflictsWith(user);
    });
    return for_gemm ? 0 : 1;
  }
  return node.follows_gemm || node.stage > 0 ? 1 : 0;
}

// Gemms that nobody has waited for, in the order in which they were issued.
class InFlight {
 public:
  explicit InFlight(const std::vector<Node>& nodes) : nodes_(nodes) {}

  // How many of the oldest must be complete for the node to run.
  size_t Awaited(const Node& node) const {
    size_t count = gemms_.size();
    while (count > 0 && !nodes_[gemms_[count - 1]].ConflictsWith(node)) --count;
    return count;
  }
  void Issue(size_t i) { gemms_.push_back(i); }
  std::vector<size_t> Retire(size_t count) {
    auto end = gemms_.begin() + static_cast<int64_t>(count);
    std::vector<size_t> retired(gemms_.begin(), end);
    gemms_.erase(gemms_.begin(), end);
    return retired;
  }
  size_t size() const { return gemms_.size(); }

 private:
  const std::vector<Node>& nodes_;
  std::vector<size_t> gemms_;
};

// The order within an iteration of the pipelined loop; nullopt when there is none.
std::optional<std::vector<size_t>> Arrange(const std::vector<Node>& nodes) {
  InFlight in_flight(nodes);
  auto must_precede = [&](size_t u, size_t v) {
    if (u == v || !nodes[u].ConflictsWith(nodes[v])) return false;
    if (nodes[u].stage == nodes[v].stage) return u < v;
    return nodes[u].stage > nodes[v].stage;
  };
  std::vector<size_t> order;
  std::vector<bool> done(nodes.size());
  auto ready = [&](size_t v) {
    if (done[v]) return false;
    for (size_t u = 0; u < nodes.size(); ++u) {
      if (!done[u] && must_precede(u, v)) return false;
    }
    return true;
  };
  while (order.size() < nodes.size()) {
    std::optional<size_t> next;
    for (size_t v = 0; v < nodes.size(); ++v) {
      if (!ready(v)) continue;
      auto rank = [&](size_t i) { return std::pair(Urgency(nodes[i], nodes), nodes[i].stage); };
      if (!next || rank(v) < rank(*next)) next = v;
    }
    if (!next) return std::nullopt;
    // What the wait in front of it sets free goes back before: the producer waits for that.
    size_t awaited = in_flight.Awaited(nodes[*next]);
    for (size_t v = 0; v < nodes.size(); ++v) {
      bool release = nodes[v].task->kind == TaskKind::kRelease && ready(v);
      if (!release || in_flight.Awaited(nodes[v]) > awaited) continue;
      next = v;
      break;
    }
    in_flight.Retire(in_flight.Awaited(nodes[*next]));
    if (nodes[*next].gemm != nullptr) in_flight.Issue(*next);
    done[*next] = true;
    order.push_back(*next);
  }
  return order;
}

// Writes tasks one after another, with each gemm waited for where it must be complete.
class Writer {
 public:
  Writer(const std::vector<Node>& nodes, IterationNotes* notes)
      : nodes_(nodes), in_flight_(nodes), notes_(notes) {}

  // With the loop variable of its iteration.
  void Append(size_t i, ir::FreshCopy* copy, const std::string& iteration) {
    const Node& node = nodes_[i];
    Retire(in_flight_.Awaited(node), iteration);
    for (const Stmt& s : node.task->stmts) {
      stmts_.push_back(copy->MutateStmt(node.gemm != nullptr ? LeaveInFlight(i) : s));
      notes_->Note(stmts_.back(), iteration);
    }
    if (node.gemm != nullptr) in_flight_.Issue(i);
  }
  std::vector<Stmt> Finish(const std::string& iteration) {
    Retire(in_flight_.size(), iteration);
    return std::move(stmts_);
  }

 private:
  Stmt LeaveInFlight(size_t i) const {
    const ir::GemmNode* gemm = nodes_[i].gemm;
    auto annotations = gemm->annotations;
    annotations.Set("wg_wait", int64_t{-1});
    annotations.Set(op::kWgmmaGroup, static_cast<int64_t>(i));
    Stmt issued = ir::Gemm(gemm->a, gemm->b, gemm->c, gemm->trans_a, gemm->trans_b,
                           gemm->clear_accum, gemm->mbar, annotations, gemm->span);
    return ir::WithPlan(issued, gemm->plan);
  }
  // Waits for the oldest `count` of those in flight.
  void Retire(size_t count, const std::string& iteration) {
    if (count == 0) return;
    Array<int64_t> groups;
    std::vector<size_t> retired = in_flight_.Retire(count);
    for (size_t i : retired) groups.push_back(static_cast<int64_t>(i));
    const ir::Span& span = nodes_[retired.back()].gemm->span;
    stmts_.push_back(op::WaitForGroups(static_cast<int64_t>(in_flight_.size()), groups, span));
    notes_->Note(stmts_.back(), iteration);
  }

  const std::vector<Node>& nodes_;
  InFlight in_flight_;
  IterationNotes* notes_;
  std::vector<Stmt> stmts_;
};

class Pipeline {
 public:
  Pipeline(const ir::ForNode* loop, const std::vector<Node>& nodes, std::vector<size_t> order,
           IterationNotes* notes)
      : loop_(loop), nodes_(nodes), order_(std::move(order)), notes_(notes) {}

  // All tasks in the first stage.
  Stmt WriteOneStage() const {
    ir::Var var(loop_->var->name, loop_->var.dtype(), loop_->var->span);
    return ir::For(var, loop_->min, loop_->extent, ir::ForKind::kSerial,
                   op::Sequence(Part({{0, var, ""}}), loop_->body.span()), loop_->annotations,
                   loop_->span);
  }

  Stmt WriteTwoStages() const {
    Expr one = ir::Const(loop_->var.dtype(), 1);
    Expr last = loop_->min + loop_->extent - one;
    std::vector<Stmt> stmts = Part({{0, loop_->min, "first"}});
    ir::Var var(loop_->var->name, loop_->var.dtype(), loop_->var->span);
    Stmt body = op::Sequence(Part({{0, var, ""}, {1, var - one, IterationName(loop_, -1)}}),
                             loop_->body.span());
    stmts.push_back(ir::For(var, loop_->min + one, loop_->extent - one, ir::ForKind::kSerial, body,
                            loop_->annotations, loop_->span));
    for (const Stmt& s : Part({{1, last, "last"}})) stmts.push_back(s);
    Stmt all = op::Sequence(stmts, loop_->span);
    auto extent = ir::AsInt(loop_->extent);
    if (extent && *extent > 0) return all;
    return ir::If(ir::Const(loop_->var.dtype(), 0) < loop_->extent, all, Stmt(), loop_->span);
  }

 private:
  // A stage, of an iteration.
  struct StageOf {
    int stage;
    Expr iteration;
    std::string name;
  };
  std::vector<Stmt> Part(const std::vector<StageOf>& stages) const {
    std::vector<ir::FreshCopy> copies(2);
    for (const StageOf& of : stages) copies[of.stage].Set(loop_->var, of.iteration);
    Writer writer(nodes_, notes_);
    for (size_t i : order_) {
      int stage = nodes_[i].stage;
      auto of = std::find_if(stages.begin(), stages.end(),
                             [&](const StageOf& item) { return item.stage == stage; });
      if (of != stages.end()) writer.Append(i, &copies[stage], of->name);
    }
    return writer.Finish(stages.back().name);
  }

  const ir::ForNode* loop_;
  const std::vector<Node>& nodes_;
  std::vector<size_t> order_;
  IterationNotes* notes_;
};

Stmt InOrder(const ir::ForNode* loop, const std::vector<Task>& tasks) {
  std::vector<Stmt> stmts;
  for (const Task& task : tasks) {
    stmts.insert(stmts.end(), task.stmts.begin(), task.stmts.end());
  }
  return ir::For(loop->var, loop->min, loop->extent, ir::ForKind::kSerial,
                 op::Sequence(stmts, loop->body.span()), loop->annotations, loop->span);
}

}  // namespace

Stmt OverlapIterations(const ir::ForNode* loop, const std::vector<Task>& tasks,
                       IterationNotes* notes) {
  std::vector<Stmt> allocs;
  std::vector<Node> nodes;
  for (const Task& task : tasks) {
    if (!CanMove(task)) return InOrder(loop, tasks);
    bool allocates = task.kind == TaskKind::kWork && task.stmts.front().as<ir::AllocNode>();
    if (allocates) {
      allocs.push_back(task.stmts.front());
    } else {
      nodes.push_back(MakeNode(task));
    }
  }
  bool two_stages = AssignTwoStages(&nodes);
  auto gemms = std::count_if(nodes.begin(), nodes.end(),
                             [](const Node& node) { return node.gemm != nullptr; });
  if (gemms < 2) return InOrder(loop, tasks);
  auto order = Arrange(nodes);
  if (!order) return InOrder(loop, tasks);
  Pipeline pipeline(loop, nodes, *order, notes);
  allocs.push_back(two_stages ? pipeline.WriteTwoStages() : pipeline.WriteOneStage());
  return op::Sequence(allocs, loop->span);
}

}  // namespace tilelang::schedule
