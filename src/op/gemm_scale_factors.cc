#include "op/gemm_scale_factors.h"

#include <algorithm>

#include "layout/symbolic.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"
#include "op/tmem.h"

namespace tilelang::op {

namespace {

constexpr int64_t kScaleAtomRows = 128;
constexpr int64_t kScaleAtomBlocks = 4;
constexpr int64_t kScaleAtomBytes = kScaleAtomRows * kScaleAtomBlocks;
constexpr int64_t kScaleAtomColumns = 4;
constexpr int64_t kInstructionBytes = 32;  // of K
constexpr int64_t kRowGroupBytes = 128;    // of eight rows of 16 bytes, for the descriptor

int64_t CountOfPieces(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many of the last dimensions make up an atom.
size_t DimsOfAtom(const Region& region) {
  int64_t size = 1;
  size_t dims = 0;
  while (size < kScaleAtomBytes)
    size *= *ir::AsInt(region->extents[region->extents.size() - ++dims]);
  return dims;
}

// The elements of equal parts of the buffer, of which the region is in one.
int64_t PartOf(const Region& region) {
  Coord shape = StaticShape(region->buffer);
  auto first = std::find_if(region->extents.begin(), region->extents.end(),
                            [](const Expr& extent) { return !ir::IsConst(extent, 1); });
  return layout::Product(Coord(shape.begin() + (first - region->extents.begin()), shape.end()));
}

}  // namespace

ScaleBlocks ScaleBlocksOf(const ir::GemmNode* op) {
  bool nibbles = FormatOfMatrices(op) == ir::GemmFormat::kE2M1x2;
  bool powers = FormatOfScales(op) == ir::GemmFormat::kUE8M0;
  if (!nibbles) return {kInstructionBytes, 1};
  return powers ? ScaleBlocks{kInstructionBytes / 2, 2} : ScaleBlocks{kInstructionBytes / 4, 4};
}

namespace {

// A power of two: the byte is the exponent of a float32, of which it holds the least as a subnormal
// number. 255 is NaN.
Expr PowerOfTwo(const Expr& byte, const Span& span) {
  Expr bits = ir::CastTo(ir::dtypes::kUInt32, byte);
  Expr word = ir::MakeBinary(ir::BinaryOp::kShl, bits, U32(23), span);
  word = ir::Select(ir::MakeEq(bits, U32(0)), U32(0x00400000), word);
  word = ir::Select(ir::MakeEq(bits, U32(255)), U32(0x7FC00000), word);
  return ir::Call(ir::dtypes::kFloat32, "reinterpret", {word});
}

// One of the two e2m1 floats of a byte, whose number is `half`, as float32: a sign, two bits of
// exponent with bias 1, and one of mantissa.
Expr FloatOfNibble(const Expr& byte, const Expr& half, const Span& span) {
  auto binary = [&](ir::BinaryOp op, const Expr& a, uint32_t b) {
    return ir::MakeBinary(op, a, U32(b), span);
  };
  Expr word = ir::CastTo(ir::dtypes::kUInt32, byte);
  Expr distance = binary(ir::BinaryOp::kMul, ir::CastTo(ir::dtypes::kUInt32, half), 4);
  Expr code = ir::MakeBinary(ir::BinaryOp::kShr, word, distance, span);
  Expr magnitude = binary(ir::BinaryOp::kBitAnd, code, 7);
  Expr sign = binary(ir::BinaryOp::kShl, binary(ir::BinaryOp::kBitAnd, code, 8), 28);
  // Exponent and mantissa lie side by side in both types; 126 is the difference of the biases.
  Expr bits = binary(ir::BinaryOp::kShl, magnitude, 22);
  bits = binary(ir::BinaryOp::kAdd, bits, 126U << 23);
  // The subnormal one, 0.5, and 0.
  bits = ir::Select(ir::MakeEq(magnitude, U32(1)), U32(126U << 23), bits);
  bits = ir::Select(ir::MakeEq(magnitude, U32(0)), U32(0), bits);
  bits = ir::MakeBinary(ir::BinaryOp::kBitOr, bits, sign, span);
  return ir::Call(ir::dtypes::kFloat32, "reinterpret", {bits});
}

// The factor of a row of A, or column of B, and a block of K, as float32.
Expr ScaleFactorAt(const ir::GemmOperandNode* factors, const Expr& row, const Expr& block) {
  const Region& region = factors->region;
  Expr column = ir::FloorDiv(ir::FloorMod(row, I32(kScaleAtomRows)), I32(kScaleRowsOfColumn));
  Expr byte = ir::FloorMod(row, I32(kScaleRowsOfColumn)) * I32(kScaleAtomRows / 8) +
              column * I32(kScaleAtomBlocks) + ir::FloorMod(block, I32(kScaleAtomBlocks));
  Array<Expr> indices = region->mins;
  auto dim = static_cast<int64_t>(indices.size());
  auto last = dim - static_cast<int64_t>(DimsOfAtom(region));
  while (dim-- > last) {
    const Expr& extent = region->extents[dim];
    indices.Set(dim, ir::FloorMod(byte, extent));
    byte = ir::FloorDiv(byte, extent);
  }
  Expr atoms[] = {ir::FloorDiv(block, I32(kScaleAtomBlocks)),
                  ir::FloorDiv(row, I32(kScaleAtomRows))};
  for (const Expr& atom : atoms) {
    if (dim < 0) break;
    indices.Set(dim, indices[dim] + atom);
    --dim;
  }
  Expr value = ir::Load(region->buffer, indices);
  if (factors->element_format() == ir::GemmFormat::kUE8M0) {
    return PowerOfTwo(value, region->buffer->span);
  }
  return ir::CastTo(ir::dtypes::kFloat32, value);
}

// A matrix times its factors, in a tile of its own.
Region Multiplied(const ir::GemmNode* op, const ir::GemmOperandNode* matrix,
                  ir::GemmOperandKind factors, std::vector<Stmt>* stmts) {
  const Region& source = matrix->region;
  size_t rank = source->extents.size();
  bool nibbles = matrix->element_format() == ir::GemmFormat::kE2M1x2;  // along K, the last
  Expr columns = source->extents[rank - 1];
  Array<Expr> shape = {source->extents[rank - 2], nibbles ? columns * I32(2) : columns};
  Buffer product(String(std::string(source->buffer->name) + "_scaled"), ir::dtypes::kBFloat16,
                 shape, {}, source->buffer->scope, {}, op->span);
  Var i("i", ir::dtypes::kInt32, op->span);
  Var j("j", ir::dtypes::kInt32, op->span);
  Array<Expr> at = source->mins;
  auto last = static_cast<int64_t>(rank) - 1;
  at.Set(last - 1, at[last - 1] + i);
  Expr byte = nibbles ? ir::FloorDiv(j, I32(2)) : Expr(j);
  at.Set(last, at[last] + byte);
  bool k_last = matrix->DimAlong(ir::GemmDim::kK) == rank - 1;
  Expr block = ir::FloorDiv(k_last ? byte : Expr(i), I32(ScaleBlocksOf(op).bytes));
  Expr factor = ScaleFactorAt(op->Operand(factors), k_last ? i : j, block);
  Expr value = ir::Load(source->buffer, at);
  value = nibbles ? FloatOfNibble(value, ir::FloorMod(j, I32(2)), op->span)
                  : ir::CastTo(ir::dtypes::kFloat32, value);
  value = value * factor;
  Stmt store = ir::Store(product, {i, j}, ir::CastTo(ir::dtypes::kBFloat16, value), op->span);
  stmts->push_back(ir::Alloc(product, op->span));
  stmts->push_back(ir::ParallelFor({i, j}, shape, store, {}, op->span));
  return Region::Whole(product);
}

}  // namespace

void MultiplyByScaleFactors(const ir::GemmNode* op, std::vector<Stmt>* stmts) {
  using Kind = ir::GemmOperandKind;
  const ir::GemmOperandNode* a = op->Operand(Kind::kA);
  const ir::GemmOperandNode* b = op->Operand(Kind::kB);
  Array<ir::GemmOperand> operands = {
      {Kind::kA, Multiplied(op, a, Kind::kScaleA, stmts), a->transposed},
      {Kind::kB, Multiplied(op, b, Kind::kScaleB, stmts), b->transposed},
      {Kind::kC, op->result()}};
  stmts->push_back(ir::Gemm(op, operands));
}

namespace {

// The atoms of a tile of so many rows, along these and along K.
std::pair<int64_t, int64_t> AtomsOf(const ir::GemmNode* op, ir::GemmOperandKind kind) {
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  int64_t rows = kind == ir::GemmOperandKind::kScaleA ? m : n;
  int64_t blocks = *ir::AsInt(op->Depth()) / ScaleBlocksOf(op).bytes;
  return {CountOfPieces(rows, kScaleAtomRows), CountOfPieces(blocks, kScaleAtomBlocks)};
}

}  // namespace

Buffer MakeScaleColumns(const ir::GemmNode* op) {
  int64_t columns = 0;
  for (auto kind : {ir::GemmOperandKind::kScaleA, ir::GemmOperandKind::kScaleB}) {
    auto [rows, groups] = AtomsOf(op, kind);
    columns += rows * groups * kScaleAtomColumns;
  }
  const Buffer& factors = op->Operand(ir::GemmOperandKind::kScaleA)->buffer();
  return Buffer(String(std::string(factors->name) + "_columns"), ir::dtypes::kUInt32,
                {I32(layout::kTmemLanes), I32(columns)}, {}, "shared.tmem", {}, op->span);
}

ScaleFactors::ScaleFactors(const ir::GemmNode* op, Lowering* lowering)
    : op_(op), lowering_(lowering), blocks_(ScaleBlocksOf(op)) {
  a_ = TileOf(ir::GemmOperandKind::kScaleA);
  b_ = TileOf(ir::GemmOperandKind::kScaleB);
  b_.column = a_.rows * a_.groups * kScaleAtomColumns;
  const Region& columns = op->Operand(ir::GemmOperandKind::kScaleColumns)->region;
  base_ = op::TileOf(columns, op->span, lowering->ctx).column;
}

ScaleFactors::Tile ScaleFactors::TileOf(ir::GemmOperandKind kind) const {
  auto [rows, groups] = AtomsOf(op_, kind);
  return {op_->Operand(kind)->region, rows, groups};
}

int64_t ScaleFactors::BlockAt(int64_t k) const { return k / kInstructionBytes * blocks_.per_k; }

Expr ScaleFactors::AddressOf(const Tile& tile, int64_t row, int64_t k) const {
  int64_t group = BlockAt(k) / kScaleAtomBlocks;
  int64_t column = tile.column + group * tile.rows * kScaleAtomColumns + row / kScaleRowsOfColumn;
  return base_ + U32(column);
}

uint32_t ScaleFactors::Selection(int64_t k) const {
  auto byte = static_cast<uint32_t>(BlockAt(k) % kScaleAtomBlocks);
  return byte << 29 | byte << 4;
}

std::vector<Array<int64_t>> ScaleFactors::Reads(int64_t a, int64_t b, int64_t rows,
                                                int64_t columns) const {
  const Buffer& buffer = op_->Operand(ir::GemmOperandKind::kScaleColumns)->buffer();
  auto box = [&](int64_t argument, int64_t extent) {
    return TmemBox(argument, layout::kTmemLanes, CountOfPieces(extent, kScaleRowsOfColumn),
                   /*writes=*/false, buffer, *lowering_->ctx);
  };
  return {box(a, rows), box(b, columns)};
}

void ScaleFactors::Copy(std::vector<Stmt>* stmts) const {
  Copy(a_, "desc_scale_a", stmts);
  Copy(b_, "desc_scale_b", stmts);
}

void ScaleFactors::Copy(const Tile& tile, const char* name, std::vector<Stmt>* stmts) const {
  Context* ctx = lowering_->ctx;
  const Buffer& buffer = tile.region->buffer;
  Buffer physical = lowering_->buffers->Get(buffer);
  Array<Expr> corner;
  for (const Expr& min : tile.region->mins) corner.push_back(lowering_->scalar->Mutate(min));
  Expr address =
      ir::AddressOf(physical, {lowering_->buffers->Offset(buffer, corner, ctx->analyzer)});
  layout::MatrixOperand operand;
  operand.stride_bytes = kRowGroupBytes;
  Var descriptor(name, ir::dtypes::kUInt64, op_->span);
  stmts->push_back(
      ir::Bind(descriptor, DescriptorAt(address, operand, DescriptorFormat::kTcgen05), op_->span));
  Map<String, Any> attrs;
  attrs.Set("reads", Array<Buffer>{physical});
  attrs.Set("extents", Array<int64_t>{PartOf(tile.region)});
  attrs.Set("async", true);
  const Buffer& columns = op_->Operand(ir::GemmOperandKind::kScaleColumns)->buffer();
  attrs.Set("tmem", Array<Array<int64_t>>{TmemBox(0, layout::kTmemLanes, kScaleAtomColumns,
                                                  /*writes=*/true, columns, *ctx)});
  Coord shape = StaticShape(buffer);
  size_t groups_end = shape.size() - DimsOfAtom(tile.region);
  // Atoms along the dimension before that of the groups.
  int64_t row_bytes = groups_end == 0 ? 0 : shape[groups_end - 1] * kScaleAtomBytes;
  std::string function =
      std::string("tcgen05_cp<tl::TmemCpShape::k32x128b") + (IsInPairs(op_) ? ", 2>" : ">");
  for (int64_t group = 0; group < tile.groups; ++group) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      int64_t bytes = row * row_bytes + group * kScaleAtomBytes;
      int64_t column = tile.column + (group * tile.rows + row) * kScaleAtomColumns;
      stmts->push_back(
          DeviceEffect("tcgen_05_cp.h", function,
                       {base_ + U32(column), descriptor + U64(static_cast<uint64_t>(bytes >> 4))},
                       op_->span, attrs));
    }
  }
}

}  // namespace tilelang::op
