#include "op/gemm_mma.h"

#include <tvm/ffi/cast.h>

#include <array>
#include <numeric>
#include <optional>

#include "ir/error.h"
#include "ir/memory_name.h"
#include "ir/printer.h"
#include "layout/smem_layout.h"
#include "op/effect.h"
#include "op/gemm_fragments.h"
#include "op/gemm_mma_scales.h"
#include "op/gemm_operands.h"
#include "op/gemm_scale_factors.h"
#include "op/matrix_descriptor.h"
#include "op/mma_operand.h"
#include "target/warp.h"

namespace tilelang::op {

using ir::DType;
using layout::MmaAtom;
using layout::WarpGrid;
using namespace ir::dtypes;  // NOLINT(google-build-using-namespace)

namespace {

struct KindRow {
  DType a;
  DType b;
  DType c;
  MmaAtom atom;
  const char* function;
  int capability = 80;
};

// PTX ISA, "Multiply-and-Accumulate Instruction: mma": the largest shape of each pair of types.
constexpr MmaAtom kOf16Bits{2, 2, 2};
constexpr MmaAtom kOf8Bits{2, 2, 4};
const std::array<KindRow, 13> kKinds = {{
    {kFloat16, kFloat16, kFloat32, kOf16Bits, "mma_f16_f32"},
    {kFloat16, kFloat16, kFloat16, kOf16Bits, "mma_f16_f16"},
    {kBFloat16, kBFloat16, kFloat32, kOf16Bits, "mma_bf16_f32"},
    {kFloat32, kFloat32, kFloat32, {2, 2, 1}, "mma_tf32_f32"},
    {kFloat64, kFloat64, kFloat64, {1, 1, 1}, "mma_f64_f64"},
    {kInt8, kInt8, kInt32, kOf8Bits, "mma_s8_s8"},
    {kInt8, kUInt8, kInt32, kOf8Bits, "mma_s8_u8"},
    {kUInt8, kInt8, kInt32, kOf8Bits, "mma_u8_s8"},
    {kUInt8, kUInt8, kInt32, kOf8Bits, "mma_u8_u8"},
    {kFloat8E4M3, kFloat8E4M3, kFloat32, kOf8Bits, "mma_e4m3_e4m3", 89},
    {kFloat8E4M3, kFloat8E5M2, kFloat32, kOf8Bits, "mma_e4m3_e5m2", 89},
    {kFloat8E5M2, kFloat8E4M3, kFloat32, kOf8Bits, "mma_e5m2_e4m3", 89},
    {kFloat8E5M2, kFloat8E5M2, kFloat32, kOf8Bits, "mma_e5m2_e5m2", 89},
}};

// Describes the instruction that a GEMM needs.
struct MmaShape {
  MmaKind kind;
  WarpGrid grid;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  std::string reason;  // why mma.sync cannot do it; empty when it can
};

std::string ScopeObstacle(const ir::GemmNode* op) {
  if (!MatrixA(op)->buffer.IsShared() && !MatrixA(op)->buffer.IsFragment()) {
    return "A must be in shared memory or a fragment";
  }
  if (!MatrixB(op)->buffer.IsShared()) return "B must be in shared memory: T.copy it there first";
  if (MatrixA(op)->buffer.IsFragment() && IsTransposedA(op)) {
    return "A in a fragment is held by rows, so transpose_A=True is not possible";
  }
  if (op->mbar.defined() || op->annotations.count("is_tcgen05")) {
    return "mma.sync is complete when it returns: it takes no mbarrier";
  }
  return "";
}

std::optional<WarpGrid> GridOf(const ir::GemmNode* op, const MmaAtom& atom, const MmaShape& shape,
                               int64_t warps) {
  auto policy = PolicyOf(op);
  if (!policy && op->annotations.count(kChained) != 0) {
    auto rows = ChooseWarpGrid(atom, shape.m, shape.n, warps, WarpPolicy::kFullRow);
    if (rows && rows->n == 1) return rows;
  }
  return ChooseWarpGrid(atom, shape.m, shape.n, warps, policy.value_or(WarpPolicy::kSquare));
}

// Returns the name of the function in mma_sp_sm80.h, a template of the selector.
std::string SparseName(const std::string& name) {
  constexpr std::string_view kPrefix = "mma_";
  return name.empty() ? name : "mma_sp_" + name.substr(kPrefix.size());
}

MmaShape Analyze(const ir::GemmNode* op, const Context& ctx) {
  MmaShape shape;
  shape.reason = ScopeObstacle(op);
  if (!shape.reason.empty()) return shape;
  std::tie(shape.m, shape.n) = MatrixExtents(MatrixC(op), op->span);
  auto [a0, a1] = MatrixExtents(MatrixA(op), op->span);
  shape.k = IsTransposedA(op) ? a0 : a1;
  DType a = MatrixA(op)->buffer->dtype;
  DType b = MatrixB(op)->buffer->dtype;
  DType c = MatrixC(op)->buffer->dtype;
  shape.kind = op->IsScaled() ? MmaKind{kOf8Bits, ScaledMmaFunction(op)}
                              : ChooseMmaKind(a, b, c, ctx.target);
  bool has_sparse = shape.kind.atom.row_halves == 2;
  if (op->IsSparse()) shape.kind.name = has_sparse ? SparseName(shape.kind.name) : "";
  std::string types = ir::ToString(a) + " by " + ir::ToString(b) + " into " + ir::ToString(c);
  if (shape.kind.name.empty()) {
    shape.reason =
        std::string("there is no ") + (op->IsSparse() ? "sparse " : "") + "mma.sync of " + types;
    return shape;
  }
  const MmaAtom& atom = shape.kind.atom;
  if (shape.k % atom.K() != 0) {
    shape.reason = "K = " + std::to_string(shape.k) + " is no multiple of " +
                   std::to_string(atom.K()) + ", what one instruction multiplies of " + types +
                   "; pad the tiles (copies fill what lies outside of a tensor with zeros)";
    return shape;
  }
  if (ctx.threads.count % kWarp != 0) {
    shape.reason = std::to_string(ctx.threads.count) +
                   " threads are not whole warps, which execute it together; a multiple of " +
                   std::to_string(kWarp) + " threads can";
    return shape;
  }
  auto grid = GridOf(op, atom, shape, ctx.threads.count / kWarp);
  if (!grid) {
    shape.reason = std::to_string(ctx.threads.count / kWarp) + " warps cannot share C of " +
                   std::to_string(shape.m) + " x " + std::to_string(shape.n) +
                   " in equal parts of rows in multiples of " + std::to_string(atom.M()) +
                   " and columns in multiples of 8; change the tile or the number of threads";
    return shape;
  }
  shape.grid = *grid;
  return shape;
}

[[noreturn]] void Refuse(const ir::GemmNode* op, const std::string& reason) {
  const char* name = op->IsSparse() ? "T.gemm_sp: " : "T.gemm: ";
  auto one = [](const Region& r) {
    return ir::ToString(r->buffer->dtype) + " " + ir::Print(r) + " in " + ir::MemoryName(r->buffer);
  };
  TL_USER_ERROR(kLayout, op->span,
                name << reason << ". A = " << one(MatrixA(op))
                     << (IsTransposedA(op) ? " (transposed)" : "") << ", B = " << one(MatrixB(op))
                     << (IsTransposedB(op) ? " (transposed)" : "") << ", C = " << one(MatrixC(op)));
}

// Offers a layout for rows of 16 bytes without bank conflicts, as TMA writes them.
void OfferSwizzle(const Region& region, const Span& span, Context* ctx) {
  const Buffer& buffer = region->buffer;
  if (!buffer.IsShared() || ctx->layouts->Has(buffer)) return;
  Coord shape = StaticShape(buffer);
  for (int64_t bytes : layout::SwizzleWidths(shape, buffer->dtype.bits)) {
    Layout layout = layout::SwizzledLayout(shape, buffer->dtype.bits, bytes);
    if (!ctx->accepted(buffer, layout)) continue;
    ctx->layouts->Set(buffer, layout, span);
    return;
  }
}

class MmaLowerer {
 public:
  MmaLowerer(const ir::GemmNode* op, Lowering* lowering)
      : op_(op),
        plan_(static_cast<const MmaPlanNode*>(TilePlanOf(op))),
        lowering_(lowering),
        atom_(plan_->atom),
        atom_b_(AtomOfB(op, plan_->atom)),
        rows_(plan_->m / (atom_.M() * plan_->grid.m)),
        columns_(plan_->n / (atom_.N() * plan_->grid.n)),
        steps_(plan_->k / atom_.K()),
        c_(lowering->buffers->Get(MatrixC(op)->buffer)) {
    const Context& ctx = *lowering->ctx;
    Expr warp = ir::FloorDiv(ctx.thread - I32(ctx.threads.begin), I32(32));
    warp_row_ = ir::FloorMod(warp, I32(plan_->grid.m));
    warp_column_ = ir::FloorDiv(warp, I32(plan_->grid.m));
  }

