#include "tiling/realign_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/scoped_mutator.h"
#include "ir/build.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/stand_in.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "tiling/allocations.h"
#include "tiling/loop_stages.h"
#include "tiling/plain_gemm.h"
#include "tiling/tile_cost.h"
#include "transform/launch_condition.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kTmaAlignment = 16;
constexpr int64_t kLineBytes = 128;
// A block copies this many bytes of this many rows.
constexpr int64_t kThreads = 256;
constexpr int64_t kRowBytes = 2048;
constexpr int64_t kRows = 4;
// A tensor that so many blocks load, or one with a loop of so many iterations, costs less where it
// is copied first: below, the launch takes longer than threads that load.
constexpr int64_t kFewestLoads = 4;
constexpr int64_t kFewestIterations = 16;

Expr Bool(bool value) { return ir::Const(ir::dtypes::kBool, value ? 1 : 0); }

// A tensor whose rows begin anywhere, in some calls or in all.
struct Realigned {
  Buffer tensor;
  Expr whole;   // whether its rows begin at vectors, so that it is loaded itself
  Expr pays;    // whether a copy costs less than threads that load elements
  Buffer copy;  // or the tensor itself
};

// Returns the condition that all rows of the tensor begin at vectors, or null if they always do.
Expr BeginsAtVectors(const Buffer& tensor, arith::Analyzer* analyzer) {
  int64_t vector = kTmaAlignment / std::max(1, ir::Bytes(tensor->dtype));
  if (tensor->shape.size() < 2 || vector < 2) return Expr();
  Expr apart = tensor.Strides()[tensor->shape.size() - 2];
  if (analyzer->Divides(apart, vector)) return Expr();
  Expr whole = ir::MakeEq(ir::FloorMod(apart, ir::Const(apart.dtype(), vector)),
                          ir::Const(apart.dtype(), 0));
  return analyzer->CanProve(ir::Not(whole)) ? Bool(false) : whole;
}

bool IsPassed(const ir::Func& func, const Buffer& tensor) {
  return std::any_of(func->params.begin(), func->params.end(),
                     [&](const ir::Any& param) { return param.as<Buffer>() == tensor; });
}

// Returns whether the launch only reads the tensor, which is one of matrices whose rows lie in one
// piece. If calls load it itself, it is passed, and nothing lies between its rows: it stands in for
// the copy, whose shape is its own then.
bool CanCopy(const ir::Func& func, const ir::KernelLaunchNode* op, const Realigned& each) {
  const Buffer& tensor = each.tensor;
  size_t rank = tensor->shape.size();
  bool matrices = (rank == 2 || rank == 3) && ir::IsConst(tensor.Strides()[rank - 1], 1);
  bool stands_in = tensor->strides.empty() && IsPassed(func, tensor);
  bool can = matrices && (stands_in || ir::IsConst(each.whole, 0)) && tensor->dtype.bits % 8 == 0;
  ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
    can = can && !(effect.Writes() && effect.buffer.same_as(tensor));
  });
  return can;
}

// Returns the columns of the copy, or those of the tensor where it is loaded itself. Either is a
// multiple of a vector by its form.
Expr ColumnsOf(const Realigned& each) {
  Expr columns = each.tensor->shape.back();
  auto elements = [&](int64_t bytes) {
    return ir::Const(columns.dtype(), bytes / ir::Bytes(each.tensor->dtype));
  };
  Expr lines = ir::CeilDiv(columns, elements(kLineBytes)) *
               ir::Const(columns.dtype(), kLineBytes / kTmaAlignment);
  Expr own = ir::FloorDiv(columns, elements(kTmaAlignment));
  return ir::MakeSelect(each.whole, own, lines, each.tensor->span) * elements(kTmaAlignment);
}

// Returns the buffer of a copy. `realigns`: whether a call has copies at all.
Buffer CopyOf(const ir::Func& func, const Realigned& each, const Expr& realigns) {
  const Buffer& tensor = each.tensor;
  Array<Expr> shape = tensor->shape;
  shape.Set(shape.size() - 1, ColumnsOf(each));
  ir::Map<ir::String, ir::Any> attrs;
  Expr copies = realigns && ir::Not(each.whole);
  if (!ir::IsConst(copies, 1) && IsPassed(func, tensor)) {
    attrs.Set(ir::kStandIn, tensor);
    attrs.Set(ir::kStandsInWhere, ir::Not(copies));
  }
  return Buffer(std::string(tensor->name) + "_rows", tensor->dtype, shape, {}, "global", attrs,
                tensor->span);
}

// Returns how many blocks load an element of the tensor, or null if that is not known.
Expr TimesLoaded(const PlainGemm& plain, const ir::CopyNode* load) {
  for (const ir::GemmNode* gemm : plain.gemms) {
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      if (!input->buffer().same_as(load->dst->buffer)) continue;
      ir::GemmDim other = input->DimAlong(ir::GemmDim::kM) ? ir::GemmDim::kN : ir::GemmDim::kM;
      const ir::GemmOperandNode* c = gemm->Operand(ir::GemmOperandKind::kC);
      auto tile = ir::AsInt(c->region->extents[*c->DimAlong(other)]);
      Expr extent = ExtentOfTensor(plain, other);
      if (!tile || !extent.defined()) return Expr();
      return ir::CeilDiv(extent, ir::Const(extent.dtype(), *tile));
    }
  }
  return Expr();
}

