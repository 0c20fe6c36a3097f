#include "op/gemm_tcgen05.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "ir/memory_name.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "layout/smem_layout.h"
#include "op/column_owner.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_metadata.h"
#include "op/gemm_operands.h"
#include "op/gemm_scale_factors.h"
#include "op/gemm_umma.h"
#include "op/issue.h"
#include "op/matrix_descriptor.h"
#include "op/tmem_operand.h"

namespace tilelang::op {

using ir::DType;

namespace {

std::string Describe(const ir::GemmNode* op) {
  auto one = [](const Region& r) {
    return ir::ToString(r->buffer->dtype) + " " + ir::Print(r) + " in " + ir::MemoryName(r->buffer);
  };
  return "A = " + one(MatrixA(op)) + (IsTransposedA(op) ? " (transposed)" : "") +
         ", B = " + one(MatrixB(op)) + (IsTransposedB(op) ? " (transposed)" : "") +
         ", C = " + one(MatrixC(op));
}

[[noreturn]] void Refuse(const ir::GemmNode* op, ir::ErrorClass error_class,
                         const std::string& reason) {
  const char* name = op->IsSparse() ? "T.gemm_sp" : "T.gemm";
  ir::ThrowUserError(error_class, op->span,
                     std::string(name) + " by tcgen05: " + reason + ". " + Describe(op));
}

void CheckScopes(const ir::GemmNode* op) {
  if (!MatrixC(op)->buffer.IsTmem()) {
    Refuse(op, ir::ErrorClass::kLayout, "C must be in tensor memory or a fragment");
  }
  if (!MatrixA(op)->buffer.IsTmem() && !MatrixA(op)->buffer.IsShared()) {
    Refuse(op, ir::ErrorClass::kLayout, "A must be in shared memory, tensor memory or a fragment");
  }
  if (!MatrixB(op)->buffer.IsShared()) {
    Refuse(op, ir::ErrorClass::kLayout,
           MatrixB(op)->buffer.IsTmem()
               ? "B cannot be in tensor memory: the instruction reads it from "
                 "shared memory; copy it there"
               : "B must be in shared memory or a fragment");
  }
  if (MatrixA(op)->buffer.IsTmem() && IsTransposedA(op)) {
    Refuse(op, ir::ErrorClass::kLayout,
           "A in tensor memory is read by rows (K-major); transpose_A=True is not possible");
  }
}

// Returns the extent of B along K for `k` elements of A.
int64_t DepthOfB(const ir::GemmNode* op, int64_t k) { return op->IsSparse() ? 2 * k : k; }

// Returns why the compiler has no sparse tcgen05.mma for the GEMM, wherever its metadata is.
std::string SparseObstacle(const ir::GemmNode* op) {
  if (!op->IsSparse()) return "";
  if (MatrixA(op)->buffer->dtype.bits > 16 || !ir::IsFloat(MatrixC(op)->buffer->dtype)) {
    return "a sparse A must be float16, bfloat16 or float8";
  }
  if (!MatrixA(op)->buffer.IsShared()) return "a sparse A must be in shared memory";
  return IsInPairs(op) ? "pairs of blocks do not compute sparse gemms" : "";
}

UmmaProblem Analyze(const ir::GemmNode* op, const Target& target) {
  CheckScopes(op);
  if (std::string reason = SparseObstacle(op); !reason.empty()) {
    Refuse(op, ir::ErrorClass::kLayout, reason);
  }
  auto [a0, a1] = MatrixExtents(MatrixA(op), op->span);
  auto [b0, b1] = MatrixExtents(MatrixB(op), op->span);
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  int64_t k = IsTransposedA(op) ? a0 : a1;
  bool in_pairs = IsInPairs(op);
  int64_t columns_of_b = IsTransposedB(op) ? b0 : b1;
  if ((IsTransposedA(op) ? a1 : a0) != m || (in_pairs ? kPairBlocks : 1) * columns_of_b != n ||
      (IsTransposedB(op) ? b1 : b0) != DepthOfB(op, k)) {
    Refuse(op, ir::ErrorClass::kShape, "the extents of A (M, K), B (K, N) and C (M, N) disagree");
  }
  DType a = MatrixA(op)->buffer->dtype;
  DType b = MatrixB(op)->buffer->dtype;
  UmmaKindChoice choice = ChooseUmmaKind(op, target);
  if (!choice.kind) {
    Refuse(op, ir::ErrorClass::kDType,
           ir::ToString(a) + " by " + ir::ToString(b) + " into " +
               ir::ToString(MatrixC(op)->buffer->dtype) + ": the pair of operands " +
               choice.reason);
  }
  UmmaProblem problem{*choice.kind, m, n, k, b, MatrixA(op)->buffer.IsTmem(), !IsTransposedB(op)};
  problem.in_pairs = in_pairs;
  problem.sparse = op->IsSparse();
  return problem;
}

UmmaTiling Tile(const ir::GemmNode* op, const UmmaProblem& problem) {
  UmmaTiling tiling = TileUmma(problem);
  if (!tiling.reason.empty()) {
    Refuse(op, ir::ErrorClass::kShape,
           tiling.reason + " (M = " + std::to_string(problem.m) +
               ", N = " + std::to_string(problem.n) + ", K = " + std::to_string(problem.k) + "); " +
               tiling.remedy);
  }
  return tiling;
}

// ---- Layouts ----

// Says what to do about a layout that `user`, or an annotation, has fixed.
std::string Remedy(const Span& user) {
  if (!user.defined()) {
    return "remove T.annotate_layout, or annotate it with tilelang.layout.make_swizzled_layout";
  }
  return "line " + std::to_string(user->line) +
         " uses the buffer as the other kind of operand; copy it to a second buffer";
}

void InferShared(const ir::GemmNode* op, const Region& region, bool mn_major, Context* ctx) {
  const Buffer& buffer = region->buffer;
  if (auto known = ctx->layouts->GetLayout(buffer)) {
    auto described = DescribeOperand(buffer, *known, mn_major);
    if (!described.operand) {
      Refuse(op, ir::ErrorClass::kLayout,
             "tcgen05.mma cannot read shared buffer " + std::string(buffer->name) +
                 " in its layout " + (*known)->ToString() + ": " + described.reason + "; " +
                 Remedy(ctx->layouts->UserOf(buffer)));
    }
    return;
  }
  auto layout = layout::OperandLayout(StaticShape(buffer), buffer->dtype.bits, !mn_major);
  if (!layout) {
    Refuse(op, ir::ErrorClass::kShape,
           "rows of shared buffer " + std::string(buffer->name) +
               " must be a multiple of 16 bytes, and their number a multiple of 8");
  }
  ctx->layouts->Set(buffer, *layout, op->span);
}

void InferTmem(const ir::GemmNode* op, const Region& region, TmemRole role, Context* ctx,
               const layout::MmaForm& form = {}) {
  const Buffer& buffer = region->buffer;
  if (SetViewLayout(buffer, op->span, ctx)) return;
  TmemLayout wanted = LayoutForRole(buffer, role, form);
  auto known = ctx->layouts->GetTmem(buffer);
  if (!known) {
    ctx->layouts->Set(buffer, wanted, op->span);
    return;
  }
  if ((*known)->lane.SameMap(wanted->lane) && (*known)->bit.SameMap(wanted->bit)) return;
  Span user = ctx->layouts->UserOf(buffer);
  // CheckTmem compares the choice of the program or the compiler with each instruction.
  if (!user.defined()) return;
  Refuse(op, ir::ErrorClass::kLayout,
         "tensor memory " + std::string(buffer->name) + " is " +
             (role == TmemRole::kOperandA ? "operand A here, whose elements are packed"
                                          : "the result C here, with a column for each element") +
             ", but line " + std::to_string(user->line) + " uses it as " +
             (role == TmemRole::kOperandA ? "a result" : "an operand") +
             "; use two buffers, and copy from one to the other");
}

// Checks that each instruction finds its part of the region where it looks for it.
void CheckTmem(const ir::GemmNode* op, const Region& region, TmemRole role,
               const UmmaTiling& tiling, Context* ctx) {
  int64_t columns = role == TmemRole::kAccumulator ? tiling.n : tiling.k;
  std::string problem = TmemOperandProblem(TileOf(region, op->span, ctx).layout, role, tiling.m,
                                           columns, tiling.form);
  if (problem.empty()) return;
  Refuse(op, ir::ErrorClass::kLayout, ir::Print(region) + " " + problem);
}

// Checks that instructions of 64 rows find A and C in the same 16 of each 32 lanes.
void CheckSameLanes(const ir::GemmNode* op, Context* ctx) {
  auto first_lane = [&](const Region& region) {
    TmemLayout layout = TileOf(region, op->span, ctx).layout;
    return layout->lane->Forward(Coord(layout->Extents().size(), 0));
  };
  int64_t of_a = first_lane(MatrixA(op));
  int64_t of_c = first_lane(MatrixC(op));
  if (of_a == of_c) return;
  Refuse(op, ir::ErrorClass::kLayout,
         "A begins at lane " + std::to_string(of_a) + " of tensor memory and C at lane " +
             std::to_string(of_c) + ", but the instruction takes them from the same lane on");
}

// Checks that A and C in one buffer have no element in common.
void CheckDistinct(const ir::GemmNode* op, Context* ctx) {
  if (!MatrixA(op)->buffer.same_as(MatrixC(op)->buffer)) return;
  auto ends_before = [&](const Region& first, const Region& second, size_t dim) {
    Expr end = first->mins[dim] + first->extents[dim];
    return ctx->analyzer->CanProveNonNegative(second->mins[dim] - end);
  };
  for (size_t d = 0; d < MatrixA(op)->mins.size(); ++d) {
    if (ends_before(MatrixA(op), MatrixC(op), d) || ends_before(MatrixC(op), MatrixA(op), d))
      return;
  }
  Refuse(op, ir::ErrorClass::kSemantics,
         "A and C overlap in tensor memory, and C is written while A is read; use two "
         "buffers, or slices that no index has in common");
}

// ---- Lowering ----

// Slices of operands in shared memory, now that their layouts are known.
void CheckCorner(const ir::GemmNode* op, const Region& region, bool mn_major, Context* ctx) {
  if (!region->buffer.IsShared()) return;
  Layout layout = *ctx->layouts->GetLayout(region->buffer);
  std::string problem = CornerProblem(region, layout, mn_major, ctx->analyzer);
  if (!problem.empty()) Refuse(op, ir::ErrorClass::kShape, problem);
}

// The argument with the metadata of functions for sparse GEMMs, which read a pair of columns there.
constexpr int64_t kMetadataArgument = 4;

class GemmLowerer {
 public:
  GemmLowerer(const ir::GemmNode* op, Lowering& lowering)
      : op_(op),
        plan_(static_cast<const UmmaPlanNode*>(TilePlanOf(op))),
        lowering_(lowering),
        ctx_(lowering.ctx) {}

