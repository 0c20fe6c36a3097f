// Clusters: their shape divides the grid, and what is said of their blocks holds.
#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"

namespace tilelang::check {

namespace {

using ir::Expr;
using ir::Stmt;

constexpr const char* kAxes[] = {"x", "y", "z"};

std::string Ranks(int64_t size) { return "its ranks are 0 to " + std::to_string(size - 1); }

class ClusterChecker : public ir::StmtVisitor {
 public:
  explicit ClusterChecker(const ir::KernelLaunchNode* launch)
      : size_(op::ClusterSize(launch)), in_pairs_(op::HasGemmsInPairs(launch->body)) {
    CheckShape(launch);
    VisitStmt(launch->body);
  }
  using StmtVisitor::Visit;

  void VisitStmt(const Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::CopyNode* op) override {
    int64_t mask = op::ClusterMask(op);
    const char* name = op::AsyncCopyName(op);
    if (mask != 0) CheckMask(name, mask);
    if (op->block.defined()) {
      CheckRank("dst_block of T.copy_cluster", op->block);
      CheckOtherBlock(op);
    }
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::GemmNode* op) override {
    if (in_pairs_) CheckPair(op);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->name == "mbarrier_arrive" && op->args.size() > 1) {
      CheckRank("cta_id of T.mbarrier_arrive", op->args[1]);
    }
    StmtVisitor::Visit(op);
    if (!divided_.defined() || !IsBarrier(op)) return;
    TL_USER_ERROR(kSemantics, span_,
                  "T." << std::string(op->name) << " waits for all blocks of the cluster, but `"
                       << ir::Print(divided_)
                       << "` differs between them: put it where all of them pass");
  }
  void Visit(const ir::BindNode* op) override {
    if (DependsOnRank(op->value)) ranks_.push_back(op->var);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::IfNode* op) override {
    Expr outer = divided_;
    if (DependsOnRank(op->condition)) divided_ = op->condition;
    StmtVisitor::Visit(op);
    divided_ = outer;
  }

 private:
  static bool IsBarrier(const ir::CallNode* op) {
    const ir::Intrinsic* known = ir::FindIntrinsic({op->name.data(), op->name.size()});
    return known != nullptr && known->header == "cluster.h" &&
           known->participants == ir::Participants::kCta;
  }

  void CheckShape(const ir::KernelLaunchNode* op) const {
    auto given = op->attrs.Get("cluster_dims");
    if (!given) return;
    auto dims = (*given).cast<ir::Array<int64_t>>();
    for (size_t i = 0; i < dims.size(); ++i) {
      auto blocks = i < op->grid.size() ? ir::AsInt(op->grid[i]) : 1;
      if (!blocks || *blocks % dims[i] == 0) continue;
      TL_USER_ERROR(kShape, op->span,
                    "clusters of " << dims[i] << " blocks along " << kAxes[i]
                                   << " do not divide the grid, which has " << *blocks
                                   << " there; round its extent up, and skip what lies outside");
    }
    if (size_ > 1 && op->attrs.count("swizzle_panel") != 0) {
      TL_USER_ERROR(kSemantics, op->span,
                    "T.use_swizzle with cluster_dims: blocks of a cluster would not be neighbours "
                    "in the grid any more; leave one of them out");
    }
  }

  void NeedCluster(const std::string& what) const {
    if (size_ > 1) return;
    TL_USER_ERROR(kSemantics, span_,
                  what << " reaches other blocks, but the kernel has no clusters: "
                          "T.Kernel(..., cluster_dims=2)");
  }
  void CheckMask(const char* name, int64_t mask) const {
    NeedCluster(name);
    if (mask >> size_ == 0) return;
    int64_t rank = 0;
    while ((mask >> size_ >> rank & 1) == 0) ++rank;
    TL_USER_ERROR(kSemantics, span_,
                  name << ": cluster_mask " << mask << " names block " << size_ + rank
                       << ", which a cluster of " << size_ << " does not have; " << Ranks(size_));
  }
  void CheckRank(const char* what, const Expr& rank) const {
    NeedCluster(what);
    auto value = ir::AsInt(rank);
    if (!value || (*value >= 0 && *value < size_)) return;
    TL_USER_ERROR(kSemantics, span_,
                  what << " is " << *value << ", which a cluster of " << size_
                       << " blocks does not have; " << Ranks(size_));
  }
  void CheckOtherBlock(const ir::CopyNode* op) const {
    const ir::Buffer& dst = op->dst->buffer;
    const ir::Buffer& src = op->src->buffer;
    if (!dst.IsShared() || (!src.IsShared() && !src.IsFragment())) {
      TL_USER_ERROR(kScope, span_,
                    "T.copy_cluster with dst_block= of " << Describe(src) << " to " << Describe(dst)
                                                         << "; it copies from shared memory or "
                                                            "a fragment to shared memory");
    }
    if (dst->dtype.bits >= 8) return;
    TL_USER_ERROR(
        kDType, span_,
        "T.copy_cluster with dst_block= to " << Describe(dst) << "; elements have 8 bits or more");
  }

  // All tcgen05 instructions of a kernel have one .cta_group (PTX ISA).
  void CheckPair(const ir::GemmNode* op) const {
    if (!op::IsInPairs(op)) {
      TL_USER_ERROR(kSemantics, op->span,
                    "T.gemm without use_2cta=True in a kernel that has one with it: all gemms of a "
                    "kernel are computed by pairs of blocks, or none is");
    }
    if (size_ % 2 != 0) {
      TL_USER_ERROR(kSemantics, op->span,
                    "T.gemm with use_2cta=True is computed by two neighbours of a cluster, but "
                        << (size_ == 1 ? std::string("the kernel has no clusters")
                                       : "clusters have " + std::to_string(size_) + " blocks")
                        << ": T.Kernel(..., cluster_dims=2)");
    }
    if (!divided_.defined()) return;
    TL_USER_ERROR(kSemantics, op->span,
                  "T.gemm with use_2cta=True is computed by both blocks of a pair, but `"
                      << ir::Print(divided_)
                      << "` differs between them: put it where both of them pass");
  }

  bool DependsOnRank(const Expr& e) const {
    bool found = false;
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* call = part.as<ir::CallNode>();
      found |= call != nullptr && call->name == "block_rank_in_cluster";
      for (const ir::Var& var : ranks_) found |= part.same_as(var);
      return !found;
    });
    return found;
  }

  int64_t size_;
  bool in_pairs_;
  std::vector<ir::Var> ranks_;  // computed from the block's
  Expr divided_;                // the condition around that differs between blocks
  ir::Span span_;
};

}  // namespace

void CheckClusters(const ir::Func& func) {
  ir::WalkStmts(func->body, [](const Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch != nullptr) ClusterChecker checker(launch);
    return launch == nullptr;
  });
}

}  // namespace tilelang::check
