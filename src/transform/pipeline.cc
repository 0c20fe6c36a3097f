#include "transform/pipeline.h"

#include "codegen/codegen.h"
#include "transform/assign_arrivals.h"
#include "transform/check_program.h"
#include "transform/expand_unrolled.h"
#include "transform/guard_accesses.h"
#include "transform/infer_layouts.h"
#include "transform/insert_sync.h"
#include "transform/instrument.h"
#include "transform/lower_tile_ops.h"
#include "transform/number_barriers.h"
#include "transform/order_phases.h"
#include "transform/order_tensor_memory.h"
#include "transform/plan_shared_memory.h"
#include "transform/plan_tensor_memory.h"
#include "transform/remark_arguments.h"
#include "transform/remark_registers.h"
#include "transform/resolve_roles.h"
#include "transform/select_instructions.h"
#include "transform/simplify.h"
#include "transform/split_fragments.h"
#include "transform/stage_tensor_memory.h"

namespace tilelang::transform {

using ir::Func;

namespace {

bool IsSet(const PassConfigs& configs, const char* key) {
  auto it = configs.find(key);
  return it != configs.end() && (*it).second.cast<bool>();
}

}  // namespace

CompiledFunc Compile(const Func& kernel, const Target& target, const PassConfigs& configs) {
  PassContext passes(target);
  Func func = passes.Run("remark_arguments", RemarkArguments, kernel);
  func = passes.Run("check_program", CheckProgram, func);
  func = passes.Run("simplify", Simplify, func);
  func = passes.Run("expand_unrolled", ExpandUnrolled, func);
  func = passes.Run("resolve_roles", ResolveRoles, func);
  func = passes.Run("assign_arrivals", AssignArrivals, func);
  func = passes.Run("split_fragments", SplitFragments, func);
  func = passes.Run("stage_tensor_memory", StageTensorMemory, func);
  bool use_tma = !IsSet(configs, "tl.disable_tma_lower");
  auto select = [use_tma](const Func& f, const Target& t) {
    return SelectInstructions(f, t, use_tma);
  };
  func = passes.Run("select_instructions", select, func);
  func = passes.Run("guard_accesses", GuardAccesses, func);
  func = passes.Run("infer_layouts", InferLayouts, func, Stage::kLaidOut);
  func = passes.Run("plan_tensor_memory", PlanTensorMemory, func);
  func = passes.Run("order_tensor_memory", OrderTensorMemory, func);
  func = passes.Run("lower_tile_ops", LowerTileOps, func, Stage::kThread);
  func = passes.Run("simplify", Simplify, func);
  func = passes.Run("remark_registers", RemarkRegisters, func);
  func = passes.Run("plan_shared_memory", PlanSharedMemory, func, Stage::kPlanned);
  bool sync = !IsSet(configs, "tl.disable_thread_storage_sync");
  func = passes.Run("insert_sync", [&](const Func& f) { return InsertSync(f, sync); }, func);
  func = passes.Run("order_phases", OrderPhases, func);
  func = passes.Run("number_barriers", NumberBarriers, func);
  CodegenOptions options;
  options.fast_math = IsSet(configs, "tl.enable_fast_math");
  return Codegen(func, target, options).WithRemarks(passes.remarks());
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tl.compiler.Compile",
                                        [](Func func, ir::String arch, PassConfigs configs) {
                                          return Compile(func, GetTarget(arch), configs);
                                        });
  auto with_target = [](auto pass) {
    return [pass](const Func& func, const Target& target) { return pass(func, target); };
  };
  RegisterPass("stage_tensor_memory", with_target(StageTensorMemory));
  RegisterPass("select_instructions", [](const Func& func, const Target& target) {
    return SelectInstructions(func, target, /*use_tma=*/true);
  });
  RegisterPass("guard_accesses",
               [](const Func& func, const Target&) { return GuardAccesses(func); });
  RegisterPass("infer_layouts", with_target(InferLayouts));
  RegisterPass("plan_tensor_memory", with_target(PlanTensorMemory));
  RegisterPass("order_tensor_memory", with_target(OrderTensorMemory));
  RegisterPass("lower_tile_ops", with_target(LowerTileOps));
  RegisterPass("plan_shared_memory", with_target(PlanSharedMemory));
  RegisterPass("insert_sync", [](const Func& func, const Target&) { return InsertSync(func); });
  RegisterPass("order_phases", [](const Func& func, const Target&) { return OrderPhases(func); });
  RegisterPass("number_barriers",
               [](const Func& func, const Target&) { return NumberBarriers(func); });
}

}  // namespace tilelang::transform
