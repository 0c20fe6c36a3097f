#include "transform/stage_rows.h"

#include <tvm/ffi/cast.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/scoped_mutator.h"
#include "ir/remark.h"

namespace tilelang::transform {

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

constexpr int64_t kAlignedBytes = 16;
// Measured on an H200 with softmax of 256 MB in bfloat16: through shared memory, rows of 99
// elements take 209 us and shorter ones 160 to 210 (directly 300 to 630), rows of 126 take 157
// (142), rows of 199 188 (154).
constexpr int64_t kNarrowBytes = 200;

Expr Int(int64_t value) { return ir::Const(ir::dtypes::kInt32, value); }

// Several whole rows of a matrix.
struct Rows {
  Region region;
  size_t axis;  // of the rows; the next one is that of the elements
  int64_t count;
  int64_t width;  // elements

  // The place in the matrix of an element of the rows, counted row by row.
  ir::Array<Expr> At(const Expr& element) const {
    ir::Array<Expr> indices = region->mins;
    auto move = [&](size_t dim, const Expr& step) {
      indices.Set(dim, indices[dim] + ir::CastTo(indices[dim].dtype(), step));
    };
    move(axis, ir::FloorDiv(element, Int(width)));
    move(axis + 1, ir::FloorMod(element, Int(width)));
    return indices;
  }
  // Returns whether the matrix has all of the rows.
  Expr Exist() const {
    const Expr& first = region->mins[axis];
    const Expr& most = region->buffer->shape[axis];
    Expr end = first + ir::Const(first.dtype(), count);
    bool wide = first.dtype().bits > most.dtype().bits;
    ir::DType dtype = wide ? first.dtype() : most.dtype();
    return ir::CastTo(dtype, end) <= ir::CastTo(dtype, most);
  }
};

bool HasOtherOperators(const ir::KernelLaunchNode* launch) {
  return ir::HasStmt(launch->body, [](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    return s->kind == ir::StmtKind::kGemm || (alloc != nullptr && alloc->buffer.IsBarrier());
  });
}

class RowStager : public analysis::ScopedMutator {
 public:
  explicit RowStager(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    bool leaves = HasOtherOperators(op) || op->attrs.count("cluster_dims") != 0;
    return leaves ? ir::ffi::GetRef<Stmt>(op) : ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    bool plain = op->Kind() == ir::ForKind::kSerial && op->annotations.empty();
    return plain ? ScopedMutator::Rewrite(op) : ir::ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::IfNode* op) override { return ir::ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::WhileNode* op) override { return ir::ffi::GetRef<Stmt>(op); }

  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (!op->IsPlain()) return self;
    bool loads = op->src->buffer.IsGlobal() && op->dst->buffer.IsFragment();
    bool stores = op->src->buffer.IsFragment() && op->dst->buffer.IsGlobal();
    if (!loads && !stores) return self;
    auto rows = NarrowRows(loads ? op->src : op->dst);
    const Region& tile = loads ? op->dst : op->src;
    if (!rows || !Fits(tile, *rows)) return self;
    RemarkCopy(op, "goes through shared memory: vectors move " + std::to_string(rows->count) +
                       " rows at a time, of which each begins at no multiple of 16 bytes. The pass "
                       "option tl.disable_row_staging turns this off");
    const Buffer& matrix = rows->region->buffer;
    Buffer staged(ir::String(std::string(matrix->name) + "_rows"), matrix->dtype,
                  {Int(rows->count * rows->width)}, {}, "shared.dyn", {}, op->span);
    std::vector<Stmt> stmts = {ir::Alloc(staged, op->span)};
    if (loads) stmts.push_back(Moved(*rows, staged, true, op->span));
    stmts.push_back(ByElement(*rows, staged, tile->buffer, loads, op->span));
    if (stores) stmts.push_back(Moved(*rows, staged, false, op->span));
    return ir::MakeSeq(stmts, op->span);
  }

