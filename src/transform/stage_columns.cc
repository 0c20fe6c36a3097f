#include "transform/stage_columns.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/copy_operator.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "transform/loaded_elements.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using analysis::LoopBox;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr int64_t kSectorBytes = 32;
constexpr int64_t kMostBytes = 64 * 1024;

// Returns the box of an access in which the last index moves with another variable than the last
// one of the loop.
std::optional<LoopBox> ByColumns(const Buffer& tensor, const ir::Array<Expr>& indices,
                                 const ir::ParallelForNode* loop) {
  if (loop->vars.size() < 2 || indices.empty()) return std::nullopt;
  arith::Analyzer analyzer;
  for (size_t i = 0; i < loop->vars.size(); ++i) {
    analyzer.Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
  }
  auto box = analysis::BoxOf(tensor, indices, loop, &analyzer);
  bool columns = box && !ir::IsConst(box->region->extents.back(), 1) &&
                 box->vars.back() + 1 != loop->vars.size() && ir::AsInts(box->region->extents);
  return columns ? box : std::nullopt;
}

int64_t BytesOf(const LoopBox& box) {
  int64_t bytes = ir::Bytes(box.region->buffer->dtype);
  for (const Expr& extent : box.region->extents) bytes *= *ir::AsInt(extent);
  return bytes;
}

// A tile of a launch, and the loads that it replaces.
struct Columns {
  LoopBox box;
  Buffer tile;
};

// Replaces loads of columns in a loop.
class ColumnReader : public ir::StmtMutator {
 public:
  ColumnReader(const ir::ParallelForNode* loop, const ir::KernelLaunchNode* launch, int64_t room)
      : loop_(loop), launch_(launch), names_(IndexNames(loop)), room_(room) {}

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    ir::Array<Expr> indices;
    for (const Expr& index : op->indices) indices.push_back(ir::Substitute(index, names_));
    auto box = ir::MayWrite(launch_->body, op->buffer) ? std::nullopt
                                                       : ColumnsOf(op->buffer, indices, loop_);
    const Buffer* tile = box ? TileOf(*box, op->span) : nullptr;
    if (tile == nullptr) return StmtMutator::Rewrite(op);
    ir::Array<Expr> at;
    for (size_t var : box->vars) at.push_back(loop_->vars[var]);
    return ir::Load(*tile, at, op->span);
  }

  std::vector<Columns> staged;

 private:
  // Returns the tile of the box; null if there is no room.
  const Buffer* TileOf(const LoopBox& box, const ir::Span& span) {
    for (const Columns& known : staged) {
      const ir::Region &a = known.box.region, &b = box.region;
      if (a->buffer.same_as(b->buffer) && known.box.vars == box.vars &&
          std::equal(a->mins.begin(), a->mins.end(), b->mins.begin(), b->mins.end(),
                     arith::SameStructure)) {
        return &known.tile;
      }
    }
    if (BytesOf(box) > room_) return nullptr;
    room_ -= BytesOf(box);
    ir::Array<Expr> shape;
    for (size_t var : box.vars) shape.push_back(loop_->extents[var]);
    const Buffer& tensor = box.region->buffer;
    Buffer tile(ir::String(std::string(tensor->name) + "_columns"), tensor->dtype, shape, {},
                "shared.dyn", {}, span);
    staged.push_back({box, tile});
    return &staged.back().tile;
  }

  const ir::ParallelForNode* loop_;
  const ir::KernelLaunchNode* launch_;
  ir::Map<Var, Expr> names_;
  int64_t room_;
};

class ColumnStager : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    bool multiplies =
        ir::HasStmt(op->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
    if (multiplies) return ffi::GetRef<Stmt>(op);
    launch_ = op;
    room_ = kMostBytes;
    return StmtMutator::Rewrite(op);
  }
  // Threads may execute a branch apart.
  Stmt Rewrite(const ir::IfNode* op) override { return ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    if (launch_ == nullptr || !op->annotations.empty()) return ffi::GetRef<Stmt>(op);
    Stmt by_rows = StoringByRows(op);
    const auto* loop = by_rows.as<ir::ParallelForNode>();
    ColumnReader reader(loop, launch_, room_);
    Stmt body = reader.MutateStmt(loop->body);
    if (reader.staged.empty()) return by_rows;
    std::vector<Stmt> stmts;
    for (const Columns& columns : reader.staged) {
      room_ -= BytesOf(columns.box);
      Remark(op->span, "copy",
             "T.Parallel: a tile of " + std::string(columns.box.region->buffer->name) +
                 " is copied to shared memory, because neighbouring threads read elements of "
                 "different rows. The pass option tl.disable_column_staging turns this off");
      stmts.push_back(ir::Alloc(columns.tile, op->span));
      stmts.push_back(ir::Copy(columns.box.region, ir::Region::Whole(columns.tile), op->span));
    }
    stmts.push_back(ir::ParallelFor(loop->vars, loop->extents, body, loop->annotations, op->span));
    return ir::MakeSeq(stmts, op->span);
  }

 private:
  // Returns the loop with the variable last that moves the columns of all its stores.
  static Stmt StoringByRows(const ir::ParallelForNode* op) {
    Stmt self = ffi::GetRef<Stmt>(op);
    ir::Map<Var, Expr> names = IndexNames(op);
    std::optional<size_t> last;
    bool moves = true;
    ir::WalkEffects(op->body, [&](const ir::Effect& e) {
      moves = moves && e.buffer.IsGlobal();
      if (!moves || !e.Writes()) return;
      ir::Array<Expr> indices;
      for (const Expr& index : e.indices) indices.push_back(ir::Substitute(index, names));
      auto box = e.kind == ir::EffectKind::kWrite ? ByColumns(e.buffer, indices, op) : std::nullopt;
      moves = box && (!last || *last == box->vars.back());
      if (moves) last = box->vars.back();
    });
    if (!moves || !last) return self;
    ir::Array<Var> vars;
    ir::Array<Expr> extents;
    for (size_t i = 0; i <= op->vars.size(); ++i) {
      size_t var = i == op->vars.size() ? *last : i;
      if (i == *last) continue;
      vars.push_back(op->vars[var]);
      extents.push_back(op->extents[var]);
    }
    return ir::ParallelFor(vars, extents, op->body, op->annotations, op->span);
  }

  const ir::KernelLaunchNode* launch_ = nullptr;
  int64_t room_ = 0;
};

}  // namespace

std::optional<LoopBox> ColumnsOf(const Buffer& tensor, const ir::Array<Expr>& indices,
                                 const ir::ParallelForNode* loop) {
  auto box = tensor.IsGlobal() ? ByColumns(tensor, indices, loop) : std::nullopt;
  if (!box) return std::nullopt;
  int64_t row = *ir::AsInt(box->region->extents.back()) * ir::Bytes(tensor->dtype);
  return row >= kSectorBytes && BytesOf(*box) <= kMostBytes ? box : std::nullopt;
}

ir::Func StageColumns(const ir::Func& func) {
  return func.WithBody(ColumnStager().MutateStmt(func->body));
}

}  // namespace tilelang::transform
