#include "lower/pad_operands.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "tiling/loop_stages.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

constexpr int64_t kStepBits = 256;   // of K: what one tensor-core instruction multiplies
constexpr int64_t kLineBytes = 128;  // the most that TMA swizzles
constexpr int64_t kTmaBytes = 16;    // TMA loads rows that begin at multiples of these

int64_t RoundUp(int64_t extent, int64_t step) { return (extent + step - 1) / step * step; }

int64_t BitsOf(const ir::GemmOperandNode* operand) { return operand->buffer()->dtype.bits; }

// K of a gemm in whole instructions.
int64_t PaddedDepth(const ir::GemmNode* op) {
  return RoundUp(*ir::AsInt(op->Depth()), kStepBits / BitsOf(op->Inputs().front()));
}

// The extents that a buffer gets, by dimension; 0 for a dimension that stays as it is.
using Padding = std::vector<int64_t>;

// Returns whether the region covers dimension `dim` of its buffer.
bool HasWhole(const Region& region, size_t dim) {
  auto extent = ir::AsInt(region->extents[dim]);
  return ir::IsConst(region->mins[dim], 0) && extent.has_value() &&
         extent == ir::AsInt(region->buffer->shape[dim]);
}

// The boxes in which TMA loads a row of so many bytes: each is at most the bytes that it swizzles.
int64_t BoxesOf(int64_t bytes) {
  int64_t swizzle = kLineBytes;
  while (swizzle > kTmaBytes && bytes % swizzle != 0) swizzle /= 2;
  return bytes / swizzle;
}

// The dimensions of a region whose extents are not 1.
std::vector<size_t> LongDims(const Region& region) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < region->extents.size(); ++d) {
    if (!ir::IsConst(region->extents[d], 1)) dims.push_back(d);
  }
  return dims;
}

// The dimension of the source of a copy that lies along dimension `dim` of its destination.
std::optional<size_t> SourceDim(const ir::CopyNode* op, size_t dim) {
  std::vector<size_t> to = LongDims(op->dst);
  std::vector<size_t> from = LongDims(op->src);
  auto at = std::find(to.begin(), to.end(), dim);
  if (at == to.end() || to.size() != from.size()) return std::nullopt;
  return from[at - to.begin()];
}

// Returns whether a copy can bring zeros from beyond the end of its tensor along `dim` of its
// destination.
bool EndsWithTensor(const ir::CopyNode* op, size_t dim) {
  auto source = SourceDim(op, dim);
  if (!op->src->buffer.IsGlobal() || !source.has_value()) return false;
  auto min = ir::AsInt(op->src->mins[*source]);
  auto extent = ir::AsInt(op->src->extents[*source]);
  auto end = ir::AsInt(op->src->buffer->shape[*source]);
  return min && extent && end && *min + *extent == *end && HasWhole(op->dst, dim);
}

