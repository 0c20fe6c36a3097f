#include "verify/period.h"

#include <numeric>
#include <set>
#include <unordered_set>

#include "analysis/thread_set.h"
#include "ir/visitor.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

// The longest period that is simulated, in iterations. A loop runs a little longer than its period.
constexpr int64_t kMostPeriod = 60;

// Finds the numbers by which the program divides counters and loop variables with remainder, if all
// threads compute the same remainder.
class RemainderFinder {
 public:
  explicit RemainderFinder(const ir::KernelLaunchNode* launch) : threads_(launch) {
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::ForNode>();
      if (loop != nullptr) counters_.insert(loop->var.get());
      if (const auto* op = s.as<ir::BindNode>()) {
        threads_.Bind(op->var, op->value);
        if (Counts(op->value)) counters_.insert(op->var.get());
      }
      return true;
    });
    ir::WalkExprs(launch->body, [&](const Expr& e) {
      // Slots depend neither on values that are loaded from tensors nor on the order of the
      // tensors' elements.
      const auto* load = e.as<ir::LoadNode>();
      if (load != nullptr && load->buffer.IsGlobal()) return false;
      Add(e);
      return true;
    });
  }
  const std::set<int64_t>& found() const { return found_; }

 private:
  bool Counts(const Expr& e) const {
    bool counts = false;
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      return !(counts |=
               counters_.count(part.get()) != 0 || (load != nullptr && load->buffer.IsLocal()));
    });
    return counts;
  }

  void Add(const Expr& e) {
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr || op->Op() != ir::BinaryOp::kFloorMod) return;
    auto by = ir::AsInt(op->b);
    if (!by || *by < 2 || *by > kMostPeriod || threads_.UsesThread(op->a) || !Counts(op->a)) return;
    // The period of (k // 3) % 2 is 6.
    int64_t period = *by;
    ir::WalkExprs(op->a, [&](const Expr& part) {
      const auto* quotient = part.as<ir::BinaryNode>();
      bool divides = quotient != nullptr && quotient->Op() == ir::BinaryOp::kFloorDiv;
      if (divides) period *= ir::AsInt(quotient->b).value_or(kMostPeriod);
      return period <= kMostPeriod;
    });
    found_.insert(period);
  }

  analysis::BlockThreads threads_;
  std::unordered_set<const ir::ffi::Object*> counters_;
  std::set<int64_t> found_;
};

}  // namespace

int64_t PeriodOf(const ir::KernelLaunchNode* launch) {
  int64_t period = 2;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* op = s.as<ir::AllocNode>();
    if (op == nullptr || !op->buffer.IsBarrier()) return true;
    period = std::lcm(period, 2 * ir::AsInt(op->buffer->shape[0]).value_or(1));
    return true;
  });
  RemainderFinder remainders(launch);
  for (int64_t number : remainders.found()) {
    int64_t longer = std::lcm(period, number);
    if (longer <= kMostPeriod) period = longer;
  }
  return period;
}

}  // namespace tilelang::verify
