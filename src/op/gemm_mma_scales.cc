#include "op/gemm_mma_scales.h"

#include "ir/padded.h"
#include "op/effect.h"
#include "op/gemm_operands.h"
#include "op/gemm_scale_factors.h"

namespace tilelang::op {

namespace {

constexpr int64_t kBlocksOfWord = 4;
constexpr int64_t kMajorOfScaledMma = 12;

std::string NameOfFloat(const Region& matrix) {
  if (const ir::SmallFloat* padded = ir::PaddedType(matrix->buffer)) return padded->ptx;
  return matrix->buffer->dtype == ir::dtypes::kFloat8E5M2 ? "e5m2" : "e4m3";
}

// Returns how many atoms share a register: two atoms of 16 rows, or four atoms of 8 columns.
int64_t AtomsTogether(int64_t atoms, int64_t lines) {
  constexpr int64_t kLinesOfRegister = 32;
  for (int64_t count = kLinesOfRegister / lines; count > 1; count /= 2) {
    if (atoms % count == 0) return count;
  }
  return 1;
}

}  // namespace

bool HasScaledMma(const Target& target) { return target->major == kMajorOfScaledMma; }

std::string ScaledMmaFunction(const ir::GemmNode* op) {
  if (FormatOfMatrices(op) == ir::GemmFormat::kE2M1x2) {
    return FormatOfScales(op) == ir::GemmFormat::kUE8M0 ? "mma_mxf4" : "mma_nvf4";
  }
  return "mma_mxf8f6f4_" + NameOfFloat(MatrixA(op)) + "_" + NameOfFloat(MatrixB(op));
}

int64_t StepsOfScaleWord(const ir::GemmNode* op) { return kBlocksOfWord / ScaleBlocksOf(op).per_k; }

ScaleWords::ScaleWords(const ir::GemmNode* op, ir::GemmOperandKind kind, int64_t atoms,
                       int64_t lines, Lowering* lowering)
    : op_(op),
      region_(op->Operand(kind)->region),
      atoms_(atoms),
      lines_(lines),
      together_(AtomsTogether(atoms, lines)),
      lowering_(lowering),
      registers_(String(std::string(region_->buffer->name) + "_regs"), ir::dtypes::kUInt32,
                 {I32(atoms / together_)}, {}, "local", {}, op->span) {}

void ScaleWords::Load(const Expr& first, const Expr& word, std::vector<Stmt>* stmts) const {
  constexpr int64_t kLanes = 8;  // groups of four
  const Context& ctx = *lowering_->ctx;
  Expr lane = ir::FloorMod(ctx.thread - I32(ctx.threads.begin), I32(32));
  Expr in_quad = ir::FloorMod(lane, I32(4));
  int64_t halves = lines_ / kLanes;
  Expr line = ir::FloorDiv(lane, I32(4)) + ir::FloorMod(in_quad, I32(halves)) * I32(kLanes);
  Expr atom = ir::FloorMod(ir::FloorDiv(in_quad, I32(halves)), I32(together_));
  Buffer shared = lowering_->buffers->Get(region_->buffer);
  Map<String, Any> attrs;
  attrs.Set("reads", Array<Buffer>{shared});
  attrs.Set("extents", Array<int64_t>{kBlocksOfWord});
  for (int64_t i = 0; i < atoms_ / together_; ++i) {
    Expr row = first + I32(i * together_ * lines_) + atom * I32(lines_) + line;
    Array<Expr> at;
    for (const Expr& index : IndicesOfScale(region_, row, word * I32(kBlocksOfWord)))
      at.push_back(lowering_->scalar->Mutate(index));
    Expr offset = lowering_->buffers->Offset(region_->buffer, at, ctx.analyzer);
    stmts->push_back(DeviceEffect(
        "mma_sm120.h", "load_scales",
        {ir::AddressOf(registers_, {I32(i)}), ir::AddressOf(shared, {offset})}, op_->span, attrs));
  }
}

Expr ScaleWords::RegisterOf(const Expr& atom) const {
  return ir::AddressOf(registers_, {ir::FloorDiv(atom, I32(together_))});
}

Expr ScaleWords::AtomInRegister(const Expr& atom) const {
  return ir::FloorMod(atom, I32(together_));
}

}  // namespace tilelang::op
