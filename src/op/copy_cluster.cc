#include "op/copy_cluster.h"

#include <bit>
#include <functional>

#include "ir/async.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/access.h"
#include "op/copy.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::op {

int64_t ClusterSize(const ir::KernelLaunchNode* launch) {
  int64_t size = 1;
  if (auto dims = launch->attrs.Get("cluster_dims")) {
    for (int64_t n : (*dims).cast<Array<int64_t>>()) size *= n;
  }
  return size;
}

namespace {

bool HasRemote(const Stmt& s, const std::function<bool(const ir::CopyNode*)>& counts) {
  auto reaches = [&](const Stmt& part) {
    const auto* copy = part.as<ir::CopyNode>();
    const auto* arrive = part.as<ir::ArriveNode>();
    return (copy != nullptr && counts(copy)) || (arrive != nullptr && arrive->block.defined());
  };
  return HasGemmsInPairs(s) || ir::HasStmt(s, reaches) ||
         ir::HasCall(s, ir::Builtin::kStoreToBlock);
}

}  // namespace

bool ReachesOtherBlocks(const Stmt& s) {
  return HasRemote(
      s, [](const ir::CopyNode* copy) { return copy->block.defined() || ClusterMask(copy) != 0; });
}

bool LeavesOtherBlocksOpen(const Stmt& s) {
  return HasRemote(s, [](const ir::CopyNode* copy) {
    return copy->block.defined() || (ClusterMask(copy) != 0 && copy->mbar.defined());
  });
}

int64_t ClusterMask(const ir::CopyNode* op) {
  auto mask = op->annotations.Get(kClusterMask);
  return mask ? (*mask).cast<int64_t>() : 0;
}

int64_t Leader(int64_t mask) { return std::countr_zero(static_cast<uint64_t>(mask)); }
int64_t CountBlocks(int64_t mask) { return std::popcount(static_cast<uint64_t>(mask)); }

Expr BlockRank() { return ir::Call(ir::dtypes::kInt32, "block_rank_in_cluster", {}); }

Expr IsInMask(int64_t mask, int64_t size) {
  if (CountBlocks(mask) == size) return ir::IntImm(ir::dtypes::kBool, 1);
  Expr in;
  for (int64_t rank = 0; rank < size; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    Expr is_rank = ir::MakeEq(BlockRank(), I32(rank));
    in = in.defined() ? (in || is_rank) : is_rank;
  }
  return in;
}

bool IsAnnounced(const ir::CopyNode* op) { return op->annotations.count("is_tma_gather") != 0; }

const char* AsyncCopyName(const ir::CopyNode* op) {
  if (op->annotations.count("is_tma_copy") != 0) return "T.tma_copy";
  if (IsAnnounced(op)) return "T.tma_gather4";
  if (ClusterMask(op) != 0) return "T.copy_cluster with cluster_mask=";
  bool remote = op->block.defined() && op->mbar.defined();
  return remote ? "T.copy_cluster with remote_barrier=" : nullptr;
}

Stmt StoreToBlock(const ir::CopyNode* op) {
  return CopyLoop(op, [&](const Expr& target, const Expr& value) {
    const auto* element = target.as<ir::LoadNode>();
    Array<Expr> args = {ir::AddressOf(element->buffer, element->indices), value, op->block};
    return Effect(kStoreToBlock, args, op->span, {{"elements", int64_t{1}}});
  });
}

namespace {

class BlockCopyInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "cp.async.bulk between blocks"; }
  Engine engine() const override { return Engine::kBlockCopy; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kCopy && AsCopy(op)->block.defined();
  }
  std::string Obstacle(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::CopyNode* copy = AsCopy(op);
    const Buffer& src = copy->src->buffer;
    if (!src.IsShared()) return std::string(src->name) + " is not in shared memory";
    if (src->dtype != copy->dst->buffer->dtype) return "it converts the element type";
    if (!copy->src.IsWhole() || !copy->dst.IsWhole()) {
      return "it copies whole buffers, not " + ir::Print(copy->src) + " to " + ir::Print(copy->dst);
    }
    if (SizeOf(copy) % 16 != 0) {
      return "its " + std::to_string(SizeOf(copy)) + " bytes are no multiple of 16";
    }
    return "";
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::CopyNode* copy = AsCopy(op);
    auto layout_of = [&](const Buffer& buffer) {
      auto known = ctx->layouts->GetLayout(buffer);
      return known ? *known : Layout::RowMajor(StaticShape(buffer));
    };
    Layout from = layout_of(copy->src->buffer);
    Layout to = layout_of(copy->dst->buffer);
    if (StaticShape(copy->src->buffer) != StaticShape(copy->dst->buffer) || !from.SameMap(to)) {
      return {TilePlan(), std::string(AsyncCopyName(copy)) + " moves bytes as they lie, but " +
                              std::string(copy->src->buffer->name) + " has layout " +
                              from->ToString() + " and " + std::string(copy->dst->buffer->name) +
                              " " + to->ToString() +
                              "; leave out remote_barrier=, so that threads store the elements"};
    }
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    const ir::CopyNode* copy = AsCopy(op);
    const Buffer& dst = lowering->buffers->Get(copy->dst->buffer);
    const Buffer& src = lowering->buffers->Get(copy->src->buffer);
    Map<String, Any> attrs;
    attrs.Set("reads", Array<Buffer>{src});
    attrs.Set(kRemoteWrites, Array<Buffer>{dst});
    attrs.Set("async", true);
    Array<Expr> args = {ir::AddressOf(dst, {I32(0)}), ir::AddressOf(src, {I32(0)}),
                        U32(SizeOf(copy)), BarrierAddress(copy->mbar),
                        lowering->scalar->Mutate(copy->block)};
    stmts->push_back(DeviceEffect("cluster.h", "copy_to_block", args, copy->span, attrs));
  }

 private:
  static int64_t SizeOf(const ir::CopyNode* op) {
    const Buffer& src = op->src->buffer;
    return layout::Product(StaticShape(src)) * ir::Bytes(src->dtype);
  }
};

}  // namespace

const TileInstruction* BlockCopy() {
  static const BlockCopyInstruction instruction;
  return &instruction;
}

}  // namespace tilelang::op
