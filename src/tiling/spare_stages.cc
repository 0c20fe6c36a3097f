#include "tiling/spare_stages.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "schedule/operand_channels.h"
#include "schedule/shared_bytes.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/plain_gemm.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kLeastStages = 2;
// Registers of a thread for a slice of the sums.
constexpr int64_t kSliceRegisters = 64;

// Returns the bytes of the second slots of operands that threads compute in shared memory
// (schedule/operand_channels.h).
int64_t BytesOfSecondSlots(const PlainGemm& plain) {
  std::vector<ir::Buffer> tiles;
  for (const ir::GemmNode* gemm : plain.gemms) {
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      bool computed = input->buffer().IsShared() &&
                      std::any_of(plain.computes.begin(), plain.computes.end(),
                                  [&](const Stmt& s) { return ir::Writes(s, input->buffer()); });
      if (computed) ir::AddOnce(input->buffer(), &tiles);
    }
  }
  int64_t bytes = 0;
  for (const ir::Buffer& tile : tiles) bytes += schedule::TileBytes(tile);
  return bytes;
}

// Returns the columns of tensor memory that the sums take, and two slots of operands from
// fragments.
int64_t ColumnsOf(const PlainGemm& plain, const Target& target) {
  std::vector<ir::Buffer> tiles;
  int64_t columns = ColumnsOfSums(plain);
  for (const ir::GemmNode* gemm : plain.gemms) {
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      const ir::Buffer& tile = input->buffer();
      if (!tile.IsFragment() || ir::HasSame(tiles, tile)) continue;
      tiles.push_back(tile);
      columns +=
          schedule::kOperandSlots * CeilDiv(schedule::TileBytes(tile), 4 * target->tmem_lanes);
    }
  }
  return columns;
}

class StageSparer : public ir::StmtMutator {
 public:
  StageSparer(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op, Operands::kComputed);
    bool possible =
        plain.loop != nullptr && op->threads.size() == 1 && LoadsByTma(func_, op, plain, target_);
    if (!possible || plain.computes.empty()) return self;
    int64_t second = BytesOfSecondSlots(plain);
    LoopStages stages = StagesOf(op, plain);
    int64_t threads = analysis::ThreadsOf(op).count;
    // Sums are in tensor memory, and epilogues load them in slices.
    BlockNeeds needs{.threads = threads,
                     .registers = kSliceRegisters,
                     .tmem_columns = ColumnsOf(plain, target_),
                     .runs_ahead = true,
                     .multiplies = true};
    int64_t of_grid = CeilDiv(analysis::BlocksOf(op), target_->sm_count);
    auto blocks = [&](int64_t count) {
      needs.shared_bytes = stages.Bytes(count) + second + kBlockBytes;
      return std::min(BlocksPerSm(needs, target_), of_grid);
    };
    int64_t before = blocks(stages.given);
    if (AreByTcgen05(plain, kWarpgroup, target_))
      needs.threads = std::min<int64_t>(threads, kWarpgroup);
    int64_t best = stages.given;
    for (int64_t count = stages.given - 1; count >= kLeastStages; --count) {
      if (blocks(count) > blocks(best)) best = count;
    }
    if (blocks(best) <= std::max<int64_t>(before, 1)) return self;
    RemarkChoice(op, plain.loop->span, best, blocks(best));
    return WithStages(WithThreads(op, needs.threads), plain.loop, best);
  }

 private:
  static void RemarkChoice(const ir::KernelLaunchNode* op, const ir::Span& loop, int64_t stages,
                           int64_t blocks) {
    std::string of_threads = analysis::ThreadsOf(op).count > kWarpgroup ? " and 128 threads" : "";
    Remark(loop, "pipeline",
           "T.Pipelined: of " + std::to_string(stages) + " stages" + of_threads + ", " +
               std::to_string(blocks) +
               " blocks fit a multiprocessor, and threads of one compute operands while those of "
               "another wait. The pass option tl.disable_block_fitting turns this off");
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func SpareStages(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || func->attrs.count(ir::kGivenBlocks) != 0) return func;
  return func.WithBody(StageSparer(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
