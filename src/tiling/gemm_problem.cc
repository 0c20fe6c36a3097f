#include "tiling/gemm_problem.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"
#include "op/by_tensor_memory.h"
#include "op/gemm_scale_factors.h"
#include "schedule/shared_bytes.h"

namespace tilelang::tiling {

namespace {

// Returns the bytes of the tensors that a launch stores to, for an element of each.
int64_t ResultBytes(const ir::KernelLaunchNode* launch) {
  int64_t bytes = 0;
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    if (effect.Writes() && effect.buffer.IsGlobal()) bytes += ir::Bytes(effect.buffer->dtype);
  });
  return bytes;
}

// Returns whether an operand of another gemm has the same type and extents.
bool IsAlike(const ir::GemmOperandNode* a, const ir::GemmOperandNode* b) {
  auto equal = [](const ir::Expr& x, const ir::Expr& y) {
    auto known = ir::AsInt(x);
    return known && known == ir::AsInt(y);
  };
  const auto &of_a = a->region->extents, &of_b = b->region->extents;
  return a->operand_kind() == b->operand_kind() && a->transposed == b->transposed &&
         a->buffer()->dtype == b->buffer()->dtype &&
         std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), equal);
}

// Returns whether all gemms have operands of the same types and extents, without scale factors.
bool AreAlike(const std::vector<const ir::GemmNode*>& gemms) {
  const auto& first = gemms[0]->operands;
  return std::all_of(gemms.begin() + 1, gemms.end(), [&](const ir::GemmNode* gemm) {
    const auto& operands = gemm->operands;
    return !gemms[0]->IsScaled() && operands.size() == first.size() &&
           std::equal(operands.begin(), operands.end(), first.begin(),
                      [](const auto& a, const auto& b) { return IsAlike(a.get(), b.get()); });
  });
}

// Returns how many tiles the gemms have as this operand.
int64_t TilesOf(const std::vector<const ir::GemmNode*>& gemms, ir::GemmOperandKind kind) {
  std::unordered_set<const ir::ffi::Object*> tiles;
  for (const ir::GemmNode* gemm : gemms) tiles.insert(gemm->Operand(kind)->buffer().get());
  return static_cast<int64_t>(tiles.size());
}

int64_t ElementsOf(const ir::Buffer& tile) {
  int64_t elements = 1;
  for (const ir::Expr& extent : tile->shape) elements *= ir::AsInt(extent).value_or(1);
  return elements;
}

// Describes what threads compute for the operands of a gemm.
void DescribeComputed(const PlainGemm& plain, const ir::Buffer& a, const ir::Buffer& b,
                      GemmProblem* problem) {
  std::unordered_set<const ir::ffi::Object*> written;
  double computed = 0, bytes = 0;
  for (const ir::Stmt& s : plain.computes) {
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      bool is_new = effect.Writes() && written.insert(effect.buffer.get()).second;
      // Copies from and to fragments are the loads and stores of what loops compute.
      if (!is_new || s->kind == ir::StmtKind::kCopy) return;
      computed += static_cast<double>(ElementsOf(effect.buffer));
    });
  }
  for (const ir::CopyNode* load : plain.loads) {
    const ir::Buffer& tile = load->dst->buffer;
    bool operand = tile.same_as(a) || tile.same_as(b);
    if (operand && written.count(tile.get()) == 0) continue;
    bytes += static_cast<double>(schedule::TileBytes(tile));
  }
  problem->a_computed = written.count(a.get()) != 0;
  problem->b_computed = written.count(b.get()) != 0;
  double elements = 0;
  if (problem->a_computed) elements += static_cast<double>(ElementsOf(a));
  if (problem->b_computed) elements += static_cast<double>(ElementsOf(b));
  if (elements == 0) return;
  problem->computed_elements = std::max(1.0, computed / elements);
  problem->computed_bytes = bytes / elements;
}

}  // namespace

std::optional<GemmProblem> Describe(const ir::KernelLaunchNode* launch, const PlainGemm& plain) {
  const ir::GemmNode* gemm = plain.gemms[0];
  const ir::GemmOperandNode* c = gemm->Operand(ir::GemmOperandKind::kC);
  const ir::GemmOperandNode* a = gemm->Operand(ir::GemmOperandKind::kA);
  const ir::GemmOperandNode* b = gemm->Operand(ir::GemmOperandKind::kB);
  ir::Expr m = ExtentOfTensor(plain, ir::GemmDim::kM);
  ir::Expr n = ExtentOfTensor(plain, ir::GemmDim::kN);
  if (!m.defined() || !n.defined() || !AreAlike(plain.gemms)) return std::nullopt;
  GemmProblem problem;
  problem.m = ir::AsInt(m).value_or(kDynamicExtent);
  problem.dynamic_m = !ir::AsInt(m);
  problem.n = ir::AsInt(n).value_or(kDynamicExtent);
  problem.dynamic_n = !ir::AsInt(n);
  problem.tile = {ExtentAlong(c, ir::GemmDim::kM), ExtentAlong(c, ir::GemmDim::kN)};
  problem.depth = ExtentAlong(a, ir::GemmDim::kK);
  if (problem.tile.rows == 0 || problem.tile.columns == 0 || problem.depth == 0) {
    return std::nullopt;
  }
  auto iterations = ir::AsInt(plain.loop->extent);
  problem.dynamic_k = !iterations;
  problem.k = iterations ? *iterations * problem.depth : kDynamicExtent;
  for (size_t axis = 2; axis < launch->grid.size(); ++axis) {
    problem.batches *= ir::AsInt(ir::ExtentInside(launch->grid[axis])).value_or(1);
  }
  problem.a_along_m = IsContiguousAlong(gemm, ir::GemmDim::kM);
  problem.b_along_n = IsContiguousAlong(gemm, ir::GemmDim::kN);
  problem.operand_bits = std::max(a->buffer()->dtype.bits, b->buffer()->dtype.bits);
  if (const auto* factors = gemm->Operand(ir::GemmOperandKind::kScaleA)) {
    int64_t bytes = ir::Bytes(factors->buffer()->dtype);
    for (const ir::Expr& extent : factors->region->extents) bytes *= ir::AsInt(extent).value_or(0);
    problem.factor_bytes = bytes / std::max<int64_t>(problem.tile.rows / op::kScaleAtomRows, 1);
  }
  problem.result_bytes = ResultBytes(launch);
  problem.threads = analysis::ThreadsOf(launch).count;
  problem.products = static_cast<int64_t>(plain.gemms.size());
  problem.tiles_of_a = TilesOf(plain.gemms, ir::GemmOperandKind::kA);
  problem.tiles_of_b = TilesOf(plain.gemms, ir::GemmOperandKind::kB);
  problem.sums = TilesOf(plain.gemms, ir::GemmOperandKind::kC);
  DescribeComputed(plain, a->buffer(), b->buffer(), &problem);
  problem.a_in_registers = a->buffer().IsFragment();
  problem.a_by_threads = gemm->annotations.count(op::kByTensorMemory) != 0;
  return problem;
}

}  // namespace tilelang::tiling
