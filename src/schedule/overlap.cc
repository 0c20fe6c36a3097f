#include "schedule/overlap.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/arithmetic.h"
#include "ir/async.h"
#include "ir/fresh_copy.h"
#include "op/effect.h"
#include "schedule/program_order.h"

namespace tilelang::schedule {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

// A name of a value that follows from the loop's variable: each stage has its own.
const ir::BindNode* AsValue(const Task& task) {
  if (task.kind != TaskKind::kWork || task.stmts.size() != 1) return nullptr;
  const auto* bind = task.stmts.front().as<ir::BindNode>();
  return bind != nullptr && ir::IsArithmetic(bind->value) ? bind : nullptr;
}

// Sets the stages: two, or all nodes are in the first.
void AssignTwoStages(std::vector<TaskNode>* nodes) {
  for (size_t v = 0; v < nodes->size(); ++v) {
    TaskNode& later = (*nodes)[v];
    for (size_t u = 0; u < v; ++u) {
      const TaskNode& earlier = (*nodes)[u];
      if (!earlier.ConflictsWith(later)) continue;
      bool result = earlier.gemm != nullptr || earlier.follows_gemm;
      later.follows_gemm |= result;
      bool crosses = later.gemm != nullptr && earlier.gemm == nullptr && earlier.follows_gemm;
      if (crosses || earlier.stage == 1) later.stage = 1;
    }
  }
  // Tiles are acquired and released in the stage that uses them.
  bool one_stage_each = true;
  for (TaskNode& node : *nodes) {
    if (node.task->kind == TaskKind::kWork) continue;
    std::vector<int> stages;
    for (const TaskNode& user : *nodes) {
      if (user.task->kind == TaskKind::kWork && node.ConflictsWith(user)) {
        stages.push_back(user.stage);
      }
    }
    auto [least, most] = std::minmax_element(stages.begin(), stages.end());
    one_stage_each &= !stages.empty() && *least == *most;
    if (one_stage_each) node.stage = *least;
  }
  if (one_stage_each) return;
  for (TaskNode& node : *nodes) node.stage = 0;
}

// Returns the rank of a node: work that the tensor core waits for comes first.
int Urgency(const TaskNode& node, const std::vector<TaskNode>& nodes) {
  if (node.gemm != nullptr) return 0;
  if (node.task->kind == TaskKind::kRelease) return 2;
  if (node.task->kind == TaskKind::kAcquire) {
    bool for_gemm = std::any_of(nodes.begin(), nodes.end(), [&](const TaskNode& user) {
      return user.gemm != nullptr && node.ConflictsWith(user);
    });
    return for_gemm ? 0 : 1;
  }
  return node.follows_gemm || node.stage > 0 ? 1 : 0;
}

// The order within an iteration of the pipelined loop; nullopt when there is none.
std::optional<std::vector<size_t>> Arrange(const std::vector<TaskNode>& nodes) {
  GemmsInFlight in_flight(nodes);
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
    // Slots that the preceding wait sets free are released before, since the producer waits for
    // them.
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

// Writes tasks one after another.
class Writer {
 public:
  Writer(const std::vector<TaskNode>& nodes, IterationNotes* notes)
      : nodes_(nodes), notes_(notes) {}

  void Append(const Stmt& s, const std::string& iteration) {
    stmts.push_back(s);
    notes_->Note(s, iteration);
  }
  // Appends the statements of a node with the loop variable of its iteration.
  void Append(size_t i, ir::FreshCopy* copy, const std::string& iteration) {
    for (const Stmt& s : nodes_[i].task->stmts) Append(copy->MutateStmt(s), iteration);
  }

  std::vector<Stmt> stmts;

 private:
  const std::vector<TaskNode>& nodes_;
  IterationNotes* notes_;
};

// Round r of the loop runs stage s of iteration r - s, where there is one.
class Pipeline {
 public:
  Pipeline(const ir::ForNode* loop, const std::vector<TaskNode>& nodes,
           const std::vector<const ir::BindNode*>& values, std::vector<size_t> order,
           IterationNotes* notes)
      : loop_(loop), nodes_(nodes), values_(values), order_(std::move(order)), notes_(notes) {
    for (const TaskNode& node : nodes) last_ = std::max(last_, node.stage);
  }

  Stmt Write() const {
    std::vector<Stmt> stmts;
    for (int round = 0; round < last_; ++round) stmts.push_back(Fill(round));
    ir::Var var(loop_->var->name, loop_->var.dtype(), loop_->var->span);
    std::vector<StageOf> stages;
    for (int s = 0; s <= last_; ++s) {
      stages.push_back({s, s == 0 ? Expr(var) : var - Number(s), IterationName(loop_, -s)});
    }
    Expr extent = last_ == 0 ? loop_->extent : loop_->extent - Number(last_);
    if (last_ > 1) extent = ir::Max(extent, Number(0));
    stmts.push_back(ir::For(var, last_ == 0 ? loop_->min : loop_->min + Number(last_), extent,
                            ir::ForKind::kSerial, op::Sequence(Part(stages), loop_->body.span()),
                            loop_->annotations, loop_->span));
    for (int round = 0; round < last_; ++round) stmts.push_back(Drain(round));
    Stmt all = op::Sequence(stmts, loop_->span);
    bool runs = ir::AsInt(loop_->extent).value_or(0) > 0;
    return last_ == 0 || runs ? all : If(Number(0) < loop_->extent, all);
  }

 private:
  Expr Number(int n) const { return ir::Const(loop_->var.dtype(), n); }
  Stmt If(const Expr& condition, const Stmt& body, const Stmt& otherwise = Stmt()) const {
    if (ir::IsTrue(condition)) return body;
    return ir::If(condition, body, otherwise, loop_->span);
  }
  // "last", "last-1", ...
  static std::string NameFrom(const std::string& end, const char* sign, int distance) {
    return distance == 0 ? end : end + sign + std::to_string(distance);
  }

  // A round before the loop, which has some iteration: where it has fewer than there are rounds
  // before it, the first stages are over already.
  Stmt Fill(int round) const {
    Stmt filled;
    for (int begun = round; begun >= 0; --begun) {
      std::vector<StageOf> stages;
      for (int s = begun; s <= round; ++s) {
        Expr iteration = s == round ? loop_->min : loop_->min + Number(round - s);
        stages.push_back({s, iteration, NameFrom("first", "+", round - s)});
      }
      Stmt part = op::Sequence(Part(stages), loop_->span);
      filled = begun == round ? part : If(Number(round - begun) < loop_->extent, part, filled);
    }
    return filled;
  }

  // A round after the loop, unless one before it was that.
  Stmt Drain(int round) const {
    std::vector<StageOf> stages;
    for (int s = round + 1; s <= last_; ++s) {
      Expr iteration = loop_->min + loop_->extent - Number(s - round);
      stages.push_back({s, iteration, NameFrom("last", "-", s - round - 1)});
    }
    Stmt part = op::Sequence(Part(stages), loop_->span);
    return round + 1 == last_ ? part : If(Number(last_ - round) <= loop_->extent, part);
  }

  // A stage, of an iteration.
  struct StageOf {
    int stage;
    Expr iteration;
    std::string name;
  };
  std::vector<Stmt> Part(const std::vector<StageOf>& stages) const {
    std::vector<ir::FreshCopy> copies(static_cast<size_t>(last_) + 1);
    for (const StageOf& of : stages) copies[of.stage].Set(loop_->var, of.iteration);
    Writer writer(nodes_, notes_);
    for (const StageOf& of : stages) {
      for (const ir::BindNode* value : ValuesOf(of.stage)) {
        writer.Append(copies[of.stage].MutateStmt(tvm::ffi::GetRef<Stmt>(value)), of.name);
      }
    }
    for (size_t i : order_) {
      int stage = nodes_[i].stage;
      auto of = std::find_if(stages.begin(), stages.end(),
                             [&](const StageOf& item) { return item.stage == stage; });
      if (of != stages.end()) writer.Append(i, &copies[stage], of->name);
    }
    return std::move(writer.stmts);
  }

  // Returns the bindings that the nodes of a stage use, and the bindings that these bindings use.
  std::vector<const ir::BindNode*> ValuesOf(int stage) const {
    std::vector<const ir::BindNode*> used;
    for (auto it = values_.rbegin(); it != values_.rend(); ++it) {
      const ir::Var& var = (*it)->var;
      bool by_node = std::any_of(nodes_.begin(), nodes_.end(), [&](const TaskNode& node) {
        return node.stage == stage && node.reads.count(var.get()) != 0;
      });
      bool by_value = std::any_of(used.begin(), used.end(), [&](const ir::BindNode* later) {
        return ir::UsesVar(later->value, var);
      });
      if (by_node || by_value) used.insert(used.begin(), *it);
    }
    return used;
  }

  const ir::ForNode* loop_;
  const std::vector<TaskNode>& nodes_;
  const std::vector<const ir::BindNode*>& values_;
  std::vector<size_t> order_;
  IterationNotes* notes_;
  int last_ = 0;  // stage
};

// Returns the order of the nodes if gemms can overlap, and assigns the stages; nullopt otherwise.
std::optional<std::vector<size_t>> OrderOfGemms(std::vector<TaskNode>* nodes) {
  AssignTwoStages(nodes);
  auto gemms = std::count_if(nodes->begin(), nodes->end(),
                             [](const TaskNode& node) { return node.gemm != nullptr; });
  return gemms < 2 ? std::nullopt : Arrange(*nodes);
}

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
  bool ordered = HasProgramOrder(loop);
  std::vector<Stmt> allocs;
  std::vector<const ir::BindNode*> values;
  std::vector<TaskNode> nodes;
  for (const Task& task : tasks) {
    if (!CanMove(task)) {
      int64_t line = task.stmts.front().span().defined() ? task.stmts.front().span()->line : 0;
      if (ordered) RemarkProgramOrder(loop, "line " + std::to_string(line) + " cannot be moved");
      return InOrder(loop, tasks);
    }
    if (const ir::BindNode* value = AsValue(task)) {
      values.push_back(value);
    } else if (task.kind == TaskKind::kWork && task.stmts.front().as<ir::AllocNode>()) {
      allocs.push_back(task.stmts.front());
    } else {
      nodes.push_back(TaskNode(task));
    }
  }
  auto order = ordered ? ProgramOrder(loop, &nodes) : OrderOfGemms(&nodes);
  if (!order) return InOrder(loop, tasks);
  allocs.push_back(Pipeline(loop, nodes, values, *order, notes).Write());
  return op::Sequence(allocs, loop->span);
}

}  // namespace tilelang::schedule
