#include "op/gemm_metadata.h"

#include "ir/error.h"
#include "ir/memory_name.h"
#include "op/effect.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"

namespace tilelang::op {

using ir::BinaryOp;
using ir::DType;

namespace {

constexpr int64_t kNarrowElement = 8;  // bits
constexpr int64_t kWordBits = 32;

const ir::GemmOperandNode* Given(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kMetadata);
}

struct Extents {
  int64_t rows, columns;
};
Extents ExtentsOf(const ir::GemmNode* op) {
  auto [first, second] = MatrixExtents(Given(op)->region, op->span);
  return Given(op)->transposed ? Extents{second, first} : Extents{first, second};
}

Expr ElementAt(const ir::GemmOperandNode* metadata, const Expr& row, const Expr& column) {
  Array<Expr> at = metadata->region->mins;
  size_t rank = at.size();
  auto add = [&](size_t dim, const Expr& e) {
    at.Set(static_cast<int64_t>(dim), at[dim] + ir::CastTo(at[dim].dtype(), e));
  };
  add(metadata->transposed ? rank - 1 : rank - 2, row);
  add(metadata->transposed ? rank - 2 : rank - 1, column);
  return ir::Load(metadata->buffer(), at);
}

// Returns one 16-bit half of a word of metadata.
Expr PartOfWord(const ir::GemmOperandNode* words, const Expr& row, const Expr& part) {
  Expr word = ir::CastTo(ir::dtypes::kUInt32, ElementAt(words, row, ir::FloorDiv(part, I32(2))));
  Expr distance = ir::CastTo(ir::dtypes::kUInt32, ir::FloorMod(part, I32(2))) * U32(16);
  return ir::CastTo(ir::dtypes::kUInt16, ir::MakeBinary(BinaryOp::kShr, word, distance));
}

// Replaces metadata of zero, which copies write outside of a tensor and which has no meaning, by
// the first two of each four elements.
Expr WithMeaning(const Expr& metadata) {
  DType type = metadata.dtype();
  uint64_t first_two = 0x44444444U >> (32 - type.bits);
  return ir::Select(ir::MakeEq(metadata, ir::Const(type, 0)),
                    ir::Const(type, static_cast<int64_t>(first_two)), metadata);
}

// Returns `bits` bits of a row in the low bits of a word: the `index`-th group of this size.
Expr BitsAt(const ir::GemmOperandNode* metadata, const Expr& row, const Expr& index, int64_t bits) {
  DType given = metadata->buffer()->dtype;
  if (given.bits > bits) {
    return ir::CastTo(ir::dtypes::kUInt32, WithMeaning(PartOfWord(metadata, row, index)));
  }
  DType unsigned_type = given;
  unsigned_type.code = kDLUInt;
  int64_t parts = bits / given.bits;
  Expr word;
  for (int64_t i = 0; i < parts; ++i) {
    Expr column = parts == 1 ? index : index * I32(parts) + I32(i);
    Expr part = WithMeaning(ir::CastTo(unsigned_type, ElementAt(metadata, row, column)));
    part = ir::CastTo(ir::dtypes::kUInt32, part);
    if (i == 0) {
      word = part;
    } else {
      part = ir::MakeBinary(BinaryOp::kShl, part, U32(given.bits * i));
      word = ir::MakeBinary(BinaryOp::kBitOr, word, part);
    }
  }
  return word;
}

// Returns the word for a lane and column of tensor memory.
Expr WordOfTmem(const ir::GemmNode* op, const Expr& lane, const Expr& column) {
  const ir::GemmOperandNode* given = Given(op);
  if (MatrixA(op)->buffer->dtype.bits == kNarrowElement)
    return BitsAt(given, lane, column, kWordBits);
  constexpr int64_t kHalf = kWordBits / 2;
  constexpr int64_t kRows = 8;  // that are eight lanes together
  Expr row = ir::FloorDiv(lane, I32(2 * kRows)) * I32(2 * kRows) + ir::FloorMod(lane, I32(kRows));
  Expr part = column * I32(2) + ir::FloorMod(ir::FloorDiv(lane, I32(kRows)), I32(2));
  Expr high = BitsAt(given, row + I32(kRows), part, kHalf);
  return ir::MakeBinary(BinaryOp::kBitOr, BitsAt(given, row, part, kHalf),
                        ir::MakeBinary(BinaryOp::kShl, high, U32(kHalf)));
}

Buffer Tile(const ir::GemmNode* op, const char* suffix, DType type, const Extents& extents,
            const char* scope) {
  return Buffer(String(std::string(Given(op)->buffer()->name) + suffix), type,
                {I32(extents.rows), I32(extents.columns)}, {}, scope, {}, op->span);
}

}  // namespace