  void Lower(std::vector<Stmt>* stmts) {
    Clear(stmts);
    bool a_in_registers = MatrixA(op_)->buffer.IsFragment();
    Buffer a = a_in_registers ? lowering_->buffers->Get(MatrixA(op_)->buffer)
                              : Registers("a_regs", MatrixA(op_), rows_ * atom_.SizeA());
    Buffer b = Registers("b_regs", MatrixB(op_), columns_ * atom_b_.SizeB());
    if (!a_in_registers) stmts->push_back(ir::Alloc(a, op_->span));
    stmts->push_back(ir::Alloc(b, op_->span));
    if (op_->IsScaled()) MakeScales(stmts);
    int64_t together = StepsTogether();
    stmts->push_back(Unrolled("ks", steps_ / together, [&](const Expr& group) {
      std::vector<Stmt> body;
      LoadScales(group, together, &body);
      for (int64_t selector = 0; selector < together; ++selector) {
        Expr step = together == 1 ? group : group * I32(together) + I32(selector);
        if (!a_in_registers) body.push_back(LoadA(step * I32(atom_.K()), a));
        body.push_back(LoadB(step * I32(atom_b_.K()), b));
        body.push_back(Multiply({step, group, selector, steps_ / together}, a, b, a_in_registers));
      }
      return Sequence(body, op_->span);
    }));
  }