  void Issue(std::vector<Stmt>* stmts) {
    bool ts = MatrixA(op_)->buffer.IsTmem();
    CheckCorner(op_, MatrixA(op_), IsTransposedA(op_), ctx_);
    CheckCorner(op_, MatrixB(op_), !IsTransposedB(op_), ctx_);
    const UmmaProblem& problem = plan_->problem;
    const UmmaTiling& t = plan_->tiling;
    DescriptorFormat format =
        problem.long_k ? DescriptorFormat::kTcgen05Long : DescriptorFormat::kTcgen05;
    std::optional<SharedOperand> a;
    if (!ts) {
      a.emplace(MatrixA(op_), IsTransposedA(op_), format, "desc_a", lowering_, op_->span);
      stmts->push_back(a->bind());
    }
    SharedOperand b(MatrixB(op_), !IsTransposedB(op_), format, "desc_b", lowering_, op_->span);
    stmts->push_back(b.bind());
    TmemTile c = TileOf(MatrixC(op_), op_->span, ctx_);
    std::optional<TmemTile> a_tmem;
    if (ts) a_tmem = TileOf(MatrixA(op_), op_->span, ctx_);
    std::optional<TmemTile> metadata;
    if (op_->IsSparse()) metadata = TileOf(Metadata(op_), op_->span, ctx_);
    std::optional<ScaleFactors> scales;
    if (IsBlockScaled(problem.kind)) {
      scales.emplace(op_, t.k, &lowering_);
      scales->Copy(stmts);
    }
    for (int64_t m = 0; m < problem.m; m += t.m) {
      for (int64_t n = 0; n < problem.n; n += t.n) {
        int64_t width = std::min(t.n, problem.n - n);
        for (int64_t k = 0; k < problem.k; k += t.k) {
          Expr first = ts ? TmemAt(*a_tmem, m, k) : a->At(m, k);
          Expr descriptor = U32(Descriptor(width));
          if (scales) descriptor = descriptor + scales->Selection(k);
          std::optional<MetadataColumns> meta;
          if (metadata) meta = ColumnsOfMetadata(op_, TmemAt(*metadata, m, ColumnOf(k)));
          if (meta) descriptor = descriptor + meta->selector;
          Array<Expr> args = {TmemAt(c, m, n), first, b.At(n, DepthOfB(op_, k)), descriptor};
          if (meta) args.push_back(meta->address);
          if (scales) {
            args.push_back(scales->OfA(m, k));
            args.push_back(scales->OfB(n, k));
          }
          args.push_back(k == 0 ? ir::Not(op_->clear_accum)
                                : Expr(ir::IntImm(ir::dtypes::kBool, 1)));
          stmts->push_back(
              DeviceEffect("mma_sm100.h", Function(), args, op_->span, Effects(width, k, scales)));
        }
      }
    }
  }

