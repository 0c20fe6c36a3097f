#include "transform/realign_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "transform/loop_stages.h"
#include "transform/plain_gemm.h"
#include "transform/tile_cost.h"

namespace tilelang::transform {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kTmaAlignment = 16;
constexpr int64_t kLineBytes = 128;
// What a block copies: so many bytes of so many rows.
constexpr int64_t kThreads = 256;
constexpr int64_t kRowBytes = 2048;
constexpr int64_t kRows = 4;
// A tensor that so many blocks load, or one with a loop of so many iterations, costs less where it
// is copied first: below, the launch takes longer than threads that load.
constexpr int64_t kFewestLoads = 4;
constexpr int64_t kFewestIterations = 16;

// A tensor and its copy.
struct Realigned {
  Buffer tensor;
  Buffer copy;
};

bool BeginsAtVectors(const Buffer& tensor) {
  if (tensor->shape.size() < 2) return true;
  auto apart = ir::AsInt(tensor.Strides()[tensor->shape.size() - 2]);
  return apart && *apart * ir::Bytes(tensor->dtype) % kTmaAlignment == 0;
}

// Whether the launch only reads the tensor, which is one of matrices whose rows have a known
// length and lie in one piece.
bool CanCopy(const ir::KernelLaunchNode* op, const Buffer& tensor) {
  size_t rank = tensor->shape.size();
  bool matrices = (rank == 2 || rank == 3) && ir::IsConst(tensor.Strides()[rank - 1], 1);
  bool can = matrices && ir::AsInt(tensor->shape.back()) && tensor->dtype.bits % 8 == 0;
  ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
    can = can && !(effect.Writes() && effect.buffer.same_as(tensor));
  });
  return can;
}

Buffer CopyOf(const Buffer& tensor) {
  int64_t line = kLineBytes / ir::Bytes(tensor->dtype);
  Array<Expr> shape = tensor->shape;
  int64_t columns = CeilDiv(*ir::AsInt(shape.back()), line) * line;
  shape.Set(shape.size() - 1, ir::Const(shape.back().dtype(), columns));
  return Buffer(std::string(tensor->name) + "_rows", tensor->dtype, shape, {}, "global", {},
                tensor->span);
}

// How many blocks load an element of the tensor; 0 where that is not known.
int64_t TimesLoaded(const PlainGemm& plain, const ir::CopyNode* load) {
  for (const ir::GemmNode* gemm : plain.gemms) {
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      if (!input->buffer().same_as(load->dst->buffer)) continue;
      ir::GemmDim other = input->DimAlong(ir::GemmDim::kM) ? ir::GemmDim::kN : ir::GemmDim::kM;
      const ir::GemmOperandNode* c = gemm->Operand(ir::GemmOperandKind::kC);
      auto tile = ir::AsInt(c->region->extents[*c->DimAlong(other)]);
      Expr extent = ExtentOfTensor(plain, other);
      auto all = extent.defined() ? ir::AsInt(extent) : std::nullopt;
      return tile && all ? CeilDiv(*all, *tile) : 0;
    }
  }
  return 0;
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
  Expr columns = op::I32(CeilDiv(*ir::AsInt(shape.back()), width));
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
  Stmt body = op::Sequence(
      {ir::Alloc(tile, span),
       ir::Copy(ir::Region(each.tensor, mins, extents), ir::Region::Whole(tile), {}, span),
       ir::Copy(ir::Region::Whole(tile), ir::Region(each.copy, mins, extents), {}, span)},
      span);
  return {blocks, body};
}

// One launch that makes all copies.
Stmt CopyingLaunch(const std::vector<Realigned>& copies, const ir::Span& span) {
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
  return ir::KernelLaunch({block}, {before}, {thread}, {op::I32(kThreads)}, {}, body, span);
}

// The same statements with tiles loaded from the copies.
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
      return ir::Copy(src, op->dst, op->annotations, op->span, op->mbar, op->block);
    }
    return ir::ffi::GetRef<Stmt>(op);
  }

 private:
  const PlainGemm& plain_;
  const std::vector<Realigned>& copies_;
};

class RowRealigner : public ir::StmtMutator {
 public:
  RowRealigner(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  Stmt Body() {
    Stmt body = MutateStmt(func_->body);
    if (allocations_.empty()) return body;
    std::vector<Stmt> stmts = allocations_;
    if (const auto* seq = body.as<ir::SeqNode>()) {
      stmts.insert(stmts.end(), seq->stmts.begin(), seq->stmts.end());
    } else {
      stmts.push_back(body);
    }
    return op::Sequence(stmts, body.span());
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || LoadsByTma(func_, op, plain, target_)) return self;
    std::vector<Realigned> copies = CopiesFor(op, plain);
    if (copies.empty()) return self;
    Stmt gemm = SourceReplacer(plain, copies).MutateStmt(self);
    const auto* launch = gemm.as<ir::KernelLaunchNode>();
    if (!LoadsByTma(func_, launch, FindPlainGemm(launch), target_)) return self;
    Say(op, copies);
    for (const Realigned& each : copies) allocations_.push_back(ir::Alloc(each.copy, op->span));
    return ir::Seq({CopyingLaunch(copies, op->span), gemm}, op->span);
  }

 private:
  // Copies for the tensors of its loop whose rows begin anywhere, where it is worth it for each.
  static std::vector<Realigned> CopiesFor(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
    std::vector<Realigned> copies;
    bool is_long = ir::AsInt(plain.loop->extent).value_or(0) >= kFewestIterations;
    for (const ir::CopyNode* load : plain.loads) {
      const Buffer& tensor = load->src->buffer;
      bool seen = std::any_of(copies.begin(), copies.end(),
                              [&](const Realigned& each) { return each.tensor.same_as(tensor); });
      if (seen || BeginsAtVectors(tensor)) continue;
      bool pays = is_long || TimesLoaded(plain, load) >= kFewestLoads;
      if (!pays || !CanCopy(op, tensor)) return {};
      copies.push_back({tensor, CopyOf(tensor)});
    }
    return copies;
  }

  void Say(const ir::KernelLaunchNode* op, const std::vector<Realigned>& copies) const {
    std::string names;
    for (const Realigned& each : copies) {
      names += (names.empty() ? "" : " and ") + each.tensor->name + " (rows of " +
               std::to_string(*ir::AsInt(each.copy->shape.back())) + " instead of " +
               std::to_string(*ir::AsInt(each.tensor->shape.back())) + " elements)";
    }
    Remark(op->span, "copy",
           "T.Kernel: another launch copies " + names +
               " first, to memory of the call: the tensor memory accelerator loads tiles of rows "
               "that are multiples of 16 bytes apart. Tensors with such rows need no copy; the "
               "pass option tl.disable_row_realignment turns this off");
  }

  ir::Func func_;
  Target target_;
  std::vector<Stmt> allocations_;
};

}  // namespace

ir::Func RealignRows(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(RowRealigner(func, target).Body());
}

}  // namespace tilelang::transform
