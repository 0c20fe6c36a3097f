#include "tiling/residency.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/tile_op.h"
#include "ir/visitor.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "target/warp.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

bool HasGemms(const ir::KernelLaunchNode* launch) {
  return ir::HasStmt(launch->body, [&](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
}

}  // namespace

// Registers that remain beside sums of 128 x 256 (of 232) and of 192 x 192 (of 160), and beside
// values of rows and columns.
int64_t MostBesideLoader(int64_t threads) { return threads > 2 * kWarpgroup ? 96 : 144; }

int64_t FragmentRegisters(const ir::KernelLaunchNode* launch) {
  constexpr int64_t kRegisterBytes = 4;
  std::vector<Stmt> stmts = {launch->body};
  if (const auto* body = launch->body.as<ir::SeqNode>()) {
    stmts.assign(body->stmts.begin(), body->stmts.end());
  }
  if (stmts.empty()) return 0;
  // The first and the last statement that touches each fragment. Slices that are copied out of
  // another fragment take the place of what they copy.
  std::unordered_map<const ir::BufferNode*, std::pair<size_t, size_t>> alive;
  std::unordered_set<const ir::BufferNode*> slices;
  for (size_t at = 0; at < stmts.size(); ++at) {
    const auto* copy = stmts[at].as<ir::CopyNode>();
    if (copy != nullptr && copy->src->buffer.IsFragment() && !copy->src.IsWhole() &&
        copy->dst->buffer.IsFragment() && alive.count(copy->dst->buffer.get()) == 0) {
      slices.insert(copy->dst->buffer.get());
    }
    ir::WalkEffects(stmts[at], [&](const ir::Effect& effect) {
      if (!effect.buffer.IsFragment()) return;
      alive.try_emplace(effect.buffer.get(), at, at).first->second.second = at;
    });
  }
  std::vector<int64_t> bytes(stmts.size(), 0);
  for (const auto& [fragment, range] : alive) {
    if (slices.count(fragment) != 0) continue;
    int64_t own = schedule::TileBytes(ir::ffi::GetRef<ir::Buffer>(fragment));
    for (size_t at = range.first; at <= range.second; ++at) bytes[at] += own;
  }
  int64_t most = *std::max_element(bytes.begin(), bytes.end());
  return most / kRegisterBytes / std::max<int64_t>(analysis::ThreadsOf(launch).count, 1);
}

bool HasRegisters(const ir::KernelLaunchNode* launch) {
  int64_t threads = analysis::ThreadsOf(launch).count;
  if (threads % kWarpgroup != 0 || threads > 3 * kWarpgroup) return false;
  return FragmentRegisters(launch) <= MostBesideLoader(threads);
}

int64_t BlocksPerSm(const ir::KernelLaunchNode* launch, const Target& target,
                    int64_t shared_bytes) {
  BlockNeeds needs;
  needs.shared_bytes = shared_bytes;
  needs.threads = analysis::ThreadsOf(launch).count;
  // Registers beyond the limit are spilled.
  needs.registers =
      std::min(FragmentRegisters(launch), target->max_registers_per_thread - kOtherRegisters);
  needs.runs_ahead = schedule::LoadsAhead(launch);
  needs.multiplies = HasGemms(launch);
  // A grid of few blocks, such as that of a persistent kernel, leaves an SM with fewer.
  int64_t of_grid = (analysis::BlocksOf(launch) + target->sm_count - 1) / target->sm_count;
  return std::max<int64_t>(std::min(BlocksPerSm(needs, target), of_grid), 1);
}

int64_t BlocksPerSm(const BlockNeeds& needs, const Target& target) {
  constexpr int64_t kReserved = 1024;  // bytes of shared memory that a block takes besides
  int64_t registers = needs.registers + kOtherRegisters;
  int64_t columns = needs.tmem_columns;
  if (columns > 0) columns = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns)));
  if (registers > target->max_registers_per_thread || columns > target->tmem_columns ||
      needs.shared_bytes > target->shared_memory_per_block) {
    return 0;
  }
  int64_t threads = needs.threads;
  if (target->has_tma && needs.runs_ahead) {
    // Warpgroups that compute gemms take what registers a warpgroup that loads leaves.
    if (threads > kWarpgroup && needs.multiplies) {
      return needs.registers <= MostBesideLoader(threads) ? 1 : 0;
    }
    threads += threads > kWarpgroup ? kWarpgroup : kWarp;
  }
  int64_t blocks = std::min<int64_t>(target->max_blocks_per_sm,
                                     target->max_threads_per_sm / std::max<int64_t>(threads, 1));
  blocks = std::min(blocks, target->registers_per_sm / (registers * threads));
  blocks = std::min(blocks, target->shared_memory_per_sm / (needs.shared_bytes + kReserved));
  return columns == 0 ? blocks : std::min(blocks, target->tmem_columns / columns);
}

// A cluster lies in a group of 16 SMs or some more, and a group may lack some. Measured on an H200:
// 30 clusters of four blocks, and less than 18 of six.
int64_t ClustersAtOnce(int64_t blocks, const Target& target) {
  constexpr int64_t kGroup = 16;
  if (blocks <= 2 || target->sm_count < kGroup) return target->sm_count / blocks;
  return target->sm_count / kGroup * (kGroup / blocks) * (kGroup - 1) / kGroup;
}

}  // namespace tilelang::tiling
