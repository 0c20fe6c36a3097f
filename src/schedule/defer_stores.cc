#include "schedule/defer_stores.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_visitor.h"
#include "arith/analyzer.h"
#include "ir/effects.h"
#include "op/copy_tma.h"
#include "op/effect.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Stmt;

namespace {

const ir::CopyNode* AsTmaStore(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && op::InstructionOf(copy) == op::TmaStore() ? copy : nullptr;
}

// What a sequence does with a tile that it fills and stores.
struct Staging {
  Buffer tile;
  const ir::SeqNode* seq = nullptr;
  size_t fill = 0;  // the first statement that touches it
  std::vector<const ir::CopyNode*> stores;
  bool written = false;                // what they write must be in global memory, then
  const ir::StmtNode* loop = nullptr;  // after which the last stores are waited for
};

// One region ends before the other begins, in some dimension.
bool AreApart(const ir::Region& a, const ir::Region& b) {
  arith::Analyzer analyzer;
  for (size_t d = 0; d < a->mins.size(); ++d) {
    if (analyzer.CanProve(a->mins[d] + a->extents[d] <= b->mins[d]) ||
        analyzer.CanProve(b->mins[d] + b->extents[d] <= a->mins[d])) {
      return true;
    }
  }
  return false;
}

// Whether the store must come after one of those before it.
bool WritesAgain(const ir::CopyNode* store, const std::vector<const ir::CopyNode*>& before) {
  return std::any_of(before.begin(), before.end(), [&](const ir::CopyNode* other) {
    return other->dst->buffer.same_as(store->dst->buffer) &&
           other->annotations.count(op::kTmaWrittenAnnotation) != 0 &&
           !AreApart(other->dst, store->dst);
  });
}

std::optional<Staging> StagingOf(const ir::SeqNode* seq, size_t store, const Stmt& kernel) {
  Staging staging;
  staging.tile = AsTmaStore(seq->stmts[store])->src->buffer;
  staging.seq = seq;
  staging.fill = store;
  int accesses = 0;
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    const Stmt& s = seq->stmts[i];
    int count = ir::CountEffects(s, staging.tile);
    if (count == 0) continue;
    accesses += count;
    staging.fill = std::min(staging.fill, i);
    if (i < store) continue;
    const ir::CopyNode* copy = AsTmaStore(s);
    if (copy == nullptr || WritesAgain(copy, staging.stores)) return std::nullopt;
    staging.stores.push_back(copy);
    staging.written |= copy->annotations.count(op::kTmaWrittenAnnotation) != 0;
  }
  bool elsewhere = ir::CountEffects(kernel, staging.tile) != accesses;
  if (elsewhere || staging.fill == store) return std::nullopt;
  return staging;
}

// Finds the stores in loops, and the outermost loop that the threads of each run together.
class StagingFinder : public analysis::ScopedVisitor {
 public:
  explicit StagingFinder(const ir::KernelLaunchNode* launch)
      : launch_(launch), threads_(analysis::ThreadsOf(launch)) {
    Visit(launch);
  }
  std::vector<Staging> found;

  using ScopedVisitor::Visit;
  void Visit(const ir::ForNode* op) override {
    Loop(op, [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    Loop(op, [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::SeqNode* op) override {
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      const ir::CopyNode* store = AsTmaStore(op->stmts[i]);
      if (store == nullptr || IsKnown(store)) continue;
      auto loop = std::find_if(loops_.begin(), loops_.end(), [&](const auto& around) {
        return around.second == op::TilePlanOf(store)->threads;
      });
      auto staging = loop == loops_.end() ? std::nullopt : StagingOf(op, i, launch_->body);
      if (!staging) continue;
      staging->loop = loop->first;
      found.push_back(*staging);
    }
    ScopedVisitor::Visit(op);
  }

 private:
  template <typename Fn>
  void Loop(const ir::StmtNode* op, const Fn& visit) {
    loops_.emplace_back(op, analysis::ActiveThreads(threads_, &analyzer_));
    visit();
    loops_.pop_back();
  }
  bool IsKnown(const ir::CopyNode* store) const {
    return std::any_of(found.begin(), found.end(), [&](const Staging& staging) {
      return std::count(staging.stores.begin(), staging.stores.end(), store) != 0;
    });
  }

  const ir::KernelLaunchNode* launch_;
  analysis::LaunchThreads threads_;
  std::vector<std::pair<const ir::StmtNode*, op::ThreadRange>> loops_;  // outermost first
};

class Deferrer : public ir::StmtMutator {
 public:
  explicit Deferrer(const std::vector<Staging>& all) : all_(all) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      for (const Staging& staging : all_) {
        if (staging.seq != op || staging.fill != i) continue;
        stmts.push_back(op::WaitForStores(staging.written, op->stmts[i].span()));
      }
      stmts.push_back(MutateStmt(op->stmts[i]));
    }
    return op::Sequence(stmts, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override { return AfterLoop(op, StmtMutator::Rewrite(op)); }
  Stmt Rewrite(const ir::WhileNode* op) override { return AfterLoop(op, StmtMutator::Rewrite(op)); }
  Stmt Rewrite(const ir::CopyNode* op) override {
    bool deferred = std::any_of(all_.begin(), all_.end(), [&](const Staging& staging) {
      return std::count(staging.stores.begin(), staging.stores.end(), op) != 0;
    });
    if (!deferred) return ffi::GetRef<Stmt>(op);
    auto annotations = op->annotations;
    annotations.Set(op::kTmaDeferredAnnotation, true);
    return ir::WithPlan(ir::Copy(op->src, op->dst, annotations, op->span), op->plan);
  }

 private:
  Stmt AfterLoop(const ir::StmtNode* loop, const Stmt& rewritten) const {
    bool last = false;
    bool written = false;
    for (const Staging& staging : all_) {
      last |= staging.loop == loop;
      written |= staging.loop == loop && staging.written;
    }
    if (!last) return rewritten;
    return ir::MakeSeq({rewritten, op::WaitForStores(written, loop->span)}, loop->span);
  }

  const std::vector<Staging>& all_;
};

class Launches : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    StagingFinder finder(op);
    if (finder.found.empty()) return ffi::GetRef<Stmt>(op);
    return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs,
                            Deferrer(finder.found).MutateStmt(op->body), op->span);
  }
};

}  // namespace

ir::Func DeferStores(const ir::Func& func) {
  return func.WithBody(Launches().MutateStmt(func->body));
}

}  // namespace tilelang::schedule
