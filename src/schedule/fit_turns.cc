#include "schedule/fit_turns.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/min_blocks.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "op/tmem.h"
#include "schedule/channel.h"
#include "schedule/overlay_operands.h"
#include "schedule/overlay_results.h"
#include "schedule/shared_bytes.h"
#include "schedule/turn_loop.h"
#include "target/warp.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

// Tiles of so many iterations hide the latency of memory from a loop with turns.
constexpr int64_t kMostSlots = 3;
constexpr int64_t kBlocks = 2;
// Registers of a thread besides its largest fragment.
constexpr int64_t kBesideLargestFragment = 40;

// Returns the gemm that a statement is, if its result is in tensor memory and the compiler waits
// for it; null for others. Instructions may not have been chosen.
const ir::GemmNode* AsTmemGemm(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  bool fits = gemm != nullptr && gemm->result()->buffer.IsTmem() && op::WaitsItself(gemm);
  return fits ? gemm : nullptr;
}

// Returns whether threads work on tensor memory that GEMMs of the loop's body write or read.
bool HasTurns(const ir::ForNode* loop) {
  const auto* body = loop->body.as<ir::SeqNode>();
  if (body == nullptr || StagesOf(loop) < 2) return false;
  std::vector<Buffer> tiles;
  for (const Stmt& s : body->stmts) {
    const ir::GemmNode* gemm = AsTmemGemm(s);
    if (gemm == nullptr) continue;
    for (const ir::GemmOperand& operand : gemm->operands) {
      if (operand->buffer().IsTmem()) tiles.push_back(operand->buffer());
    }
  }
  return std::any_of(body->stmts.begin(), body->stmts.end(), [&](const Stmt& s) {
    if (AsTmemGemm(s) != nullptr) return false;
    return std::any_of(tiles.begin(), tiles.end(),
                       [&](const Buffer& tile) { return ir::CountEffects(s, tile) > 0; });
  });
}

// A launch and its one loop with turns.
struct TurnLaunch {
  const ir::KernelLaunchNode* launch;
  const ir::ForNode* loop = nullptr;
  int64_t threads = 0;
  int64_t slot_bytes = 0;   // of the tiles of an iteration
  int64_t late_bytes = 0;   // of tiles that may take bytes of those (overlay_results.h)
  int64_t other_bytes = 0;  // of all other shared memory
  int64_t registers = 0;    // of the largest fragment
  int64_t blocks = 1;       // of the grid, at most

  // Slots of each tile for which `blocks` have room on an SM.
  int64_t Room(int64_t blocks, const Target& target) const {
    int64_t bytes = std::min<int64_t>(target->shared_memory_per_block,
                                      target->shared_memory_per_sm / blocks - 1024);
    int64_t room = bytes - kBytesBesideTiles - other_bytes;
    return late_bytes <= room ? room / slot_bytes : 0;
  }
};

int64_t BlocksOfGrid(const ir::KernelLaunchNode* launch) {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  arith::Analyzer analyzer;
  int64_t blocks = 1;
  for (const ir::Expr& extent : launch->grid) {
    int64_t most = analyzer.ConstBounds(extent).hi;
    if (most >= kMany / blocks) return kMany;
    blocks *= most;
  }
  return blocks;
}

// Returns nothing if the launch has no such loop, or several.
std::optional<TurnLaunch> FindTurns(const ir::KernelLaunchNode* launch) {
  TurnLaunch found{launch};
  int loops = 0;
  std::vector<const tvm::ffi::Object*> tiles;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr || !HasTurns(loop)) return true;
    ++loops;
    found.loop = loop;
    for (const Stmt& inner : loop->body.as<ir::SeqNode>()->stmts) {
      const auto* copy = inner.as<ir::CopyNode>();
      if (IsLoadByTma(copy)) tiles.push_back(copy->dst->buffer.get());
    }
    return true;
  });
  if (loops != 1 || tiles.empty()) return std::nullopt;
  found.threads = analysis::ThreadsOf(launch).count;
  found.blocks = BlocksOfGrid(launch);
  int64_t outer = 1;  // stages of loops around
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* around = s.as<ir::ForNode>();
    if (around != nullptr && around != found.loop) outer = std::max(outer, StagesOf(around));
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return true;
    int64_t bytes = TileBytes(alloc->buffer);
    bool slot = std::count(tiles.begin(), tiles.end(), alloc->buffer.get()) != 0;
    bool late = alloc->buffer->attrs.count(memory::kOverlays) != 0;
    if (alloc->buffer.IsShared()) {
      (slot ? found.slot_bytes : late ? found.late_bytes : found.other_bytes) += bytes;
    }
    if (alloc->buffer.IsFragment()) {
      found.registers = std::max(found.registers, bytes / 4 / found.threads);
    }
    return true;
  });
  found.other_bytes *= outer;
  return found.slot_bytes > 0 ? std::optional(found) : std::nullopt;
}

// Returns the columns of the tiles of a launch. Some tiles take the columns of others.
int64_t ColumnsOf(const Stmt& launch) {
  int64_t columns = op::ColumnsOfTiles(launch);
  ir::WalkStmts(launch, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && alloc->buffer->attrs.count(op::kColumnsOf) != 0) {
      columns -= op::ColumnsOfTiles(s);
    }
    return true;
  });
  return columns;
}

