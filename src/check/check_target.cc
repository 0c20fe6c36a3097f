// Calls that need hardware which the target does not have.
#include "check/check_parts.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/next_tile.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

constexpr int64_t kLaunchControlMajor = 10;

struct Missing {
  const char* what = nullptr;
  const char* targets = nullptr;
};

ir::Feature NeedOf(const ir::CallNode* call) {
  return call->intrinsic == nullptr ? ir::Feature::kNone : call->intrinsic->needs;
}

Missing MissingFor(ir::Feature needs, const Target& target) {
  if (needs == ir::Feature::kTma && !target->has_tma) {
    return {"bulk copies, clusters or register budgets", "target=\"sm_90a\" or target=\"sm_100a\""};
  }
  if (needs == ir::Feature::kTcgen05 && !target->has_tcgen05) {
    return {"tcgen05", "target=\"sm_100a\""};
  }
  if (needs == ir::Feature::kLaunchControl && target->major < kLaunchControlMajor) {
    return {"cluster launch control", "target=\"sm_100a\""};
  }
  if (needs == ir::Feature::kWgmma && !target->has_wgmma) {
    return {"wgmma", "target=\"sm_90a\""};
  }
  return {};
}

// The scheduler of T.Persistent that the target must have.
bool TakesBlocksOver(const ir::Stmt& s) {
  auto next = ir::AsNextTile(s);
  return next && !next->counter.defined();
}

class TargetChecker : public ir::StmtVisitor {
 public:
  explicit TargetChecker(const Target& target) : target_(target) {}
  using StmtVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    if (TakesBlocksOver(s) && target_->major < kLaunchControlMajor) {
      TL_USER_ERROR(
          kTarget, span_,
          "T.Persistent(scheduler=\"clc\"): "
              << std::string(target_->arch)
              << " has no cluster launch control; compile with target=\"sm_100a\", or use "
                 "scheduler=\"counter\" with as many blocks as the GPU holds");
    }
    if (ir::IsOrdering(s)) {
      ir::Call call = ir::CallFor(s);
      const auto* arrive = s.as<ir::ArriveNode>();
      bool in_cluster = arrive != nullptr && arrive->IsByThread() && arrive->block.defined();
      Check(call->name, in_cluster ? ir::Feature::kTma : NeedOf(call.get()));
    }
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::CallNode* op) override {
    Check(op->name, NeedOf(op));
    StmtVisitor::Visit(op);
  }

 private:
  void Check(const ir::String& name, ir::Feature needs) const {
    Missing missing = MissingFor(needs, target_);
    if (missing.what == nullptr) return;
    TL_USER_ERROR(kTarget, span_,
                  "T." << std::string(name) << ": " << std::string(target_->arch) << " has no "
                       << missing.what << "; compile with " << missing.targets);
  }

  Target target_;
  ir::Span span_;
};

}  // namespace

void CheckTarget(const ir::Func& func, const Target& target) {
  TargetChecker(target).VisitStmt(func->body);
}

}  // namespace tilelang::check
