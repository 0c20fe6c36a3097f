#include "tiling/stream_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/min_blocks.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/row_program.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_sequence.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

// Bytes of loads on an SM for which HBM is busy, and the fewest for which a stream pays.
constexpr int64_t kStreamBytes = 128 * 1024;
constexpr int64_t kFewestBytes = 48 * 1024;
// Threads of an SM beyond which more blocks bring nothing.
constexpr int64_t kThreadsOfSm = 512;
// Registers of a thread for the elements of fragments.
constexpr int64_t kMostRowRegisters = 144;
constexpr int64_t kRounds = 2;
constexpr int64_t kMostThreads = 1024;

// Columns of a box of TMA, 128 bytes at least.
constexpr int64_t kBoxColumns = 256;

// Returns the shape of the shared tile for such a fragment. Its rows are whole boxes, or, of one
// box each, so long that the next tile begins at a multiple of 128 bytes, where TMA can store. What
// rows have more than the fragment is not read.
std::vector<int64_t> ShapeAhead(std::vector<int64_t> shape, int64_t bits) {
  constexpr int64_t kAlignBits = 128 * 8;
  int64_t& columns = shape.back();
  for (size_t d = 0; d + 1 < shape.size(); ++d) bits *= shape[d];
  int64_t step = columns <= kBoxColumns ? kAlignBits / std::gcd(kAlignBits, bits) : kBoxColumns;
  columns = CeilDiv(columns, step) * step;
  return shape;
}

// The copies of a launch from tensors to fragments that may run ahead, and their bytes.
struct RowLoads {
  std::vector<const ir::CopyNode*> copies;
  int64_t bytes = 0;
};

RowLoads FindLoads(const ir::KernelLaunchNode* launch) {
  RowLoads loads;
  for (const Stmt& s : launch->body.as<ir::SeqNode>()->stmts) {
    const auto* copy = s.as<ir::CopyNode>();
    bool fills = copy != nullptr && copy->src->buffer.IsGlobal() &&
                 copy->dst->buffer.IsFragment() && copy->dst.IsWhole() &&
                 ir::OverwritesFirst(launch->body, copy->dst->buffer) &&
                 !ir::MayWrite(launch->body, copy->src->buffer);
    auto shape = fills ? ir::AsInts(copy->dst->buffer->shape) : std::nullopt;
    if (!shape || !ir::IsConst(copy->src->extents.back(), shape->back())) continue;
    int64_t bits = copy->src->buffer->dtype.bits;
    for (int64_t extent : ShapeAhead(*shape, bits)) bits *= extent;
    loads.copies.push_back(copy);
    loads.bytes += bits / 8;
  }
  return loads;
}

// Blocks an SM and the stages of their loops.
struct Stream {
  int64_t blocks = 0;  // 0: a stream does not pay
  int64_t stages = 0;
};

Stream ChooseStream(const ir::KernelLaunchNode* launch, int64_t bytes, const Target& target) {
  constexpr int64_t kReserved = 1024;  // bytes of shared memory that a block takes besides
  int64_t threads = analysis::ThreadsOf(launch).count;
  int64_t registers = FragmentRegisters(launch);
  if (threads % kWarp != 0 || threads + kWarp > kMostThreads || registers > kMostRowRegisters) {
    return {};
  }
  BlockNeeds needs;
  needs.shared_bytes = 2 * bytes + kBlockBytes;
  needs.threads = threads + kWarp;  // one that loads
  needs.registers = registers;
  int64_t most = std::max<int64_t>(kThreadsOfSm / threads, 1);
  int64_t blocks = std::min(most, BlocksPerSm(needs, target));
  if (blocks == 0) return {};
  int64_t memory = std::min<int64_t>(target->shared_memory_per_block,
                                     target->shared_memory_per_sm / blocks - kReserved);
  int64_t room = (memory - kBlockBytes) / bytes;
  int64_t wanted = (kStreamBytes + blocks * bytes - 1) / (blocks * bytes);
  int64_t stages = std::min({std::max<int64_t>(wanted, 2), room, kMostStages});
  if (stages < 2 || blocks * stages * bytes < kFewestBytes) return {};
  return {blocks, stages};
}

