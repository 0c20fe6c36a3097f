#include "op/gemm_wgmma.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/async.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/same.h"
#include "layout/smem_layout.h"
#include "op/effect.h"
#include "op/gemm_fragments.h"
#include "op/gemm_mma.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"
#include "target/warp.h"

namespace tilelang::op {

using layout::MmaAtom;
using layout::WarpGrid;

namespace {

constexpr const char* kWgmmaHeader = "mma_sm90.h";
constexpr int64_t kSparseRowBytes = 64;  // of B along K, in an instruction
constexpr int64_t kUnswizzled = 16;      // bytes of a "swizzle"

// Keeps registers alive. `way` is the name of the function in the header that does so.
Stmt Held(const Buffer& registers, const char* way, const Span& span) {
  int64_t count = *ir::AsInt(registers->shape[0]) * ir::Bytes(registers->dtype) / 4;
  return DeviceEffect(kWgmmaHeader, std::string(way) + "<" + std::to_string(count) + ">",
                      {ir::AddressOf(registers, {I32(0)})}, span);
}

// Describes the instruction that a GEMM needs. Its rows are the rows of C, or the columns of C for
// the transposed product C^T = B^T A^T.
struct Problem {
  bool transposed = false;
  WgmmaKind kind;
  WarpGrid grid;
  int64_t m = 0;  // of the instruction's product
  int64_t n = 0;
  int64_t k = 0;
  int64_t width = 0;
  std::string reason;  // why wgmma cannot do it; empty when it can
};

// Describes an operand of the instruction.
struct Matrix {
  const Region& region;
  bool mn_major;
};
Matrix LeftOf(const ir::GemmNode* op, bool transposed) {
  if (transposed) return {MatrixB(op), !IsTransposedB(op)};
  return {MatrixA(op), IsTransposedA(op)};
}
Matrix RightOf(const ir::GemmNode* op, bool transposed) { return LeftOf(op, !transposed); }

std::string Types(const ir::GemmNode* op) {
  return ir::ToString(MatrixA(op)->buffer->dtype) + " by " +
         ir::ToString(MatrixB(op)->buffer->dtype) + " into " +
         ir::ToString(MatrixC(op)->buffer->dtype);
}

std::string WhoObstacle(const ir::GemmNode* op, const Context& ctx) {
  if (!MatrixA(op)->buffer.IsShared() && !MatrixA(op)->buffer.IsFragment()) {
    return "A must be in shared memory or a fragment";
  }
  if (!MatrixB(op)->buffer.IsShared()) return "B must be in shared memory";
  if (op->mbar.defined() || op->annotations.count("is_tcgen05")) {
    return "wgmma completes in groups, and arrives on no mbarrier";
  }
  if (ctx.threads.begin % kWarpgroup != 0 || ctx.threads.count % kWarpgroup != 0) {
    return "it is executed by warpgroups, but " + std::to_string(ctx.threads.count) +
           " threads from thread " + std::to_string(ctx.threads.begin) +
           " on call T.gemm; use multiples of 128";
  }
  return "";
}

// Returns why the contiguous dimension of an operand does not fit. It may be any dimension for
// operands of 16 bits, and must be K for all others.
std::string MajorObstacle(const ir::GemmNode* op, const WgmmaKind& kind) {
  bool a_in_fragment = MatrixA(op)->buffer.IsFragment();
  if (a_in_fragment && IsTransposedA(op)) {
    return "A in a fragment is held by rows, so transpose_A=True is not possible";
  }
  if (kind.HasMnMajor()) return "";
  if (IsTransposedA(op)) {
    return "it reads 16-bit operands transposed, but not " +
           ir::ToString(MatrixA(op)->buffer->dtype) + "; store A as (M, K)";
  }
  if (!IsTransposedB(op)) {
    return "it reads 16-bit operands transposed, but not " +
           ir::ToString(MatrixB(op)->buffer->dtype) +
           "; store B as (N, K) and pass transpose_B=True";
  }
  return "";
}

// Returns why wgmma cannot, or should not, compute the transposed product.
std::string TransposedObstacle(const ir::GemmNode* op, const Problem& p) {
  if (MatrixA(op)->buffer.IsFragment()) return "A is in a fragment";
  if (op->IsSparse()) return "A is sparse";
  // The rows of C would not be where the other GEMM wants them.
  if (op->annotations.count(kChained) != 0) return "C becomes an operand in registers";
  if (p.m % kWgmmaRows != 0) return "N = " + std::to_string(p.m) + " is no multiple of 64 either";
  return "";
}

// Returns the layout that the buffer has, or would get.
std::optional<Layout> LayoutOfOperand(const Matrix& matrix, const Context& ctx) {
  const Buffer& buffer = matrix.region->buffer;
  if (auto known = ctx.layouts->GetLayout(buffer)) return known;
  return layout::OperandLayout(StaticShape(buffer), buffer->dtype.bits, !matrix.mn_major);
}

// Returns why the layout of an operand does not fit. `least_swizzle` is the number of bytes along K
// that an instruction reads.
std::string LayoutObstacle(const Matrix& matrix, const Context& ctx, int64_t least_swizzle = 0) {
  auto [region, mn_major] = matrix;
  const Buffer& buffer = region->buffer;
  if (!buffer.IsShared()) return "";
  auto layout = LayoutOfOperand(matrix, ctx);
  if (!layout) {
    return "rows of shared buffer " + std::string(buffer->name) +
           " must be a multiple of 16 bytes, and their number a multiple of 8";
  }
  auto described = DescribeOperand(buffer, *layout, mn_major);
  if (!described.operand) {
    return "shared buffer " + std::string(buffer->name) + " has layout " + (*layout)->ToString() +
           ", which it cannot read: " + described.reason;
  }
  if (described.operand->swizzle_bytes > kUnswizzled &&
      described.operand->swizzle_bytes < least_swizzle && !mn_major) {
    return "shared buffer " + std::string(buffer->name) + " has a swizzle of " +
           std::to_string(described.operand->swizzle_bytes) +
           " bytes, which a row of a sparse instruction is longer than";
  }
  return CornerProblem(region, *layout, mn_major, ctx.analyzer);
}

// Chooses how the warpgroups share C: first along the rows of the instruction, unless the policy
// asks for the columns.
void ChooseGrid(const ir::GemmNode* op, const Context& ctx, Problem* p) {
  int64_t groups = ctx.threads.count / kWarpgroup;
  auto unit = [&](const Matrix& matrix) {
    const Buffer& buffer = matrix.region->buffer;
    if (!buffer.IsShared()) return kWgmmaRows;
    return UnitAlongMn(buffer, *LayoutOfOperand(matrix, ctx), matrix.mn_major);
  };
  int64_t rows = std::max(kWgmmaRows, unit(LeftOf(op, p->transposed)));
  int64_t unit_n = unit(RightOf(op, p->transposed));
  bool columns_first =
      PolicyOf(op) == (p->transposed ? WarpPolicy::kFullRow : WarpPolicy::kFullCol);
  for (int64_t i = 1; i <= groups; ++i) {
    int64_t m = columns_first ? i : groups + 1 - i;
    if (groups % m != 0) continue;
    WarpGrid grid{m, groups / m, kWarpgroup / kWarp};
    bool divides = p->m % (rows * grid.m) == 0 && p->n % grid.n == 0 &&
                   (grid.n == 1 || p->n / grid.n % unit_n == 0);
    if (!divides) continue;
    p->grid = grid;
    p->width = WidestCover(p->n / grid.n, unit_n, [&](int64_t n) { return p->kind.HasWidth(n); });
    if (p->width != 0) return;
  }
  auto [user_rows, user_columns] = std::pair(rows, unit_n);
  if (p->transposed) std::swap(user_rows, user_columns);
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  p->reason = std::to_string(groups) + " warpgroups cannot share C of " + std::to_string(m) +
              " x " + std::to_string(n) + " in equal parts of rows in multiples of " +
              std::to_string(user_rows) + " and columns in multiples of " +
              std::to_string(user_columns) +
              (p->kind.IsInteger() ? " (int8: from 32 on, of 16)" : "") +
              "; change the tile or the number of threads";
}

// Analyzes one of the two products.
Problem AnalyzeProduct(const ir::GemmNode* op, const Context& ctx, bool transposed) {
  Problem p;
  p.transposed = transposed;
  p.reason = WhoObstacle(op, ctx);
  if (!p.reason.empty()) return p;
  Matrix left = LeftOf(op, transposed), right = RightOf(op, transposed);
  auto kind = ChooseWgmmaKind(left.region->buffer->dtype, right.region->buffer->dtype,
                              MatrixC(op)->buffer->dtype);
  if (!kind) {
    p.reason = "there is no wgmma of " + Types(op);
    return p;
  }
  p.kind = *kind;
  std::tie(p.m, p.n) = MatrixExtents(MatrixC(op), op->span);
  if (transposed) std::swap(p.m, p.n);
  p.k = *ir::AsInt(op->Depth());
  if (transposed) p.reason = TransposedObstacle(op, p);
  if (!p.reason.empty()) return p;
  if (p.m % kWgmmaRows != 0) {
    p.reason = "M = " + std::to_string(p.m) + " is no multiple of 64";
  } else if (p.k % p.kind.atom.K() != 0) {
    p.reason = "K = " + std::to_string(p.k) + " is no multiple of " +
               std::to_string(p.kind.atom.K()) + ", what one instruction multiplies of " +
               Types(op);
  } else {
    p.reason = MajorObstacle(op, p.kind);
  }
  if (p.reason.empty()) p.reason = LayoutObstacle(left, ctx);
  if (p.reason.empty()) {
    p.reason = LayoutObstacle(right, ctx, op->IsSparse() ? kSparseRowBytes : 0);
  }
  if (p.reason.empty()) ChooseGrid(op, ctx, &p);
  return p;
}

Problem AnalyzeWgmma(const ir::GemmNode* op, const Context& ctx) {
  Problem plain = AnalyzeProduct(op, ctx, false);
  if (!PrefersTransposed(op)) return plain;
  Problem transposed = AnalyzeProduct(op, ctx, true);
  if (transposed.reason.empty()) return transposed;
  bool differ = transposed.reason != plain.reason;
  if (!plain.reason.empty() && differ) plain.reason += "; transposed: " + transposed.reason;
  return plain;
}

GemmFragments Wanted(const ir::GemmNode* op, const Problem& p, const ThreadRange& threads) {
  return FragmentsOf(op, p.kind.atom, p.grid, threads, p.transposed);
}

const WgmmaPlanNode* PlanOf(const ir::GemmNode* op) {
  return static_cast<const WgmmaPlanNode*>(TilePlanOf(op));
}

class WgmmaLowerer {
 public:
  WgmmaLowerer(const ir::GemmNode* op, Lowering* lowering)
      : op_(op),
        plan_(PlanOf(op)),
        lowering_(lowering),
        rows_(plan_->m / plan_->grid.m),
        columns_(plan_->n / plan_->grid.n),
        c_(lowering->buffers->Get(MatrixC(op)->buffer)) {}

