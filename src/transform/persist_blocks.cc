#include "transform/persist_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "analysis/independent_blocks.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/tile_loop.h"
#include "target/warp.h"
#include "transform/loop_stages.h"
#include "transform/residency.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kResultBits = 16;

// Bytes of the tile that a result goes through; none where a block's result is another one.
std::optional<int64_t> ResultBytes(const ir::SeqNode* body, const PlainGemm& plain) {
  const ir::Buffer& c = plain.gemms[0]->result()->buffer;
  std::optional<int64_t> bytes;
  for (const Stmt& s : body->stmts) {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr || !copy->dst->buffer.IsGlobal()) continue;
    bool staged = copy->src->buffer.IsShared();
    bool result = staged || copy->src->buffer.same_as(c);
    if (!result || copy->dst->buffer->dtype.bits != kResultBits) return std::nullopt;
    int64_t own = staged ? 0 : kResultBits / 8;
    for (const Expr& extent : copy->src->extents) own *= *ir::AsInt(extent);
    bytes = bytes.value_or(0) + own;
  }
  return bytes;
}

// The coordinates of a tile: groups of `rows` rows, column by column inside.
struct TilePlace {
  Expr row;
  Expr column;
};
TilePlace PlaceOf(const Expr& tile, int64_t rows_of_grid, int64_t columns, int64_t rows) {
  using op::I32;
  if (rows <= 1) return {ir::FloorDiv(tile, I32(columns)), ir::FloorMod(tile, I32(columns))};
  Expr first = ir::FloorDiv(tile, I32(columns * rows)) * I32(rows);
  Expr rest = ir::FloorMod(tile, I32(columns * rows));
  Expr here = rows_of_grid % rows == 0
                  ? I32(rows)
                  : ir::Max(ir::Min(I32(rows_of_grid) - first, I32(rows)), I32(1));
  return {first + ir::FloorMod(rest, here), ir::FloorDiv(rest, here)};
}

class BlockPersister : public ir::StmtMutator {
 public:
  BlockPersister(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    auto grid = ir::AsInts(op->grid);
    if (plain.loop == nullptr || !grid || grid->size() != 2 || !StoresOnly(op, plain)) return self;
    const auto* body = op->body.as<ir::SeqNode>();
    int64_t tiles = (*grid)[0] * (*grid)[1];
    bool even = ir::AsInt(plain.loop->extent).has_value();
    if (!even || tiles <= target_->sm_count || !TakesMultiprocessor(op) || !CanRepeat(op)) {
      return self;
    }
    auto result = ResultBytes(body, plain);
    if (!result || !LoadsByTma(func_, op, plain, target_)) return self;
    LoopStages stages = StagesOf(op, plain);
    stages.others += *result;
    if (!stages.Fits(kFewestStages, target_)) return self;
    int64_t count = std::max(kFewestStages, stages.Room(1, target_));
    Remark(op->span, "tiles",
           "T.Kernel: " + std::to_string(target_->sm_count) + " blocks compute the " +
               std::to_string(tiles) +
               " tiles, as by T.Persistent: the next tile loads while the one before is stored. "
               "The pass option tl.disable_persistent_blocks turns this off");
    return WithStages(Persistent(op, body, *grid), plain.loop, count);
  }

 private:
  // One block at a time, of two warpgroups with registers to spare.
  bool TakesMultiprocessor(const ir::KernelLaunchNode* op) const {
    return op->threads.size() == 1 && ir::IsConst(op->threads[0], 2 * kWarpgroup) &&
           FragmentRegisters(op) <= kMostFragments &&
           BlocksPerSm(op, target_, SharedBytes(op)) == 1;
  }

  // Tiles one after another give what blocks would: nothing lasts from the beginning of a block but
  // what it fills, and none sees the others.
  static bool CanRepeat(const ir::KernelLaunchNode* op) {
    auto order = op->attrs.Get("swizzle_order");
    if (order && (*order).cast<ir::String>() != "row") return false;
    bool can = analysis::AreIndependent(op);
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      const auto* fill = s.as<ir::FillNode>();
      can = can && (alloc == nullptr || alloc->buffer.IsShared() || alloc->buffer.IsFragment());
      can = can && (fill == nullptr || fill->dst->buffer.IsFragment());
      return can;
    });
    return can;
  }

  Stmt Persistent(const ir::KernelLaunchNode* op, const ir::SeqNode* body,
                  const std::vector<int64_t>& grid) const {
    using op::I32;
    const ir::Span& span = op->span;
    int64_t tiles = grid[0] * grid[1];
    int64_t blocks = target_->sm_count;
    auto panel = op->attrs.Get("swizzle_panel");
    ir::Var block("block", ir::dtypes::kInt32, span);
    ir::Var wave("wave", ir::dtypes::kInt32, span);
    Expr tile = block + wave * I32(blocks);
    TilePlace place = PlaceOf(tile, grid[1], grid[0], panel ? (*panel).cast<int64_t>() : 0);
    std::vector<Stmt> before;
    std::vector<Stmt> of_tile = {
        ir::Bind(op->block_vars[0], ir::CastTo(op->block_vars[0].dtype(), place.column), span),
        ir::Bind(op->block_vars[1], ir::CastTo(op->block_vars[1].dtype(), place.row), span)};
    for (const Stmt& s : body->stmts) {
      (s->kind == ir::StmtKind::kAlloc ? before : of_tile).push_back(s);
    }
    Stmt each = op::Sequence(of_tile, span);
    if (tiles % blocks != 0) each = ir::If(tile < I32(tiles), each, Stmt(), span);
    before.push_back(ir::For(wave, I32(0), I32((tiles + blocks - 1) / blocks), ir::ForKind::kSerial,
                             each, {{schedule::kStaticTiles, true}}, span));
    auto attrs = op->attrs;
    attrs.erase("swizzle_panel");
    attrs.erase("swizzle_order");
    return ir::KernelLaunch({block}, {I32(blocks)}, op->thread_vars, op->threads, attrs,
                            op::Sequence(before, span), span);
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func PersistBlocks(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(BlockPersister(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
