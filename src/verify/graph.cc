#include "verify/graph.h"

#include <algorithm>

#include "arith/analyzer.h"
#include "ir/aliases.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

// The number of iterations ahead in which the graph looks for the same slot of a ring.
constexpr int kMostSlots = 8;

// Lists the nodes in the order of the program.
class NodeFinder {
 public:
  explicit NodeFinder(std::vector<Node>* nodes) : nodes_(nodes) {}

  void Visit(const Stmt& s) {
    switch (s->kind) {
      case ir::StmtKind::kSeq:
        for (const Stmt& child : s.as<ir::SeqNode>()->stmts) Visit(child);
        return;
      case ir::StmtKind::kIf: {
        const auto* op = s.as<ir::IfNode>();
        Add(NodeKind::kBranch, s, ir::EffectsOf(ir::Evaluate(op->condition, s.span())));
        Branch(op, false, op->then_case);
        if (op->else_case.defined()) Branch(op, true, op->else_case);
        return;
      }
      case ir::StmtKind::kFor: {
        const auto* op = s.as<ir::ForNode>();
        std::vector<ir::Effect> effects = ir::EffectsOf(ir::Evaluate(op->min, s.span()));
        for (const ir::Effect& e : ir::EffectsOf(ir::Evaluate(op->extent, s.span()))) {
          effects.push_back(e);
        }
        Loop(s, op->body, std::move(effects));
        return;
      }
      case ir::StmtKind::kWhile: {
        const auto* op = s.as<ir::WhileNode>();
        Loop(s, op->body, ir::EffectsOf(ir::Evaluate(op->condition, s.span())));
        return;
      }
      default:
        break;
    }
    bool tile = s.as<ir::TileOpNode>() != nullptr || s->kind == ir::StmtKind::kParallelFor;
    Add(tile ? NodeKind::kOperator : NodeKind::kScalar, s, ir::EffectsOf(s));
  }

 private:
  void Add(NodeKind kind, const Stmt& s, std::vector<ir::Effect> effects) {
    if (effects.empty()) return;
    Node node{kind, s.get(), op::Engine::kThreads, std::move(effects), loops_, branches_};
    const auto* tile = s.as<ir::TileOpNode>();
    const op::TileInstruction* instruction = tile != nullptr ? op::InstructionOf(tile) : nullptr;
    if (instruction != nullptr) node.engine = instruction->engine();
    nodes_->push_back(std::move(node));
  }
  void Loop(const Stmt& s, const Stmt& body, std::vector<ir::Effect> head) {
    Add(NodeKind::kLoop, s, std::move(head));
    loops_.push_back(s.get());
    Visit(body);
    loops_.pop_back();
  }
  void Branch(const ir::IfNode* op, bool otherwise, const Stmt& body) {
    branches_.emplace_back(op, otherwise);
    Visit(body);
    branches_.pop_back();
  }

  std::vector<Node>* nodes_;
  std::vector<const ir::StmtNode*> loops_;
  std::vector<std::pair<const ir::IfNode*, bool>> branches_;
};

size_t CommonLoops(const Node& a, const Node& b) {
  size_t n = 0;
  while (n < a.loops.size() && n < b.loops.size() && a.loops[n] == b.loops[n]) ++n;
  return n;
}

// Returns whether at most one of two nodes runs in one iteration of the loops around both.
bool Exclusive(const Node& a, const Node& b) {
  return std::any_of(a.branches.begin(), a.branches.end(), [&](const auto& x) {
    return std::any_of(b.branches.begin(), b.branches.end(),
                       [&](const auto& y) { return x.first == y.first && x.second != y.second; });
  });
}

