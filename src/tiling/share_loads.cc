#include "tiling/share_loads.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>

#include "arith/analyzer.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kBothBlocks = 0b11;
constexpr size_t kRowAxis = 1;

// The index of a block along an axis, and the names whose values depend on it.
class BlockNames {
 public:
  BlockNames(const Stmt& body, const ir::Var& block) : names_{block.get()} {
    ir::WalkStmts(body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      if (bind != nullptr && In(bind->value)) names_.insert(bind->var.get());
      return true;
    });
  }
  bool In(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) { return names_.count(part.get()) != 0; });
  }
  bool In(const ir::Region& region) const {
    return std::any_of(region->mins.begin(), region->mins.end(),
                       [&](const Expr& min) { return In(min); });
  }

 private:
  std::unordered_set<const ir::ffi::Object*> names_;
};

// Whether what is stored in rows of tiles from number `count` on lies behind the tensor.
bool EndsWithGrid(const ir::Region& region, const ir::Var& block, int64_t count,
                  arith::Analyzer* analyzer) {
  for (size_t d = 0; d < region->mins.size(); ++d) {
    auto stride = analyzer->StrideOf(region->mins[d], block);
    auto extent = ir::AsInt(region->buffer->shape[d]);
    bool inside = analyzer->CanProveNonNegative(region->mins[d]);
    if (stride && extent && inside && *stride > 0 && *extent <= count * *stride) return true;
  }
  return false;
}

// Whether a load brings an operand that has elements along the dimension.
bool LoadsAlong(const PlainGemm& plain, const ir::CopyNode* load, ir::GemmDim dim) {
  std::vector<const ir::GemmOperandNode*> inputs = plain.gemms[0]->Inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const ir::GemmOperandNode* input) {
    return input->buffer().same_as(load->dst->buffer) && input->DimAlong(dim);
  });
}

class LoadSharer : public ir::StmtMutator {
 public:
  explicit LoadSharer(const std::vector<const ir::CopyNode*>& loads) : loads_(loads) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (std::count(loads_.begin(), loads_.end(), op) == 0) return ir::ffi::GetRef<Stmt>(op);
    auto annotations = op->annotations;
    annotations.Set(op::kClusterMask, kBothBlocks);
    return ir::Copy(op->src, op->dst, annotations, op->span, op->mbar, op->block);
  }

 private:
  const std::vector<const ir::CopyNode*>& loads_;
};

}  // namespace

std::vector<const ir::CopyNode*> LoadsToShare(const ir::Func& func,
                                              const ir::KernelLaunchNode* launch,
                                              const PlainGemm& plain) {
  auto rows = launch->grid.size() == 2 ? ir::AsInt(launch->grid[kRowAxis]) : std::nullopt;
  if (!rows || *rows < 2 || launch->attrs.count("cluster_dims") != 0) return {};
  const ir::Var& block = launch->block_vars[kRowAxis];
  arith::Analyzer analyzer;
  analyzer.BindParams(func->params);
  analyzer.BindLaunch(launch);
  bool possible = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* copy = s.as<ir::CopyNode>();
    bool stores = copy != nullptr && copy->dst->buffer.IsGlobal();
    possible =
        possible && (!stores || *rows % 2 == 0 || EndsWithGrid(copy->dst, block, *rows, &analyzer));
    possible = possible && s->kind != ir::StmtKind::kAssume;  // it may say how many there are
    return possible;
  });
  if (!possible) return {};
  BlockNames names(launch->body, block);
  std::vector<const ir::CopyNode*> loads;
  std::copy_if(plain.loads.begin(), plain.loads.end(), std::back_inserter(loads),
               [&](const ir::CopyNode* load) { return !names.In(load->src); });
  bool of_b = std::none_of(loads.begin(), loads.end(), [&](const ir::CopyNode* load) {
    return LoadsAlong(plain, load, ir::GemmDim::kM);
  });
  return of_b ? loads : std::vector<const ir::CopyNode*>{};
}

int64_t RowsThatShare(const ir::Func& func, const ir::KernelLaunchNode* launch,
                      const PlainGemm& plain) {
  if (LoadsToShare(func, launch, plain).empty()) return 0;
  return *ir::AsInt(launch->grid[kRowAxis]);
}

Stmt ForBothBlocks(const Stmt& s, const std::vector<const ir::CopyNode*>& loads) {
  return LoadSharer(loads).MutateStmt(s);
}

}  // namespace tilelang::tiling