 private:
  template <typename Body>
  Stmt Unrolled(const char* name, int64_t count, Body body) {
    Var var(name, kInt32, op_->span);
    arith::Analyzer::Scope scope(lowering_->ctx->analyzer);
    lowering_->ctx->analyzer->Bind(var, 0, I32(count));
    return ir::For(var, 0, I32(count), ir::ForKind::kUnrolled, body(var), {}, op_->span);
  }

  Buffer Registers(const char* name, const Region& operand, int64_t count) const {
    return Buffer(name, operand->buffer->dtype, {I32(count)}, {}, "local", {}, op_->span);
  }

  void Clear(std::vector<Stmt>* stmts) {
    if (ir::IsConst(op_->clear_accum, 0)) return;
    Stmt zero = Unrolled("r", rows_ * columns_ * atom_.SizeC(), [&](const Expr& r) -> Stmt {
      return ir::Store(c_, {r}, ir::Const(c_->dtype, 0), op_->span);
    });
    if (ir::IsTrue(op_->clear_accum)) {
      stmts->push_back(zero);
    } else {
      stmts->push_back(ir::If(lowering_->scalar->Mutate(op_->clear_accum), zero));
    }
  }

  Stmt LoadA(const Expr& k, const Buffer& a) {
    MmaOperand operand(MatrixA(op_), {!IsTransposedA(op_), atom_.row_halves, true}, atom_,
                       op_->span, lowering_);
    return Unrolled("i", rows_, [&](const Expr& i) {
      Expr line = (warp_row_ * I32(rows_) + i) * I32(atom_.M());
      return operand.Load(line, k, a, i * I32(operand.Size()));
    });
  }

  // Loads two atoms at once if the number of atoms is even.
  Stmt LoadB(const Expr& k, const Buffer& b) {
    int64_t together = columns_ % 2 == 0 && atom_b_.k_halves == 2 ? 2 : 1;
    MmaOperand operand(MatrixB(op_), {IsTransposedB(op_), together, false}, atom_b_, op_->span,
                       lowering_);
    return Unrolled("j", columns_ / together, [&](const Expr& j) {
      Expr line = warp_column_ * I32(columns_ * atom_.N()) + j * I32(together * atom_.N());
      return operand.Load(line, k, b, j * I32(operand.Size()));
    });
  }

