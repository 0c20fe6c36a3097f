#include "op/gemm_scale_factors.h"

#include <algorithm>

#include "ir/padded.h"
#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"
#include "op/tmem.h"

namespace tilelang::op {

namespace {

constexpr int64_t kScaleAtomBlocks = 4;
constexpr int64_t kInstructionBytes = 32;  // of K

int64_t CountOfPieces(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns how many of the last dimensions make up an atom.
size_t DimsOfAtom(const Region& region) {
  int64_t size = 1;
  size_t dims = 0;
  while (size < kScaleAtomBytes)
    size *= *ir::AsInt(region->extents[region->extents.size() - ++dims]);
  return dims;
}

// Returns the number of elements of the part of the buffer that contains the region. All parts are
// equal.
int64_t PartOf(const Region& region) {
  Coord shape = StaticShape(region->buffer);
  auto first = std::find_if(region->extents.begin(), region->extents.end(),
                            [](const Expr& extent) { return !ir::IsConst(extent, 1); });
  return layout::Product(Coord(shape.begin() + (first - region->extents.begin()), shape.end()));
}

}  // namespace

std::optional<size_t> DimOfAtomRows(const Region& atoms) {
  size_t dims = DimsOfAtom(atoms) + 2;
  size_t rank = atoms->extents.size();
  return dims <= rank ? std::optional<size_t>(rank - dims) : std::nullopt;
}

void InferScaleAtoms(const ir::GemmNode* op, Context* ctx) {
  for (auto kind : {ir::GemmOperandKind::kScaleA, ir::GemmOperandKind::kScaleB}) {
    InferScaleOrder(op->Operand(kind)->buffer(), "T.gemm", op->span, ctx);
  }
}

ScaleBlocks ScaleBlocksOf(const ir::GemmNode* op) {
  bool nibbles = FormatOfMatrices(op) == ir::GemmFormat::kE2M1x2;
  bool powers = FormatOfScales(op) == ir::GemmFormat::kUE8M0;
  if (!nibbles) return {kInstructionBytes, 1};
  return powers ? ScaleBlocks{kInstructionBytes / 2, 2} : ScaleBlocks{kInstructionBytes / 4, 4};
}

namespace {

// Returns a power of two. The byte is the exponent of a float32, whose smallest value is a
// subnormal number. 255 is NaN.
Expr PowerOfTwo(const Expr& byte, const Span& span) {
  Expr bits = ir::CastTo(ir::dtypes::kUInt32, byte);
  Expr word = ir::MakeBinary(ir::BinaryOp::kShl, bits, U32(23), span);
  word = ir::Select(ir::MakeEq(bits, U32(0)), U32(0x00400000), word);
  word = ir::Select(ir::MakeEq(bits, U32(255)), U32(0x7FC00000), word);
  return ir::Call(ir::dtypes::kFloat32, "reinterpret", {word});
}

// Returns the float of a code (uint32) as float32.
Expr FloatOfCode(const Expr& code, const ir::SmallFloat& type, const Span& span) {
  auto binary = [&](ir::BinaryOp op, const Expr& a, int64_t b) {
    return ir::MakeBinary(op, a, U32(b), span);
  };
  auto power = [](int64_t exponent) { return static_cast<int64_t>(127 + exponent) << 23; };
  int64_t sign_bit = int64_t{1} << (type.bits - 1);
  Expr size = binary(ir::BinaryOp::kBitAnd, code, sign_bit - 1);
  Expr sign =
      binary(ir::BinaryOp::kShl, binary(ir::BinaryOp::kBitAnd, code, sign_bit), 32 - type.bits);
  // Exponent and fraction lie side by side in both types.
  Expr bits = binary(ir::BinaryOp::kShl, size, 23 - type.fraction);
  bits = binary(ir::BinaryOp::kAdd, bits, power(-type.bias));
  auto float_of = [](const Expr& word) {
    return ir::Call(ir::dtypes::kFloat32, "reinterpret", {word});
  };
  // Subnormal numbers are multiples of the smallest one.
  Expr least = float_of(U32(power(1 - type.bias - type.fraction)));
  Expr small = ir::CastTo(ir::dtypes::kFloat32, size) * least;
  Expr is_small = ir::MakeBinary(ir::BinaryOp::kLt, size, U32(int64_t{1} << type.fraction), span);
  Expr magnitude = ir::Select(is_small, small, float_of(bits));
  Expr word = ir::Call(ir::dtypes::kUInt32, "reinterpret", {magnitude});
  return float_of(ir::MakeBinary(ir::BinaryOp::kBitOr, word, sign, span));
}

// Returns the element at `at`, whose last index counts elements, as float32.
Expr ElementAsFloat(const ir::GemmOperandNode* matrix, Array<Expr> at, const Span& span) {
  bool nibbles = matrix->element_format() == ir::GemmFormat::kE2M1x2;
  const ir::SmallFloat* type = nibbles ? &ir::kE2M1 : ir::PaddedType(matrix->buffer());
  auto load = [&](const Expr& last) {
    at.Set(static_cast<int64_t>(at.size()) - 1, last);
    return ir::Load(matrix->buffer(), at);
  };
  Expr element = at.back();
  if (type == nullptr) return ir::CastTo(ir::dtypes::kFloat32, load(element));
  auto word = [&](const Expr& byte) { return ir::CastTo(ir::dtypes::kUInt32, load(byte)); };
  auto shifted = [&](ir::BinaryOp op, const Expr& value, const Expr& distance) {
    return ir::MakeBinary(op, value, ir::CastTo(ir::dtypes::kUInt32, distance), span);
  };
  if (nibbles) {
    Expr code = shifted(ir::BinaryOp::kShr, word(ir::FloorDiv(element, I32(2))),
                        ir::FloorMod(element, I32(2)) * I32(4));
    return FloatOfCode(code, *type, span);
  }
  // An element of a unit begins in one byte and may end in the next.
  Expr in_unit = ir::FloorMod(element, I32(ir::kPaddedUnit));
  Expr bit = in_unit * I32(type->bits);
  Expr unit = element - in_unit;
  Expr low = word(unit + ir::FloorDiv(bit, I32(8)));
  Expr high = word(unit + ir::FloorDiv(bit + I32(type->bits - 1), I32(8)));
  Expr both =
      ir::MakeBinary(ir::BinaryOp::kBitOr, low, shifted(ir::BinaryOp::kShl, high, I32(8)), span);
  Expr code = shifted(ir::BinaryOp::kShr, both, ir::FloorMod(bit, I32(8)));
  return FloatOfCode(code, *type, span);
}

}  // namespace

Array<Expr> IndicesOfScale(const Region& atoms, const Expr& row, const Expr& block) {
  Expr column = ir::FloorDiv(ir::FloorMod(row, I32(kScaleAtomRows)), I32(kScaleRowsOfColumn));
  Expr byte = ir::FloorMod(row, I32(kScaleRowsOfColumn)) * I32(kScaleAtomRows / 8) +
              column * I32(kScaleAtomBlocks) + ir::FloorMod(block, I32(kScaleAtomBlocks));
  Array<Expr> indices = atoms->mins;
  auto dim = static_cast<int64_t>(indices.size());
  auto last = dim - static_cast<int64_t>(DimsOfAtom(atoms));
  while (dim-- > last) {
    const Expr& extent = atoms->extents[dim];
    indices.Set(dim, ir::FloorMod(byte, extent));
    byte = ir::FloorDiv(byte, extent);
  }
  Expr places[] = {ir::FloorDiv(block, I32(kScaleAtomBlocks)),
                   ir::FloorDiv(row, I32(kScaleAtomRows))};
  for (const Expr& place : places) {
    if (dim < 0) break;
    indices.Set(dim, indices[dim] + place);
    --dim;
  }
  return indices;
}

namespace {

// Returns the factor of a row of A, or a column of B, and a block of K, as float32.
Expr ScaleFactorAt(const ir::GemmOperandNode* factors, const Expr& row, const Expr& block) {
  const Region& region = factors->region;
  Expr value = ir::Load(region->buffer, IndicesOfScale(region, row, block));
  if (factors->element_format() == ir::GemmFormat::kUE8M0) {
    return PowerOfTwo(value, region->buffer->span);
  }
  return ir::CastTo(ir::dtypes::kFloat32, value);
}

// Multiplies a matrix by its factors, into a tile of its own.
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
  at.Set(last, (nibbles ? at[last] * I32(2) : at[last]) + j);
  bool k_last = matrix->DimAlong(ir::GemmDim::kK) == rank - 1;
  Expr value = ElementAsFloat(matrix, at, op->span);
  if (op->IsScaled()) {
    int64_t block_elements = ScaleBlocksOf(op).bytes * (nibbles ? 2 : 1);
    Expr block = ir::FloorDiv(k_last ? Expr(j) : Expr(i), I32(block_elements));
    value = value * ScaleFactorAt(op->Operand(factors), k_last ? i : j, block);
  }
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

// Returns the number of atoms of a tile along its rows and along K.
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

ScaleFactors::ScaleFactors(const ir::GemmNode* op, int64_t step, Lowering* lowering)
    : op_(op),
      step_(step),
      lowering_(lowering),
      blocks_(ScaleBlocksOf(op)),
      in_tmem_(op->HasScalesInTmem()) {
  a_ = TileOf(ir::GemmOperandKind::kScaleA);
  b_ = TileOf(ir::GemmOperandKind::kScaleB);
  if (in_tmem_) return;
  const Region& columns = op->Operand(ir::GemmOperandKind::kScaleColumns)->region;
  a_.column = op::TileOf(columns, op->span, lowering->ctx).column;
  b_.column = a_.column + U32(a_.rows * a_.groups * kScaleAtomColumns);
}

ScaleFactors::Tile ScaleFactors::TileOf(ir::GemmOperandKind kind) const {
  const Region& region = op_->Operand(kind)->region;
  auto [rows, groups] = AtomsOf(op_, kind);
  if (!in_tmem_) return {region, rows, groups, Expr(), 0};
  bool is_a = kind == ir::GemmOperandKind::kScaleA;
  const char* name = is_a ? kScaleGranularityA : kScaleGranularityB;
  auto granularity = op_->annotations[name].cast<int64_t>();
  return {region, rows, 1, op::TileOf(region, op_->span, lowering_->ctx).column, granularity};
}

int64_t ScaleFactors::Beyond(const Tile& tile, int64_t k) const {
  if (in_tmem_) return 0;
  int64_t last = BlockAt(k + step_) - 1;
  int64_t groups = last / kScaleAtomBlocks - BlockAt(k) / kScaleAtomBlocks;
  return groups * tile.rows * kScaleAtomColumns;
}

Expr ScaleFactors::AddressOf(const Tile& tile, int64_t row, int64_t k) const {
  int64_t group = in_tmem_ ? 0 : BlockAt(k) / kScaleAtomBlocks;
  return tile.column + U32(group * tile.rows * kScaleAtomColumns + row / kScaleRowsOfColumn);
}

Expr ScaleFactors::Selection(int64_t k) const {
  if (!in_tmem_) {
    auto byte = static_cast<uint32_t>(BlockAt(k) % kScaleAtomBlocks);
    return U32(byte << 29 | byte << 4);
  }
  // The words begin at this element of A and B.
  int64_t per_byte = FormatOfMatrices(op_) == ir::GemmFormat::kE2M1x2 ? 2 : 1;
  Expr start = lowering_->scalar->Mutate(op_->k_start) + I32(k * per_byte);
  auto byte = [&](const Tile& tile, uint32_t shift) {
    Expr block = ir::FloorMod(ir::FloorDiv(start, I32(tile.granularity)), I32(kScaleAtomBlocks));
    return ir::CastTo(ir::dtypes::kUInt32, lowering_->ctx->analyzer->Simplify(block)) *
           U32(uint32_t{1} << shift);
  };
  return byte(a_, 29) + byte(b_, 4);
}

std::vector<Array<int64_t>> ScaleFactors::Reads(int64_t a, int64_t b, int64_t rows, int64_t columns,
                                                int64_t k) const {
  auto box = [&](const Tile& tile, int64_t argument, int64_t extent) {
    int64_t count = Beyond(tile, k) + CountOfPieces(extent, kScaleRowsOfColumn);
    const Buffer& buffer =
        in_tmem_ ? tile.region->buffer : op_->Operand(ir::GemmOperandKind::kScaleColumns)->buffer();
    return TmemBox(argument, layout::kTmemLanes, count, /*writes=*/false, buffer, *lowering_->ctx);
  };
  return {box(a_, a, rows), box(b_, b, columns)};
}

void ScaleFactors::Copy(std::vector<Stmt>* stmts) const {
  if (in_tmem_) return;
  Copy(a_, "desc_scale_a", stmts);
  Copy(b_, "desc_scale_b", stmts);
}

void ScaleFactors::Copy(const Tile& tile, const char* name, std::vector<Stmt>* stmts) const {
  const Buffer& columns = op_->Operand(ir::GemmOperandKind::kScaleColumns)->buffer();
  ScaleAtoms atoms(tile.region, PartOf(tile.region), columns, IsInPairs(op_), op_->span, lowering_);
  atoms.Bind(name, stmts);
  Coord shape = StaticShape(tile.region->buffer);
  size_t groups_end = shape.size() - DimsOfAtom(tile.region);
  // The distance between two rows of atoms. The last index before an atom counts groups.
  int64_t row_bytes = groups_end == 0 ? 0 : shape[groups_end - 1] * kScaleAtomBytes;
  for (int64_t group = 0; group < tile.groups; ++group) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      int64_t column = (group * tile.rows + row) * kScaleAtomColumns;
      stmts->push_back(
          atoms.Copy(row * row_bytes + group * kScaleAtomBytes, tile.column + U32(column)));
    }
  }
}

}  // namespace tilelang::op