 private:
  std::string Function() const {
    const UmmaProblem& problem = plan_->problem;
    return std::string("tcgen05_mma_") + (plan_->tiling.form.weight_stationary ? "ws_" : "") +
           (IsBlockScaled(problem.kind) ? "scaled_" : "") + (problem.sparse ? "sp_" : "") +
           (MatrixA(op_)->buffer.IsTmem() ? "ts" : "ss") +
           "<tl::UmmaKind::" + Spelling(problem.kind) + (problem.in_pairs ? ", 2>" : ">");
  }

  // Returns the descriptor of the whole instruction. The instruction of a pair has the rows of both
  // CTAs.
  uint32_t Descriptor(int64_t n) const {
    int64_t rows = plan_->tiling.m;
    int64_t m = plan_->problem.in_pairs ? kPairBlocks * rows : rows;
    return InstructionDescriptor(op_, plan_->problem, m, n);
  }

  // Returns the first column of metadata for the instruction at `k`.
  int64_t ColumnOf(int64_t k) const {
    return k / plan_->tiling.k * MetadataColumnsOfInstruction(op_);
  }

  // Returns the address of element (row, col) of a tile.
  static Expr TmemAt(const TmemTile& tile, int64_t row, int64_t col) {
    // A dimension of one element does not move.
    Coord at = tile.layout->Extents().size() == 1 ? Coord{row} : Coord{row, col};
    int64_t lane = tile.layout->lane->Forward(at);
    int64_t bit = tile.layout->bit->Forward(at);
    return tile.column + U32((lane << 16) + bit / layout::kTmemColumnBits);
  }

