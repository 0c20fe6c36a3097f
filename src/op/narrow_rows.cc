#include "op/narrow_rows.h"

#include <algorithm>
#include <string>

#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/index_eval.h"

namespace tilelang::op {

namespace {

constexpr int64_t kVectorBytes = 16;

// Returns the distance of rows if it alone prevents vectors of 16 bytes, else 0.
int64_t DistanceInTheWay(const ParallelInfo& info, const Access& access, Context* ctx) {
  const Buffer& buffer = access.buffer;
  int64_t lanes = kVectorBytes / ir::Bytes(buffer->dtype);
  Array<Expr> strides = buffer.Strides();
  const Var& last = info.loop()->vars.back();
  auto along = MatchVarPlusRest(access.indices.back(), {last});
  if (!along || !ir::IsConst(strides.back(), 1) || info.extents().back() % lanes != 0) return 0;
  if (!ctx->analyzer->Divides(along->rest, lanes)) return 0;
  int64_t found = 0;
  for (size_t d = 0; d + 1 < strides.size(); ++d) {
    auto stride = ir::AsInt(strides[d]);
    if (!stride || ir::UsesVar(access.indices[d], last)) return 0;
    if (!ir::IsConst(access.indices[d], 0) && *stride % lanes != 0) found = *stride;
  }
  return found;
}

}  // namespace

void RemarkNarrowRows(const ParallelInfo& info, int64_t width, Context* ctx) {
  for (const Access& access : info.accesses()) {
    int64_t element = ir::Bytes(access.buffer->dtype);
    bool narrow = access.buffer.IsGlobal() && access.buffer->dtype.bits % 8 == 0 &&
                  width * element < kVectorBytes && access.indices.size() > 1;
    int64_t distance = narrow ? DistanceInTheWay(info, access, ctx) : 0;
    if (distance == 0) continue;
    int64_t lanes = kVectorBytes / element;
    std::string bytes =
        std::to_string(width * element) + (width * element == 1 ? " byte" : " bytes");
    Remark(access.span.defined() ? access.span : info.loop()->span, "vectorize",
           std::string(access.buffer->name) + " is accessed " + bytes +
               " at a time: its rows are " + std::to_string(distance) +
               " elements apart, which is not a multiple of 16 bytes. Rows " +
               std::to_string((distance + lanes - 1) / lanes * lanes) +
               " elements apart would be accessed 16 bytes at a time: pass a part of a longer "
               "tensor as T.StridedTensor");
  }
}

}  // namespace tilelang::op
