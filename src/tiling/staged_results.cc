#include "tiling/staged_results.h"

#include <tvm/ffi/cast.h>

#include <vector>

#include "ir/copy_operator.h"
#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"
#include "op/copy.h"
#include "op/effect.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Region;
using ir::Stmt;

namespace {

class ResultStager : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    const Buffer& to = op->dst->buffer;
    bool result = op->src->buffer.IsFragment() && to.IsGlobal() && to->dtype.bits == kResultBits &&
                  op->IsPlain();
    if (!result) return ir::ffi::GetRef<Stmt>(op);
    std::vector<int64_t> extents;
    for (size_t dim : op::Moving(op->src).dims)
      extents.push_back(*ir::AsInt(op->src->extents[dim]));
    if (extents.size() != 2) return ir::ffi::GetRef<Stmt>(op);
    Buffer staged("staged", to->dtype, {op::I32(extents[0]), op::I32(extents[1])}, {}, "shared.dyn",
                  {{memory::kOverlays, true}}, op->span);
    Region whole = Region::Whole(staged);
    return op::Sequence({ir::Alloc(staged, op->span), ir::Copy(op->src, whole, op->span),
                         ir::Copy(whole, op->dst, op->span)},
                        op->span);
  }
};

}  // namespace

Stmt WithStagedResults(const Stmt& s) { return ResultStager().MutateStmt(s); }

}  // namespace tilelang::tiling
