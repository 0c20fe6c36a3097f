#include "tiling/divide_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Registers for what a thread loads.
constexpr int64_t kMostRegisters = 32;
constexpr int64_t kRegisterBytes = 4;
constexpr int64_t kVectorBytes = 16;

// Sizes of what one iteration of a loop loads and stores.
struct Accesses {
  int64_t loaded_bytes = 0;
  int64_t narrowest = kVectorBytes;  // bytes of an element
};

// Returns the one statement of a launch that is a loop over elements of tensors; null for other
// launches.
const ir::ParallelForNode* OnlyLoop(const ir::KernelLaunchNode* launch, Accesses* accesses) {
  const auto* loop = launch->body.as<ir::ParallelForNode>();
  if (const auto* seq = launch->body.as<ir::SeqNode>(); seq != nullptr && seq->stmts.size() == 1) {
    loop = seq->stmts[0].as<ir::ParallelForNode>();
  }
  if (loop == nullptr || !loop->annotations.empty() || !launch->attrs.empty()) return nullptr;
  bool simple = true;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    simple &= effect.buffer.IsGlobal() && effect.kind != ir::EffectKind::kAddress;
    int64_t bytes = ir::Bytes(effect.buffer->dtype);
    if (effect.Reads()) accesses->loaded_bytes += bytes;
    accesses->narrowest = std::min(accesses->narrowest, bytes);
  });
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    simple &= s->kind == ir::StmtKind::kStore || s->kind == ir::StmtKind::kSeq ||
              s->kind == ir::StmtKind::kBind || s->kind == ir::StmtKind::kIf;
    return simple;
  });
  ir::WalkExprs(loop->body, [&](const Expr& e) {
    for (const ir::Var& thread : launch->thread_vars) simple &= !e.same_as(thread);
    return simple;
  });
  return simple ? loop : nullptr;
}

class BlockDivider : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    Accesses accesses;
    const ir::ParallelForNode* loop = OnlyLoop(op, &accesses);
    auto extents = loop != nullptr ? ir::AsInts(loop->extents) : std::nullopt;
    if (!extents || extents->size() < 2) return self;
    int64_t threads = analysis::ThreadsOf(op).count;
    int64_t elements = 1;
    for (int64_t extent : *extents) elements *= extent;
    auto of_thread = [&](int64_t parts) { return elements / parts / threads; };
    int64_t parts = 1;
    while (of_thread(parts) * accesses.loaded_bytes > kMostRegisters * kRegisterBytes &&
           extents->front() % (2 * parts) == 0 &&
           of_thread(2 * parts) * accesses.narrowest >= kVectorBytes) {
      parts *= 2;
    }
    if (parts == 1) return self;
    Remark(op->span, "blocks",
           "T.Kernel: " + std::to_string(parts) +
               " blocks compute what one does in the program, each a part of the rows: a thread "
               "loads at most " +
               std::to_string(kMostRegisters) +
               " registers, and more blocks share a multiprocessor. The pass option "
               "tl.disable_block_fitting turns this off");
    return Divided(op, loop, extents->front() / parts, parts);
  }

 private:
  static Stmt Divided(const ir::KernelLaunchNode* op, const ir::ParallelForNode* loop, int64_t rows,
                      int64_t parts) {
    const ir::Var& whole = op->block_vars[0];
    auto of = [&](int64_t value) { return ir::Const(whole->dtype, value); };
    ir::Var block(whole->name, whole->dtype, op->span);
    const ir::Var& row = loop->vars[0];
    Expr first = ir::FloorMod(block, of(parts)) * of(rows);
    Stmt body = ir::Substitute(loop->body, {{whole, ir::FloorDiv(block, of(parts))},
                                            {row, row + ir::CastTo(row->dtype, first)}});
    ir::Array<Expr> extents = loop->extents;
    extents.Set(0, ir::Const(extents[0].dtype(), rows));
    ir::Array<ir::Var> vars = op->block_vars;
    vars.Set(0, block);
    ir::Array<Expr> grid = op->grid;
    Expr inside = ir::ExtentInside(grid[0]);
    grid.Set(0, ir::EmptyLike(grid[0], inside * ir::Const(inside.dtype(), parts)));
    return ir::KernelLaunch(
        vars, grid, op->thread_vars, op->threads, op->attrs,
        ir::ParallelFor(loop->vars, extents, body, loop->annotations, loop->span), op->span);
  }
};

}  // namespace

ir::Func DivideBlocks(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05) return func;
  return func.WithBody(BlockDivider().MutateStmt(func->body));
}

}  // namespace tilelang::tiling
