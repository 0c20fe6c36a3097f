#include "transform/order_phases.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "transform/thread_set.h"

namespace tilelang::transform {

using ir::Stmt;
using ir::StmtKind;

namespace {

// Barriers; in a state of the analysis: those that threads have waited on since they last
// synchronized.
using Barriers = std::set<const ir::ffi::Object*>;

void Add(const Barriers& more, Barriers* barriers) { barriers->insert(more.begin(), more.end()); }

struct Uses {
  Barriers waited;
  Barriers begun;  // a phase is made to complete: an arrival, a copy, a commit
};

class PhaseOrderer {
 public:
  explicit PhaseOrderer(const ir::KernelLaunchNode* launch)
      : launch_(launch), block_(launch), cta_threads_(block_.count()) {}

  Stmt Run() {
    if (UsesOf(launch_->body).waited.empty()) return launch_->body;
    Barriers open;
    return Process(launch_->body, &open);
  }

 private:
  // Returns `s` with barriers, also in front of it. open: before and after.
  Stmt Process(const Stmt& s, Barriers* open);
  Stmt ProcessParts(const Stmt& s, Barriers* open);
  Stmt ProcessIf(const ir::IfNode* op, Barriers* open);
  Stmt ProcessLoop(const Stmt& loop, const Stmt& body, bool runs, Barriers* open);
  void Pass(const Stmt& leaf, Barriers* open);
  void Sync(const op::ThreadRange& threads, Barriers* open) const;
  Uses UsesOf(const Stmt& s);

  const ir::KernelLaunchNode* launch_;
  BlockThreads block_;
  int64_t cta_threads_;
  std::map<const ir::ffi::Object*, op::ThreadRange> threads_;  // that wait on a barrier
  std::vector<Barriers> exits_;  // at the Breaks and Continues of the loops around
};

Uses PhaseOrderer::UsesOf(const Stmt& s) {
  Uses uses;
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || call->name == "mbarrier_init") return true;
    for (const ir::Expr& arg : call->args) {
      const auto* address = arg.as<ir::CallNode>();
      if (address == nullptr || address->name != "address_of") continue;
      const ir::Buffer& barrier = address->args[0].as<ir::LoadNode>()->buffer;
      auto threads = op::ThreadsWaitingOn(barrier);
      if (!threads) continue;
      threads_[barrier.get()] = *threads;
      (call->name == "mbarrier_wait_parity" ? uses.waited : uses.begun).insert(barrier.get());
    }
    return true;
  });
  return uses;
}

void PhaseOrderer::Sync(const op::ThreadRange& threads, Barriers* open) const {
  std::erase_if(*open, [&](const ir::ffi::Object* barrier) {
    const op::ThreadRange& wait = threads_.at(barrier);
    return threads.begin <= wait.begin && wait.begin + wait.count <= threads.begin + threads.count;
  });
}

void PhaseOrderer::Pass(const Stmt& leaf, Barriers* open) {
  ir::WalkExprs(leaf, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    const ir::Intrinsic* intrinsic =
        call == nullptr ? nullptr : ir::FindIntrinsic({call->name.data(), call->name.size()});
    if (intrinsic == nullptr) return true;
    if (intrinsic->sync == ir::SyncKind::kWarp) {
      std::erase_if(*open, [&](auto* barrier) { return threads_.at(barrier).count <= 32; });
    }
    if (intrinsic->sync != ir::SyncKind::kCta) return true;
    op::ThreadRange all{0, cta_threads_};
    if (call->name == "sync_range") {
      Sync({*ir::AsInt(call->args[0]), *ir::AsInt(call->args[1])}, open);
    } else if (call->name != "sync_threads" || call->args.empty() ||
               ir::AsInt(call->args[1]) == cta_threads_) {
      Sync(all, open);
    }
    return true;
  });
  for (const ir::ffi::Object* barrier : UsesOf(leaf).waited) {
    // A thread that is alone issues after it has waited.
    if (threads_.at(barrier).count > 1) open->insert(barrier);
  }
  if (leaf->kind == StmtKind::kBreak || leaf->kind == StmtKind::kContinue) {
    Add(*open, &exits_.back());
  }
}