  void Issue(std::vector<Stmt>* stmts) {
    std::vector<Stmt>& setup = lowering_->setup;
    bool rs = MatrixA(op_)->buffer.IsFragment();
    const WarpGrid& grid = plan_->grid;
    Expr group = lowering_->ctx->warpgroup - I32(lowering_->ctx->threads.begin / kWarpgroup);
    auto part = [&](int64_t count, int64_t others, const Expr& index, int64_t size) {
      return count == 1 ? OperandPart{} : OperandPart{others == 1 ? group : index, size};
    };
    Matrix left = LeftOf(op_, plan_->transposed), right = RightOf(op_, plan_->transposed);
    std::optional<SharedOperand> a;
    if (!rs) {
      a.emplace(left.region, left.mn_major, DescriptorFormat::kWgmma, "desc_a", *lowering_,
                op_->span, part(grid.m, grid.n, ir::FloorMod(group, I32(grid.m)), rows_));
      setup.push_back(a->bind());
    }
    SharedOperand b(right.region, right.mn_major, DescriptorFormat::kWgmma, "desc_b", *lowering_,
                    op_->span, part(grid.n, grid.m, ir::FloorDiv(group, I32(grid.m)), columns_));
    setup.push_back(b.bind());
    HoldInputs(&setup);
    Expr clear = lowering_->scalar->Mutate(op_->clear_accum);
    const MmaAtom& atom = plan_->kind.atom;
    for (int64_t m = 0; m < rows_; m += kWgmmaRows) {
      for (int64_t n = 0; n < columns_; n += plan_->width) {
        int64_t width = std::min(plan_->width, columns_ - n);
        for (int64_t k = 0; k < plan_->k; k += atom.K()) {
          Expr left = rs ? RegistersOfA(m, k) : a->At(m, k);
          Array<Expr> args = {RegistersOfC(m, n), left, b.At(n, op_->IsSparse() ? 2 * k : k)};
          if (op_->IsSparse()) args.push_back(RegisterOfMetadata(m, k));
          bool overwrites = k == 0 && ir::IsTrue(clear);
          Expr accumulate = k == 0 ? ir::Not(clear) : Expr(ir::IntImm(ir::dtypes::kBool, 1));
          if (!overwrites) args.push_back(accumulate);
          stmts->push_back(Multiply(width, k, overwrites, args));
        }
      }
    }
  }

