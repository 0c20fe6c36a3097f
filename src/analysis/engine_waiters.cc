#include "analysis/engine_waiters.h"

#include "analysis/waits.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

EngineWaiters::EngineWaiters(const Stmt& s, const ThreadSet& active, const BlockThreads& threads)
    : any_(threads.Of({0, 0})) {
  if (const auto* seq = s.as<SeqNode>()) {
    for (const Stmt& child : seq->stmts) Add(EngineWaiters(child, active, threads));
  } else if (const auto* op = s.as<IssueNode>()) {
    Add(EngineWaiters(op->body, active, threads));
  } else if (const auto* op = s.as<IfNode>()) {
    AddBranch(op, active, threads);
  } else if (const auto* op = s.as<ForNode>()) {
    Add(EngineWaiters(op->body, active, threads));
  } else if (const auto* op = s.as<WhileNode>()) {
    Add(EngineWaiters(op->body, active, threads));
  } else {
    AddLeaf(s, active, threads);
  }
}

ThreadSet WaiterOf(const WaitNode* wait, const BlockThreads& threads) {
  const Array<int64_t>& issuer = wait->completion->threads;
  // The elected thread of a warp is not known.
  return threads.Of(issuer[1] == 1 ? op::ThreadRange{issuer[0], 1} : op::ThreadRange{0, 0});
}

EngineWaiters::Key EngineWaiters::KeyOf(const Buffer& buffer) {
  return buffer.IsTmem() ? nullptr : buffer.get();
}

const ThreadSet& EngineWaiters::Of(const Buffer& buffer) const {
  auto it = of_.find(KeyOf(buffer));
  return it == of_.end() ? any_ : it->second;
}

void EngineWaiters::AddLeaf(const Stmt& s, const ThreadSet& active, const BlockThreads& threads) {
  const auto* wait = s.as<WaitNode>();
  if (wait != nullptr && wait->engine() == Engine::kTmaStore) {
    any_ = WaiterOf(wait, threads);
  } else if (WaitsOnMbarrier(s)) {
    any_ = active;
  }
  WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr) return true;
    if (ProxyOf(call) == Proxy::kAsync && !TmemEffects(call).empty()) {
      of_.insert_or_assign(nullptr, any_);
    }
    for (const MemoryEffect& effect : CallEffects(call)) {
      if (effect.proxy == Proxy::kAsync) of_.insert_or_assign(KeyOf(effect.buffer), any_);
    }
    return true;
  });
}

void EngineWaiters::AddBranch(const IfNode* op, const ThreadSet& active,
                              const BlockThreads& threads) {
  ThreadSelection selection = threads.Select(op->condition, active);
  bool known = selection.rest.empty();
  EngineWaiters sides(op->then_case, selection.threads, threads);
  if (op->else_case.defined()) {
    EngineWaiters other(op->else_case, active - selection.threads, threads);
    ByBuffer of = sides.of_;
    for (const auto& [key, waiters] : other.of_) {
      auto [it, is_new] = of.try_emplace(key, waiters);
      // Neither side waits for what the other asked for.
      if (!is_new) it->second = threads.Of({0, 0});
    }
    sides.Add(other);
    sides.of_ = std::move(of);
  }
  if (known) {
    Add(sides);
    return;
  }
  for (const auto& [key, waiters] : sides.of_) of_.emplace(key, any_);
}

void EngineWaiters::Add(const EngineWaiters& next) {
  for (const auto& [key, waiters] : next.of_) {
    auto [it, is_new] = of_.try_emplace(key, any_);
    it->second = it->second | waiters;
  }
  for (auto& [key, waiters] : of_) {
    if (next.of_.count(key) == 0) waiters = waiters | next.any_;
  }
  any_ = any_ | next.any_;
}

}  // namespace tilelang::analysis