// Brings the tiles of some copies by way of shared memory.
class LoadStager : public ir::StmtMutator {
 public:
  explicit LoadStager(const RowLoads& loads) : loads_(loads) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (std::count(loads_.copies.begin(), loads_.copies.end(), op) == 0) return self;
    const Buffer& to = op->dst->buffer;
    const Buffer& from = op->src->buffer;
    int64_t columns = ShapeAhead(*ir::AsInts(to->shape), from->dtype.bits).back();
    Buffer tile(std::string(to->name) + "_ahead", from->dtype, Wide(to->shape, columns),
                ir::Array<Expr>{}, "shared.dyn", {}, to->span);
    tiles.push_back(tile);
    ir::Region whole = ir::Region::Whole(tile);
    ir::Region row(from, op->src->mins, Wide(op->src->extents, columns));
    staged.push_back(ir::Copy(row, whole, op->span));
    ir::Copy read(ir::Region(tile, whole->mins, to->shape), op->dst, op->span);
    return op::Sequence({staged.back(), read}, op->span);
  }

  std::vector<Buffer> tiles;
  std::vector<Stmt> staged;  // the loads

 private:
  static ir::Array<Expr> Wide(ir::Array<Expr> extents, int64_t columns) {
    auto last = static_cast<int64_t>(extents.size()) - 1;
    extents.Set(last, ir::Const(extents[last].dtype(), columns));
    return extents;
  }

  const RowLoads& loads_;
};

// Returns how many threads compute the rows of a block, at most as many as the program has. A
// reduction costs the same for each thread, so that each has kElementsOfThread or more of the
// largest fragment, unless a multiprocessor then had too few threads. Fragments fit in registers.
int64_t ThreadsFor(const ir::KernelLaunchNode* launch) {
  constexpr int64_t kElementsOfThread = 32;
  constexpr int64_t kElementsOfWarp = 256;
  constexpr int64_t kThreadsOfRows = 256;
  int64_t given = analysis::ThreadsOf(launch).count;
  int64_t elements = LargestFragment(launch);
  int64_t fewest = elements <= kElementsOfWarp ? kWarp : 2 * kWarp;
  auto wanted = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(elements / kElementsOfThread, 1))));
  int64_t threads = Reduces(launch) ? std::clamp(wanted, fewest, kThreadsOfRows) : given;
  while (threads < given &&
         FragmentRegisters(WithThreads(launch, threads).operator->()) > kMostRowRegisters) {
    threads *= 2;
  }
  return std::min(given, threads);
}

class RowStreamer : public ir::StmtMutator {
 public:
  RowStreamer(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (!HasRowsOnly(op)) return self;
    RowLoads loads = FindLoads(op);
    if (loads.copies.empty()) return self;
    int64_t given = analysis::ThreadsOf(op).count;
    int64_t threads = ThreadsFor(op);
    ir::KernelLaunch fewer = WithThreads(op, threads);
    op = fewer.operator->();
    Stream stream = ChooseStream(op, loads.bytes, target_);
    int64_t resident = stream.blocks != 0 ? stream.blocks : kThreadsOfSm / threads;
    int64_t blocks = resident * target_->sm_count;
    if (analysis::BlocksOf(op) <= kRounds * blocks) return self;
    LoadStager stager(loads);
    Stmt body = stager.MutateStmt(op->body);
    if (stream.blocks == 0 || !LoadByTma(op, body, stager.staged)) {
      if (threads < given) RemarkThreads(op, given);
      return LoadedByThreads(op);
    }
    RemarkStream(op, stream, loads.bytes, given);
    return InStream(op, body, stager.tiles, blocks, stream);
  }