// One block of threads copies kRows rows of kRowBytes: statements of it, and how many there are.
struct Part {
  Expr blocks;
  Stmt body;
};
Part PartOf(const Realigned& each, const Expr& block, const ir::Span& span) {
  const Array<Expr>& shape = each.copy->shape;
  int64_t width = kRowBytes / ir::Bytes(each.copy->dtype);
  auto i32 = [](const Expr& e) { return ir::CastTo(ir::dtypes::kInt32, e); };
  Expr columns = ir::CeilDiv(i32(shape.back()), op::I32(width));
  Expr rows = ir::CeilDiv(i32(shape[shape.size() - 2]), op::I32(kRows));
  Expr row = ir::FloorDiv(block, columns);
  Array<Expr> mins, extents;
  Expr blocks = columns * rows;
  if (shape.size() == 3) {
    mins.push_back(ir::FloorDiv(row, rows));
    extents.push_back(op::I32(1));
    row = ir::FloorMod(row, rows);
    blocks = blocks * i32(shape[0]);
  }
  mins.push_back(row * op::I32(kRows));
  mins.push_back(ir::FloorMod(block, columns) * op::I32(width));
  extents.push_back(op::I32(kRows));
  extents.push_back(op::I32(width));
  Buffer tile(std::string(each.copy->name) + "_tile", each.copy->dtype,
              {op::I32(kRows), op::I32(width)}, {}, "local.fragment", {}, span);
  std::vector<Stmt> stmts = {
      ir::Alloc(tile, span),
      ir::Copy(ir::Region(each.tensor, mins, extents), ir::Region::Whole(tile), span),
      ir::Copy(ir::Region::Whole(tile), ir::Region(each.copy, mins, extents), span)};
  if (!ir::IsConst(each.whole, 0)) {
    stmts.insert(stmts.begin(), ir::Assume(ir::Not(each.whole), span));
  }
  return {ir::MakeSelect(each.whole, op::I32(0), blocks, span), op::Sequence(stmts, span)};
}

// Returns one launch that makes all copies that a call needs.
Stmt CopyingLaunch(const std::vector<Realigned>& copies, const Expr& realigns,
                   const ir::Span& span) {
  ir::Var block("block", ir::dtypes::kInt32, span);
  ir::Var thread("thread", ir::dtypes::kInt32, span);
  Expr before = op::I32(0);
  std::vector<std::pair<Expr, Stmt>> parts;  // up to which block
  for (const Realigned& each : copies) {
    Part part = PartOf(each, block - before, span);
    before = before + part.blocks;
    parts.emplace_back(before, part.body);
  }
  Stmt body = parts.back().second;
  for (size_t i = parts.size() - 1; i-- > 0;) {
    body = ir::If(block < parts[i].first, parts[i].second, body, span);
  }
  Expr grid = ir::MakeSelect(realigns, before, op::I32(0), span);
  return ir::KernelLaunch({block}, {grid}, {thread}, {op::I32(kThreads)}, {}, body, span);
}

// Replaces the tensors by their copies where statements load tiles.
class SourceReplacer : public ir::StmtMutator {
 public:
  SourceReplacer(const PlainGemm& plain, const std::vector<Realigned>& copies)
      : plain_(plain), copies_(copies) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (std::count(plain_.loads.begin(), plain_.loads.end(), op) == 0) {
      return ir::ffi::GetRef<Stmt>(op);
    }
    for (const Realigned& each : copies_) {
      if (!each.tensor.same_as(op->src->buffer)) continue;
      ir::Region src(each.copy, op->src->mins, op->src->extents);
      return ir::Copy(op, src, op->dst);
    }
    return ir::ffi::GetRef<Stmt>(op);
  }

 private:
  const PlainGemm& plain_;
  const std::vector<Realigned>& copies_;
};

class RowRealigner : public analysis::ScopedMutator {
 public:
  RowRealigner(const ir::Func& func, const Target& target) : func_(func), target_(target) {
    analyzer_.BindParams(func->params);
  }