Stmt WithMetadataInRegisters(const ir::GemmNode* op) {
  const ir::GemmOperandNode* given = Given(op);
  Extents extents = ExtentsOf(op);
  DType type = given->buffer()->dtype;
  bool halves = type.bits == kWordBits && MatrixA(op)->buffer->dtype.bits != kNarrowElement;
  if (halves) extents.columns *= 2;
  Buffer held = Tile(op, "_frag", halves ? ir::dtypes::kUInt16 : type, extents, "local.fragment");
  Var i("i", ir::dtypes::kInt32, op->span);
  Var j("j", ir::dtypes::kInt32, op->span);
  Expr value = WithMeaning(halves ? PartOfWord(given, i, j) : ElementAt(given, i, j));
  Array<ir::GemmOperand> operands;
  for (const ir::GemmOperand& operand : op->operands) {
    bool is_metadata = operand.get() == given;
    operands.push_back(is_metadata
                           ? ir::GemmOperand(ir::GemmOperandKind::kMetadata, Region::Whole(held))
                           : operand);
  }
  return Sequence({ir::Alloc(held, op->span),
                   ir::ParallelFor({i, j}, {I32(extents.rows), I32(extents.columns)},
                                   ir::Store(held, {i, j}, value, op->span), {}, op->span),
                   ir::Gemm(op, operands)},
                  op->span);
}

ir::GemmOperand MetadataToTmem(const ir::GemmNode* op, std::vector<Stmt>* stmts) {
  if (!Given(op)->buffer().IsShared()) {
    TL_USER_ERROR(kLayout, op->span,
                  "T.gemm_sp by tcgen05: E is " << std::string(Given(op)->buffer()->name) << " in "
                                                << ir::MemoryName(Given(op)->buffer())
                                                << "; it must be in shared memory");
  }
  Extents extents = ExtentsOf(op);
  extents.columns = extents.columns * Given(op)->buffer()->dtype.bits / kWordBits;
  Buffer words = Tile(op, "_words", ir::dtypes::kUInt32, extents, "local.fragment");
  Buffer tmem = Tile(op, "_tmem", ir::dtypes::kUInt32, extents, "shared.tmem");
  Var lane("lane", ir::dtypes::kInt32, op->span);
  Var column("column", ir::dtypes::kInt32, op->span);
  stmts->push_back(ir::Alloc(words, op->span));
  stmts->push_back(ir::ParallelFor(
      {lane, column}, {I32(extents.rows), I32(extents.columns)},
      ir::Store(words, {lane, column}, WordOfTmem(op, lane, column), op->span), {}, op->span));
  stmts->push_back(ir::Alloc(tmem, op->span));
  stmts->push_back(ir::Copy(Region::Whole(words), Region::Whole(tmem), op->span));
  return ir::GemmOperand(ir::GemmOperandKind::kMetadata, Region::Whole(tmem));
}

int64_t MetadataColumnsOfInstruction(const ir::GemmNode* op) {
  return MatrixA(op)->buffer->dtype.bits == kNarrowElement ? 2 : 1;
}

MetadataColumns ColumnsOfMetadata(const ir::GemmNode* op, const Expr& column) {
  if (MetadataColumnsOfInstruction(op) > 1) return {column, U32(0)};
  return {ir::MakeBinary(BinaryOp::kBitAnd, column, U32(0xFFFFFFFE)),
          ir::MakeBinary(BinaryOp::kBitAnd, column, U32(1))};
}

}  // namespace tilelang::op
