#include "op/unaligned.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/same.h"

namespace tilelang::op {

namespace {

// Returns the offset of an element in its tensor.
Expr OffsetOf(const Buffer& buffer, const Array<Expr>& indices) {
  Expr offset = ir::Const(ir::dtypes::kInt64, 0);
  Array<Expr> strides = buffer.Strides();
  for (size_t d = 0; d < indices.size(); ++d) {
    offset = offset + ir::CastTo(ir::dtypes::kInt64, indices[d]) *
                          ir::CastTo(ir::dtypes::kInt64, strides[d]);
  }
  return offset;
}

}  // namespace

OneWayTensors::OneWayTensors(const Stmt& launch_body) {
  struct Use {
    Buffer buffer;
    bool reads, writes;
  };
  std::vector<Use> uses;
  ir::WalkEffects(launch_body, [&](const ir::Effect& e) {
    if (!e.buffer.IsGlobal()) return;
    auto use = std::find_if(uses.begin(), uses.end(),
                            [&](const Use& each) { return each.buffer.same_as(e.buffer); });
    if (use == uses.end()) use = uses.insert(uses.end(), {e.buffer, false, false});
    use->reads |= e.Reads();
    use->writes |= e.Writes();
  });
  for (const Use& use : uses) {
    if (use.reads != use.writes) tensors_.push_back(use.buffer);
  }
}

bool OneWayTensors::Contain(const Buffer& buffer) const { return ir::HasSame(tensors_, buffer); }

bool MayBeginAnywhere(const Access& access, int64_t width, const ir::ParallelForNode* loop,
                      Context* ctx) {
  const Buffer& buffer = access.buffer;
  int bits = buffer->dtype.bits;
  bool fits = (bits == 8 || bits == 16 || bits == 32) && width * ir::Bytes(buffer->dtype) <= 16;
  return fits && ctx->one_way != nullptr && ctx->one_way->Contain(buffer) &&
         (access.is_write || BoundsOfUnaligned(access, width, loop, ctx).size() == 2);
}

std::vector<RaggedCondition> BoundsOfUnaligned(const Access& access, int64_t width,
                                               const ir::ParallelForNode* loop, Context* ctx) {
  const Buffer& buffer = access.buffer;
  Expr begin = OffsetOf(buffer, access.indices);
  Expr before = ir::Const(ir::dtypes::kInt64, width - 1);
  Array<Expr> last;
  for (const Expr& extent : buffer->shape) last.push_back(extent - ir::Const(extent.dtype(), 1));
  Expr end = OffsetOf(buffer, last);
  std::vector<RaggedCondition> bounds;
  for (const Expr& condition : {begin >= before, begin + before <= end}) {
    if (auto ragged = AsRagged(condition, loop, ctx)) bounds.push_back(*std::move(ragged));
  }
  return bounds;
}

}  // namespace tilelang::op
