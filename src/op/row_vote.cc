#include "op/row_vote.h"

#include <set>

#include "ir/visitor.h"

namespace tilelang::op {

namespace {

constexpr const char* kAnyRow = "any_row";
constexpr int64_t kWarp = 32;

// (warp, row) for all that the fragment holds.
std::set<std::pair<int64_t, int64_t>> RowsOfWarps(const Fragment& fragment) {
  std::set<std::pair<int64_t, int64_t>> rows;
  int64_t columns = fragment->Size() / fragment->Extents()[0];
  std::vector<int64_t> threads = fragment->thread->Tabulate();
  for (int64_t copy : fragment->replica->Tabulate()) {
    for (int64_t i = 0; i < fragment->Size(); ++i) {
      rows.insert({(threads[i] + copy) / kWarp, i / columns});
    }
  }
  return rows;
}

}  // namespace

Expr AnyRow(const Buffer& flags, const Span& span) {
  Expr first = ir::Load(flags, {ir::Const(ir::dtypes::kInt32, 0)}, span);
  return ir::Call(ir::dtypes::kBool, kAnyRow, {first}, {}, span);
}

Buffer FlagsOf(const Expr& condition) {
  const auto* call = condition.as<ir::CallNode>();
  if (call == nullptr || call->name != kAnyRow) return Buffer();
  return call->args[0].as<ir::LoadNode>()->buffer;
}

bool WarpsHoldFlags(const Buffer& flags, const Stmt& body, const LayoutMap& layouts) {
  auto held = layouts.GetFragment(flags);
  bool all = held.has_value();
  std::set<std::pair<int64_t, int64_t>> of_flags;
  if (all) of_flags = RowsOfWarps(*held);
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr) return all;
    for (const Region& region : {copy->src, copy->dst}) {
      if (!region->buffer.IsFragment()) continue;
      auto moved = layouts.GetFragment(region->buffer);
      all = all && moved.has_value();
      if (!all) break;
      std::set<std::pair<int64_t, int64_t>> rows = RowsOfWarps(*moved);
      all = std::includes(of_flags.begin(), of_flags.end(), rows.begin(), rows.end());
    }
    return all;
  });
  return all;
}

Expr LowerAnyRow(const Buffer& flags, PhysicalBuffers* buffers, const LayoutMap& layouts,
                 const Span& span) {
  Buffer registers = buffers->Get(flags);
  Expr any;
  for (int64_t r = 0; r < (*layouts.GetFragment(flags))->RegsPerThread(); ++r) {
    Expr flag = ir::Load(registers, {ir::Const(ir::dtypes::kInt32, r)}, span);
    any = any.defined() ? any || flag : flag;
  }
  return ir::Call(ir::dtypes::kBool, "any_sync", {any}, {}, span);
}

}  // namespace tilelang::op