// Decides which buffers of a launch are padded, and by how much.
class Planner {
 public:
  Planner(const ir::KernelLaunchNode* launch, const Target& target)
      : launch_(launch), target_(target) {
    Refuse();
    FindRoom();
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      const auto* gemm = s.as<ir::GemmNode>();
      if (gemm == nullptr || gemm->IsScaled() || gemm->IsSparse() || !op::WaitsItself(gemm) ||
          gemm->annotations.count("is_wgmma") != 0) {
        return true;
      }
      PlanDepth(gemm);
      PlanColumns(gemm);
      if (target_->has_tma) {
        for (const ir::GemmOperandNode* input : gemm->Inputs()) PlanLines(input);
      }
      return true;
    });
  }

  const std::unordered_map<const ffi::Object*, Padding>& padded() const { return padded_; }

 private:
  // Finds the buffers that keep their shape.
  void Refuse() {
    if (auto layouts = launch_->attrs.Get("layout_map")) {
      for (const auto& [buffer, layout] : (*layouts).cast<ir::Map<Buffer, ir::Any>>()) {
        kept_.insert(buffer.get());
      }
    }
    RefuseWrites(launch_->body, false);
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      if (effect.kind == ir::EffectKind::kAddress) kept_.insert(effect.buffer.get());
    });
  }
  // ordered: in a loop whose program numbers its statements.
  void RefuseWrites(const Stmt& body, bool ordered) {
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::ForNode>()) {
        if (!ordered && loop->annotations.count("order") != 0) {
          RefuseWrites(loop->body, true);
          return false;
        }
        return true;
      }
      if (s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kIf ||
          s->kind == ir::StmtKind::kWhile) {
        return true;
      }
      RefuseWritten(s, ordered);
      return false;
    });
  }
  void RefuseWritten(const Stmt& s, bool ordered) {
    const auto* copy = s.as<ir::CopyNode>();
    bool waits = copy != nullptr && !copy->mbar.defined() && !copy->block.defined() &&
                 copy->options->call_kind() == ir::CopyCall::kCopy &&
                 copy->options->cluster_mask == 0;
    bool pads = waits || s->kind == ir::StmtKind::kFill || s->kind == ir::StmtKind::kParallelFor ||
                s->kind == ir::StmtKind::kReduce || s->kind == ir::StmtKind::kAlloc;
    bool extends = waits && copy->src->buffer.IsGlobal();
    if (pads && (!ordered || extends)) return;
    for (const ir::Effect& effect : ir::EffectsOf(s)) {
      if (effect.Writes()) kept_.insert(effect.buffer.get());
    }
  }

  void PlanDepth(const ir::GemmNode* gemm) {
    auto depth = ir::AsInt(gemm->Depth());
    int64_t bits = BitsOf(gemm->Inputs().front());
    if (!depth || bits < 8 || *depth * bits % kStepBits == 0) return;
    std::vector<const ir::GemmOperandNode*> operands = gemm->Inputs();
    for (const ir::GemmOperandNode* operand : operands) {
      if (!CanPad(operand, ir::GemmDim::kK) || BitsOf(operand) != bits) return;
    }
    for (const ir::GemmOperandNode* operand : operands) {
      Pad(operand, ir::GemmDim::kK, PaddedDepth(gemm));
    }
    Remark(gemm->span, "gemm",
           "K = " + std::to_string(*depth) + " is padded with zeros to " +
               std::to_string(PaddedDepth(gemm)) +
               ", because a tensor-core instruction multiplies 32 bytes of each row");
  }
  void PlanColumns(const ir::GemmNode* gemm) {
    const ir::GemmOperandNode* b = nullptr;
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      if (input->DimAlong(ir::GemmDim::kN)) b = input;
    }
    const ir::Region& c = gemm->result();
    auto given = ir::AsInt(c->extents.back());
    // Each block of a pair has half of the columns of B.
    if (!given || !c->buffer.IsFragment() || op::IsInPairs(gemm)) return;
    size_t dim = *b->DimAlong(ir::GemmDim::kN);
    int64_t columns = *given;
    if (target_->has_tcgen05) columns = op::WholeColumns(gemm, target_);
    bool rows_of_columns = dim + 1 == b->region->extents.size();
    if (target_->has_wgmma && rows_of_columns) columns = RoundUp(columns, kStepBits / BitsOf(b));
    if (columns > *given && CanPad(b, ir::GemmDim::kN)) Pad(b, ir::GemmDim::kN, columns);
  }

  // Pads rows to whole lines where TMA then loads them in half as many boxes or fewer.
  void PlanLines(const ir::GemmOperandNode* operand) {
    const Buffer& buffer = operand->buffer();
    size_t last = buffer->shape.size() - 1;
    ir::GemmDim dim = operand->DimAlong(ir::GemmDim::kK) == last   ? ir::GemmDim::kK
                      : operand->DimAlong(ir::GemmDim::kM) == last ? ir::GemmDim::kM
                                                                   : ir::GemmDim::kN;
    if (operand->DimAlong(dim) != last || !CanPad(operand, dim) || !IsLoaded(buffer)) return;
    auto planned = padded_.find(buffer.get());
    int64_t extent = *ir::AsInt(buffer->shape[last]);
    if (planned != padded_.end()) extent = std::max(extent, planned->second[last]);
    int64_t bytes = extent * buffer->dtype.bits / 8;
    int64_t lines = RoundUp(bytes, kLineBytes);
    if (2 * BoxesOf(lines) > BoxesOf(bytes)) return;
    int64_t rows =
        schedule::TileBytes(buffer) * 8 / buffer->dtype.bits / *ir::AsInt(buffer->shape[last]);
    int64_t more = (lines - bytes) * rows * most_stages_;
    if (more > room_) return;
    room_ -= more;
    Pad(operand, dim, lines * 8 / buffer->dtype.bits);
  }
  // Finds how many more bytes of shared memory tiles can take.
  void FindRoom() {
    ir::WalkStmts(launch_->body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::ForNode>();
      if (loop != nullptr) most_stages_ = std::max(most_stages_, schedule::StagesOf(loop));
      return true;
    });
    room_ = target_->shared_memory_per_block - tiling::kBlockBytes - schedule::SharedBytes(launch_);
  }
  // Returns whether TMA can write all of the buffer's rows, beyond the ends of their tensors too.
  bool IsLoaded(const Buffer& buffer) const {
    bool loaded = true;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      if (!effect.buffer.same_as(buffer) || !effect.Writes()) return;
      const auto* copy = effect.By<ir::CopyNode>();
      loaded = loaded && copy != nullptr && EndsWithTensor(copy, buffer->shape.size() - 1) &&
               HasAlignedRows(copy->src->buffer);
    });
    return loaded;
  }
  static bool HasAlignedRows(const Buffer& tensor) {
    auto extent = ir::AsInt(tensor->shape.back());
    return extent && tensor->strides.empty() && *extent * tensor->dtype.bits / 8 % kTmaBytes == 0;
  }

  bool CanPad(const ir::GemmOperandNode* operand, ir::GemmDim dim) const {
    const Buffer& buffer = operand->buffer();
    return buffer.IsShared() && buffer->strides.empty() && buffer->attrs.empty() &&
           operand->element_format() == ir::GemmFormat::kOwn && kept_.count(buffer.get()) == 0 &&
           HasWhole(operand->region, *operand->DimAlong(dim));
  }
  void Pad(const ir::GemmOperandNode* operand, ir::GemmDim dim, int64_t extent) {
    Padding& padding = padded_[operand->buffer().get()];
    padding.resize(operand->buffer()->shape.size());
    int64_t& padded = padding[*operand->DimAlong(dim)];
    padded = std::max(padded, extent);
  }

  const ir::KernelLaunchNode* launch_;
  const Target& target_;
  int64_t room_ = 0;         // of shared memory
  int64_t most_stages_ = 1;  // of a loop
  std::unordered_set<const ffi::Object*> kept_;
  std::unordered_map<const ffi::Object*, Padding> padded_;
};

