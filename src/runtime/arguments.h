// Binding the arguments of a call to the parameters of a kernel: every check before a launch.
#ifndef TILELANG_RUNTIME_ARGUMENTS_H_
#define TILELANG_RUNTIME_ARGUMENTS_H_

#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/host_expr.h"
#include "runtime/kernel_spec.h"
#include "runtime/zeroed_memory.h"

namespace tilelang::runtime {

// The state of one call after its arguments were bound.
struct CallState {
  std::vector<int64_t> values;  // by slot: integers, bits of a double, or addresses
  std::vector<const ffi::TensorObj*>
      tensors;  // by parameter, then by workspace; null for scalars, None
  std::vector<const ffi::TensorObj*> pointees;  // passed for parameters that are pointers
  std::vector<ffi::Tensor> outputs;             // allocated for the caller
  std::vector<std::optional<ffi::Tensor>> workspaces;
  std::vector<int> undetermined;              // slots that only tensors passed as None determine
  std::optional<DLDevice> device;             // CUDA or CPU; none without a tensor
  const std::string* device_owner = nullptr;  // the argument that chose it
};

// The parameters of a kernel in the form that checks them fast.
// Bind throws tilelang.ArgumentError, naming the argument, its expectation and what came.
class Signature {
 public:
  // `outputs`: indices of the parameters that the caller does not pass. Throws ArgumentError for
  // an index out of range.
  Signature(const KernelSpec& spec, const ffi::Array<int64_t>& outputs, VarSlots* slots);

  // Tells that launches need the variables of `expr` (None for a tensor leaves some without value).
  void Require(const ir::Expr& expr, VarSlots* slots);

  // Must be called once, when every expression that reads the slots was compiled. Throws
  // ArgumentError if a symbolic dimension is determined by no argument.
  void Seal(const VarSlots& slots);

  // Binds the arguments of a call. Allocates outputs and workspaces, except zeroed ones and ones
  // that a tensor of the call replaces (ir/stand_in.h). If no tensor is passed, a further argument
  // may tell the device.
  void Bind(ffi::PackedArgs args, CallState* state) const;
  // Binds zeroed workspaces, for a launch in `stream`.
  void BindZeroed(ZeroedMemory* memory, driver::Stream stream, CallState* state) const;
  // After a launch on the emulator.
  void GiveBackZeroed(ZeroedMemory* memory, const CallState& state) const;

  // Returns whether two tensors that were passed may share memory that the kernel writes to.
  // Compares the ranges of addresses, so interleaved views count as sharing.
  bool Overlap(const CallState& state) const;

  // Position of a tensor parameter or workspace in CallState::tensors.
  int TensorIndex(const ir::Buffer& buffer) const;

 private:
  struct Extent {
    HostExpr program;
    bool binds;  // the place that gives its variable a value
  };
  // A passed tensor that a workspace is in some calls.
  struct PassedInstead {
    int tensor;
    HostExpr where;
  };
  struct Param {
    std::string name;
    ir::DType dtype{};
    bool is_tensor = false;
    bool is_output = false;
    bool is_written = false;
    bool is_zeroed = false;  // of a workspace: see ZeroedMemory
    bool is_packed = false;  // bits that the program reads its own way: any type of their size
    int slot = -1;           // of a scalar
    std::vector<Extent> shape;
    std::vector<Extent> strides;  // empty: contiguous
    int64_t alignment = 1;
    std::optional<PassedInstead> passed_instead;
  };

  // Says how a variable follows from a dimension or a stride that is more than the variable.
  struct Solution {
    size_t param;
    bool of_stride;
    size_t dimension;
    int extent_slot;  // what the tensor has there
    int slot;         // of the variable
    ir::Var variable;
    HostExpr program;
  };

  Param MakeTensor(const ir::Buffer& buffer, int64_t alignment, VarSlots* slots);
  Param MakeScalar(const ir::Var& var, VarSlots* slots);
  std::vector<Extent> MakeExtents(const ffi::Array<ir::Expr>& exprs, VarSlots* slots);
  // Lets a parameter give values to the variables that nothing before it determines.
  void MarkBinding(Param* param);
  // Solves products and sums for the variables that remain.
  void SolveRemaining(VarSlots* slots);
  // Returns whether the dimension or stride gives a value to a variable that had none.
  bool TrySolve(size_t param, bool of_stride, size_t dimension, VarSlots* slots);

  // Checks everything that needs no symbolic dimension, and binds the dimensions that the tensor
  // gives.
  const ffi::TensorObj* BindTensor(const Param& param, ffi::AnyView arg, CallState* state) const;
  // Gives the variable of a solution its value, unless its tensor is None.
  void Solve(const Solution& solution, CallState* state) const;
  // Gives values to the variables that only tensors passed as None would determine: values from
  // other tensors, or 0. Refuses None where the launch or another tensor depends on the variable.
  void BindUndetermined(CallState* state) const;
  bool BindByOthers(int slot, CallState* state) const;
  // Fills `users_`, and `required_` as far as tensors of the call need variables.
  void FindUsers(VarSlots* slots);
  int64_t BindScalar(const Param& param, ffi::AnyView arg, CallState* state) const;
  void CheckTensor(const Param& param, const DLTensor& tensor, const CallState& state) const;
  // Refuses a dimension or stride that is more than its variable can hold.
  void CheckFits(const Param& param, const Extent& extent, const char* what, int64_t index,
                 int64_t value) const;
  void CheckStrides(const Param& param, const DLTensor& tensor, const CallState& state) const;
  ffi::Tensor Allocate(const Param& param, const CallState& state) const;
  void BindWorkspaces(CallState* state) const;
  void BindWorkspace(size_t index, ffi::Tensor tensor, CallState* state) const;
  std::string Expectation(const Extent& extent, int64_t value) const;

  std::vector<Param> params_;
  std::vector<Param> workspaces_;
  std::vector<Solution> solutions_;  // each uses earlier solutions
  bool compares_addresses_ = false;  // several tensors are passed, and one of them is written
  std::unordered_map<const void*, int> tensor_index_;
  std::unordered_map<int, std::string> origin_;  // where the value of a slot comes from
  // Parameters whose extents use the variable of a slot, but are more than it.
  std::unordered_map<int, std::vector<size_t>> users_;
  std::set<int> required_;  // slots that every call needs
  int passed_count_ = 0;
  int passed_tensors_ = 0;
  int slot_count_ = 0;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_ARGUMENTS_H_
