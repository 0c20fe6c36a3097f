#include "transform/order_tensor_memory.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>

#include "ir/effects.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "op/tmem.h"
#include "transform/kernel_scope.h"
#include "transform/scoped_visitor.h"

namespace tilelang::transform {

using ir::Buffer;
using ir::Stmt;
using op::ThreadRange;

namespace {

struct Access {
  Buffer buffer;
  bool write = false;
  ThreadRange threads;
  bool issued = false;   // by one thread for all of them: they synchronize before and wait after
  bool lasts = false;    // until the program has waited
  bool ordered = false;  // by mbarriers of the program

  bool operator==(const Access& other) const {
    return buffer.same_as(other.buffer) && write == other.write && threads == other.threads &&
           issued == other.issued && ordered == other.ordered;
  }
};
using Accesses = std::vector<Access>;

// Which threads reach each statement.
class ThreadFinder : public ScopedVisitor {
 public:
  explicit ThreadFinder(const ir::KernelLaunchNode* launch)
      : launch_threads_(ThreadsOf(launch)), reached_{0, launch_threads_.count} {
    Visit(launch);
  }
  std::unordered_map<const ir::ffi::Object*, ThreadRange> threads;

  using ScopedVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    threads[s.get()] = reached_;
    ScopedVisitor::VisitStmt(s);
  }

 protected:
  // Conditions alone divide threads.
  void Under(const ir::Expr& condition, bool holds, const std::function<void()>& visit) override {
    ScopedVisitor::Under(condition, holds, [&] {
      ThreadRange outer = std::exchange(reached_, ActiveThreads(launch_threads_, &analyzer_));
      visit();
      reached_ = outer;
    });
  }

 private:
  LaunchThreads launch_threads_;
  ThreadRange reached_;
};

bool Contains(const ThreadRange& outer, const ThreadRange& inner) {
  return outer.begin <= inner.begin && inner.begin + inner.count <= outer.begin + outer.count;
}

bool UsesBarriers(const Stmt& s) {
  bool found = false;
  ir::WalkStmts(s, [&](const Stmt& part) {
    const auto* gemm = part.as<ir::GemmNode>();
    const auto* mbar =
        gemm != nullptr && gemm->mbar.defined() ? gemm->mbar.as<ir::LoadNode>() : nullptr;
    found = found || (mbar != nullptr && op::IsProgramBarrier(mbar->buffer));
    return !found;
  });
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    found = found || (load != nullptr && op::IsProgramBarrier(load->buffer));
    return !found;
  });
  return found;
}

class TmemOrderer {
 public:
  explicit TmemOrderer(const ir::KernelLaunchNode* launch)
      : launch_(launch),
        cta_threads_(ThreadsOf(launch).count),
        reached_(ThreadFinder(launch).threads),
        layouts_(launch->attrs["layout_map"].cast<ir::Map<Buffer, ir::Any>>()) {
    memory_.columns = launch->attrs["tmem_columns"].cast<ir::Map<Buffer, int64_t>>();
  }

  Stmt Run() {
    Accesses pending;
    return Process(launch_->body, &pending);
  }

 private:
  // Returns `s` with barriers inside; pending: since the threads that reach it last synchronized.
  Stmt Process(const Stmt& s, Accesses* pending);
  Stmt ProcessSeq(const ir::SeqNode* op, Accesses* pending);
  Stmt ProcessIf(const ir::IfNode* op, Accesses* pending);
  Stmt ProcessLoop(const Stmt& loop, const Stmt& body, Accesses* pending);
  Stmt Guarded(const Stmt& s, const Accesses& accesses, Accesses* pending);

  bool DividesThreads(const Stmt& s) const;
  // Of the statement itself, or of all in it when it divides its threads.
  Accesses AccessesOf(const Stmt& s) const;
  void AddAll(const Stmt& s, Accesses* accesses) const;
  bool IsSync(const Stmt& s) const;
  bool MayConflict(const Access& earlier, const Access& later) const;

