#include "schedule/missing_rows.h"

#include <tvm/ffi/cast.h>

#include "op/effect.h"

namespace tilelang::schedule {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

ir::Region WithExtent(const ir::Region& region, size_t dim, int64_t extent) {
  Array<Expr> extents = region->extents;
  extents.Set(static_cast<int64_t>(dim), I32(extent));
  return {region->buffer, region->mins, extents};
}

// Stores zeros from row `first` of each slot on.
Stmt ClearFrom(const Buffer& slots, int64_t first, const ir::Span& span) {
  Array<ir::Var> vars;
  Array<Expr> extents = slots->shape;
  extents.Set(1, I32(*ir::AsInt(extents[1]) - first));
  Array<Expr> indices;
  for (size_t d = 0; d < extents.size(); ++d) {
    ir::Var var("i" + std::to_string(d), ir::dtypes::kInt32, span);
    vars.push_back(var);
    indices.push_back(d == 1 ? var + I32(first) : Expr(var));
  }
  Stmt store = ir::Store(slots, indices, ir::CastTo(slots->dtype, I32(0)), span);
  return ir::ParallelFor(vars, extents, store, {}, span);
}

}  // namespace

ir::Copy WithoutMissingRows(const ir::CopyNode* load) {
  int64_t count = load->options->existing_rows;
  if (count == 0) return ir::ffi::GetRef<ir::Copy>(load);
  return ir::Copy(load, [&](ir::CopyNode* copy) {
    copy->src = WithExtent(load->src, load->src->extents.size() - 2, count);
    copy->dst = WithExtent(load->dst, 0, count);
    copy->options =
        load->options.But([](ir::CopyOptionsNode* options) { options->existing_rows = 0; });
  });
}

std::vector<Stmt> ClearMissingRows(const std::vector<Ring>& rings) {
  std::vector<Stmt> stmts;
  for (const Ring& ring : rings) {
    for (const Handover& handover : ring.channel->handovers) {
      for (size_t at : handover.loads) {
        const auto* load = handover.seq->stmts[at].as<ir::CopyNode>();
        if (load == nullptr) continue;  // a gemm, of a ring of results
        int64_t rows = load->options->existing_rows;
        for (size_t i = 0; rows != 0 && i < ring.slots.size(); ++i) {
          if (!ring.channel->tiles[i].same_as(load->dst->buffer)) continue;
          stmts.push_back(ClearFrom(ring.slots[i], rows, load->span));
        }
      }
    }
  }
  return stmts;
}

}  // namespace tilelang::schedule