const ir::ForNode* AsFor(const ir::StmtNode* loop) {
  return loop->IsInstance<ir::ForNode>() ? static_cast<const ir::ForNode*>(loop) : nullptr;
}

}  // namespace

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph* graph) : graph_(graph) {}

  void Run(const ir::KernelLaunchNode* launch) {
    analyzer_.BindLaunch(launch);
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::ForNode>();
      if (loop != nullptr) analyzer_.Bind(loop->var, loop->min, loop->extent);
      return true;
    });
    NodeFinder(&graph_->nodes_).Visit(launch->body);
    int count = static_cast<int>(graph_->nodes_.size());
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) Connect(from, to);
    }
  }

 private:
  void Connect(int from, int to) {
    const Node& a = graph_->nodes_[static_cast<size_t>(from)];
    const Node& b = graph_->nodes_[static_cast<size_t>(to)];
    for (const ir::Effect& x : a.effects) {
      for (const ir::Effect& y : b.effects) {
        if (!ir::MayOverlap(x.buffer, y.buffer) || !(x.Writes() || y.Writes())) continue;
        if (from < to && !Exclusive(a, b) && MayOverlap(x, y, nullptr, 0)) {
          Add(from, to, x, y, 0, nullptr);
        }
        for (size_t i = 0; i < CommonLoops(a, b); ++i) {
          const ir::ForNode* loop = AsFor(a.loops[i]);
          int distance = 1;
          while (loop != nullptr && distance < kMostSlots && !MayOverlap(x, y, loop, distance)) {
            ++distance;
          }
          bool never = loop != nullptr && !MayOverlap(x, y, loop, distance);
          if (!never) Add(from, to, x, y, distance, a.loops[i]);
        }
      }
    }
  }

  // Returns whether the later effect, `distance` iterations after the earlier one, may touch the
  // same elements.
  bool MayOverlap(const ir::Effect& earlier, const ir::Effect& later, const ir::ForNode* loop,
                  int distance) {
    if (!earlier.region.defined() || !later.region.defined()) return true;
    if (!earlier.buffer.same_as(later.buffer)) return true;
    ir::Map<ir::Var, Expr> ahead;
    if (loop != nullptr) {
      ahead.Set(loop->var, loop->var + ir::Const(loop->var.dtype(), distance));
    }
    auto ends_before = [&](const Expr& end, const Expr& begin) {
      return analyzer_.CanProveNonNegative(begin - end);
    };
    for (size_t d = 0; d < earlier.region->mins.size(); ++d) {
      Expr a = earlier.region->mins[d];
      Expr b = ir::Substitute(later.region->mins[d], ahead);
      if (ends_before(a + earlier.region->extents[d], b)) return false;
      if (ends_before(b + later.region->extents[d], a)) return false;
      if (DifferentSlots(a, b, earlier.region->extents[d], later.region->extents[d])) return false;
    }
    return true;
  }

  // Returns whether two slots are n % s and (n + d) % s, where s does not divide d.
  bool DifferentSlots(const Expr& a, const Expr& b, const Expr& extent_a, const Expr& extent_b) {
    const auto* x = a.as<ir::BinaryNode>();
    const auto* y = b.as<ir::BinaryNode>();
    bool slots = x != nullptr && y != nullptr && x->Op() == ir::BinaryOp::kFloorMod &&
                 y->Op() == ir::BinaryOp::kFloorMod && ir::IsConst(extent_a, 1) &&
                 ir::IsConst(extent_b, 1);
    if (!slots) return false;
    auto size = ir::AsInt(x->b);
    auto step = ir::AsInt(analyzer_.Simplify(y->a - x->a));
    return size && size == ir::AsInt(y->b) && step && *size > 0 && *step % *size != 0;
  }

  void Add(int from, int to, const ir::Effect& x, const ir::Effect& y, int distance,
           const ir::StmtNode* loop) {
    const Node& a = graph_->nodes_[static_cast<size_t>(from)];
    const Node& b = graph_->nodes_[static_cast<size_t>(to)];
    Edge edge;
    edge.from = from;
    edge.to = to;
    // An effect that reads and writes depends first of all on the old value.
    edge.kind = x.Writes()
                    ? (y.Reads() ? Dependence::kReadAfterWrite : Dependence::kWriteAfterWrite)
                    : Dependence::kWriteAfterRead;
    edge.progress = Needed(a, b, x, y, edge.kind);
    edge.distance = distance;
    edge.loop = loop;
    edge.buffer = x.buffer;
    auto same = [&](const Edge& e) {
      return e.from == from && e.to == to && e.kind == edge.kind && e.distance == distance &&
             e.loop == loop && e.buffer.same_as(edge.buffer);
    };
    auto& edges = graph_->edges_;
    if (std::none_of(edges.begin(), edges.end(), same)) edges.push_back(edge);
  }

  // Returns the progress of `a` that `b` needs. The hardware keeps three kinds of operations in
  // order, so it is enough that `a` was issued: the tcgen05 pipe, accumulators of wgmma, and the
  // statements of a thread.
  static Progress Needed(const Node& a, const Node& b, const ir::Effect& x, const ir::Effect& y,
                         Dependence kind) {
    bool sums = a.engine == op::Engine::kWgmma && x.Writes() && y.Writes();
    bool in_pipe = a.engine == op::Engine::kTcgen05 || a.engine == op::Engine::kThreads || sums;
    if (in_pipe && a.engine == b.engine) return Progress::kIssued;
    return kind == Dependence::kWriteAfterRead ? Progress::kSourceDone : Progress::kResultDone;
  }

  Graph* graph_;
  arith::Analyzer analyzer_;
};

Graph::Graph(const ir::KernelLaunchNode* launch) { GraphBuilder(this).Run(launch); }

std::string Graph::ToString() const {
  constexpr const char* kKinds[] = {"read after write", "write after read", "write after write"};
  constexpr const char* kCompletions[] = {"issued", "source_done", "result_done"};
  auto line = [&](int node) {
    const ir::Span& span = nodes_[static_cast<size_t>(node)].stmt->span;
    return "line " + (span.defined() ? std::to_string(span->line) : std::string("?"));
  };
  std::string text;
  for (const Edge& edge : edges_) {
    text += line(edge.from) + " -> " + line(edge.to) + ": " + std::string(edge.buffer->name) +
            ", " + kKinds[static_cast<int>(edge.kind)] + ", " +
            kCompletions[static_cast<int>(edge.progress)] + ", distance " +
            std::to_string(edge.distance) + "\n";
  }
  return text;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.order.Graph", [](ir::Func func) {
    std::string text;
    ir::WalkStmts(func->body, [&](const Stmt& s) {
      const auto* launch = s.as<ir::KernelLaunchNode>();
      if (launch != nullptr) text += Graph(launch).ToString();
      return launch == nullptr;
    });
    return ir::String(text);
  });
}

}  // namespace tilelang::verify
