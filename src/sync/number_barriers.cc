#include "sync/number_barriers.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_visitor.h"
#include "ir/async.h"
#include "ir/error.h"
#include "op/effect.h"
#include "target/warp.h"

namespace tilelang::sync {

namespace ffi = tvm::ffi;

using ir::Stmt;

namespace {

constexpr int64_t kBarriers = 16;

// The numbers that barriers of the program may have.
class TakenNumbers : public analysis::ScopedVisitor {
 public:
  explicit TakenNumbers(const ir::Func& func) {
    analyzer_.BindParams(func->params);
    taken[0] = true;
  }
  std::array<bool, kBarriers> taken{};

  using ScopedVisitor::Visit;
  void Visit(const ir::BarrierNode* op) override {
    if (op->Kind() != ir::BarrierKind::kNamed) return;
    arith::Interval bounds = analyzer_.ConstBounds(op->number);
    int64_t first = std::max<int64_t>(bounds.lo, 0);
    for (int64_t i = first; i < kBarriers && i <= bounds.hi; ++i) taken[i] = true;
  }
};

class Numberer : public ir::StmtMutator {
 public:
  explicit Numberer(const ir::Func& func) : func_(func) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    TakenNumbers program(func_);
    program.Visit(op);
    taken_ = program.taken;
    numbers_.clear();
    of_warpgroups_.clear();
    renumbered_.clear();
    thread_ = analysis::ThreadsOf(op).linear;
    return StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::BarrierNode* op) override {
    if (op->Kind() == ir::BarrierKind::kNamed) return Renumber(op);
    bool of_warpgroups = op->Kind() == ir::BarrierKind::kWarpgroups;
    if (!of_warpgroups && op->Kind() != ir::BarrierKind::kRange) return ffi::GetRef<Stmt>(op);
    op::ThreadRange threads{op->threads[0], op->threads[1]};
    auto first = of_warpgroups ? FirstOfWarpgroups(threads) : std::nullopt;
    if (first) {
      ir::Expr group = ir::FloorDiv(thread_, op::I32(kWarpgroup));
      ir::Expr number = group + op::I32(*first - threads.begin / kWarpgroup);
      return ir::Barrier::Named(number, op::I32(kWarpgroup), op->span);
    }
    int64_t number = NumberOf(threads.begin, threads.count, op->span);
    return ir::Barrier::Named(op::I32(number), op::I32(threads.count), op->span);
  }

 private:
  // The first of as many free numbers as there are warpgroups, from the top; nullopt: too few.
  std::optional<int64_t> FirstOfWarpgroups(const op::ThreadRange& threads) {
    auto [it, is_new] = of_warpgroups_.try_emplace({threads.begin, threads.count});
    if (!is_new) return it->second;
    int64_t groups = threads.count / kWarpgroup;
    for (int64_t first = kBarriers - groups; first > 0 && !it->second; --first) {
      auto begin = taken_.begin() + first;
      if (std::count(begin, begin + groups, true) != 0) continue;
      std::fill_n(begin, groups, true);
      it->second = first;
    }
    return it->second;
  }
  // A barrier of the program keeps its number, unless no CTA has it: then it is a name.
  Stmt Renumber(const ir::BarrierNode* op) {
    auto number = ir::AsInt(op->number);
    if (!number || *number < kBarriers) return ffi::GetRef<Stmt>(op);
    auto [it, is_new] = renumbered_.try_emplace(*number, kBarriers - 1);
    if (is_new) {
      while (it->second > 0 && taken_[it->second]) --it->second;
      if (it->second == 0) {
        TL_USER_ERROR(kResource, op->span,
                      "barrier_id=" << *number << " needs a number of its own, but a CTA has "
                                    << kBarriers
                                    << " barriers, and the kernel uses all of them. Use fewer, or "
                                       "constants for barrier_id");
      }
      taken_[it->second] = true;
    }
    auto barrier = ffi::make_object<ir::BarrierNode>(*op);
    barrier->number = op::I32(it->second);
    return Stmt(barrier);
  }
  // Takes numbers from the top, since kernels that number their own barriers use the top ones last.
  int64_t NumberOf(int64_t first, int64_t count, const ir::Span& span) {
    auto [it, is_new] = numbers_.try_emplace({first, count}, 0);
    if (!is_new) return it->second;
    for (it->second = kBarriers - 1; taken_[it->second]; --it->second) {
      if (it->second == 0) Exhausted(first, count, span);
    }
    taken_[it->second] = true;
    return it->second;
  }
  [[noreturn]] void Exhausted(int64_t first, int64_t count, const ir::Span& span) const {
    TL_USER_ERROR(
        kResource, span,
        "threads "
            << first << " to " << first + count - 1
            << " must wait for each other here, but no hardware barrier is free: a block has "
            << kBarriers << ", one for all threads, " << numbers_.size() - 1
            << " for other groups of threads, and T.sync_threads(barrier_id, ..) of the program "
               "may use all others. Use fewer numbers, or "
               "constants for barrier_id");
  }

  const ir::Func& func_;
  std::array<bool, kBarriers> taken_{};
  std::map<int64_t, int64_t> renumbered_;  // numbers of the program above the last of a CTA
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers_;
  std::map<std::pair<int64_t, int64_t>, std::optional<int64_t>> of_warpgroups_;
  ir::Expr thread_;
};

}  // namespace

ir::Func NumberBarriers(const ir::Func& func) {
  return func.WithBody(Numberer(func).MutateStmt(func->body));
}

}  // namespace tilelang::sync
