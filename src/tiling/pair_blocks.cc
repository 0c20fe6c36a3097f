#include "tiling/pair_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <utility>

#include "analysis/kernel_scope.h"
#include "ir/visitor.h"
#include "op/by_tensor_memory.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "tiling/share_loads.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Region;
using ir::Stmt;

namespace {

// Rows of a block's tile: those of one instruction are 256 for a pair.
constexpr int64_t kRowsOfBlock = 128;
// N of the instruction is a multiple of 16 for pairs, and each block has half of it: in whole atoms
// of 8 rows of a swizzled tile, or, where N is contiguous, in rows of 32 bytes or more. With A in
// tensor memory it is a multiple of 32.
constexpr int64_t kPairColumns = 16;
constexpr int64_t kWidePairColumns = 32;

const ir::GemmOperandNode* OperandB(const ir::GemmNode* gemm) {
  return gemm->Operand(ir::GemmOperandKind::kB);
}

ir::Gemm WithPairs(const ir::GemmNode* op, ir::Array<ir::GemmOperand> operands) {
  auto annotations = op->annotations;
  annotations.Set(op::kInPairs, true);
  return {std::move(operands), op->clear_accum, op->mbar, annotations, op->span, op->k_start};
}

// Halves the tiles of B, their loads and the operands of the GEMMs.
class PairWriter : public ir::StmtMutator {
 public:
  PairWriter(const PlainGemm& plain, ir::Expr rank) : rank_(std::move(rank)) {
    for (const ir::GemmNode* gemm : plain.gemms) {
      const ir::GemmOperandNode* b = OperandB(gemm);
      const Buffer& whole = b->buffer();
      dim_ = *b->DimAlong(ir::GemmDim::kN);
      half_ = *ir::AsInt(whole->shape[dim_]) / op::kPairBlocks;
      ir::Array<ir::Expr> shape = whole->shape;
      shape.Set(static_cast<int64_t>(dim_), ir::Const(shape[dim_].dtype(), half_));
      halves_.Set(whole,
                  Buffer(whole->name, whole->dtype, shape, {}, whole->scope, {}, whole->span));
    }
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::AllocNode* op) override {
    auto half = halves_.Get(op->buffer);
    return half ? ir::Alloc(*half, op->span) : ir::ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    auto half = halves_.Get(op->dst->buffer);
    if (!half) return ir::ffi::GetRef<Stmt>(op);
    size_t dim = *DimOfTensor(op, dim_);
    ir::Array<ir::Expr> mins = op->src->mins, extents = op->src->extents;
    auto at = static_cast<int64_t>(dim);
    ir::Expr first = ir::CastTo(mins[dim].dtype(), rank_ * op::I32(half_));
    mins.Set(at, mins[dim] + first);
    extents.Set(at, ir::Const(extents[dim].dtype(), half_));
    return ir::Copy(op, Region(op->src->buffer, mins, extents), Region::Whole(*half));
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    return WithPairs(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
      auto half = halves_.Get(operand->buffer());
      return half ? Region::Whole(*half) : operand->region;
    }));
  }

 private:
  ir::Expr rank_;
  ir::Map<Buffer, Buffer> halves_;  // by whole tile
  size_t dim_ = 0;
  int64_t half_ = 0;
};

// Returns whether a pair can compute the gemm, each block with half of B.
bool CanPairGemm(const ir::KernelLaunchNode* launch, const ir::GemmNode* gemm,
                 const PlainGemm& plain, const std::vector<const ir::CopyNode*>& shared,
                 const Target& target) {
  const ir::GemmOperandNode* a = gemm->Operand(ir::GemmOperandKind::kA);
  const ir::GemmOperandNode* b = OperandB(gemm);
  size_t operands = gemm->IsScaled() ? 5 : 3;  // matrices, and factors of two of them
  if (gemm->operands.size() != operands || a->buffer().same_as(b->buffer())) return false;
  bool contiguous = *b->DimAlong(ir::GemmDim::kN) + 1 == b->region->extents.size();
  bool by_threads = gemm->annotations.count(op::kByTensorMemory) != 0;
  int64_t unit = PairColumnUnit(contiguous, by_threads);
  if (!b->region.IsWhole() || ExtentAlong(a, ir::GemmDim::kM) != kRowsOfBlock ||
      ExtentAlong(b, ir::GemmDim::kN) % unit != 0) {
    return false;
  }
  auto of_b = [&](const ir::CopyNode* load) { return load->dst->buffer.same_as(b->buffer()); };
  if (std::count_if(plain.loads.begin(), plain.loads.end(), of_b) != 1 ||
      std::none_of(shared.begin(), shared.end(), of_b)) {
    return false;
  }
  const ir::CopyNode* load = *std::find_if(shared.begin(), shared.end(), of_b);
  if (!DimOfTensor(load, *b->DimAlong(ir::GemmDim::kN))) return false;
  op::ThreadRange threads{0, analysis::ThreadsOf(launch).count};
  ir::Gemm paired = WithPairs(gemm, gemm->operands);
  return op::Tcgen05Lacks(paired.as<ir::GemmNode>(), threads, {}, target).empty();
}

}  // namespace

int64_t PairColumnUnit(bool along_n, bool a_by_threads) {
  return along_n || a_by_threads ? kWidePairColumns : kPairColumns;
}

bool CanPair(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
             const Target& target) {
  if (!target->has_tcgen05) return false;
  std::vector<const ir::CopyNode*> shared = LoadsToShare(func, launch, plain);
  return std::all_of(plain.gemms.begin(), plain.gemms.end(), [&](const ir::GemmNode* gemm) {
    return CanPairGemm(launch, gemm, plain, shared, target);
  });
}

Stmt InPairs(const Stmt& sequenced, const PlainGemm& plain, const ir::Expr& rank) {
  return PairWriter(plain, rank).MutateStmt(sequenced);
}

}  // namespace tilelang::tiling
