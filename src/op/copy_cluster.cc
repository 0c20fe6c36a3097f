#include "op/copy_cluster.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "ir/async.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/access.h"
#include "op/copy.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/thread_sync.h"

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
  return HasRemote(s, [](const ir::CopyNode* copy) {
    return copy->block.defined() || copy->options->cluster_mask != 0;
  });
}

bool LeavesOtherBlocksOpen(const Stmt& s) {
  return HasRemote(s, [](const ir::CopyNode* copy) {
    return copy->block.defined() || (copy->options->cluster_mask != 0 && copy->mbar.defined());
  });
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

bool IsAnnounced(const ir::CopyNode* op) {
  return op->options->call_kind() == ir::CopyCall::kTmaGather;
}

const char* AsyncCopyName(const ir::CopyNode* op) {
  if (op->options->call_kind() == ir::CopyCall::kTmaCopy) return "T.tma_copy";
  if (IsAnnounced(op)) return "T.tma_gather4";
  if (op->options->cluster_mask != 0) return "T.copy_cluster with cluster_mask=";
  bool remote = op->block.defined() && op->mbar.defined();
  return remote ? "T.copy_cluster with remote_barrier=" : nullptr;
}

Stmt StoreToBlock(const ir::CopyNode* op, const Context& ctx) {
  Stmt stores = CopyLoop(op, [&](const Expr& target, const Expr& value) {
    const auto* element = target.as<ir::LoadNode>();
    Array<Expr> args = {ir::AddressOf(element->buffer, element->indices), value, op->block};
    return Effect(kStoreToBlock, args, op->span, {{"elements", int64_t{1}}});
  });
  if (!op->mbar.defined()) return stores;
  ir::Arrive arrive(ir::ArriveKind::kThread, op->mbar, op->span,
                    {.block = ir::CastTo(ir::dtypes::kUInt32, op->block)});
  Expr first = ir::MakeEq(ctx.thread, ir::Const(ctx.thread.dtype(), ctx.threads.begin));
  return Sequence({stores, SyncThreads(ctx, op->span), ir::If(first, arrive, Stmt(), op->span)},
                  op->span);
}

namespace {

constexpr int64_t kBulkBytes = 16;  // sizes and addresses of bulk copies are multiples
constexpr int64_t kMostRuns = 64;   // bulk copies of one operator

bool IsWhole(const ir::CopyNode* op) { return op->src.IsWhole() && op->dst.IsWhole(); }

// Returns how many elements of a region lie side by side in a row-major buffer.
int64_t RunOf(const Region& region) {
  Coord shape = StaticShape(region->buffer);
  int64_t run = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t extent = *ir::AsInt(region->extents[d]);
    run *= extent;
    if (extent != shape[d]) break;
  }
  return run;
}
// Returns the elements that lie side by side on both sides of a copy.
int64_t RunOf(const ir::CopyNode* op) { return std::min(RunOf(op->src), RunOf(op->dst)); }
// Returns how many such runs a copy has.
int64_t CountRuns(const ir::CopyNode* op) {
  return layout::Product(*ir::AsInts(op->src->extents)) / RunOf(op);
}

// Returns whether all runs of a region begin at multiples of 16 bytes.
bool RunsAreAligned(const Region& region, int64_t run, Context* ctx) {
  Coord shape = StaticShape(region->buffer);
  int64_t stride = ir::Bytes(region->buffer->dtype);
  int64_t covered = 1;  // elements of the region in the dimensions so far
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t extent = *ir::AsInt(region->extents[d]);
    int64_t unit = kBulkBytes / std::gcd(kBulkBytes, stride);
    bool between_runs = covered >= run && extent > 1;
    if (between_runs && unit != 1) return false;
    if (!ctx->analyzer->Divides(region->mins[d], unit)) return false;
    covered *= extent;
    stride *= shape[d];
  }
  return true;
}

// Returns the indices of the first element of a run.
Array<Expr> BeginOf(const Region& region, int64_t element) {
  MovingDims moving = Moving(region);
  Coord place = layout::Delinearize(*ir::AsInts(moving.extents), element);
  Array<Expr> indices = region->mins;
  for (size_t i = 0; i < moving.dims.size(); ++i) {
    const Expr& min = region->mins[moving.dims[i]];
    indices.Set(moving.dims[i], min + ir::Const(min.dtype(), place[i]));
  }
  return indices;
}

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
    if (BytesOfRun(copy) % kBulkBytes != 0) {
      return "its " + std::string(CountRuns(copy) > 1 ? "rows of " : "") +
             std::to_string(BytesOfRun(copy)) + " bytes are no multiple of 16";
    }
    for (const Region& side : {copy->src, copy->dst}) {
      if (RunsAreAligned(side, RunOf(copy), ctx)) continue;
      return "rows of " + ir::Print(side) + " do not begin at multiples of 16 bytes";
    }
    if (CountRuns(copy) > kMostRuns) {
      return "it would take " + std::to_string(CountRuns(copy)) + " copies, one for each row";
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
    Coord shape = StaticShape(copy->src->buffer);
    bool fits = IsWhole(copy) && shape == StaticShape(copy->dst->buffer)
                    ? from.SameMap(to)
                    : from.SameMap(Layout::RowMajor(shape)) &&
                          to.SameMap(Layout::RowMajor(StaticShape(copy->dst->buffer)));
    if (!fits) {
      return {TilePlan(), "bulk copies move bytes as they lie, but " +
                              std::string(copy->src->buffer->name) + " has layout " +
                              from->ToString() + " and " + std::string(copy->dst->buffer->name) +
                              " " + to->ToString()};
    }
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    return {StoreToBlock(AsCopy(op), *ctx), kByThreads};
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
    Expr barrier = BarrierAddress(copy->mbar);
    Expr block = lowering->scalar->Mutate(copy->block);
    int64_t runs = CountRuns(copy);
    Expr all = U32(runs * BytesOfRun(copy));
    stmts->push_back(
        DeviceEffect("cluster.h", "arrive_at_block_expecting", {all, barrier, block}, copy->span));
    auto address = [&](const Region& region, const Buffer& buffer, int64_t run) {
      if (IsWhole(copy)) return ir::AddressOf(buffer, {I32(0)});
      Array<Expr> begin;
      for (const Expr& e : BeginOf(region, run * RunOf(copy))) {
        begin.push_back(lowering->scalar->Mutate(e));
      }
      return ir::AddressOf(
          buffer, {lowering->buffers->Offset(region->buffer, begin, lowering->ctx->analyzer)});
    };
    for (int64_t run = 0; run < runs; ++run) {
      Array<Expr> args = {address(copy->dst, dst, run), address(copy->src, src, run),
                          U32(BytesOfRun(copy)), barrier, block};
      stmts->push_back(DeviceEffect("cluster.h", "copy_to_block", args, copy->span, attrs));
    }
  }

 private:
  static int64_t BytesOfRun(const ir::CopyNode* op) {
    return RunOf(op) * ir::Bytes(op->src->buffer->dtype);
  }
};

}  // namespace

const TileInstruction* BlockCopy() {
  static const BlockCopyInstruction instruction;
  return &instruction;
}

}  // namespace tilelang::op