  // Returns the first lane of the rows of C, and of A in tensor memory.
  int64_t FirstLane() const {
    TmemLayout c = TileOf(MatrixC(op_), op_->span, ctx_).layout;
    return c->lane->Forward(Coord(c->Extents().size(), 0));
  }

  // Returns the attributes of an instruction of `n` columns at `k`: the memory that it touches.
  Map<String, Any> Effects(int64_t n, int64_t k, const std::optional<ScaleFactors>& scales) const {
    Map<String, Any> attrs = ReadsOfOperands({MatrixA(op_), MatrixB(op_)}, lowering_);
    int64_t bits = MatrixA(op_)->buffer->dtype.bits;
    int64_t lanes = layout::kTmemLanes - FirstLane();
    Array<Array<int64_t>> tmem = {TmemBox(0, lanes, n / plan_->tiling.lane_groups, /*writes=*/true,
                                          MatrixC(op_)->buffer, *ctx_)};
    if (MatrixA(op_)->buffer.IsTmem()) {
      tmem.push_back(TmemBox(1, lanes, plan_->tiling.k * bits / layout::kTmemColumnBits,
                             /*writes=*/false, MatrixA(op_)->buffer, *ctx_));
    }
    if (op_->IsSparse()) {
      tmem.push_back(TmemBox(kMetadataArgument, layout::kTmemLanes, 2, /*writes=*/false,
                             Metadata(op_)->buffer, *ctx_));
    }
    if (scales) {
      for (const auto& read : scales->Reads(4, 5, plan_->tiling.m, n, k)) tmem.push_back(read);
    }
    attrs.Set("tmem", tmem);
    attrs.Set("async", true);
    return attrs;
  }

