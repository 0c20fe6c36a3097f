// Calls that need hardware which the target does not have.
#include "check/check_parts.h"
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

Missing MissingFor(const ir::CallNode* call, const Target& target) {
  const ir::Intrinsic* intrinsic = ir::FindIntrinsic({call->name.data(), call->name.size()});
  ir::Feature needs = intrinsic == nullptr ? ir::Feature::kNone : intrinsic->needs;
  // With a CTA of the cluster as second argument.
  if (call->name == "mbarrier_arrive" && call->args.size() > 1) needs = ir::Feature::kTma;
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
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::CallNode* op) override {
    if (Missing missing = MissingFor(op, target_); missing.what != nullptr) {
      TL_USER_ERROR(kTarget, span_,
                    "T." << std::string(op->name) << ": " << std::string(target_->arch)
                         << " has no " << missing.what << "; compile with " << missing.targets);
    }
    StmtVisitor::Visit(op);
  }

 private:
  Target target_;
  ir::Span span_;
};

}  // namespace

void CheckTarget(const ir::Func& func, const Target& target) {
  TargetChecker(target).VisitStmt(func->body);
}

}  // namespace tilelang::check
