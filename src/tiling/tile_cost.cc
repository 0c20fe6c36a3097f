#include "tiling/tile_cost.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "analysis/grid_blocks.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "tiling/residency.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

namespace {

constexpr double kTileUnit = 128;  // rows and columns
constexpr double kSectorAligned = 1.25;
constexpr double kUnaligned = 1.75;
// The least cost of an iteration, about 0.13 us.
constexpr double kLeast = 0.45;
// The time of 128 lines if all multiprocessors load different ones. L2 serves equal requests of
// neighbours once, but neighbours in a cluster that shares K have other iterations. 8 TB/s,
// measured on an H200 with nine GEMMs of 64 to 5352 rows and two to four blocks.
constexpr double kLinesApart = 0.97;
// The cost of sums that blocks of a cluster exchange: 1.1 us, and 0.7 us for 4096 that each sends.
constexpr double kExchange = 4;
constexpr double kSent = 2.5 / 4096;
// Blocks that load together wait for each other. Measured on an H200, of 5968 x 2360 x 1208, 5000 x
// 3000 x 2000 and 7000 x 2000 x 3000.
constexpr double kTogether = 1.2;
// The cost of 128 x 128 elements of a matrix that threads read. Of the transposed product, a thread
// holds columns, and neighbouring threads read different rows.
constexpr double kReads = 5;
constexpr double kScatteredReads = 22;
constexpr int64_t kManyIterations = 64;  // where they are not known

// Returns the cost of the lines of rows of this tensor.
double LinesOf(const ir::Buffer& tensor) {
  constexpr int64_t kLineBits = 1024;
  constexpr int64_t kSectorBits = 256;
  auto extent = ir::AsInt(tensor->shape.back());
  if (!extent) return 1;  // of the call: most are
  if (!tensor->strides.empty()) return kUnaligned;
  int64_t bits = *extent * tensor->dtype.bits;
  if (bits % kLineBits == 0) return 1;
  return bits % kSectorBits == 0 ? kSectorAligned : kUnaligned;
}

TileLines LinesOf(const PlainGemm& plain) {
  TileLines lines;
  for (const ir::CopyNode* load : plain.loads) {
    for (const ir::GemmOperandNode* input : plain.gemms[0]->Inputs()) {
      if (!input->buffer().same_as(load->dst->buffer)) continue;
      (input->DimAlong(ir::GemmDim::kM) ? lines.of_a : lines.of_b) = LinesOf(load->src->buffer);
    }
  }
  return lines;
}

int64_t MatricesRead(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  std::unordered_set<const ir::BufferNode*> matrices;
  auto note = [&](const ir::Effect& effect) {
    const ir::Buffer& tensor = effect.buffer;
    bool matrix = effect.Reads() && tensor.IsGlobal() && tensor->shape.size() > 1;
    if (matrix) matrices.insert(tensor.get());
  };
  ir::WalkStmts(launch->body, [&](const ir::Stmt& s) {
    if (s.get() == plain.loop) return false;
    if (s->kind == ir::StmtKind::kSeq) return true;
    ir::WalkEffects(s, note);
    return false;
  });
  return static_cast<int64_t>(matrices.size());
}

}  // namespace

double TileGrid::CostOfTile() const {
  double rows = static_cast<double>(tile.rows) / kTileUnit;
  double columns = static_cast<double>(tile.columns) / kTileUnit;
  int64_t exist = this->rows > 0 ? std::min(this->rows, tile.rows) : tile.rows;
  double rows_of_a = static_cast<double>(exist) / kTileUnit;
  double loads = line_time * (lines.of_a * rows_of_a + lines.of_b * columns);
  double products = rows * columns / tensor_share;
  return iterations * std::max({products, loads, kLeast}) + CostOfEpilogue();
}

double TileGrid::CostOfEpilogue() const {
  bool by_columns = transposed || tile.rows % kWgmmaRows != 0;
  double area = static_cast<double>(tile.rows * tile.columns) / (kTileUnit * kTileUnit);
  return static_cast<double>(matrices) * (by_columns ? kScatteredReads : kReads) * area;
}

double TileGrid::Cost(const Target& target) const {
  int64_t waves = (tiles + target->sm_count - 1) / target->sm_count;
  return static_cast<double>(waves) * CostOfTile();
}

double TileGrid::CostOfPart(int64_t parts, const Target& target) const {
  if (parts == 1) return CostOfTile();
  TileGrid part = *this;
  double busy = static_cast<double>(tiles * parts) / static_cast<double>(target->sm_count);
  part.line_time = std::max(kLines, kLinesApart * busy);
  part.iterations = std::ceil(iterations / static_cast<double>(parts));
  part.matrices = 0;
  return part.CostOfTile() + CostOfEpilogue() / static_cast<double>(parts);
}

double TileGrid::CostOfExchange(int64_t parts) const {
  if (parts == 1) return 0;
  auto sent =
      static_cast<double>(tile.rows * tile.columns * (parts - 1)) / static_cast<double>(parts);
  return kExchange + kSent * sent;
}

TileGrid TileGrid::SharingLoads(int64_t rows) const {
  TileGrid pairs = *this;
  pairs.tiles += rows % 2 * (tiles / rows);
  pairs.lines.of_b /= 2;
  pairs.iterations *= kTogether;
  return pairs;
}

bool TileGrid::GainsByPairs(int64_t rows, const Target& target) const {
  // L2 serves equal requests of neighbours for whole sectors once: pairs gained nothing with three
  // such GEMMs on an H200, whatever the estimate said.
  if (rows == 0 || target->sm_count % 2 != 0 || lines.of_b <= kSectorAligned) return false;
  TileGrid pairs = SharingLoads(rows);
  return pairs.tiles <= target->sm_count &&
         pairs.CostOfTile() + kPairing < kClearGain * CostOfTile();
}

double TileGrid::CostOfOneTile(int64_t rows, const Target& target) const {
  return GainsByPairs(rows, target) ? SharingLoads(rows).CostOfTile() + kPairing : CostOfTile();
}

TileGrid GridOf(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const ir::GemmNode* gemm = plain.gemms[0];
  const ir::GemmOperandNode* c = gemm->Operand(ir::GemmOperandKind::kC);
  ir::Expr rows = ExtentOfTensor(plain, ir::GemmDim::kM);
  auto iterations = static_cast<double>(ir::AsInt(plain.loop->extent).value_or(kManyIterations));
  int64_t depth = ExtentAlong(gemm->Inputs().front(), ir::GemmDim::kK);
  return {analysis::BlocksOf(launch),
          {ExtentAlong(c, ir::GemmDim::kM), ExtentAlong(c, ir::GemmDim::kN)},
          LinesOf(plain),
          iterations * static_cast<double>(depth) / kDepthOfStep,
          rows.defined() ? ir::AsInt(rows).value_or(0) : 0,
          MatricesRead(launch, plain)};
}

}  // namespace tilelang::tiling