  const ir::GemmNode* op_;
  const UmmaPlanNode* plan_;
  Lowering& lowering_;
  Context* ctx_;
};

// Infers the layouts of scale factors. Their atoms lie as in global memory.
void InferScales(const ir::GemmNode* op, Context* ctx) {
  if (op->HasScalesInTmem()) {
    for (auto kind : {ir::GemmOperandKind::kScaleA, ir::GemmOperandKind::kScaleB})
      InferTmem(op, op->Operand(kind)->region, TmemRole::kAccumulator, ctx);
    return;
  }
  InferTmem(op, op->Operand(ir::GemmOperandKind::kScaleColumns)->region, TmemRole::kAccumulator,
            ctx);
  InferScaleAtoms(op, ctx);
}

void InferGemm(const ir::GemmNode* op, Context* ctx) {
  UmmaTiling tiling = Tile(op, Analyze(op, ctx->target));
  InferTmem(op, MatrixC(op), TmemRole::kAccumulator, ctx, tiling.form);
  CheckTmem(op, MatrixC(op), TmemRole::kAccumulator, tiling, ctx);
  if (MatrixA(op)->buffer.IsTmem()) {
    InferTmem(op, MatrixA(op), TmemRole::kOperandA, ctx);
    CheckTmem(op, MatrixA(op), TmemRole::kOperandA, tiling, ctx);
    CheckSameLanes(op, ctx);
    CheckDistinct(op, ctx);
  } else {
    InferShared(op, MatrixA(op), IsTransposedA(op), ctx);
  }
  InferShared(op, MatrixB(op), !IsTransposedB(op), ctx);
  if (op->IsScaled()) InferScales(op, ctx);
  if (op->IsSparse()) InferTmem(op, Metadata(op), TmemRole::kAccumulator, ctx);
}

// Checks the rows of B: an instruction with a sparse A reads 64 bytes of each of them.
void CheckRowsOfSparse(const ir::GemmNode* op, const Layout& layout_of_b) {
  constexpr int64_t kTooNarrow = 32;
  bool mn_major = !IsTransposedB(op);
  if (!op->IsSparse() || mn_major) return;
  auto described = DescribeOperand(MatrixB(op)->buffer, layout_of_b, mn_major);
  if (described.operand && described.operand->swizzle_bytes == kTooNarrow) {
    Refuse(op, ir::ErrorClass::kLayout,
           "B has a swizzle of 32 bytes, and an instruction with a sparse A reads 64 of a row; "
           "leave the layout to the compiler");
  }
}

// Returns whether the region has whole rows of the tile, in buffers of 128 bytes that instructions
// of 48 bytes of K divide.
bool HasLongRows(const Region& region, Context* ctx) {
  const Buffer& buffer = region->buffer;
  int64_t width = StaticShape(buffer).back();
  const Expr& extent = region->extents[region->extents.size() - 1];
  return buffer.IsShared() && ir::IsConst(extent, width) &&
         width % std::lcm(kLongRowBytes, kLongBufferBytes) == 0 &&
         DescribeOperand(buffer, *ctx->layouts->GetLayout(buffer), false).operand->swizzle_bytes ==
             kLongBufferBytes;
}

// Returns whether instructions on float4 take 96 elements of K instead of 64. Such an instruction
// reads the factors of several groups, so the factors of all rows and columns of the tile must lie
// together.
bool IsLong(const ir::GemmNode* op, const UmmaProblem& problem, Context* ctx) {
  constexpr int64_t kRows = 128;
  constexpr int64_t kColumns = 256;
  bool fp4 = problem.kind == UmmaKind::kMxF4 || problem.kind == UmmaKind::kMxF4NvF4;
  if (!fp4 || !ctx->target->has_long_fp4 || op->HasScalesInTmem()) return false;
  bool fits = problem.m == kRows && problem.n <= kColumns && problem.n % 16 == 0 &&
              HasLongRows(MatrixA(op), ctx) && HasLongRows(MatrixB(op), ctx);
  if (!fits) {
    RemarkGemm(op,
               "multiplies 64 elements of K in an instruction instead of 96. Instructions of 96 "
               "need tiles of 128 rows and at most 256 columns (a multiple of 16), whole tiles of "
               "A and B whose K is a multiple of 768, and a swizzle of 128 bytes");
  }
  return fits;
}

class Tcgen05MmaInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "tcgen05.mma"; }
  Engine engine() const override { return Engine::kTcgen05; }