  // Returns how many steps of K are written as one: the steps whose metadata a word holds (sparse
  // GEMM), or whose scale factors a word holds if there are that many steps (scaled GEMM).
  int64_t StepsTogether() const {
    if (op_->IsSparse()) return layout::MetadataSteps(atom_, steps_);
    return op_->IsScaled() ? std::gcd(StepsOfScaleWord(op_), steps_) : 1;
  }

  void MakeScales(std::vector<Stmt>* stmts) {
    using Kind = ir::GemmOperandKind;
    scale_a_.emplace(op_, Kind::kScaleA, rows_, atom_.M(), lowering_);
    scale_b_.emplace(op_, Kind::kScaleB, columns_, atom_.N(), lowering_);
    stmts->push_back(ir::Alloc(scale_a_->registers(), op_->span));
    stmts->push_back(ir::Alloc(scale_b_->registers(), op_->span));
  }

  void LoadScales(const Expr& group, int64_t together, std::vector<Stmt>* stmts) const {
    if (!op_->IsScaled()) return;
    Expr word = ir::FloorDiv(group * I32(together), I32(StepsOfScaleWord(op_)));
    scale_a_->Load(warp_row_ * I32(rows_ * atom_.M()), word, stmts);
    scale_b_->Load(warp_column_ * I32(columns_ * atom_.N()), word, stmts);
  }

  // Describes a step of K. For a sparse GEMM it says which word of a row of atoms has the step's
  // metadata, in which lanes, and how many words there are.
  struct Step {
    Expr index;
    Expr word;
    int64_t selector;
    int64_t words;
  };
  Stmt Multiply(const Step& step, const Buffer& a, const Buffer& b, bool all_of_a) {
    return Unrolled("i", rows_, [&](const Expr& i) {
      Expr a_atom = all_of_a ? i * I32(steps_) + step.index : i;
      return Unrolled("j", columns_, [&](const Expr& j) -> Stmt {
        Expr c_at = (i * I32(columns_) + j) * I32(atom_.SizeC());
        Array<Expr> args = {ir::AddressOf(c_, {c_at}),
                            ir::AddressOf(a, {a_atom * I32(atom_.SizeA())}),
                            ir::AddressOf(b, {j * I32(atom_b_.SizeB())})};
        if (op_->IsScaled()) return MultiplyScaled(step, i, j, std::move(args));
        if (!op_->IsSparse()) return DeviceEffect("mma_sm80.h", plan_->function, args, op_->span);
        Buffer e = lowering_->buffers->Get(Metadata(op_)->buffer);
        Expr word = i * I32(step.words) + step.word;
        args.push_back(ir::AddressOf(e, {word * I32(32 / int64_t{e->dtype.bits})}));
        std::string name = plan_->function + "<" + std::to_string(step.selector) + ">";
        return DeviceEffect("mma_sp_sm80.h", name, args, op_->span);
      });
    });
  }

  Stmt MultiplyScaled(const Step& step, const Expr& i, const Expr& j, Array<Expr> args) const {
    args.push_back(scale_a_->RegisterOf(i));
    args.push_back(scale_b_->RegisterOf(j));
    // If fewer steps are written as one than a word holds, their position in the word is known only
    // at run time.
    Expr first = ir::FloorMod(step.index, I32(StepsOfScaleWord(op_)));
    args.push_back(first * I32(ScaleBlocksOf(op_).per_k));
    args.push_back(scale_a_->AtomInRegister(i));
    args.push_back(scale_b_->AtomInRegister(j));
    return DeviceEffect("mma_sm120.h", plan_->function, args, op_->span);
  }

  // B has all elements along K, and a sparse A half of them.
  static MmaAtom AtomOfB(const ir::GemmNode* op, MmaAtom atom) {
    if (op->IsSparse()) atom.k_halves *= 2;
    return atom;
  }