 private:
  static void RemarkThreads(const ir::KernelLaunchNode* op, int64_t given) {
    Remark(op->span, "threads",
           "T.Kernel: " + std::to_string(analysis::ThreadsOf(op).count) + " threads instead of " +
               std::to_string(given) +
               " reduce the rows of a block, which has few elements for each. The pass option "
               "tl.disable_persistent_blocks turns this off");
  }

  // Returns a launch whose threads load rows themselves, with a limit of their registers if that
  // leaves enough for a row: ptxas otherwise loads all operands of the last loop ahead, and fewer
  // blocks of an SM wait for memory at a time.
  Stmt LoadedByThreads(const ir::KernelLaunchNode* op) const {
    constexpr int64_t kRegisters = 72;
    constexpr int64_t kMostOfRow = 40;
    int64_t threads = analysis::ThreadsOf(op).count;
    bool fits = LargestFragment(op) <= kMostOfRow * threads && Reduces(op);
    int64_t blocks = target_->registers_per_sm / (kRegisters * threads);
    if (!fits || blocks < 2 || ir::StatesMinBlocks(op)) return ir::ffi::GetRef<Stmt>(op);
    return ir::WithMinBlocks(op, std::min<int64_t>(blocks, target_->max_blocks_per_sm));
  }

  bool LoadByTma(const ir::KernelLaunchNode* op, const Stmt& body,
                 const std::vector<Stmt>& staged) const {
    PlainGemm loads;
    for (const Stmt& s : staged) loads.loads.push_back(s.as<ir::CopyNode>());
    ir::KernelLaunch launch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs, body,
                            op->span);
    return LoadsByTma(func_, launch.operator->(), loads, target_);
  }

  static Stmt InStream(const ir::KernelLaunchNode* op, const Stmt& body,
                       const std::vector<Buffer>& tiles, int64_t blocks, const Stream& stream) {
    const ir::Span& span = op->span;
    BlockGrid grid = GridOfBlocks(op);
    Expr count = I32(blocks);
    if (!ir::AsInt(grid.Tiles())) count = ir::Min(grid.Tiles(), count);
    ir::Var block("block", ir::dtypes::kInt32, span);
    ir::Var wave("wave", ir::dtypes::kInt32, span);
    std::vector<Stmt> stmts;
    for (const Buffer& tile : tiles) stmts.push_back(ir::Alloc(tile, span));
    std::vector<Stmt> of_tile = BindBlock(op, PlaceOf(block + wave * count, grid, /*panel=*/1));
    for (const Stmt& s : body.as<ir::SeqNode>()->stmts) {
      (s->kind == ir::StmtKind::kAlloc ? stmts : of_tile).push_back(s);
    }
    ir::For loop(wave, I32(0), ir::CeilDiv(grid.Tiles() - block, count), ir::ForKind::kPipelined,
                 op::Sequence(of_tile, span), {}, span);
    stmts.push_back(schedule::WithStages(loop.operator->(), stream.stages));
    ir::KernelLaunch launch = InOneDimension(op, block, count, stmts);
    return ir::WithMinBlocks(launch.operator->(), stream.blocks);
  }

  static void RemarkStream(const ir::KernelLaunchNode* op, const Stream& stream, int64_t bytes,
                           int64_t given) {
    int64_t kilobytes = stream.blocks * stream.stages * bytes / 1024;
    int64_t threads = analysis::ThreadsOf(op).count;
    std::string of_threads = threads == given ? ""
                                              : " of " + std::to_string(threads) +
                                                    " threads instead of " + std::to_string(given);
    Remark(op->span, "blocks",
           "T.Kernel: " + std::to_string(stream.blocks) +
               (stream.blocks == 1 ? " block" : " blocks") + of_threads +
               " a multiprocessor compute the tiles of the grid in turn, and TMA loads the tiles "
               "of " +
               std::to_string(stream.stages) + " iterations ahead: " + std::to_string(kilobytes) +
               " KiB are under way. The pass option tl.disable_persistent_blocks turns this off");
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func StreamRows(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(RowStreamer(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
