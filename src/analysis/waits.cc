#include "analysis/waits.h"

#include "ir/visitor.h"
#include "op/issue.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

bool IsOfRoles(const Buffer& barrier) { return !op::ThreadsWaitingOn(barrier).has_value(); }

// The wait for a phase of its own block's, or a pair's, barrier.
const WaitParityNode* AsWait(const Stmt& s) {
  const auto* wait = s.as<WaitParityNode>();
  return wait != nullptr && wait->scope_kind() != Scope::kCluster ? wait : nullptr;
}

}  // namespace

Buffer MbarrierWaitedOn(const Stmt& s) {
  if (const auto* wait = s.as<WaitNode>()) return wait->completion->barrier;
  const WaitParityNode* wait = AsWait(s);
  return wait != nullptr ? wait->barrier() : Buffer();
}

bool WaitsOnMbarrier(const Stmt& s) {
  return HasStmt(s, [](const Stmt& part) { return MbarrierWaitedOn(part).defined(); });
}

bool WaitsForAll(const Stmt& s, Engine engine) {
  return HasStmt(s, [&](const Stmt& part) {
    const auto* wait = part.as<WaitNode>();
    return wait != nullptr && wait->engine() == engine && wait->left == 0;
  });
}

bool IsRole(const Stmt& s) {
  return HasStmt(s, [](const Stmt& part) {
    const WaitParityNode* wait = AsWait(part);
    return wait != nullptr && IsOfRoles(wait->barrier());
  });
}

bool ArrivesForRoles(const Stmt& s) {
  const auto* arrive = s.as<ArriveNode>();
  return arrive != nullptr && arrive->IsByThread() && IsOfRoles(arrive->barrier());
}

bool ArrivesForOthers(const Stmt& s) {
  if (const auto* barrier = s.as<BarrierNode>()) {
    return barrier->Part() == BarrierPart::kArrive ||
           barrier->Part() == BarrierPart::kArriveRelaxed;
  }
  return ArrivesForRoles(s);
}

Optional<Array<Buffer>> GivenBackBy(const Stmt& s) {
  if (const auto* arrive = s.as<ArriveNode>()) return arrive->gives;
  if (const auto* barrier = s.as<BarrierNode>()) return barrier->gives;
  return std::nullopt;
}

bool UsesProgramBarrier(const Stmt& s) {
  class Finder : public StmtVisitor {
   public:
    using StmtVisitor::Visit;
    bool found = false;
    void Visit(const LoadNode* op) override {
      found = found || op::IsProgramBarrier(op->buffer);
      StmtVisitor::Visit(op);
    }
    void Visit(const MbarrierInitNode* op) override {}
  };
  Finder finder;
  finder.VisitStmt(s);
  return finder.found;
}

}  // namespace tilelang::analysis