 private:
  void HoldInputs(std::vector<Stmt>* stmts) const {
    if (!ir::IsTrue(op_->clear_accum)) stmts->push_back(HoldRegisters(c_, op_->span));
    auto hold = [&](const Region& region) {
      if (!region->buffer.IsFragment()) return;
      stmts->push_back(Held(lowering_->buffers->Get(region->buffer), "hold_bits", op_->span));
    };
    hold(MatrixA(op_));
    if (op_->IsSparse()) hold(Metadata(op_));
  }

  // Blocks of 64 rows follow each other; inside of a block come its columns, or its steps of K.
  Expr RegistersOfC(int64_t m, int64_t n) const {
    int64_t atoms = m / kWgmmaRows * (columns_ / plan_->kind.atom.N()) + n / plan_->kind.atom.N();
    return ir::AddressOf(c_, {I32(atoms * plan_->kind.atom.SizeC())});
  }
  Expr RegistersOfA(int64_t m, int64_t k) const {
    const MmaAtom& atom = plan_->kind.atom;
    int64_t atoms = m / kWgmmaRows * (plan_->k / atom.K()) + k / atom.K();
    return ir::AddressOf(lowering_->buffers->Get(MatrixA(op_)->buffer),
                         {I32(atoms * atom.SizeA())});
  }

