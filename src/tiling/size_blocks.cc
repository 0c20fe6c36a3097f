#include "tiling/size_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "arith/structural.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Registers for what a thread of joined blocks loads.
constexpr int64_t kMostRegisters = 32;
constexpr int64_t kRegisterBytes = 4;
constexpr int64_t kVectorBytes = 16;
// Bytes that a thread loads or stores, beyond which more threads bring more than longer ones.
constexpr int64_t kEnoughBytes = 32;

// An elementwise program: its loop, and sizes.
struct ElementLoop {
  const ir::ParallelForNode* loop = nullptr;
  int64_t threads = 1;
  int64_t elements = 1;
  std::vector<int64_t> extents;
  int64_t loaded_bytes = 0;          // of an iteration, from rows of tensors
  int64_t stored_bytes = 0;          // of an iteration
  int64_t narrowest = kVectorBytes;  // bytes of an element
  bool contiguous = true;            // no index has another stride in the last variable than one

  bool LoadsTooMuch(int64_t of_thread) const {
    return of_thread * loaded_bytes > kMostRegisters * kRegisterBytes;
  }
  bool MovesMuch(int64_t of_thread) const {
    return of_thread * std::max(loaded_bytes, stored_bytes) > kEnoughBytes;
  }
  bool HasVector(int64_t of_thread) const { return of_thread * narrowest >= kVectorBytes; }
};

// Returns whether neighbouring iterations of the variable access neighbouring elements, as far as
// strides are known.
bool IsContiguous(const ir::Effect& effect, const ir::Var& var) {
  arith::Analyzer analyzer;
  bool contiguous = true;
  for (size_t d = 0; d < effect.indices.size(); ++d) {
    int64_t stride = analyzer.StrideOf(effect.indices[d], var).value_or(0);
    contiguous = contiguous && (stride == 0 || (stride == 1 && d + 1 == effect.indices.size()));
  }
  return contiguous;
}

bool AreSame(const ir::Effect& a, const ir::Effect& b) {
  return a.buffer.same_as(b.buffer) &&
         std::equal(a.indices.begin(), a.indices.end(), b.indices.begin(), b.indices.end(),
                    arith::SameStructure);
}

// Returns whether neighbouring iterations of the variable read elements of their own.
bool IsRow(const ir::Effect& effect, const ir::Var& var) {
  return !effect.indices.empty() && arith::Analyzer().StrideOf(effect.indices.back(), var) == 1;
}

// Returns the one statement of a launch if it is a parallel loop.
const ir::ParallelForNode* OnlyLoop(const ir::KernelLaunchNode* launch) {
  if (const auto* seq = launch->body.as<ir::SeqNode>(); seq != nullptr && seq->stmts.size() == 1) {
    return seq->stmts[0].as<ir::ParallelForNode>();
  }
  return launch->body.as<ir::ParallelForNode>();
}

// Describes a launch that is only a loop over elements of tensors.
std::optional<ElementLoop> FindElements(const ir::KernelLaunchNode* launch) {
  ElementLoop found{.loop = OnlyLoop(launch), .threads = analysis::ThreadsOf(launch).count};
  const ir::ParallelForNode* loop = found.loop;
  if (loop == nullptr || !loop->annotations.empty() || !launch->attrs.empty()) return std::nullopt;
  auto extents = ir::AsInts(loop->extents);
  if (!extents) return std::nullopt;
  for (int64_t extent : *extents) found.elements *= extent;
  found.extents = *extents;
  bool simple = found.elements > 0;
  std::vector<ir::Effect> loaded;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    simple &= effect.buffer.IsGlobal() && effect.kind != ir::EffectKind::kAddress;
    int64_t bytes = ir::Bytes(effect.buffer->dtype);
    if (effect.Writes()) {
      found.stored_bytes += bytes;
    } else if (IsRow(effect, loop->vars.back()) &&
               std::none_of(loaded.begin(), loaded.end(),
                            [&](const ir::Effect& known) { return AreSame(known, effect); })) {
      found.loaded_bytes += bytes;
      loaded.push_back(effect);
    }
    found.narrowest = std::min(found.narrowest, bytes);
    found.contiguous = found.contiguous && IsContiguous(effect, loop->vars.back());
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
  return simple ? std::optional(found) : std::nullopt;
}

Expr Of(const ir::Var& var, int64_t value) { return ir::Const(var->dtype, value); }

class BlockSizer : public ir::StmtMutator {
 public:
  BlockSizer(const ir::Func& func, const Target& target) : target_(target) {
    analyzer_.BindParams(func->params);
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    auto found = FindElements(op);
    if (!found) return self;
    if (Stmt joined = Joined(op, *found); joined.defined()) return joined;
    // By rows first: a warp then moves longer parts of them.
    Stmt divided = self;
    int64_t parts = 1;
    for (size_t dimension : {size_t{0}, found->extents.size() - 1}) {
      const auto* launch = divided.as<ir::KernelLaunchNode>();
      found = FindElements(launch);
      int64_t more = PartsAlong(dimension, *found);
      if (more > 1) divided = Divided(launch, *found, dimension, more);
      parts *= more;
    }
    if (parts > 1) RemarkParts(op, parts);
    return divided;
  }