  const ir::GemmNode* op_;
  const MmaPlanNode* plan_;
  Lowering* lowering_;
  MmaAtom atom_;
  MmaAtom atom_b_;
  int64_t rows_;     // atoms of a warp
  int64_t columns_;  // likewise
  int64_t steps_;    // of K
  Buffer c_;
  Expr warp_row_;
  Expr warp_column_;
  std::optional<ScaleWords> scale_a_;
  std::optional<ScaleWords> scale_b_;
};

class MmaInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "mma.sync"; }
  Engine engine() const override { return Engine::kThreads; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kGemm && MatrixC(AsGemm(op))->buffer.IsFragment();
  }

  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    const ir::GemmNode* gemm = AsGemm(op);
    if (level == InferLevel::kStrict) {
      MmaShape shape = Analyze(gemm, *ctx);
      if (!shape.reason.empty()) Refuse(gemm, shape.reason);
      if (gemm->IsScaled()) InferScaleAtoms(gemm, ctx);
      OfferFragments(gemm, FragmentsOf(gemm, shape.kind.atom, shape.grid, ctx->threads), ctx);
    } else {
      OfferSwizzle(MatrixA(gemm), op->span, ctx);
      OfferSwizzle(MatrixB(gemm), op->span, ctx);
    }
  }

  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::GemmNode* gemm = AsGemm(op);
    MmaShape shape = Analyze(gemm, *ctx);
    if (!HoldFragments(gemm, FragmentsOf(gemm, shape.kind.atom, shape.grid, ctx->threads), ctx)) {
      return {TilePlan(), "its fragments have other layouts"};
    }
    auto plan = ffi::make_object<MmaPlanNode>(this, ctx->threads);
    plan->atom = shape.kind.atom;
    plan->grid = shape.grid;
    plan->function = shape.kind.name;
    plan->m = shape.m;
    plan->n = shape.n;
    plan->k = shape.k;
    return {TilePlan(std::move(plan)), ""};
  }

  // Fragments of other layouts, and slices of fragments, are copied to fragments of their own.
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::GemmNode* gemm = AsGemm(op);
    MmaShape shape = Analyze(gemm, *ctx);
    return OnFragmentsOf(this, gemm, FragmentsOf(gemm, shape.kind.atom, shape.grid, ctx->threads),
                         ctx);
  }

  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    std::vector<Stmt> lowered;
    MmaLowerer(AsGemm(op), lowering).Lower(&lowered);
    stmts->push_back(Sequence(lowered, op->span));
  }
};

}  // namespace

std::string MmaObstacle(const ir::GemmNode* op, const Context& ctx) {
  return Analyze(op, ctx).reason;
}

const TileInstruction* MmaSync() {
  static const MmaInstruction instruction;
  return &instruction;
}

std::optional<WarpPolicy> PolicyOf(const ir::GemmNode* op) {
  auto policy = op->annotations.Get("policy");
  if (!policy) return std::nullopt;
  return static_cast<WarpPolicy>((*policy).cast<int64_t>());
}

MmaKind ChooseMmaKind(DType a, DType b, DType c, const Target& target) {
  for (const KindRow& row : kKinds) {
    bool has = 10 * target->major + target->minor >= row.capability;
    if (row.a == a && row.b == b && row.c == c && has) return {row.atom, row.function};
  }
  return {};
}

std::optional<WarpGrid> ChooseWarpGrid(const MmaAtom& atom, int64_t m, int64_t n, int64_t warps,
                                       WarpPolicy policy) {
  std::optional<WarpGrid> best;
  double best_cost = 0;
  for (int64_t rows = 1; rows <= warps; ++rows) {
    if (warps % rows != 0) continue;
    WarpGrid grid{rows, warps / rows};
    if (m % (atom.M() * grid.m) != 0 || n % (atom.N() * grid.n) != 0) continue;
    double cost = policy == WarpPolicy::kFullRow ? -static_cast<double>(grid.m)
                  : policy == WarpPolicy::kFullCol
                      ? static_cast<double>(grid.m)
                      : static_cast<double>(m) / grid.m + static_cast<double>(n) / grid.n;
    if (best && cost >= best_cost) continue;
    best = grid;
    best_cost = cost;
  }
  return best;
}

}  // namespace tilelang::op