  const ir::KernelLaunchNode* launch_;
  int64_t cta_threads_;
  std::unordered_map<const ir::ffi::Object*, ThreadRange> reached_;
  op::LayoutMap layouts_;
  op::TensorMemory memory_;
  bool closed_ = false;  // among statements that the program orders
};

bool TmemOrderer::DividesThreads(const Stmt& s) const {
  const auto* op = s.as<ir::IfNode>();
  if (op == nullptr) return false;
  const ThreadRange& all = reached_.at(s.get());
  return !(reached_.at(op->then_case.get()) == all) ||
         (op->else_case.defined() && !(reached_.at(op->else_case.get()) == all));
}

op::Engine EngineOf(const ir::Effect& effect) {
  return op::InstructionOf(static_cast<const ir::TileOpNode*>(effect.node))->engine();
}

void TmemOrderer::AddAll(const Stmt& s, Accesses* accesses) const {
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    if (!effect.buffer.IsTmem()) return;
    const auto* gemm = effect.By<ir::GemmNode>();
    if (gemm != nullptr && op::IsOrdered(gemm)) return;
    bool issued = EngineOf(effect) == op::Engine::kTcgen05;
    bool lasts = gemm != nullptr && !op::WaitsItself(gemm);
    accesses->push_back({effect.buffer, effect.Writes(), reached_.at(effect.node), issued, lasts});
  });
}

Accesses TmemOrderer::AccessesOf(const Stmt& s) const {
  Accesses accesses;
  bool leaf = s->kind == ir::StmtKind::kCopy || s->kind == ir::StmtKind::kGemm;
  if (!leaf && !DividesThreads(s)) return accesses;
  AddAll(s, &accesses);
  bool ordered = !leaf && UsesBarriers(s);
  for (Access& access : accesses) access.ordered = ordered;
  return accesses;
}

// The threads that reach it wait for each other.
bool TmemOrderer::IsSync(const Stmt& s) const {
  const auto* evaluate = s.as<ir::EvaluateNode>();
  const auto* call = evaluate != nullptr ? evaluate->value.as<ir::CallNode>() : nullptr;
  if (call == nullptr) return false;
  if (call->name == op::kSyncForTcgen05) return true;
  if (call->name == "sync_threads") return call->args.empty();
  if (call->name == "sync_warp") return reached_.at(s.get()).count <= 32;
  return call->name == "sync_range";
}

bool TmemOrderer::MayConflict(const Access& earlier, const Access& later) const {
  if (!earlier.write && !later.write) return false;
  if (earlier.ordered && later.ordered) return false;
  if (earlier.threads == later.threads) return false;
  if (earlier.issued && Contains(earlier.threads, later.threads)) return false;
  bool syncs = later.issued && later.threads.count > 1;
  if (syncs && Contains(later.threads, earlier.threads)) return false;
  return op::ShareColumns(earlier.buffer, later.buffer, layouts_, memory_);
}

// Puts a barrier before `s` when it conflicts with what is pending.
Stmt TmemOrderer::Guarded(const Stmt& s, const Accesses& accesses, Accesses* pending) {
  bool conflict = std::any_of(accesses.begin(), accesses.end(), [&](const Access& later) {
    return std::any_of(pending->begin(), pending->end(),
                       [&](const Access& earlier) { return MayConflict(earlier, later); });
  });
  if (!conflict || closed_) return s;
  pending->clear();
  const ThreadRange& threads = reached_.at(s.get());
  Stmt fence = op::DeviceEffect("tcgen_05.h", "tcgen05_before_thread_sync", {}, s.span());
  Stmt barrier = op::SyncThreads(threads, cta_threads_, s.span());
  Stmt all = ir::MakeSeq({fence, barrier, s}, s.span());
  for (const Stmt& part : {fence, barrier, all}) reached_[part.get()] = threads;
  return all;
}

