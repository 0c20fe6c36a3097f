#include "op/mma_operand.h"

#include "ir/error.h"
#include "ir/padded.h"
#include "layout/smem_layout.h"
#include "op/effect.h"

namespace tilelang::op {

namespace {

constexpr int64_t kRowBytes = 16;  // of a matrix of ldmatrix
constexpr int64_t kRows = 8;

Expr Times(const Expr& e, int64_t factor) { return e * I32(factor); }

}  // namespace

MmaOperand::MmaOperand(const Region& region, const Shape& shape, const layout::MmaAtom& atom,
                       const ir::Span& span, Lowering* lowering)
    : region_(region), shape_(shape), atom_(atom), span_(span), lowering_(lowering) {
  const Context& ctx = *lowering->ctx;
  lane_ = ir::FloorMod(ctx.thread - I32(ctx.threads.begin), I32(32));
  by_matrix_ = HasChunks();
  if (by_matrix_ || ir::PaddedType(region->buffer) == nullptr) return;
  TL_USER_ERROR(kLayout, span,
                "T.gemm by mma.sync: the layout of "
                    << std::string(region->buffer->name)
                    << " divides the 16 bytes in which elements of a padded tile lie; leave the "
                       "choice to the compiler");
}

bool MmaOperand::HasChunks() const {
  const Buffer& buffer = region_->buffer;
  int64_t bytes = ir::Bytes(buffer->dtype);
  // ldmatrix transposes only elements of 16 bits, and does not load elements of 64 bits.
  if (bytes > 4 || (!shape_.lines_first && bytes != 2)) return false;
  int64_t chunk = kRowBytes / bytes;
  if (!lowering_->ctx->analyzer->Divides(region_->mins.back(), chunk)) return false;
  auto layout = lowering_->ctx->layouts->GetLayout(buffer);
  return layout::KeepsRuns(layout ? *layout : Layout::RowMajor(StaticShape(buffer)), chunk);
}

Expr MmaOperand::Address(const Expr& line, const Expr& k) const {
  Array<Expr> coord;
  for (const Expr& min : region_->mins) coord.push_back(lowering_->scalar->Mutate(min));
  auto add = [&](size_t dim, const Expr& e) {
    coord.Set(dim, coord[dim] + ir::CastTo(coord[dim].dtype(), e));
  };
  size_t rank = coord.size();
  add(shape_.lines_first ? rank - 2 : rank - 1, line);
  add(shape_.lines_first ? rank - 1 : rank - 2, k);
  return lowering_->buffers->Offset(region_->buffer, coord, lowering_->ctx->analyzer);
}

Expr MmaOperand::RegisterOf(const Expr& half, const Expr& k_half) const {
  return shape_.halves_inner ? half + Times(k_half, shape_.halves)
                             : k_half + Times(half, atom_.k_halves);
}

Stmt MmaOperand::Load(const Expr& line, const Expr& k, const Buffer& regs, const Expr& at) const {
  return by_matrix_ ? LoadMatrices(line, k, regs, at) : LoadElements(line, k, regs, at);
}

// Loads the matrices by ldmatrix. Lanes 8i to 8i + 7 give the addresses of the rows of matrix i,
// which goes to register i.
Stmt MmaOperand::LoadMatrices(const Expr& line, const Expr& k, const Buffer& regs,
                              const Expr& at) const {
  int64_t count = shape_.halves * atom_.k_halves;
  Expr matrix = ir::FloorMod(ir::FloorDiv(lane_, I32(kRows)), I32(count));
  int64_t inner = shape_.halves_inner ? shape_.halves : atom_.k_halves;
  Expr low = ir::FloorMod(matrix, I32(inner));
  Expr high = ir::FloorDiv(matrix, I32(inner));
  Expr half = shape_.halves_inner ? low : high;
  Expr k_half = shape_.halves_inner ? high : low;
  Expr row = ir::FloorMod(lane_, I32(kRows));
  Expr first_line = line + Times(half, kRows);
  Expr first_k = k + Times(k_half, 4 * atom_.packed);
  Expr offset =
      shape_.lines_first ? Address(first_line + row, first_k) : Address(first_line, first_k + row);
  Buffer shared = lowering_->buffers->Get(region_->buffer);
  Map<String, Any> attrs;
  attrs.Set("reads", Array<Buffer>{shared});
  attrs.Set("extents", Array<int64_t>{kRowBytes / ir::Bytes(shared->dtype)});
  Array<Expr> args = {ir::AddressOf(regs, {at}), ir::AddressOf(shared, {offset})};
  std::string name = std::to_string(count);
  if (const ir::SmallFloat* padded = ir::PaddedType(region_->buffer)) {
    name = "ldmatrix_padded<" + name + ", " + std::to_string(padded->bits) + ">";
    return DeviceEffect("mma_sm120.h", name, args, span_, attrs);
  }
  name = "ldmatrix<" + name + (shape_.lines_first ? ", false>" : ", true>");
  return DeviceEffect("mma_sm80.h", name, args, span_, attrs);
}

Stmt MmaOperand::LoadElements(const Expr& line, const Expr& k, const Buffer& regs,
                              const Expr& at) const {
  std::vector<Stmt> stmts;
  Buffer shared = lowering_->buffers->Get(region_->buffer);
  Expr group = ir::FloorDiv(lane_, I32(4));
  Expr column = Times(ir::FloorMod(lane_, I32(4)), atom_.packed);
  for (int64_t half = 0; half < shape_.halves; ++half) {
    for (int64_t k_half = 0; k_half < atom_.k_halves; ++k_half) {
      for (int64_t e = 0; e < atom_.packed; ++e) {
        Expr from = Address(line + group + I32(kRows * half),
                            k + column + I32(4 * atom_.packed * k_half + e));
        Expr to = at + Times(RegisterOf(I32(half), I32(k_half)), atom_.packed) + I32(e);
        stmts.push_back(ir::Store(regs, {lowering_->ctx->analyzer->Simplify(to)},
                                  ir::Load(shared, {from}), span_));
      }
    }
  }
  return Sequence(stmts, span_);
}

}  // namespace tilelang::op
