// Clusters: their shape divides the grid, and what is said of their blocks holds.
#include <tvm/ffi/cast.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "check/check_parts.h"
#include "check/cluster_agreement.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::check {

namespace {

using ir::Expr;
using ir::Stmt;

constexpr const char* kClusterAxes[] = {"x", "y", "z"};

std::string DescribeRanks(int64_t size) { return "its ranks are 0 to " + std::to_string(size - 1); }

class ClusterChecker : public ir::StmtVisitor {
 public:
  explicit ClusterChecker(const ir::KernelLaunchNode* launch)
      : size_(op::ClusterSize(launch)),
        in_pairs_(op::HasGemmsInPairs(launch->body)),
        agreement_(launch) {
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
    int64_t mask = op->options->cluster_mask;
    const char* name = op::AsyncCopyName(op);
    if (mask != 0) CheckMask(name, mask);
    if (mask != 0 && !op->mbar.defined()) {
      Ranks blocks;
      for (int64_t rank = 0; rank < size_; ++rank) {
        if ((mask >> rank & 1) != 0) blocks.push_back(rank);
      }
      Require({name, "waits for all blocks of its mask", {blocks}, span_});
    }
    if (op->block.defined()) {
      CheckRank("dst_block of T.copy_cluster", op->block);
      CheckOtherBlock(op);
    }
    if (op::IsScaleCopy(op)) CheckScaleCopy(op);
    if (in_pairs_ && op->mbar.defined()) CheckBarrierOfLoad(op);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::GemmNode* op) override {
    if (in_pairs_) CheckPair(op);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::ArriveNode* op) override {
    if (op->Kind() == ir::ArriveKind::kIssuerCommit) CheckCommit(op);
    if (op->IsByThread() && op->block.defined())
      CheckRank("cta_id of T.mbarrier_arrive", op->block);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::BarrierNode* op) override {
    if (op->Kind() != ir::BarrierKind::kCluster) return;
    Ranks all(static_cast<size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    ir::Call call = ir::CallFor(tvm::ffi::GetRef<Stmt>(op));
    Require({"T." + std::string(call->name), "waits for all blocks of the cluster", {all}, span_});
  }
  void Visit(const ir::IfNode* op) override {
    around_.push_back({op->condition, Quoted(op->condition)});
    Where(op->condition, op->then_case);
    if (op->else_case.defined()) Where(ir::Not(op->condition), op->else_case);
    around_.pop_back();
  }
  void Visit(const ir::ForNode* op) override {
    std::string times = "how often the loop over `" + std::string(op->var->name) + "` runs, `" +
                        ir::Print(op->extent) + "` times,";
    std::vector<Decision> decisions = Leaves(op->body);
    decisions.push_back({op->extent, times});
    Under(decisions, op);
  }
  void Visit(const ir::WhileNode* op) override {
    std::vector<Decision> decisions = Leaves(op->body);
    decisions.push_back({op->condition, Quoted(op->condition)});
    Under(decisions, op);
  }

 private:
  // Describes an operation that blocks execute together.
  struct Collective {
    std::string name;
    std::string waits;
    std::vector<Ranks> groups;  // of blocks that wait for each other
    ir::Span span;
  };
  // Describes a value that decides whether, or how often, a statement is executed.
  struct Decision {
    Expr value;
    std::string text;
  };
  // A condition: what decides whether threads leave has a name of the compiler's.
  std::string Quoted(const Expr& condition) const {
    const auto* negated = condition.as<ir::UnaryNode>();
    bool named = (negated != nullptr ? negated->a : condition)->kind == ir::ExprKind::kVar;
    return "`" + ir::Print(named ? agreement_.ValueOf(condition) : condition) + "`";
  }
  std::vector<Decision> Leaves(const Stmt& body) const {
    std::vector<Decision> decisions;
    for (const Expr& condition : LeavesOf(body))
      decisions.push_back({condition, Quoted(condition)});
    return decisions;
  }
  template <typename Node>
  void Under(const std::vector<Decision>& decisions, const Node* op) {
    size_t outer = around_.size();
    around_.insert(around_.end(), decisions.begin(), decisions.end());
    StmtVisitor::Visit(op);
    around_.resize(outer);
  }
  void Where(const Expr& condition, const Stmt& body) {
    holds_.push_back(condition);
    VisitStmt(body);
    holds_.pop_back();
  }
  void Require(const Collective& collective) {
    for (const Decision& decision : around_) Check(collective, decision);
  }
  void Check(const Collective& collective, const Decision& decision) {
    for (const Ranks& group : collective.groups) {
      if (!agreement_.MayDiffer(decision.value, group)) continue;
      TL_USER_ERROR(kSemantics, collective.span,
                    collective.name << " " << collective.waits << ", but " << decision.text
                                    << " may differ between them: move it to a place that all of "
                                       "them reach equally often");
    }
  }

  void CheckShape(const ir::KernelLaunchNode* op) const {
    auto given = op->attrs.Get("cluster_dims");
    if (!given) return;
    auto dims = (*given).cast<ir::Array<int64_t>>();
    for (size_t i = 0; i < dims.size(); ++i) {
      auto blocks = i < op->grid.size() ? ir::AsInt(op->grid[i]) : 1;
      if (!blocks || *blocks % dims[i] == 0) continue;
      TL_USER_ERROR(kShape, op->span,
                    "clusters of " << dims[i] << " blocks along " << kClusterAxes[i]
                                   << " do not divide the grid, which has " << *blocks
                                   << " blocks along " << kClusterAxes[i]
                                   << "; round the extent of the grid up to a multiple of "
                                   << dims[i] << ", and skip the blocks beyond the problem");
    }
  }

  void NeedCluster(const std::string& what) const {
    if (size_ > 1) return;
    TL_USER_ERROR(kSemantics, span_,
                  what << " accesses other blocks, but the kernel has no clusters; launch it with "
                          "T.Kernel(..., cluster_dims=2)");
  }
  void CheckMask(const char* name, int64_t mask) const {
    NeedCluster(name);
    if (mask >> size_ == 0) return;
    int64_t rank = 0;
    while ((mask >> size_ >> rank & 1) == 0) ++rank;
    TL_USER_ERROR(kSemantics, span_,
                  name << ": cluster_mask " << mask << " names block " << size_ + rank
                       << ", which a cluster of " << size_ << " does not have; "
                       << DescribeRanks(size_));
  }
  void CheckRank(const char* what, const Expr& rank) const {
    NeedCluster(what);
    auto value = ir::AsInt(rank);
    if (!value || (*value >= 0 && *value < size_)) return;
    TL_USER_ERROR(kSemantics, span_,
                  what << " is " << *value << ", which a cluster of " << size_
                       << " blocks does not have; " << DescribeRanks(size_));
  }
  void CheckOtherBlock(const ir::CopyNode* op) const {
    const ir::Buffer& dst = op->dst->buffer;
    const ir::Buffer& src = op->src->buffer;
    if (!dst.IsShared() || (!src.IsShared() && !src.IsFragment())) {
      TL_USER_ERROR(kScope, span_,
                    "T.copy_cluster with dst_block= copies from shared memory or a fragment to "
                    "shared memory, got "
                        << Describe(src) << " and " << Describe(dst));
    }
    if (dst->dtype.bits >= 8) return;
    TL_USER_ERROR(
        kDType, span_,
        "T.copy_cluster with dst_block= needs elements of at least 8 bits, got " << Describe(dst));
  }

  // All tcgen05 instructions of a kernel have one .cta_group (PTX ISA).
  void CheckPair(const ir::GemmNode* op) {
    std::string name = NameOf(op);
    if (!op::IsInPairs(op)) {
      TL_USER_ERROR(kSemantics, op->span,
                    name << " has no use_2cta=True, but another gemm of the kernel has it: pairs "
                            "of blocks compute either all gemms of a kernel or none");
    }
    name += " with use_2cta=True";
    if (size_ % op::kPairBlocks != 0) {
      TL_USER_ERROR(kSemantics, op->span,
                    name << " is computed by two neighbouring blocks of a cluster, but "
                         << (size_ == 1 ? std::string("the kernel has no clusters")
                                        : "clusters have " + std::to_string(size_) + " blocks")
                         << ": T.Kernel(..., cluster_dims=2)");
    }
    if (!op::WaitsItself(op)) {
      RequireLeader(name, op->span);
      return CheckPlaces(op, name);
    }
    std::vector<Ranks> pairs;
    for (int64_t rank = 0; rank < size_; rank += op::kPairBlocks) pairs.push_back({rank, rank + 1});
    Require({name, "is computed by both blocks of a pair", pairs, op->span});
    for (const Ranks& pair : pairs) CheckOperands(op, pair);
  }
  static std::string NameOf(const ir::GemmNode* op) {
    if (op->annotations.count("is_tcgen05") == 0) return "T.gemm";
    return op->HasScalesInTmem() ? "T.tcgen05_gemm_blockscaled" : "T.tcgen05_gemm";
  }
  // Checks that the odd block of a pair does not reach an operation that the program issues for the
  // pair.
  void RequireLeader(const std::string& name, const ir::Span& span) {
    for (int64_t rank = 1; rank < size_; rank += op::kPairBlocks) {
      bool gets_here = std::all_of(holds_.begin(), holds_.end(), [&](const Expr& condition) {
        return agreement_.MayHold(condition, rank);
      });
      if (!gets_here) continue;
      TL_USER_ERROR(
          kSemantics, span,
          name << " is issued by the even block of a pair for both, but block " << rank
               << " of the cluster may reach it, too: put it under `if T.block_rank_in_cluster()"
               << (size_ > op::kPairBlocks ? " % 2" : "") << " == 0`");
    }
  }
  // Checks that operands are where tcgen05.mma finds them, because the odd block cannot bring them
  // there.
  static void CheckPlaces(const ir::GemmNode* op, const std::string& name) {
    for (const ir::GemmOperand& operand : op->operands) {
      const ir::Buffer& buffer = operand->buffer();
      bool is_result = operand->IsResult();
      if (buffer.IsTmem() || (!is_result && buffer.IsShared())) continue;
      TL_USER_ERROR(kScope, op->span,
                    name << ": " << operand->name() << " is " << Describe(buffer)
                         << ". Only the even block issues the gemm, so it does not find an operand "
                            "there that the odd block holds: "
                         << (is_result ? "accumulate into T.alloc_tmem and T.copy from it later"
                                       : "T.copy it to shared memory before"));
    }
  }
  void CheckScaleCopy(const ir::CopyNode* op) {
    const std::string name = "T.tcgen05_cp_warpx4";
    if (op->options->in_pairs != in_pairs_) {
      TL_USER_ERROR(
          kSemantics, span_,
          name << (in_pairs_ ? " without use_2cta=True in a kernel whose gemms have it"
                             : " with use_2cta=True in a kernel whose gemms do not have it")
               << ": either all tcgen05 instructions of a kernel are for pairs of blocks, or none "
                  "is");
    }
    if (in_pairs_) RequireLeader(name + " with use_2cta=True", span_);
  }
  void CheckCommit(const ir::ArriveNode* op) {
    if (!in_pairs_ && op->scope_kind() == ir::Scope::kPair) {
      TL_USER_ERROR(kSemantics, span_,
                    "T.tcgen05_mma_arrive with arrive_2cta=True in a kernel whose gemms are "
                    "computed by single blocks: use_2cta=True of T.tcgen05_gemm makes pairs "
                    "compute them");
    }
    if (in_pairs_) RequireLeader("T.tcgen05_mma_arrive in a kernel of pairs", span_);
  }
  // A barrier of a cluster is the leader's for loads of one block.
  void CheckBarrierOfLoad(const ir::CopyNode* op) const {
    const auto* barrier = op->mbar.as<ir::LoadNode>();
    bool own = op::IsAnnounced(op) || op->options->cluster_mask != 0;
    if (!own || barrier == nullptr || !op::IsOfCluster(barrier->buffer)) return;
    TL_USER_ERROR(kSemantics, span_,
                  op::AsyncCopyName(op)
                      << (op::IsAnnounced(op) ? "" : " with cluster_mask=")
                      << " completes on the barrier of each block, but in a kernel of pairs "
                      << Describe(barrier->buffer)
                      << " is that of the even block: allocate it by T.alloc_barrier");
  }
  // The even block issues with values of its own.
  void CheckOperands(const ir::GemmNode* op, const Ranks& pair) {
    auto check = [&](const std::string& what, const Expr& value) {
      if (!agreement_.MayDiffer(value, pair)) return;
      TL_USER_ERROR(kSemantics, op->span,
                    "T.gemm with use_2cta=True: "
                        << what << ", `" << ir::Print(value)
                        << "`, may differ between the blocks of a pair, but the even block issues "
                           "for both: use a value that is the same in both");
    };
    check("clear_accum", op->clear_accum);
    if (op->k_start.defined()) check("k_start", op->k_start);
    for (const ir::GemmOperand& operand : op->operands) {
      for (const Expr& min : operand->region->mins) {
        check(std::string("where ") + operand->name() + " begins in " +
                  std::string(operand->buffer()->name),
              min);
      }
    }
  }

  int64_t size_;
  bool in_pairs_;
  ClusterAgreement agreement_;
  std::vector<Decision> around_;
  std::vector<Expr> holds_;  // conditions of the branches around
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