// Rewrites a launch to the padded buffers.
class Padder : public ir::StmtMutator {
 public:
  explicit Padder(const std::unordered_map<const ffi::Object*, Padding>& padded)
      : padded_(padded) {}

  using StmtMutator::Rewrite;
  Stmt MutateStmt(const Stmt& s) override {
    bool inside =
        std::exchange(in_parallel_, in_parallel_ || s->kind == ir::StmtKind::kParallelFor);
    Stmt rewritten = StmtMutator::MutateStmt(s);
    in_parallel_ = inside;
    bool writes = s->kind == ir::StmtKind::kCopy || s->kind == ir::StmtKind::kFill ||
                  s->kind == ir::StmtKind::kParallelFor || s->kind == ir::StmtKind::kReduce;
    if (!writes || inside) return rewritten;
    std::vector<Stmt> stmts = {rewritten};
    std::unordered_set<const ffi::Object*> filled;
    for (const ir::Effect& effect : ir::EffectsOf(s)) {
      if (effect.Writes() && filled.insert(effect.buffer.get()).second) Fill(s, effect, &stmts);
    }
    return ir::MakeSeq(stmts, s.span());
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    Stmt rewritten = StmtMutator::Rewrite(op);
    const auto* gemm = rewritten.as<ir::GemmNode>();
    for (const ir::GemmOperandNode* input : op->Inputs()) {
      if (!input->IsMatrix() || !HasPaddedDepth(op, input)) return rewritten;
    }
    return ir::Gemm(gemm, gemm->WithRegions([&](const ir::GemmOperandNode* operand) {
      auto dim = operand->DimAlong(ir::GemmDim::kK);
      return dim ? WithExtent(operand->region, *dim, PaddedDepth(op)) : operand->region;
    }));
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt rewritten = StmtMutator::Rewrite(op);
    auto found = padded_.find(op->dst->buffer.get());
    if (found == padded_.end()) return rewritten;
    const auto* copy = rewritten.as<ir::CopyNode>();
    Region src = copy->src;
    Region dst = copy->dst;
    for (size_t d = 0; d < found->second.size(); ++d) {
      if (found->second[d] == 0 || !EndsWithTensor(op, d)) continue;
      src = WithExtent(src, *SourceDim(op, d), found->second[d]);
      dst = WithExtent(dst, d, found->second[d]);
    }
    return ir::Copy(copy, src, dst);
  }