 private:
  // Returns the parts along a dimension that divide a block whose threads move much. Parts of rows
  // keep whole vectors.
  static int64_t PartsAlong(size_t dimension, const ElementLoop& found) {
    auto of_thread = [&](int64_t parts) { return found.elements / parts / found.threads; };
    bool columns = dimension + 1 == found.extents.size();
    int64_t unit = columns ? kVectorBytes / found.narrowest : 1;
    int64_t parts = 1;
    while (found.MovesMuch(of_thread(parts)) && found.HasVector(of_thread(2 * parts)) &&
           found.extents[dimension] % (2 * parts * unit) == 0) {
      parts *= 2;
    }
    return parts;
  }

  static void RemarkParts(const ir::KernelLaunchNode* op, int64_t parts) {
    Remark(op->span, "blocks",
           "T.Kernel: " + std::to_string(parts) +
               " blocks compute what one does in the program, each a part of the tile: a thread "
               "moves about " +
               std::to_string(kEnoughBytes) +
               " bytes, and more threads of a multiprocessor do so at a time. The pass option "
               "tl.disable_block_fitting turns this off");
  }

  static Stmt Divided(const ir::KernelLaunchNode* op, const ElementLoop& found, size_t dimension,
                      int64_t parts) {
    const ir::ParallelForNode* loop = found.loop;
    int64_t extent = found.extents[dimension] / parts;
    const ir::Var& whole = op->block_vars[0];
    ir::Var block(whole->name, whole->dtype, op->span);
    const ir::Var& var = loop->vars[dimension];
    Expr first = ir::FloorMod(block, Of(whole, parts)) * Of(whole, extent);
    Stmt body = ir::Substitute(loop->body, {{whole, ir::FloorDiv(block, Of(whole, parts))},
                                            {var, var + ir::CastTo(var->dtype, first)}});
    ir::Array<Expr> extents = loop->extents;
    auto place = static_cast<int64_t>(dimension);
    extents.Set(place, ir::Const(extents[place].dtype(), extent));
    Expr inside = ir::ExtentInside(op->grid[0]);
    return Launch(op, 0, block, inside * ir::Const(inside.dtype(), parts),
                  ir::ParallelFor(loop->vars, extents, body, loop->annotations, loop->span));
  }

  // Returns the launch whose blocks compute what several do in the program; null if threads have
  // vectors, or if too few blocks would remain.
  Stmt Joined(const ir::KernelLaunchNode* op, const ElementLoop& found) {
    int64_t blocks = analysis::BlocksOf(op);
    auto of_thread = [&](int64_t count) {
      return (found.elements * count + found.threads - 1) / found.threads;
    };
    int64_t count = 1;
    while (!found.HasVector(of_thread(count)) && !found.LoadsTooMuch(of_thread(2 * count)) &&
           blocks / (2 * count) >= target_->sm_count) {
      count *= 2;
    }
    auto axis = AxisToJoin(op, count);
    if (count == 1 || !found.contiguous || !axis) return Stmt();
    Remark(op->span, "blocks",
           "T.Kernel: a block computes what " + std::to_string(count) +
               " do in the program: its threads have few elements. The pass option "
               "tl.disable_block_fitting turns this off");
    const ir::ParallelForNode* loop = found.loop;
    const ir::Var& one = op->block_vars[*axis];
    ir::Var block(one->name, one->dtype, op->span);
    ir::Var part("part", loop->vars[0]->dtype, op->span);
    Expr inside = ir::ExtentInside(op->grid[*axis]);
    Expr original = block * Of(one, count) + ir::CastTo(one->dtype, part);
    Stmt body = ir::Substitute(loop->body, {{one, original}});
    if (!analyzer_.Divides(inside, count)) {
      body = ir::If(original < ir::CastTo(one->dtype, inside), body, Stmt(), loop->span);
    }
    ir::Array<ir::Var> vars = {part};
    ir::Array<Expr> extents = {Of(part, count)};
    for (const ir::Var& var : loop->vars) vars.push_back(var);
    for (const Expr& extent : loop->extents) extents.push_back(extent);
    return Launch(op, *axis, block, ir::CeilDiv(inside, ir::Const(inside.dtype(), count)),
                  ir::ParallelFor(vars, extents, body, loop->annotations, loop->span));
  }

  // Returns the first axis of the grid whose extent `count` divides, or, if there is none, the
  // first one so long that few iterations of the last block are beyond its end.
  std::optional<size_t> AxisToJoin(const ir::KernelLaunchNode* op, int64_t count) {
    constexpr int64_t kBlocks = 4;
    std::optional<size_t> found;
    for (size_t axis = op->grid.size(); axis-- > 0;) {
      if (analyzer_.ConstBounds(op->grid[axis]).hi >= kBlocks * count) found = axis;
    }
    for (size_t axis = op->grid.size(); axis-- > 0;) {
      if (analyzer_.Divides(ir::ExtentInside(op->grid[axis]), count)) found = axis;
    }
    return found;
  }

  static Stmt Launch(const ir::KernelLaunchNode* op, size_t axis, const ir::Var& block,
                     const Expr& inside, const Stmt& body) {
    ir::Array<ir::Var> vars = op->block_vars;
    vars.Set(static_cast<int64_t>(axis), block);
    ir::Array<Expr> grid = op->grid;
    grid.Set(static_cast<int64_t>(axis), ir::EmptyLike(grid[axis], inside));
    return ir::KernelLaunch(vars, grid, op->thread_vars, op->threads, op->attrs, body, op->span);
  }

  Target target_;
  arith::Analyzer analyzer_;
};

}  // namespace

ir::Func SizeBlocks(const ir::Func& func, const Target& target) {
  return func.WithBody(BlockSizer(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