// Gives the loop over a variable so many slots.
class SlotSetter : public ir::StmtMutator {
 public:
  SlotSetter(ir::Var var, int64_t slots) : var_(std::move(var)), slots_(slots) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    if (!op->var.same_as(var_)) return StmtMutator::Rewrite(op);
    auto annotations = op->annotations;
    annotations.Set(kTileSlots, slots_);
    return ir::For(op->var, op->min, op->extent, op->Kind(), op->body, annotations, op->span);
  }

 private:
  ir::Var var_;
  int64_t slots_;
};

// Returns whether an SM has room for two blocks, apart from their columns of tensor memory.
bool FitsTwice(const TurnLaunch& turns, const Target& target) {
  const ir::KernelLaunchNode* launch = turns.launch;
  int64_t service = turns.threads > kWarpgroup ? kWarpgroup : 2 * kWarp;
  int64_t registers = target->registers_per_sm / kBlocks / (turns.threads + service);
  return !ir::StatesMinBlocks(launch) && launch->attrs.count("set_max_nreg") == 0 &&
         op::ClusterSize(launch) == 1 && !op::HasGemmsInPairs(launch->body) &&
         turns.blocks > target->sm_count && turns.registers + kBesideLargestFragment <= registers &&
         turns.Room(kBlocks, target) >= 1;
}

void RemarkBlocks(const ir::KernelLaunchNode* launch) {
  Remark(launch->span, "blocks",
         "T.Kernel: two blocks share a multiprocessor: the tensor core multiplies for one while "
         "the threads of the other compute. The pass option tl.disable_block_fitting turns this "
         "off");
}

void RemarkSlots(const ir::ForNode* loop, int64_t given, int64_t slots) {
  if (given == slots) return;
  Remark(loop->span, "pipeline",
         "T.Pipelined: " + std::to_string(slots) + (slots == 1 ? " slot" : " slots") +
             " of each tile instead of " + std::to_string(given) +
             ", by what shared memory has room for. The pass option tl.disable_stage_fitting turns "
             "this off");
}

}  // namespace

Stmt FitTurns(const ir::Func& func, const Stmt& given_launch, const Target& target) {
  auto turns = FindTurns(given_launch.as<ir::KernelLaunchNode>());
  if (!turns) return OverlayOperands(OverlayResults(given_launch), target->tmem_columns);
  const Stmt launch = OverlayResults(given_launch, turns->loop, /*has_turns=*/true);
  const auto* op = launch.as<ir::KernelLaunchNode>();
  turns = FindTurns(op);
  Stmt result = OverlayOperands(launch, target->tmem_columns / kBlocks);
  bool as_given = func->attrs.count(ir::kGivenStages) != 0;
  auto of_program = turns->loop->annotations.Get(kStagesOfProgram);
  int64_t stages = StagesOf(turns->loop);
  int64_t given = of_program ? (*of_program).cast<int64_t>() : stages;
  bool twice = func->attrs.count(ir::kGivenBlocks) == 0 && FitsTwice(*turns, target) &&
               ColumnsOf(result) <= target->tmem_columns / kBlocks &&
               (!as_given || turns->Room(kBlocks, target) >= given);
  if (!twice) result = OverlayOperands(launch, target->tmem_columns);
  int64_t room = std::min(turns->Room(twice ? kBlocks : 1, target), kMostSlots);
  int64_t slots = twice || of_program ? std::max<int64_t>(room, 1) : std::max(room, stages);
  if (as_given) slots = given;
  RemarkSlots(turns->loop, given, slots);
  if (twice) RemarkBlocks(op);
  result = SlotSetter(turns->loop->var, slots).MutateStmt(result);
  return twice ? ir::WithMinBlocks(result.as<ir::KernelLaunchNode>(), kBlocks) : result;
}

namespace {

// Gives the loops of a launch that name one stage two.
class StageFitter : public ir::StmtMutator {
 public:
  explicit StageFitter(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    room_ = target_->shared_memory_per_block - kBytesBesideTiles - SharedBytes(op);
    return StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    if (StagesOf(loop) != 1 || !HasGemm(loop->body)) return inner;
    int64_t loaded = LoadedBytes(loop->body);
    if (loaded == 0) return inner;
    ir::For staged = WithStages(loop, 2, kStagesOfProgram);
    // FitTurns finds out how many slots of each tile a loop with turns has room for.
    if (HasTurns(staged.as<ir::ForNode>())) return staged;
    if (loaded > room_) return inner;
    room_ -= loaded;
    return staged;
  }

 private:
  static bool HasGemm(const Stmt& body) {
    return ir::HasStmt(body, [](const Stmt& s) { return AsTmemGemm(s) != nullptr; });
  }
  // The bytes of one slot of each tile that a loop loads.
  static int64_t LoadedBytes(const Stmt& body) {
    int64_t bytes = 0;
    for (const Buffer& tile : LoadedTiles(body)) bytes += TileBytes(tile);
    return bytes;
  }

  const Target& target_;
  int64_t room_ = 0;  // bytes of shared memory that the launch leaves
};

class StageRestorer : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    auto given = loop->annotations.Get(kStagesOfProgram);
    return given ? Stmt(WithStages(loop, (*given).cast<int64_t>())) : inner;
  }
};

}  // namespace

ir::Func FitStages(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(StageFitter(target).MutateStmt(func->body));
}

Stmt WithStagesOfProgram(const Stmt& launch) { return StageRestorer().MutateStmt(launch); }

}  // namespace tilelang::schedule