 private:
  // The rows of a region; nothing where vectors could load each row, or where not even the first
  // one begins at a vector.
  std::optional<Rows> NarrowRows(const Region& region) {
    const Buffer& matrix = region->buffer;
    size_t rank = region->mins.size();
    int64_t bits = matrix->dtype.bits;
    if (rank < 2 || !matrix->strides.empty() || bits % 8 != 0 || matrix->dtype.lanes != 1) {
      return std::nullopt;
    }
    size_t axis = rank - 2;
    auto count = ir::AsInt(region->extents[axis]);
    auto width = ir::AsInt(region->extents[axis + 1]);
    auto length = ir::AsInt(matrix->shape[axis + 1]);
    if (!count || !width || width != length || !ir::IsConst(region->mins[axis + 1], 0)) {
      return std::nullopt;
    }
    int64_t row_bytes = *width * bits / 8;
    bool narrow = row_bytes % kAlignedBytes != 0 && row_bytes < kNarrowBytes;
    if (!narrow || *count * row_bytes % kAlignedBytes != 0) return std::nullopt;
    Rows rows{region, axis, *count, *width};
    if (!analyzer_.Divides(FirstElement(region), kAlignedBytes * 8 / bits)) return std::nullopt;
    // Behind the rows of a matrix of a batch, there are those of the next one.
    if (axis > 0 && !analyzer_.CanProve(rows.Exist())) return std::nullopt;
    for (size_t d = 0; d < axis; ++d) {
      if (!ir::IsConst(region->extents[d], 1)) return std::nullopt;
    }
    return rows;
  }

  // The number of the region's first element in the matrix.
  static Expr FirstElement(const Region& region) {
    Expr first = ir::Const(ir::dtypes::kInt64, 0);
    for (size_t d = 0; d < region->mins.size(); ++d) {
      first = first * ir::CastTo(ir::dtypes::kInt64, region->buffer->shape[d]) +
              ir::CastTo(ir::dtypes::kInt64, region->mins[d]);
    }
    return first;
  }

  // Returns whether the fragment has exactly the rows.
  static bool Fits(const Region& tile, const Rows& rows) {
    return tile.IsWhole() && tile->extents.size() == 2 &&
           ir::IsConst(tile->extents[0], rows.count) && ir::IsConst(tile->extents[1], rows.width);
  }

  // Moves all elements between the matrix and `staged`, without a bound where all of them exist.
  Stmt Moved(const Rows& rows, const Buffer& staged, bool loads, const ir::Span& span) {
    auto loop = [&] {
      ir::Var e("e", ir::dtypes::kInt32, span);
      ir::Array<Expr> at = rows.At(e);
      const Buffer& matrix = rows.region->buffer;
      Stmt move = loads ? Stmt(ir::Store(staged, {e}, ir::Load(matrix, at, span), span))
                        : Stmt(ir::Store(matrix, at, ir::Load(staged, {e}, span), span));
      return ir::ParallelFor({e}, {Int(rows.count * rows.width)}, move, {}, span);
    };
    Expr all = analyzer_.Simplify(rows.Exist());
    if (ir::IsTrue(all)) return loop();
    return ir::If(all, loop(), loop(), span);
  }

  static Stmt ByElement(const Rows& rows, const Buffer& staged, const Buffer& tile, bool loads,
                        const ir::Span& span) {
    ir::Var i("i", ir::dtypes::kInt32, span);
    ir::Var j("j", ir::dtypes::kInt32, span);
    Expr at = i * Int(rows.width) + j;
    Stmt move =
        loads ? ir::Store(tile, {i, j}, ir::CastTo(tile->dtype, ir::Load(staged, {at}, span)), span)
              : ir::Store(staged, {at}, ir::CastTo(staged->dtype, ir::Load(tile, {i, j}, span)),
                          span);
    return ir::ParallelFor({i, j}, {Int(rows.count), Int(rows.width)}, move, {}, span);
  }
};

}  // namespace

bool HasVectors(int64_t row_bytes) {
  return row_bytes % kAlignedBytes == 0 || row_bytes < kNarrowBytes;
}

ir::Func StageRows(const ir::Func& func) {
  return func.WithBody(RowStager(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