Stmt TmemOrderer::Process(const Stmt& s, Accesses* pending) {
  if (const auto* op = s.as<ir::SeqNode>()) return ProcessSeq(op, pending);
  if (const auto* op = s.as<ir::ForNode>()) return ProcessLoop(s, op->body, pending);
  if (const auto* op = s.as<ir::WhileNode>()) return ProcessLoop(s, op->body, pending);
  Accesses accesses = AccessesOf(s);
  Stmt result = s;
  if (const auto* op = s.as<ir::IfNode>()) result = ProcessIf(op, pending);
  result = Guarded(result, accesses, pending);
  for (const Access& access : accesses) {
    bool known = std::find(pending->begin(), pending->end(), access) != pending->end();
    if (!access.lasts && !known) pending->push_back(access);
  }
  if (IsSync(s)) pending->clear();
  if (s->kind == ir::StmtKind::kEvaluate && UsesBarriers(s)) {
    std::erase_if(*pending, [](const Access& access) { return access.ordered; });
  }
  return result;
}

Stmt TmemOrderer::ProcessSeq(const ir::SeqNode* op, Accesses* pending) {
  // From the first to the last statement that the program orders, nobody else does.
  size_t first = op->stmts.size();
  size_t last = 0;
  for (size_t i = 0; i < op->stmts.size(); ++i) {
    if (!UsesBarriers(op->stmts[i])) continue;
    first = std::min(first, i);
    last = i;
  }
  bool closed = closed_;
  std::vector<Stmt> stmts;
  for (size_t i = 0; i < op->stmts.size(); ++i) {
    const Stmt& child = op->stmts[i];
    if (i == first && first != last) {
      Accesses among;
      for (size_t j = first; j <= last; ++j) AddAll(op->stmts[j], &among);
      Stmt guarded = Guarded(child, among, pending);
      // The fence and the barrier.
      if (!guarded.same_as(child)) {
        const auto& parts = guarded.as<ir::SeqNode>()->stmts;
        stmts.insert(stmts.end(), parts.begin(), parts.begin() + 2);
      }
    }
    closed_ = closed || (first != last && first <= i && i <= last);
    stmts.push_back(Process(child, pending));
  }
  closed_ = closed;
  Stmt result = ir::MakeSeq(stmts, op->span);
  reached_[result.get()] = reached_.at(op);
  return result;
}

Stmt TmemOrderer::ProcessIf(const ir::IfNode* op, Accesses* pending) {
  bool divided = DividesThreads(tvm::ffi::GetRef<Stmt>(op));
  bool closed = closed_;
  // In a branch of some threads they synchronize among themselves.
  if (divided) closed_ = false;
  Accesses inside;
  Accesses other = divided ? Accesses() : *pending;
  Stmt then_case = Process(op->then_case, divided ? &inside : pending);
  Stmt else_case = op->else_case.defined() ? Process(op->else_case, &other) : Stmt();
  closed_ = closed;
  if (!divided) pending->insert(pending->end(), other.begin(), other.end());
  Stmt result = ir::If(op->condition, then_case, else_case, op->span);
  reached_[result.get()] = reached_.at(op);
  return result;
}

Stmt TmemOrderer::ProcessLoop(const Stmt& loop, const Stmt& body, Accesses* pending) {
  // What the first iteration leaves pending reaches the second one.
  Stmt result = Process(body, pending);
  result = Process(result, pending);
  Stmt rebuilt;
  if (const auto* op = loop.as<ir::ForNode>()) {
    rebuilt = ir::For(op->var, op->min, op->extent, op->Kind(), result, op->annotations, op->span);
  } else {
    rebuilt = ir::While(loop.as<ir::WhileNode>()->condition, result, loop.span());
  }
  reached_[rebuilt.get()] = reached_.at(loop.get());
  return rebuilt;
}

class Launches : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    if (op->attrs.count("tmem_columns") == 0) return tvm::ffi::GetRef<Stmt>(op);
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs,
                            TmemOrderer(op).Run(), op->span);
  }
};

}  // namespace

ir::Func OrderTensorMemory(const ir::Func& func, const Target& target) {
  return func.WithBody(Launches().MutateStmt(func->body));
}

}  // namespace tilelang::transform