Stmt PhaseOrderer::Process(const Stmt& s, Barriers* open) {
  // A statement that begins a phase without waiting for it is issued by some of the threads: the
  // others synchronize with them in front of it.
  Uses uses = UsesOf(s);
  std::vector<Stmt> stmts;
  for (const ir::ffi::Object* barrier : uses.begun) {
    if (uses.waited.count(barrier) || !open->count(barrier)) continue;
    stmts.push_back(op::SyncThreads(threads_.at(barrier), cta_threads_, s.span()));
    Sync(threads_.at(barrier), open);
  }
  stmts.push_back(ProcessParts(s, open));
  return stmts.size() == 1 ? stmts[0] : ir::MakeSeq(stmts, s.span());
}

Stmt PhaseOrderer::ProcessParts(const Stmt& s, Barriers* open) {
  if (const auto* seq = s.as<ir::SeqNode>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : seq->stmts) {
      Stmt processed = Process(child, open);
      bool guarded = processed->kind == StmtKind::kSeq && child->kind != StmtKind::kSeq;
      if (!guarded) {
        stmts.push_back(processed);
        continue;
      }
      // The barriers join this sequence, and so does what the statement names.
      for (const Stmt& part : processed.as<ir::SeqNode>()->stmts) stmts.push_back(part);
    }
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), seq->span);
  }
  if (const auto* op = s.as<ir::IfNode>()) return ProcessIf(op, open);
  if (const auto* op = s.as<ir::ForNode>()) {
    return ProcessLoop(s, op->body, ir::AsInt(op->extent).value_or(0) > 0, open);
  }
  if (const auto* op = s.as<ir::WhileNode>()) return ProcessLoop(s, op->body, false, open);
  if (const auto* bind = s.as<ir::BindNode>()) {
    block_.Bind(bind->var, bind->value);
  }
  Pass(s, open);
  return s;
}

Stmt PhaseOrderer::ProcessIf(const ir::IfNode* op, Barriers* open) {
  Barriers other = *open;
  Stmt then_case = Process(op->then_case, open);
  Stmt else_case;
  if (op->else_case.defined()) else_case = Process(op->else_case, &other);
  Stmt result = ir::If(op->condition, then_case, else_case, op->span);
  if (!block_.Where(op->condition)) {
    Add(other, open);
    return result;
  }
  // Each thread has its own side: what is open there is, and what either side's barriers closed.
  Barriers both;
  std::set_intersection(open->begin(), open->end(), other.begin(), other.end(),
                        std::inserter(both, both.end()));
  auto keep = [&](const Stmt& side, const Barriers& after) {
    if (!side.defined()) return;
    for (const ir::ffi::Object* barrier : UsesOf(side).waited) {
      if (after.count(barrier)) both.insert(barrier);
    }
  };
  keep(then_case, *open);
  keep(else_case, other);
  *open = both;
  return result;
}

Stmt PhaseOrderer::ProcessLoop(const Stmt& loop, const Stmt& body, bool runs, Barriers* open) {
  Barriers before = *open;
  Barriers carried;
  Stmt result = body;
  exits_.emplace_back();
  while (true) {
    *open = before;
    Add(carried, open);
    exits_.back().clear();
    result = Process(result, open);
    Add(exits_.back(), open);
    if (std::includes(carried.begin(), carried.end(), open->begin(), open->end())) break;
    Add(*open, &carried);
  }
  exits_.pop_back();
  if (!runs) Add(before, open);
  if (const auto* op = loop.as<ir::ForNode>()) {
    return ir::For(op->var, op->min, op->extent, op->Kind(), result, op->annotations, op->span);
  }
  return ir::While(loop.as<ir::WhileNode>()->condition, result, loop.span());
}

class Launches : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs,
                            PhaseOrderer(op).Run(), op->span);
  }
};

}  // namespace

ir::Func OrderPhases(const ir::Func& func) {
  return func.WithBody(Launches().MutateStmt(func->body));
}

}  // namespace tilelang::transform