  // Returns the number of steps of K whose metadata a word holds.
  int64_t Together() const {
    return layout::MetadataSteps(plan_->kind.atom, plan_->k / plan_->kind.atom.K());
  }
  Expr RegisterOfMetadata(int64_t m, int64_t k) const {
    Buffer e = lowering_->buffers->Get(Metadata(op_)->buffer);
    int64_t step = plan_->kind.atom.K() * Together();
    int64_t word = m / kWgmmaRows * (plan_->k / step) + k / step;
    return ir::AddressOf(e, {I32(word * 32 / e->dtype.bits)});
  }

  Stmt Multiply(int64_t width, int64_t k, bool overwrites, Array<Expr> args) const {
    bool rs = MatrixA(op_)->buffer.IsFragment();
    Matrix left = LeftOf(op_, plan_->transposed), right = RightOf(op_, plan_->transposed);
    WgmmaForm form{plan_->kind, width, rs, left.mn_major, right.mn_major, overwrites};
    if (op_->IsSparse()) {
      form.sparse_selector = static_cast<int>(k / plan_->kind.atom.K() % Together());
    }
    Map<String, Any> attrs = ReadsOfOperands({left.region, right.region}, *lowering_);
    attrs.Set("definitions", Array<String>{WgmmaFunction(form)});
    attrs.Set("async", true);
    attrs.Set("by_warpgroup", true);
    return DeviceEffect(kWgmmaHeader, WgmmaFunctionName(form), std::move(args), op_->span, attrs);
  }

  const ir::GemmNode* op_;
  const WgmmaPlanNode* plan_;
  Lowering* lowering_;
  int64_t rows_;     // of a warpgroup
  int64_t columns_;  // likewise
  Buffer c_;
};

class WgmmaInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "wgmma"; }
  Engine engine() const override { return Engine::kWgmma; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kGemm && MatrixC(AsGemm(op))->buffer.IsFragment();
  }
  std::string Obstacle(const ir::TileOpNode* op, Context* ctx) const override {
    return AnalyzeWgmma(AsGemm(op), *ctx).reason;
  }

  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    if (level != InferLevel::kStrict) return;
    const ir::GemmNode* gemm = AsGemm(op);
    Problem problem = AnalyzeWgmma(gemm, *ctx);
    // The instruction cannot read the layout, so another instruction takes its place.
    if (!problem.reason.empty()) return;
    OfferFragments(gemm, Wanted(gemm, problem, ctx->threads), ctx);
    Offer(LeftOf(gemm, problem.transposed), op->span, ctx);
    Offer(RightOf(gemm, problem.transposed), op->span, ctx);
  }

  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::GemmNode* gemm = AsGemm(op);
    Problem problem = AnalyzeWgmma(gemm, *ctx);
    if (!problem.reason.empty()) return {TilePlan(), problem.reason};
    if (!HoldFragments(gemm, Wanted(gemm, problem, ctx->threads), ctx)) {
      return {TilePlan(),
              "a gemm that stays in flight needs whole fragments for C and A, in the layouts of "
              "the instruction: what is converted must be complete. Use fragments of their own, "
              "or T.gemm with wg_wait=0"};
    }
    auto plan = ffi::make_object<WgmmaPlanNode>(this, ctx->threads);
    plan->transposed = problem.transposed;
    plan->kind = problem.kind;
    plan->grid = problem.grid;
    plan->m = problem.m;
    plan->n = problem.n;
    plan->k = problem.k;
    plan->width = problem.width;
    return {TilePlan(std::move(plan)), ""};
  }

  // Fragments of other layouts are copied. For other layouts of shared memory, mma.sync takes over.
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::GemmNode* gemm = AsGemm(op);
    Problem problem = AnalyzeWgmma(gemm, *ctx);
    if (MustBeWgmma(gemm) || (problem.reason.empty() && GroupsInFlight(gemm) != 0)) return {};
    if (problem.reason.empty()) {
      return OnFragmentsOf(this, gemm, Wanted(gemm, problem, ctx->threads), ctx);
    }
    auto plan = ffi::make_object<TilePlanNode>(MmaSync(), ctx->threads);
    return {ir::WithPlan(ffi::GetRef<Stmt>(op), TilePlan(std::move(plan))), "is done by mma.sync"};
  }

  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    WgmmaLowerer(AsGemm(op), lowering).Issue(stmts);
  }

 private:
  static void Offer(const Matrix& matrix, const Span& span, Context* ctx) {
    const Buffer& buffer = matrix.region->buffer;
    if (!buffer.IsShared() || ctx->layouts->Has(buffer)) return;
    ctx->layouts->Set(buffer, *LayoutOfOperand(matrix, *ctx), span);
  }
};

}  // namespace

