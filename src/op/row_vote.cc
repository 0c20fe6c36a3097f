#include "op/row_vote.h"

#include <algorithm>

#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

constexpr const char* kAnyRow = "any_row";

// Returns for each warp and row whether the warp holds elements of the row.
std::vector<bool> RowsOfWarps(const Fragment& fragment, int64_t warps) {
  int64_t rows = fragment->Extents()[0], columns = fragment->Size() / rows;
  std::vector<bool> holds(warps * rows);
  std::vector<int64_t> threads = fragment->thread->Tabulate();
  for (int64_t copy : fragment->replica->Tabulate()) {
    for (int64_t i = 0; i < fragment->Size(); ++i) {
      holds[(threads[i] + copy) / kWarp * rows + i / columns] = true;
    }
  }
  return holds;
}

}  // namespace

Expr AnyRow(const Buffer& flags, const Span& span) {
  Expr first = ir::Load(flags, {ir::Const(ir::dtypes::kInt32, 0)}, span);
  return ir::Call(ir::dtypes::kBool, kAnyRow, {first}, {}, span);
}

Buffer FlagsOf(const Expr& condition) {
  const auto* call = condition.as<ir::CallNode>();
  if (call == nullptr || !call->Is(ir::Builtin::kAnyRow)) return Buffer();
  return call->args[0].as<ir::LoadNode>()->buffer;
}

bool WarpsHoldFlags(const Buffer& flags, const Stmt& body, const Context& ctx) {
  auto held = ctx.layouts->GetFragment(flags);
  if (!held) return false;
  int64_t warps = (ctx.cta_threads + kWarp - 1) / kWarp;
  std::vector<bool> of_flags = RowsOfWarps(*held, warps);
  std::vector<Fragment> covered;
  bool all = true;
  auto check = [&](const Buffer& buffer) {
    if (!all || !buffer.IsFragment()) return;
    Fragment moved = *ctx.layouts->GetFragment(buffer);
    auto same = [&](const Fragment& known) { return known.SameMap(moved); };
    if (std::any_of(covered.begin(), covered.end(), same)) return;
    std::vector<bool> rows = RowsOfWarps(moved, warps);
    for (size_t i = 0; i < rows.size(); ++i) all = all && (!rows[i] || of_flags[i]);
    covered.push_back(moved);
  };
  ir::WalkStmts(body, [&](const Stmt& s) {
    if (const auto* copy = s.as<ir::CopyNode>()) {
      check(copy->src->buffer);
      check(copy->dst->buffer);
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
