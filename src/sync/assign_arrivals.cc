#include "sync/assign_arrivals.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "analysis/thread_set.h"
#include "ir/error.h"
#include "op/gemm_tcgen05.h"
#include "sync/pending_accesses.h"
#include "target/warp.h"

namespace tilelang::sync {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;
using op::ThreadRange;

namespace {

bool Contains(const ThreadRange& outer, const ThreadRange& inner) {
  return inner.begin >= outer.begin && inner.begin + inner.count <= outer.begin + outer.count;
}

std::string Describe(const ThreadRange& threads) {
  if (threads.count == 1) return "thread " + std::to_string(threads.begin);
  return "threads " + std::to_string(threads.begin) + " to " +
         std::to_string(threads.begin + threads.count - 1);
}

std::string IssuerOf(const ThreadRange& threads) {
  if (threads.count == 1) return Describe(threads);
  return "the elected thread of warp " + std::to_string(threads.begin / kWarp);
}

// A gemm or an arrival, and the threads that reach it.
struct Site {
  const ir::StmtNode* stmt;
  ThreadRange threads;
};

using Sites = std::vector<Site>;

const Site* FindIssuer(const Sites& sites, const ThreadRange& threads) {
  auto it = std::find_if(sites.begin(), sites.end(),
                         [&](const Site& s) { return SameIssuer(s.threads, threads); });
  return it == sites.end() ? nullptr : &*it;
}

// Gemms and arrivals of a kernel.
class Collector : public analysis::ScopedMutator {
 public:
  using ScopedMutator::Rewrite;
  explicit Collector(const ir::KernelLaunchNode* launch) : threads_(analysis::ThreadsOf(launch)) {}

  Stmt Rewrite(const ir::GemmNode* op) override {
    Site site{op, analysis::ActiveThreads(threads_, &analyzer_)};
    if (!op::WaitsItself(op)) issued.push_back(site);
    bool commits = op::WaitsItself(op) || op->mbar.defined();
    (commits ? committed : left).push_back(site);
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::ArriveNode* op) override {
    if (op->Kind() == ir::ArriveKind::kIssuerCommit) {
      arrivals.push_back({op, analysis::ActiveThreads(threads_, &analyzer_)});
    }
    return ffi::GetRef<Stmt>(op);
  }

  Sites issued;     // gemms that others wait for
  Sites left;       // the sites that do not commit themselves
  Sites committed;  // all other gemms
  Sites arrivals;

 private:
  analysis::LaunchThreads threads_;
};

// The group that issues what an arrival by `arrival.threads` is for.
ThreadRange GroupOf(const Site& arrival, const Collector& sites) {
  if (sites.left.empty() || FindIssuer(sites.issued, arrival.threads) != nullptr) {
    return arrival.threads;
  }
  const Site* found = nullptr;
  bool unique = true;
  for (const Site& gemm : sites.left) {
    if (!Contains(arrival.threads, gemm.threads)) continue;
    unique = unique && (found == nullptr || SameIssuer(found->threads, gemm.threads));
    found = &gemm;
  }
  if (found != nullptr && unique) return found->threads;
  const Site& other = sites.left.front();
  TL_USER_ERROR(
      kSemantics, arrival.stmt->span,
      "T.tcgen05_mma_arrive arrives when the operations that its own thread has issued are "
      "complete, but "
          << IssuerOf(arrival.threads) << ", which executes it for " << Describe(arrival.threads)
          << ", issues no gemm: "
          << (found == nullptr ? "those of " + Describe(other.threads) + " are issued by " +
                                     IssuerOf(other.threads)
                               : std::string("several groups among these threads do"))
          << ". Put the arrival after the gemms, under the same condition on the threads");
}

class Assigner : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Collector sites(op);
    sites.MutateStmt(op->body);
    if (sites.arrivals.empty()) return ffi::GetRef<Stmt>(op);
    launch_ = op;
    Sites arrived;
    for (const Site& arrival : sites.arrivals) {
      ThreadRange group = GroupOf(arrival, sites);
      arrived.push_back({arrival.stmt, group});
      if (!SameIssuer(group, arrival.threads)) moved_.push_back(arrived.back());
    }
    CheckCommitted(sites, arrived);
    return moved_.empty() ? ffi::GetRef<Stmt>(op) : StmtMutator::Rewrite(op);
  }

  Stmt Rewrite(const ir::ArriveNode* op) override {
    for (const Site& site : moved_) {
      if (site.stmt == op) return ir::If(Is(site.threads), ffi::GetRef<Stmt>(op), Stmt(), op->span);
    }
    return ffi::GetRef<Stmt>(op);
  }

 private:
  Expr Is(const ThreadRange& threads) const {
    if (threads.count == 1) return analysis::BlockThreads(launch_).Is(threads.begin);
    analysis::LaunchThreads launch = analysis::ThreadsOf(launch_);
    auto constant = [](int64_t value) { return ir::Const(ir::dtypes::kInt32, value); };
    Expr from = launch.linear >= constant(threads.begin);
    Expr to = launch.linear < constant(threads.begin + threads.count);
    if (threads.begin + threads.count == launch.count) return from;
    return threads.begin == 0 ? to : from && to;
  }

  // A gemm is committed by its own thread: itself, by a later one, or by an arrival.
  static void CheckCommitted(const Collector& sites, const Sites& arrived) {
    for (const Site& gemm : sites.left) {
      bool own = FindIssuer(arrived, gemm.threads) || FindIssuer(sites.committed, gemm.threads);
      if (own) continue;
      TL_USER_ERROR(kSemantics, gemm.stmt->span,
                    "no T.tcgen05_mma_arrive is for this gemm: "
                        << IssuerOf(gemm.threads) << " issues it for " << Describe(gemm.threads)
                        << ", but the arrivals of the kernel are made by "
                        << IssuerOf(arrived.front().threads)
                        << ", and cover only operations that this thread has issued. Put an "
                           "arrival after the gemm, under the same condition on the threads");
    }
  }

  const ir::KernelLaunchNode* launch_ = nullptr;
  Sites moved_;  // with the threads that they go to
};

}  // namespace

ir::Func AssignArrivals(const ir::Func& func, const Target& target) {
  return func.WithBody(Assigner().MutateStmt(func->body));
}

}  // namespace tilelang::sync