  Stmt Body() {
    Stmt body = MutateStmt(func_->body);
    return copies_.empty() ? body : WithAllocations(copies_, body);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || LoadsByTma(func_, op, plain, target_)) return self;
    arith::Analyzer::Scope scope(&analyzer_);
    std::vector<Realigned> copies = CopiesFor(op, plain);
    Expr realigns = Bool(!copies.empty());
    for (const Realigned& each : copies) realigns = realigns && (each.whole || each.pays);
    realigns = analyzer_.Simplify(realigns);
    bool always = ir::IsConst(realigns, 1);
    bool allowed = always || func_->attrs.count(ir::kOneForAllCalls) == 0;
    if (!allowed || ir::IsConst(realigns, 0)) return self;
    for (Realigned& each : copies) each.copy = CopyOf(func_, each, realigns);
    Stmt gemm = SourceReplacer(plain, copies).MutateStmt(self);
    const auto* launch = gemm.as<ir::KernelLaunchNode>();
    if (!LoadsByTma(func_, launch, FindPlainGemm(launch), target_)) return self;
    RemarkCopies(op, copies, realigns);
    for (const Realigned& each : copies) copies_.push_back(each.copy);
    Stmt copying = CopyingLaunch(copies, realigns, op->span);
    if (always) return ir::Seq({copying, gemm}, op->span);
    ir::KernelLaunch other = ir::WithAttr(op, kFewCalls, true);
    Expr by_threads = LoadedByThreads(copies, realigns);
    return ir::Seq({copying, transform::LaunchWhere(realigns, launch),
                    transform::LaunchWhere(by_threads, other.operator->())},
                   op->span);
  }

 private:
  // Tensors of its loop whose rows may begin anywhere, where each can be copied.
  std::vector<Realigned> CopiesFor(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      if (const auto* assume = s.as<ir::AssumeNode>()) analyzer_.Assume(assume->condition);
      return true;
    });
    std::vector<Realigned> copies;
    for (const ir::CopyNode* load : plain.loads) {
      const Buffer& tensor = load->src->buffer;
      bool seen = std::any_of(copies.begin(), copies.end(),
                              [&](const Realigned& each) { return each.tensor.same_as(tensor); });
      Expr whole = seen ? Expr() : BeginsAtVectors(tensor, &analyzer_);
      if (!whole.defined()) continue;
      copies.push_back({tensor, whole, Pays(plain, load), Buffer()});
      if (!CanCopy(func_, op, copies.back())) return {};
    }
    return copies;
  }

  Expr Pays(const PlainGemm& plain, const ir::CopyNode* load) {
    auto from = [&](const Expr& extent, int64_t fewest) {
      if (!extent.defined() || !IsOfCall(extent)) return Bool(false);
      return ir::Const(extent.dtype(), fewest) <= extent;
    };
    return analyzer_.Simplify(from(plain.loop->extent, kFewestIterations) ||
                              from(TimesLoaded(plain, load), kFewestLoads));
  }

  // Returns whether the host knows the value.
  bool IsOfCall(const Expr& e) const {
    std::unordered_set<const ir::ffi::Object*> known;
    auto note = [&](const Expr& extent) {
      ir::WalkExprs(extent, [&](const Expr& part) {
        if (part->kind == ir::ExprKind::kVar) known.insert(part.get());
        return true;
      });
    };
    for (const ir::Any& param : func_->params) {
      if (auto var = param.as<ir::Var>()) note(*var);
      if (auto buffer = param.as<Buffer>()) {
        for (const Expr& extent : (*buffer)->shape) note(extent);
      }
    }
    bool all = true;
    ir::WalkExprs(e, [&](const Expr& part) {
      bool var = part->kind == ir::ExprKind::kVar;
      all = all && part->kind != ir::ExprKind::kLoad && (!var || known.count(part.get()) != 0);
      return true;
    });
    return all;
  }

  // Returns the condition of the calls in which threads load the elements.
  static Expr LoadedByThreads(const std::vector<Realigned>& copies, const Expr& realigns) {
    Expr whole = Bool(true);
    for (const Realigned& each : copies) whole = whole && each.whole;
    return ir::Not(whole) && ir::Not(realigns);
  }

  static std::string TextOfOthers() {
    return "calls whose loop has fewer than " + std::to_string(kFewestIterations) +
           " iterations and in which fewer than " + std::to_string(kFewestLoads) +
           " blocks load a tensor run another kernel, whose threads load it element by element; ";
  }

  void RemarkCopies(const ir::KernelLaunchNode* op, const std::vector<Realigned>& copies,
                    const Expr& realigns) const {
    std::string names;
    for (const Realigned& each : copies) {
      auto columns = ir::AsInt(each.copy->shape.back());
      names += (names.empty() ? "" : " and ") + std::string(each.tensor->name);
      if (columns) {
        names += " (rows of " + std::to_string(*columns) + " instead of " +
                 std::to_string(*ir::AsInt(each.tensor->shape.back())) + " elements)";
      } else if (!ir::IsConst(each.whole, 0)) {
        names += " (unless " + ir::Print(each.whole) + ")";
      }
    }
    bool always = ir::IsConst(realigns, 1);
    Remark(op->span, "copy",
           "T.Kernel: another launch copies " + names +
               " first, to memory that the call allocates: " +
               (target_->has_tma ? "TMA needs" : "copies of 16 bytes need") +
               " rows that are multiples of 16 bytes apart. Tensors with such rows need no copy; " +
               (always ? "" : TextOfOthers()) +
               "the pass option tl.disable_row_realignment turns this off");
  }

  ir::Func func_;
  Target target_;
  std::vector<Buffer> copies_;
};

}  // namespace

ir::Func RealignRows(const ir::Func& func, const Target& target) {
  return func.WithBody(RowRealigner(func, target).Body());
}

}  // namespace tilelang::tiling
