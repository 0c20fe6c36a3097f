#include "tiling/hold_blocks.h"

#include <tvm/ffi/cast.h>

#include "analysis/grid_blocks.h"
#include "ir/min_blocks.h"
#include "ir/visitor.h"
#include "schedule/shared_bytes.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kTwoBlocks = 2;

class BlockHolder : public ir::StmtMutator {
 public:
  explicit BlockHolder(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    bool multiplies =
        ir::HasStmt(op->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
    bool several = analysis::BlocksOf(op) > target_->sm_count &&
                   BlocksPerSm(op, target_, schedule::SharedBytes(op)) == kTwoBlocks;
    if (!multiplies || !several || ir::StatesMinBlocks(op)) return self;
    return ir::WithMinBlocks(op, kTwoBlocks);
  }

 private:
  Target target_;
};

}  // namespace

ir::Func HoldBlocks(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma) return func;
  return func.WithBody(BlockHolder(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
