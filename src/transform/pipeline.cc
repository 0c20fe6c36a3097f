#include "transform/pipeline.h"

#include "codegen/codegen.h"
#include "transform/expand_tile_ops.h"
#include "transform/guard_accesses.h"
#include "transform/infer_layouts.h"
#include "transform/lower_tile_ops.h"
#include "transform/plan_tensor_memory.h"
#include "transform/stage_tensor_memory.h"

namespace tilelang::transform {

using ir::Func;

CompiledFunc Compile(const Func& kernel, const Target& target, const PassConfigs& configs) {
  Func func = StageTensorMemory(kernel, target);
  func = ExpandTileOps(func, target);
  func = GuardAccesses(func);
  func = InferLayouts(func, target);
  func = PlanTensorMemory(func, target);
  func = LowerTileOps(func, target);
  return Codegen(func, target);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tl.compiler.Compile",
                                        [](Func func, ir::String arch, PassConfigs configs) {
                                          return Compile(func, GetTarget(arch), configs);
                                        });
}

}  // namespace tilelang::transform
