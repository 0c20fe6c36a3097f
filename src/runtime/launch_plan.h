// One grid of a kernel, ready to be launched again and again.
#ifndef TILELANG_RUNTIME_LAUNCH_PLAN_H_
#define TILELANG_RUNTIME_LAUNCH_PLAN_H_

#include <string>
#include <variant>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/driver.h"
#include "runtime/tensor_map.h"

namespace tilelang::runtime {

// A LaunchSpec with its expressions compiled.
class LaunchPlan {
 public:
  // most_shared_memory: bytes that a block may have.
  LaunchPlan(const LaunchSpec& spec, const Signature& signature, int64_t most_shared_memory,
             VarSlots* slots);

  // Launches on a stream of the current device; an empty grid does nothing.
  void Launch(driver::Kernel kernel, const CallState& state, driver::Stream stream) const;

  // Calls `emulate(name, grid, block, cluster, dynamic shared memory, arguments, pointees,
  // allocated, dependent)`. An argument is a tensor, the bytes of a scalar as the device sees them,
  // or the map that TensorMapPlan::Describe gives. `first`: it is the first launch of its call, and
  // gets the tensors that the call has allocated.
  void Emulate(const ffi::Function& emulate, const CallState& state, bool first) const;

  const std::string& name() const { return name_; }
  // Bytes of dynamic shared memory if constant, else -1.
  int64_t ConstantSharedMemory() const;
  // Blocks per cluster, 1 without clusters.
  int64_t ClusterSize() const;

 private:
  struct Geometry {
    int64_t grid[3];
    int64_t block[3];
    int64_t shared_memory;
  };
  struct TensorArg {
    int index;
  };
  struct ScalarArg {
    HostExpr program;
    ir::DType dtype;
    uint64_t Encode(const CallState& state) const;
  };
  using Arg = std::variant<TensorArg, ScalarArg, TensorMapPlan>;

  Arg MakeArg(const ffi::Any& any, const Signature& signature, VarSlots* slots) const;
  Geometry Evaluate(const CallState& state) const;
  ffi::Any EmulatedArg(const Arg& arg, const CallState& state) const;
  void CheckLaunch(driver::Result result, const Geometry& geometry) const;

  std::string name_;
  std::vector<HostExpr> grid_;
  std::vector<HostExpr> block_;
  std::vector<unsigned> cluster_;
  bool cooperative_, dependent_;
  HostExpr shared_memory_;
  int64_t most_shared_memory_;
  std::vector<Arg> args_;
  size_t tensor_map_count_ = 0;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_LAUNCH_PLAN_H_
