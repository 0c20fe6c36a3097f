#include "verify/agent.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/thread_set.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

// Divides the threads of a launch into classes: threads of one class have the same values of all
// thread-dependent expressions. A signature is the number of a class.
class Signatures {
 public:
  explicit Signatures(const ir::KernelLaunchNode* launch)
      : threads_(launch), signature_(static_cast<size_t>(threads_.count()), 0) {}

  void Bind(const ir::Var& var, const Expr& value) { threads_.Bind(var, value); }

  // Divides the classes by the value of `e`. Where `e` also depends on other variables, divides
  // them by its largest parts that depend on the thread alone.
  void Divide(const Expr& e) {
    if (!threads_.UsesThread(e)) return;
    if (auto values = threads_.ValuesOf(e)) return DivideBy(*values);
    ir::WalkExprs(e, [&](const Expr& part) {
      if (part.same_as(e) || !ir::IsIntegral(part.dtype()) || !threads_.UsesThread(part)) {
        return true;
      }
      auto values = threads_.ValuesOf(part);
      if (!values) return true;
      DivideBy(*values);
      return false;
    });
  }
  void Elect() {
    std::vector<int64_t> elected(signature_.size(), 0);
    for (size_t i = 0; i < elected.size(); ++i) elected[i] = IsElected(i);
    DivideBy(elected);
  }
  bool IsElected(size_t thread) const {
    return thread % kWarp == kWarp - 1 || thread + 1 == signature_.size();
  }
  const std::vector<int>& signature() const { return signature_; }

 private:
  void DivideBy(const std::vector<int64_t>& values) {
    std::map<std::pair<int, int64_t>, int> numbers;
    for (size_t i = 0; i < signature_.size(); ++i) {
      auto key = std::pair(signature_[i], values[i]);
      int next = static_cast<int>(numbers.size());
      signature_[i] = numbers.try_emplace(key, next).first->second;
    }
  }

  analysis::BlockThreads threads_;
  std::vector<int> signature_;
};

void DivideByOperation(const Step& step, Signatures* signatures) {
  switch (step.operation.kind) {
    case OperationKind::kBarrier:
    case OperationKind::kInit:
    case OperationKind::kArrive:
    case OperationKind::kExpect:
    case OperationKind::kArriveExpect:
    case OperationKind::kWaitPhase:
    case OperationKind::kCommitTensorCore:
      for (const Expr& arg : {step.operation.barrier, step.operation.number}) {
        if (!arg.defined()) continue;
        const ir::LoadNode* load = ir::AddressedElement(arg);
        if (load == nullptr) load = arg.as<ir::LoadNode>();
        signatures->Divide(load != nullptr ? load->indices[0] : arg);
      }
      break;
    default:
      break;
  }
}

void Divide(const Program& program, Signatures* signatures) {
  for (int i = 0; i < program.num_steps(); ++i) {
    const Step& step = program.step(i);
    if (!step.stmt.defined()) continue;
    if (const auto* op = step.stmt.as<ir::BindNode>()) signatures->Bind(op->var, op->value);
    switch (step.kind) {
      case StepKind::kIf:
        signatures->Divide(step.stmt.as<ir::IfNode>()->condition);
        break;
      case StepKind::kFor:
        signatures->Divide(step.stmt.as<ir::ForNode>()->min);
        signatures->Divide(step.stmt.as<ir::ForNode>()->extent);
        break;
      case StepKind::kWhile:
        signatures->Divide(step.stmt.as<ir::WhileNode>()->condition);
        break;
      case StepKind::kOperation:
        DivideByOperation(step, signatures);
        break;
      default:
        break;
    }
  }
}

}  // namespace

Agents FindAgents(const Program& program) {
  Signatures signatures(program.launch());
  Divide(program, &signatures);
  signatures.Elect();
  const std::vector<int>& signature = signatures.signature();
  int64_t threads = static_cast<int64_t>(signature.size());
  // Operations on tensor memory and wgmma depend on the position of a warp among the others.
  bool by_warpgroup =
      std::any_of(program.sites().begin(), program.sites().end(), [](const Site& site) {
        return site.space == Space::kTmem || site.by == OperationKind::kWgmma;
      });
  // Numbers of agents, by signature, warpgroup, and whether the warp is the first of its kind: the
  // first warp of a kind is one agent, and all other warps of that kind are another.
  std::map<std::tuple<std::vector<int>, int64_t, bool>, int> kinds;
  Agents agents;
  agents.of_thread.resize(signature.size());
  std::map<std::pair<int, int>, int> known;
  std::map<int, int64_t> warps;
  for (int64_t begin = 0; begin < threads; begin += kWarp) {
    int64_t end = std::min(begin + kWarp, threads);
    std::vector<int> of_warp(signature.begin() + begin, signature.begin() + end);
    int64_t group = by_warpgroup ? begin / kWarpgroup : 0;
    bool first = kinds.count({of_warp, group, true}) == 0;
    int next = static_cast<int>(kinds.size());
    int kind = kinds.try_emplace({of_warp, group, first}, next).first->second;
    ++warps[kind];
    for (int64_t thread = begin; thread < end; ++thread) {
      auto at = static_cast<size_t>(thread);
      int fresh = static_cast<int>(agents.size());
      auto [it, is_new] = known.try_emplace({kind, signature[at]}, fresh);
      if (is_new) agents.all.push_back({thread, 0, signatures.IsElected(at), kind, 1});
      ++agents.all[static_cast<size_t>(it->second)].count;
      agents.of_thread[at] = it->second;
    }
  }
  for (Agent& agent : agents.all) agent.warps = warps[agent.warp];
  return agents;
}

}  // namespace tilelang::verify