  // The fragments into which it accumulates have been given tensor memory.
  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kGemm && !MatrixC(AsGemm(op))->buffer.IsFragment();
  }
  // Shapes, types and memories that the instruction cannot take are errors, because there is no
  // other instruction.
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    if (level == InferLevel::kStrict) InferGemm(AsGemm(op), ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    auto plan = ffi::make_object<UmmaPlanNode>(this, ctx->threads);
    plan->problem = Analyze(AsGemm(op), ctx->target);
    const Buffer& b = MatrixB(AsGemm(op))->buffer;
    plan->problem.n_unit = UnitAlongMn(b, *ctx->layouts->GetLayout(b), plan->problem.b_mn_major);
    if (IsBlockScaled(plan->problem.kind)) {
      plan->problem.n_unit = std::max(plan->problem.n_unit, kScaleRowsOfColumn);
    }
    plan->problem.long_k = IsLong(AsGemm(op), plan->problem, ctx);
    plan->tiling = Tile(AsGemm(op), plan->problem);
    CheckRowsOfSparse(AsGemm(op), *ctx->layouts->GetLayout(b));
    return {TilePlan(std::move(plan)), ""};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    GemmLowerer(AsGemm(op), *lowering).Issue(stmts);
  }
};

}  // namespace

const TileInstruction* Tcgen05Mma() {
  static const Tcgen05MmaInstruction instruction;
  return &instruction;
}

namespace {

// Returns why an operand in shared memory has no layout that the instruction reads, or an empty
// string.
std::string OperandLacks(const Region& region, bool mn_major, const LayoutMap& annotated) {
  const Buffer& buffer = region->buffer;
  if (!buffer.IsShared()) return "";
  if (auto given = annotated.GetLayout(buffer)) {
    auto described = DescribeOperand(buffer, *given, mn_major);
    if (described.operand) return "";
    return "tcgen05.mma cannot read layout " + (*given)->ToString() + " of " +
           std::string(buffer->name) + ": " + described.reason;
  }
  if (layout::OperandLayout(StaticShape(buffer), buffer->dtype.bits, !mn_major)) return "";
  return "rows of " + std::string(buffer->name) +
         " are not a multiple of 16 bytes, or their number is not a multiple of 8";
}

}  // namespace

namespace {

// Returns the problem of a GEMM whose result is in a fragment of the program.
UmmaProblem ProblemOfFragment(const ir::GemmNode* op, UmmaKind kind) {
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  auto [a0, a1] = MatrixExtents(MatrixA(op), op->span);
  UmmaProblem problem{kind,
                      m,
                      n,
                      IsTransposedA(op) ? a0 : a1,
                      MatrixB(op)->buffer->dtype,
                      MatrixA(op)->buffer.IsFragment() && !IsTransposedA(op),
                      !IsTransposedB(op)};
  problem.in_pairs = IsInPairs(op);
  problem.sparse = op->IsSparse();
  return problem;
}

}  // namespace

int64_t WholeColumns(const ir::GemmNode* op, const Target& target) {
  UmmaKindChoice choice = ChooseUmmaKind(op, target);
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  if (!choice.kind || IsInPairs(op)) return n;
  return WholeUmmaColumns(ProblemOfFragment(op, *choice.kind));
}