 protected:
  Buffer MutateBuffer(const Buffer& buffer) override {
    auto found = padded_.find(buffer.get());
    if (found == padded_.end()) return buffer;
    auto known = buffers_.find(buffer);
    if (known != buffers_.end()) return (*known).second;
    Array<Expr> shape = buffer->shape;
    for (size_t d = 0; d < found->second.size(); ++d) {
      if (found->second[d] == 0) continue;
      shape.Set(static_cast<int64_t>(d), ir::Const(shape[d].dtype(), found->second[d]));
    }
    Buffer larger(buffer->name, buffer->dtype, shape, {}, buffer->scope, buffer->attrs,
                  buffer->span);
    buffers_.Set(buffer, larger);
    return larger;
  }

 private:
  bool HasPaddedDepth(const ir::GemmNode* op, const ir::GemmOperandNode* operand) const {
    auto found = padded_.find(operand->buffer().get());
    size_t dim = *operand->DimAlong(ir::GemmDim::kK);
    return found != padded_.end() && HasWhole(operand->region, dim) &&
           found->second[dim] >= PaddedDepth(op) && PaddedDepth(op) > *ir::AsInt(op->Depth());
  }
  static Region WithExtent(const Region& region, size_t dim, int64_t extent) {
    Array<Expr> extents = region->extents;
    extents.Set(static_cast<int64_t>(dim), ir::Const(extents[dim].dtype(), extent));
    return Region(region->buffer, region->mins, extents);
  }

  // Appends the fills of the new elements beside what statement `s` writes of a padded buffer.
  void Fill(const Stmt& s, const ir::Effect& effect, std::vector<Stmt>* stmts) {
    auto found = padded_.find(effect.buffer.get());
    if (found == padded_.end()) return;
    const auto* copy = effect.By<ir::CopyNode>();
    for (size_t d = 0; d < found->second.size(); ++d) {
      if (found->second[d] == 0 || (copy != nullptr && EndsWithTensor(copy, d))) continue;
      Buffer larger = MutateBuffer(effect.buffer);
      Region pad = effect.region.defined()
                       ? Region(larger, effect.region->mins, effect.region->extents)
                       : Region::Whole(larger);
      Array<Expr> mins = pad->mins;
      Expr first = effect.buffer->shape[d];
      mins.Set(static_cast<int64_t>(d), first);
      int64_t count = found->second[d] - *ir::AsInt(first);
      stmts->push_back(ir::Fill(WithExtent(Region(larger, mins, pad->extents), d, count),
                                ir::Const(larger->dtype, 0), s.span()));
    }
  }

  const std::unordered_map<const ffi::Object*, Padding>& padded_;
  ir::Map<Buffer, Buffer> buffers_;
  bool in_parallel_ = false;
};

class Launches : public ir::StmtMutator {
 public:
  explicit Launches(const Target& target) : target_(target) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Planner planner(op, target_);
    if (planner.padded().empty()) return ffi::GetRef<Stmt>(op);
    return ir::WithBody(op, Padder(planner.padded()).MutateStmt(op->body));
  }

 private:
  const Target& target_;
};

}  // namespace

ir::Func PadOperands(const ir::Func& func, const Target& target) {
  return func.WithBody(Launches(target).MutateStmt(func->body));
}

}  // namespace tilelang::lower
