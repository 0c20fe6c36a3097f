// What a CTA sets up before its work and releases after it: mbarriers and tensor memory.
#ifndef TILELANG_TRANSFORM_CTA_RESOURCES_H_
#define TILELANG_TRANSFORM_CTA_RESOURCES_H_

#include "op/context.h"

namespace tilelang::transform {

class CtaResources {
 public:
  // Finds the barriers and the tensor memory that the body of a launch allocates. Columns come
  // from launch->attrs["tmem_columns"] (see PlanTensorMemory).
  CtaResources(const ir::KernelLaunchNode* launch, const Target& target);

  // Buffers whose allocation moves to the set-up.
  bool Owns(const ir::Buffer& buffer) const;
  const op::TensorMemory* tensor_memory() const { return &tmem_; }
  // The barrier on which the compiler's own MMAs complete, and the parity it waits for next.
  ir::Buffer MmaBarrier();
  ir::Buffer MmaPhase();

  // Set-up, the lowered body, release.
  ir::Stmt Wrap(const ir::Stmt& body);

 private:
  void SetUpBarriers(std::vector<ir::Stmt>* stmts) const;
  void AllocateTensorMemory(std::vector<ir::Stmt>* stmts) const;
  void ReleaseTensorMemory(std::vector<ir::Stmt>* stmts) const;

  ir::Span span_;
  ir::Expr thread_;
  int64_t columns_ = 0;  // to allocate: 0, or a power of two from 32
  op::TensorMemory tmem_;
  ir::Buffer tmem_slot_;  // where tcgen05.alloc writes the address
  std::vector<ir::Buffer> barriers_;
  ir::Buffer mma_barrier_;
  ir::Buffer mma_phase_;
};

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_CTA_RESOURCES_H_
