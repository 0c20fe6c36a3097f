#include "op/instruction.h"

#include "ir/error.h"
#include "op/copy_cluster.h"
#include "op/copy_scales.h"
#include "op/copy_tma.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/gemm_mma.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "op/reduce.h"
#include "op/scan.h"

namespace tilelang::op {

namespace {

using Table = std::vector<const TileInstruction*>;

// Lists the instructions of a target, best first, by the features that they need. A loop of threads
// does what no instruction can do.
Table MakeTable(const Target& target) {
  Table table;
  if (target->has_tma) table.insert(table.end(), {TmaLoad(), TmaStore(), BlockCopy()});
  if (target->has_tcgen05) {
    table.insert(table.end(), {TmemLoad(), TmemStore(), ScaleCopy(), Tcgen05Cp(), Tcgen05Mma()});
  }
  if (target->has_wgmma) table.push_back(Wgmma());
  table.insert(table.end(), {MmaSync(), ThreadScan(), ThreadReduce()});
  return table;
}

}  // namespace

std::span<const TileInstruction* const> InstructionsOf(const Target& target) {
  static const auto* tables = [] {
    auto* all = new std::vector<std::pair<ffi::String, Table>>();
    for (const Target& t : AllTargets()) all->emplace_back(t->arch, MakeTable(t));
    return all;
  }();
  for (const auto& [arch, table] : *tables) {
    if (arch == target->arch) return table;
  }
  return {};
}

const TilePlanNode* TilePlanOf(const ir::TileOpNode* op) {
  return static_cast<const TilePlanNode*>(op->plan.get());
}

const TileInstruction* InstructionOf(const ir::TileOpNode* op) {
  const TilePlanNode* plan = TilePlanOf(op);
  return plan == nullptr ? nullptr : plan->instruction;
}

Stmt WithPlanOf(const TileInstruction* instruction, const Stmt& op, Context* ctx) {
  PlanResult result = instruction->MakePlan(op.as<ir::TileOpNode>(), ctx);
  TL_CHECK(result.plan.defined(), op.span(), instruction->Name() << ": " << result.reason);
  return ir::WithPlan(op, result.plan);
}

}  // namespace tilelang::op