const TileInstruction* Wgmma() {
  static const WgmmaInstruction instruction;
  return &instruction;
}

bool IsWgmmaSized(const ir::GemmNode* op, const Context& ctx) {
  auto rows = ir::AsInt(MatrixC(op)->extents[MatrixC(op)->extents.size() - 2]);
  return rows && *rows >= kWgmmaRows && ctx.threads.count >= kWarpgroup &&
         ChooseWgmmaKind(MatrixA(op)->buffer->dtype, MatrixB(op)->buffer->dtype,
                         MatrixC(op)->buffer->dtype);
}

bool MultipliesByWgmma(const ir::GemmNode* op, int64_t threads) {
  auto kind = ChooseWgmmaKind(MatrixA(op)->buffer->dtype, MatrixB(op)->buffer->dtype,
                              MatrixC(op)->buffer->dtype);
  return kind && (kind->HasMnMajor() || (!IsTransposedA(op) && IsTransposedB(op))) &&
         MatrixA(op)->buffer.IsShared() && threads % kWarpgroup == 0 && threads <= 3 * kWarpgroup;
}

bool PrefersTransposed(const ir::GemmNode* op) {
  if (op->annotations.count(ir::kTransposeProduct) != 0) return true;
  return MatrixExtents(MatrixC(op), op->span).first % kWgmmaRows != 0;
}

bool DividesRows(const ir::GemmNode* op, int64_t warpgroups) {
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  return (PrefersTransposed(op) ? n : m) % (warpgroups * kWgmmaRows) == 0;
}

bool MustBeWgmma(const ir::GemmNode* op) { return op->annotations.count("is_wgmma") != 0; }

ir::Gemm WithoutGroups(const ir::GemmNode* op) {
  auto annotations = op->annotations;
  annotations.erase("wg_wait");
  annotations.erase("is_wgmma");
  return ir::Gemm(op->operands, op->clear_accum, op->mbar, annotations, op->span, op->k_start);
}

int64_t GroupsInFlight(const ir::GemmNode* op) {
  auto given = op->annotations.Get("wg_wait");
  return given ? (*given).cast<int64_t>() : 0;
}

Array<Buffer> RegistersOf(const std::vector<const ir::GemmNode*>& gemms, Lowering* lowering) {
  std::vector<Buffer> fragments;
  auto add = [&](const Buffer& b) {
    if (b.IsFragment()) ir::AddOnce(b, &fragments);
  };
  for (const ir::GemmNode* op : gemms) {
    add(MatrixC(op)->buffer);
    add(MatrixA(op)->buffer);
    if (op->IsSparse()) add(Metadata(op)->buffer);
  }
  Array<Buffer> registers;
  for (const Buffer& fragment : fragments) registers.push_back(lowering->buffers->Get(fragment));
  return registers;
}

Stmt HoldRegisters(const Buffer& registers, const Span& span) {
  return Held(registers, "hold", span);
}

}  // namespace tilelang::op
