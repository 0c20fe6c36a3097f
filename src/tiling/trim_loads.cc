#include "tiling/trim_loads.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>

#include "analysis/scoped_mutator.h"
#include "ir/remark.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class LoadTrimmer : public analysis::ScopedMutator {
 public:
  explicit LoadTrimmer(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    plain_ = FindPlainGemm(op);
    return plain_.loop == nullptr ? ir::ffi::GetRef<Stmt>(op) : ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    bool loads = std::count(plain_.loads.begin(), plain_.loads.end(), op) != 0 && !HasRowsOfK(op);
    std::optional<int64_t> rows = loads ? RowsBefore(op) : std::nullopt;
    if (!rows) return ir::ffi::GetRef<Stmt>(op);
    RemarkCopy(op,
               "loads " + std::to_string(*rows) +
                   " rows, all that the tensor can have; the others of the tile are zeros from the "
                   "beginning. The pass option tl.disable_load_trimming turns this off");
    return ir::Copy::Saying(op,
                            [&](ir::CopyOptionsNode* options) { options->existing_rows = *rows; });
  }

 private:
  // Returns whether the rows of the tile go along K of a gemm. A block that loads all of them in
  // one step is persistent if nothing is trimmed.
  bool HasRowsOfK(const ir::CopyNode* op) const {
    return std::any_of(plain_.gemms.begin(), plain_.gemms.end(), [&](const ir::GemmNode* gemm) {
      auto inputs = gemm->Inputs();
      return std::any_of(inputs.begin(), inputs.end(), [&](const ir::GemmOperandNode* input) {
        return input->buffer().same_as(op->dst->buffer) && input->DimAlong(ir::GemmDim::kK) == 0;
      });
    });
  }

  // Returns the largest number of rows of the tensor, if it is smaller than the rows of the whole
  // tile, a matrix.
  std::optional<int64_t> RowsBefore(const ir::CopyNode* op) {
    size_t rank = op->src->extents.size();
    if (!op->dst.IsWhole() || op->dst->extents.size() != 2 || rank < 2) return std::nullopt;
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (ir::AsInt(op->src->extents[d]) != 1) return std::nullopt;
    }
    int64_t tensor = analyzer_.ConstBounds(op->src->buffer->shape[rank - 2]).hi;
    auto box = ir::AsInt(op->src->extents[rank - 2]);
    auto tile = ir::AsInt(op->dst->extents[0]);
    // No box begins before the tensor: its rows are the first ones of the tile.
    bool trims = tensor > 0 && box && tile && *box == *tile && tensor < *tile &&
                 analyzer_.CanProveNonNegative(op->src->mins[rank - 2]);
    return trims ? std::optional<int64_t>(tensor) : std::nullopt;
  }

  PlainGemm plain_;
};

}  // namespace

ir::Func TrimLoads(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(LoadTrimmer(func).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