int64_t ColumnsWithRoom(const ir::GemmNode* op, const Target& target) {
  const ir::GemmOperandNode* b = op->Operand(ir::GemmOperandKind::kB);
  size_t dim = *b->DimAlong(ir::GemmDim::kN);
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  auto room = ir::AsInt(b->buffer()->shape[dim]);
  int64_t columns = WholeColumns(op, target);
  bool fits = ir::IsConst(b->region->mins[dim], 0) && room && *room >= columns;
  return fits && MatrixC(op).IsWhole() ? columns : n;
}

std::string Tcgen05Lacks(const ir::GemmNode* op, const ThreadRange& threads,
                         const LayoutMap& annotated, const Target& target) {
  constexpr int64_t kLeastRows = 64;
  if (MatrixC(op)->buffer->dtype == ir::dtypes::kFloat64) return "tcgen05.mma has no float64";
  if (std::string reason = SparseObstacle(op); !reason.empty()) {
    return "for tcgen05.mma " + reason;
  }
  if (op->IsSparse() && !Metadata(op)->buffer.IsShared()) {
    return "the metadata must be in shared memory";
  }
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  if (m < kLeastRows) {
    return "tcgen05.mma needs at least " + std::to_string(kLeastRows) + " rows";
  }
  // A program that asks for tcgen05.mma by its arguments is refused if the target has none.
  if (!WaitsItself(op) || MatrixA(op)->buffer.IsTmem()) return "";
  if (!AreWarpgroups(threads)) {
    return "its " + std::to_string(threads.count) +
           " threads are not whole warpgroups of 128, which read tensor memory";
  }
  UmmaKindChoice choice = ChooseUmmaKind(op, target);
  if (!choice.kind) return "the pair of operands " + choice.reason;
  UmmaProblem problem = ProblemOfFragment(op, *choice.kind);
  problem.n = ColumnsWithRoom(op, target);
  UmmaTiling tiling = TileUmma(problem);
  if (!tiling.reason.empty()) return "for tcgen05.mma " + tiling.reason;
  std::string operand = OperandLacks(MatrixA(op), IsTransposedA(op), annotated);
  return operand.empty() ? OperandLacks(MatrixB(op), !IsTransposedB(op), annotated) : operand;
}

std::string SliceLacks(const ir::GemmNode* op, const LayoutMap& annotated,
                       arith::Analyzer* analyzer) {
  for (bool of_a : {true, false}) {
    const Region& region = of_a ? MatrixA(op) : MatrixB(op);
    bool mn_major = of_a ? IsTransposedA(op) : !IsTransposedB(op);
    const Buffer& buffer = region->buffer;
    if (!buffer.IsShared() || buffer->dtype.bits < 8) continue;
    auto layout = annotated.GetLayout(buffer);
    if (!layout) layout = layout::OperandLayout(StaticShape(buffer), buffer->dtype.bits, !mn_major);
    if (!layout || !DescribeOperand(buffer, *layout, mn_major).operand) continue;
    std::string problem = CornerProblem(region, *layout, mn_major, analyzer);
    if (!problem.empty()) return "for tcgen05.mma " + problem;
  }
  return "";
}

std::optional<std::string> ScopeOfCopy(const ir::GemmOperandNode* input, bool result_in_registers) {
  // Tensor memory and the registers of instructions hold A by rows.
  bool by_rows = input->operand_kind() == ir::GemmOperandKind::kA && !input->transposed;
  if (!by_rows) return "shared.dyn";
  return result_in_registers ? std::nullopt : std::optional<std::string>("shared.tmem");
}

bool WaitsItself(const ir::GemmNode* op) {
  return !op->mbar.defined() && op->annotations.count("is_tcgen05") == 0;
}

bool IsByMmaWarp(const ir::GemmNode* op) { return op->annotations.count(kByMmaWarp) != 0; }

Stmt LowerIssuerCommit(const ir::ArriveNode* op, const Context& ctx) {
  Expr blocks = op->block;
  if (ctx.in_pairs && op->scope_kind() == ir::Scope::kCta) {
    Expr own = ir::MakeBinary(ir::BinaryOp::kShl, I32(1), BlockRank(), op->span);
    blocks = ir::CastTo(ir::dtypes::kUInt16, own);
  }
  Stmt commit = CommitTcgen05(BarrierAddress(op->mbar), ctx, op->span, blocks);
  return ByOneThread(commit, ctx, op->span);
}

}  // namespace tilelang::op
