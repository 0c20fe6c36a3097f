#include "runtime/arguments.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "ir/stand_in.h"
#include "ir/visitor.h"
#include "runtime/device_memory.h"
#include "runtime/dimension_solver.h"

namespace tilelang::runtime {

namespace {

template <typename... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw ffi::Error("tilelang.ArgumentError", message.str(), "");
}

std::string TupleText(const int64_t* values, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + (count == 1 ? ",)" : ")");
}

std::string DeviceText(DLDevice device) {
  if (device.device_type == kDLCPU) return "the CPU";
  if (device.device_type == kDLCUDA) return "cuda:" + std::to_string(device.device_id);
  return "a device of DLPack type " + std::to_string(device.device_type);
}

// Managed memory is used as the device's, pinned memory as the host's.
DLDevice Normalized(DLDevice device) {
  if (device.device_type == kDLCUDAManaged) device.device_type = kDLCUDA;
  if (device.device_type == kDLCUDAHost) device = {kDLCPU, 0};
  return device;
}

struct HostAllocator {
  void AllocData(DLTensor* tensor) {
    size_t bytes = ffi::GetDataSize(*tensor);
    tensor->data = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

// Strides are optional in DLPack; without them the tensor is contiguous.
int64_t StrideOf(const DLTensor& tensor, size_t dimension) {
  if (tensor.strides != nullptr) return tensor.strides[dimension];
  int64_t stride = 1;
  for (int i = tensor.ndim - 1; i > static_cast<int>(dimension); --i) stride *= tensor.shape[i];
  return stride;
}

// The addresses from the first byte of a tensor to the end of its last; empty without elements.
std::pair<uintptr_t, uintptr_t> AddressRange(const DLTensor& tensor) {
  int64_t low = 0;
  int64_t high = 1;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return {0, 0};
    int64_t reach = (tensor.shape[i] - 1) * StrideOf(tensor, i);
    (reach < 0 ? low : high) += reach;
  }
  uintptr_t start = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  int64_t size = ir::Bytes(tensor.dtype);
  return {start + low * size, start + high * size};
}

// Returns the name that a user would give to the type of an argument.
std::string TypeName(ffi::AnyView arg) {
  std::string key = arg.GetTypeKey();
  if (key == "ffi.SmallStr" || key == "ffi.String") return "str";
  if (key == "ffi.Tensor") return "tensor";
  if (key == "ffi.Array") return "list or tuple";
  if (key == "ffi.Map") return "dict";
  if (key == "ffi.OpaquePyObject") return "Python object of another kind";
  return key;
}

const ffi::TensorObj* ObjectOf(const ffi::ObjectRef& tensor) {
  return static_cast<const ffi::TensorObj*>(tensor.get());
}

// Range of an integer dtype, as far as int64 can hold it.
std::pair<int64_t, int64_t> IntegerRange(ir::DType dtype) {
  if (ir::IsBool(dtype)) return {0, 1};
  if (dtype.bits >= 64) {
    int64_t low = ir::IsUInt(dtype) ? 0 : std::numeric_limits<int64_t>::min();
    return {low, std::numeric_limits<int64_t>::max()};
  }
  if (ir::IsUInt(dtype)) return {0, (int64_t{1} << dtype.bits) - 1};
  int64_t half = int64_t{1} << (dtype.bits - 1);
  return {-half, half - 1};
}

int64_t IntegerValue(const std::string& name, ir::DType dtype, ffi::AnyView arg) {
  if (arg.type_index() != ffi::TypeIndex::kTVMFFIInt &&
      arg.type_index() != ffi::TypeIndex::kTVMFFIBool) {
    Fail("argument '", name, "' must be an integer (", ir::ToString(dtype), "), not a ",
         TypeName(arg));
  }
  int64_t value = arg.cast<int64_t>();
  auto [low, high] = IntegerRange(dtype);
  if (value < low || value > high) {
    Fail("argument '", name, "' is ", value, ", which does not fit ", ir::ToString(dtype));
  }
  return value;
}

}  // namespace

Signature::Signature(const KernelSpec& spec, const ffi::Array<int64_t>& outputs, VarSlots* slots) {
  int count = static_cast<int>(spec->params.size());
  std::set<int64_t> output_set;
  for (int64_t index : outputs) {
    if (index < 0 || index >= count || !spec->params[index].as<ir::Buffer>()) {
      Fail("out_idx names parameter ", index, ", but '", std::string(spec->name), "' has ", count,
           " parameters and only its tensors can be outputs");
    }
    output_set.insert(index);
  }
  std::set<const ffi::Object*> written;
  for (const ir::Buffer& buffer : spec->written) written.insert(buffer.get());
  bool writes = false;
  for (int i = 0; i < count; ++i) {
    ffi::Any any = spec->params[i];
    if (auto buffer = any.as<ir::Buffer>()) {
      int64_t alignment = spec->alignment.Get(*buffer).value_or(ir::Bytes((*buffer)->dtype));
      tensor_index_[buffer->get()] = i;
      params_.push_back(MakeTensor(*buffer, alignment, slots));
      params_.back().is_output = output_set.count(i) > 0;
      params_.back().is_written = written.count(buffer->get()) > 0;
      passed_tensors_ += !params_.back().is_output;
      writes |= params_.back().is_written && !params_.back().is_output;
    } else {
      params_.push_back(MakeScalar(any.cast<ir::Var>(), slots));
    }
    passed_count_ += !params_.back().is_output;
  }
  compares_addresses_ = writes && passed_tensors_ > 1;
  for (const ir::Buffer& buffer : spec->workspaces) {
    tensor_index_[buffer.get()] = static_cast<int>(params_.size() + workspaces_.size());
    workspaces_.push_back(MakeTensor(buffer, 1, slots));
    if (auto stand_in = ir::StandInOf(buffer)) {
      workspaces_.back().passed_instead =
          PassedInstead{TensorIndex(stand_in->tensor), HostExpr(stand_in->where, slots)};
    }
  }
  // Only now is it known which parameters are passed and can give values.
  for (Param& param : params_) MarkBinding(&param);
  SolveRemaining(slots);
  FindUsers(slots);
}

std::vector<Signature::Extent> Signature::MakeExtents(const ir::Array<ir::Expr>& exprs,
                                                      VarSlots* slots) {
  std::vector<Extent> extents;
  for (const ir::Expr& expr : exprs) extents.push_back({HostExpr(expr, slots, true), false});
  return extents;
}

Signature::Param Signature::MakeTensor(const ir::Buffer& buffer, int64_t alignment,
                                       VarSlots* slots) {
  Param param;
  param.name = buffer->name;
  param.dtype = buffer->dtype;
  param.is_tensor = true;
  param.is_zeroed = buffer->attrs.count(kZeroed) > 0;
  param.is_packed = buffer->attrs.count("packed") > 0;
  param.alignment = alignment;
  param.shape = MakeExtents(buffer->shape, slots);
  param.strides = MakeExtents(buffer->strides, slots);
  return param;
}

Signature::Param Signature::MakeScalar(const ir::Var& var, VarSlots* slots) {
  Param param;
  param.name = var->name;
  param.dtype = var->dtype;
  param.slot = slots->Intern(var);
  return param;
}

void Signature::MarkBinding(Param* param) {
  if (!param->is_tensor) {
    origin_.insert_or_assign(param->slot, "the argument '" + param->name + "'");
    return;
  }
  if (param->is_output) return;
  auto mark = [&](std::vector<Extent>* extents, const char* what) {
    for (size_t i = 0; i < extents->size(); ++i) {
      Extent& extent = (*extents)[i];
      int slot = extent.program.VariableSlot();
      if (slot < 0 || origin_.count(slot)) continue;
      origin_[slot] = std::string(what) + " " + std::to_string(i) + " of '" + param->name + "'";
      extent.binds = true;
    }
  };
  mark(&param->shape, "dimension");
  mark(&param->strides, "stride");
}

void Signature::SolveRemaining(VarSlots* slots) {
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < params_.size(); ++i) {
      if (!params_[i].is_tensor || params_[i].is_output) continue;
      for (bool of_stride : {false, true}) {
        size_t rank = of_stride ? params_[i].strides.size() : params_[i].shape.size();
        for (size_t j = 0; j < rank; ++j) progress |= TrySolve(i, of_stride, j, slots);
      }
    }
  }
}

bool Signature::TrySolve(size_t param, bool of_stride, size_t dimension, VarSlots* slots) {
  const Param& tensor = params_[param];
  ir::Expr expr = (of_stride ? tensor.strides : tensor.shape)[dimension].program.expr();
  ir::Var unknown;
  int count = 0;
  ir::WalkExprs(expr, [&](const ir::Expr& e) {
    auto* var = e.as<ir::VarNode>();
    if (var == nullptr || unknown.get() == var) return true;
    ir::Var found = ffi::GetRef<ir::Var>(var);
    if (origin_.count(slots->Intern(found))) return true;
    unknown = found;
    ++count;
    return true;
  });
  if (count != 1) return false;
  ir::Var extent("extent", ir::dtypes::kInt64);
  auto value = SolveFor(expr, unknown, extent, tensor.is_packed);
  if (!value) return false;
  int extent_slot = slots->Intern(extent);
  std::string place = (of_stride ? "stride " : "dimension ") + std::to_string(dimension) + " of '" +
                      tensor.name + "'";
  origin_[extent_slot] = place;
  int slot = slots->Intern(unknown);
  origin_[slot] = place;
  solutions_.push_back(
      {param, of_stride, dimension, extent_slot, slot, unknown, HostExpr(*value, slots)});
  return true;
}

void Signature::Seal(const VarSlots& slots) {
  slot_count_ = slots.size();
  for (int slot = 0; slot < slots.size(); ++slot) {
    if (origin_.count(slot)) continue;
    for (int other = 0; other < slots.size(); ++other) {
      if (other == slot || slots.name(other) != slots.name(slot)) continue;
      Fail("no argument determines one of the symbolic dimensions '", slots.name(slot),
           "'\n@note two T.dynamic(\"", slots.name(slot),
           "\") are two dimensions; make one, and use it in both places");
    }
    Fail("no argument determines the symbolic dimension '", slots.name(slot),
         "'\n@note a dimension that is just '", slots.name(slot),
         "' must appear in a tensor that is passed, alone or once in a sum or product with "
         "dimensions that do, or be a scalar parameter");
  }
}

int Signature::TensorIndex(const ir::Buffer& buffer) const {
  auto position = tensor_index_.find(buffer.get());
  TVM_FFI_ICHECK(position != tensor_index_.end())
      << "'" << buffer->name << "' is neither a parameter nor a workspace";
  return position->second;
}

void Signature::Bind(ffi::PackedArgs args, CallState* state) const {
  bool tells_device = passed_tensors_ == 0 && args.size() == passed_count_ + 1;
  if (args.size() != passed_count_ && !tells_device) {
    std::string names;
    for (const Param& param : params_) {
      if (!param.is_output) names += (names.empty() ? "" : ", ") + param.name;
    }
    Fail("the kernel takes ", passed_count_, passed_count_ == 1 ? " argument (" : " arguments (",
         names, "), but the call passes ", args.size());
  }
  state->values.resize(slot_count_);
  state->tensors.resize(params_.size() + workspaces_.size());
  int next = 0;
  bool any_absent = false;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& param = params_[i];
    if (param.is_output) continue;
    if (param.is_tensor) {
      ffi::AnyView arg = args[next++];
      // None is a null pointer: the kernel, told so by another argument, does not use it.
      bool absent = arg.type_index() == ffi::TypeIndex::kTVMFFINone;
      any_absent |= absent;
      state->tensors[i] = absent ? nullptr : BindTensor(param, arg, state);
    } else {
      state->values[param.slot] = BindScalar(param, args[next++], state);
    }
  }
  if (tells_device) {
    if (auto* tensor = args[next].as<ffi::TensorObj>()) state->device = Normalized(tensor->device);
  }
  if (any_absent) BindUndetermined(state);
  for (const Solution& solution : solutions_) Solve(solution, state);
  for (size_t i = 0; i < params_.size(); ++i) {
    if (params_[i].is_output) {
      state->outputs.push_back(Allocate(params_[i], *state));
      state->tensors[i] = ObjectOf(state->outputs.back());
    } else if (params_[i].is_tensor && state->tensors[i] != nullptr) {
      CheckTensor(params_[i], *state->tensors[i], *state);
    }
  }
  BindWorkspaces(state);
}

void Signature::BindWorkspaces(CallState* state) const {
  state->workspaces.resize(workspaces_.size());
  for (size_t i = 0; i < workspaces_.size(); ++i) {
    const Param& workspace = workspaces_[i];
    const auto& instead = workspace.passed_instead;
    if (instead && instead->where.Evaluate(state->values.data()) != 0) {
      state->tensors[params_.size() + i] = state->tensors[instead->tensor];
    } else if (!workspace.is_zeroed) {
      BindWorkspace(i, Allocate(workspace, *state), state);
    }
  }
}

void Signature::BindWorkspace(size_t index, ffi::Tensor tensor, CallState* state) const {
  state->workspaces[index] = std::move(tensor);
  state->tensors[params_.size() + index] = ObjectOf(*state->workspaces[index]);
}

void Signature::BindZeroed(ZeroedMemory* memory, driver::Stream stream, CallState* state) const {
  for (size_t i = 0; i < workspaces_.size(); ++i) {
    if (!workspaces_[i].is_zeroed) continue;
    int64_t elements = 1;
    for (const Extent& extent : workspaces_[i].shape) {
      elements *= extent.program.Evaluate(state->values.data());
    }
    auto allocate = [&] { return Allocate(workspaces_[i], *state); };
    DLDevice device = state->device.value_or(DLDevice{kDLCPU, 0});
    BindWorkspace(i, memory->Take(i, elements, device, stream, allocate), state);
  }
}

void Signature::GiveBackZeroed(ZeroedMemory* memory, const CallState& state) const {
  for (size_t i = 0; i < workspaces_.size(); ++i) {
    if (workspaces_[i].is_zeroed) memory->GiveBack(i, *state.workspaces[i]);
  }
}

bool Signature::Overlap(const CallState& state) const {
  if (!compares_addresses_) return false;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].is_written || params_[i].is_output || !state.tensors[i]) continue;
    auto [start, end] = AddressRange(*state.tensors[i]);
    for (size_t j = 0; j < params_.size(); ++j) {
      if (i == j || !params_[j].is_tensor || params_[j].is_output) continue;
      if (!state.tensors[j]) continue;
      auto [other_start, other_end] = AddressRange(*state.tensors[j]);
      if (start < other_end && other_start < end) return true;
    }
  }
  return false;
}

const ffi::TensorObj* Signature::BindTensor(const Param& param, ffi::AnyView arg,
                                            CallState* state) const {
  // tvm-ffi makes such an object of whatever speaks DLPack.
  auto* tensor = arg.as<ffi::TensorObj>();
  if (tensor == nullptr) {
    Fail("argument '", param.name, "' must be a tensor of ", ir::ToString(param.dtype), ", not a ",
         TypeName(arg));
  }
  const DLTensor& given = *tensor;
  if (given.ndim != static_cast<int>(param.shape.size())) {
    Fail("argument '", param.name, "' must have ", param.shape.size(), " dimensions, but has ",
         given.ndim, ", shape ", TupleText(given.shape, given.ndim));
  }
  DLDevice device = Normalized(given.device);
  if (!state->device) {
    state->device = device;
    state->device_owner = &param.name;
  } else if (state->device->device_type != device.device_type ||
             state->device->device_id != device.device_id) {
    Fail("argument '", param.name, "' is on ", DeviceText(device), ", but '", *state->device_owner,
         "' is on ", DeviceText(*state->device));
  }
  for (size_t i = 0; i < param.shape.size(); ++i) {
    const Extent& extent = param.shape[i];
    if (extent.binds) state->values[extent.program.VariableSlot()] = given.shape[i];
  }
  for (size_t i = 0; i < param.strides.size(); ++i) {
    const Extent& extent = param.strides[i];
    if (extent.binds) state->values[extent.program.VariableSlot()] = StrideOf(given, i);
  }
  return tensor;
}

void Signature::Solve(const Solution& solution, CallState* state) const {
  const ffi::TensorObj* given = state->tensors[solution.param];
  if (given == nullptr) return;
  size_t dimension = solution.dimension;
  state->values[solution.extent_slot] =
      solution.of_stride ? StrideOf(*given, dimension) : given->shape[dimension];
  int64_t value = solution.program.Evaluate(state->values.data());
  state->values[solution.slot] = value;
  // The stride of a dimension of one element is never used.
  if (solution.of_stride && given->shape[dimension] <= 1) return;
  auto [low, high] = IntegerRange(solution.variable->dtype);
  if (low <= value && value <= high) return;
  std::string name(solution.variable->name);
  Fail("'", name, "' is ", value, " by ", origin_.at(solution.slot),
       ", which does not fit its dtype; declare it as T.dynamic(\"", name, "\", \"int64\")");
}

int64_t Signature::BindScalar(const Param& param, ffi::AnyView arg, CallState* state) const {
  if (param.dtype.code == kDLOpaqueHandle) {
    if (arg.type_index() == ffi::TypeIndex::kTVMFFINone) return 0;
    if (auto* tensor = arg.as<ffi::TensorObj>()) {
      state->pointees.push_back(tensor);
      if (!state->device) {
        state->device = Normalized(tensor->device);
        state->device_owner = &param.name;
      }
      return reinterpret_cast<int64_t>(tensor->data) + static_cast<int64_t>(tensor->byte_offset);
    }
    return IntegerValue(param.name, ir::dtypes::kInt64, arg);
  }
  if (!ir::IsFloat(param.dtype)) return IntegerValue(param.name, param.dtype, arg);
  auto value = arg.try_cast<double>();
  if (!value) {
    Fail("argument '", param.name, "' must be a number (", ir::ToString(param.dtype), "), not a ",
         TypeName(arg));
  }
  return std::bit_cast<int64_t>(*value);
}

std::string Signature::Expectation(const Extent& extent, int64_t value) const {
  if (extent.program.IsConstant()) return std::to_string(value);
  std::string text = extent.program.Text() + " = " + std::to_string(value);
  int slot = extent.program.VariableSlot();
  return slot < 0 ? text : text + " (" + origin_.at(slot) + ")";
}

void Signature::CheckTensor(const Param& param, const DLTensor& tensor,
                            const CallState& state) const {
  bool is_bytes = param.is_packed && tensor.dtype.bits * tensor.dtype.lanes == param.dtype.bits;
  if (tensor.dtype != param.dtype && !is_bytes) {
    Fail("argument '", param.name, "' has dtype ", ir::ToString(tensor.dtype),
         ", but the kernel declares ", ir::ToString(param.dtype),
         "\n@note convert the tensor before the call, or compile the kernel for its dtype");
  }
  if (tensor.data == nullptr && ffi::GetDataSize(tensor) > 0) {
    Fail("argument '", param.name,
         "' has no memory: it stands for a tensor (of torch.compile, say)");
  }
  for (int i = 0; i < tensor.ndim; ++i) {
    const Extent& extent = param.shape[i];
    int64_t expected = extent.program.Evaluate(state.values.data());
    if (tensor.shape[i] != expected) {
      Fail("argument '", param.name, "' has shape ", TupleText(tensor.shape, tensor.ndim),
           ", but its dimension ", i, " must be ", Expectation(extent, expected));
    }
    CheckFits(param, extent, "dimension", i, expected);
  }
  CheckStrides(param, tensor, state);
  uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  if (address % param.alignment != 0) {
    Fail("argument '", param.name, "' must start at a multiple of ", param.alignment,
         " bytes, but starts ", address % param.alignment,
         " bytes after one\n@note a slice of a larger tensor may start anywhere: pass "
         "a copy of it (`.clone()`)");
  }
}

void Signature::CheckFits(const Param& param, const Extent& extent, const char* what, int64_t index,
                          int64_t value) const {
  auto [low, high] = IntegerRange(extent.program.expr().dtype());
  if (low <= value && value <= high) return;
  std::string name = extent.program.Text();
  bool is_variable = extent.program.VariableSlot() >= 0;
  Fail(what, " ", index, " of argument '", param.name, "' is ", value,
       ", which does not fit the dtype of '", name, "'; declare ",
       is_variable ? "it as T.dynamic(\"" + name + "\", \"int64\")"
                   : "its variables as T.dynamic(..., \"int64\")");
}

void Signature::CheckStrides(const Param& param, const DLTensor& tensor,
                             const CallState& state) const {
  if (tensor.strides == nullptr && param.strides.empty()) return;
  if (std::count(tensor.shape, tensor.shape + tensor.ndim, 0) > 0) return;  // no element to find
  int64_t contiguous = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    int64_t expected = contiguous;
    if (!param.strides.empty()) {
      expected = param.strides[i].program.Evaluate(state.values.data());
    }
    int64_t actual = StrideOf(tensor, i);
    // The stride of a dimension of one element is never used.
    bool used = tensor.shape[i] > 1;
    if (used && !param.strides.empty() && param.strides[i].binds) {
      CheckFits(param, param.strides[i], "stride", i, actual);
    }
    if (actual != expected && used) {
      if (param.strides.empty()) {
        Fail(
            "argument '", param.name, "' is not contiguous: it has strides ",
            TupleText(tensor.strides, tensor.ndim), " and shape ",
            TupleText(tensor.shape, tensor.ndim),
            param.is_written
                ? "\n@note pass a contiguous tensor, because the kernel writes to it, or declare "
                  "the parameter with T.StridedTensor"
                : "\n@note pass a contiguous copy (`.contiguous()`), or declare the parameter with "
                  "T.StridedTensor");
      }
      Fail("stride ", i, " of argument '", param.name, "' must be ",
           Expectation(param.strides[i], expected), ", but is ", actual);
    }
    if (actual == 0 && used && param.is_written) {
      Fail("argument '", param.name, "' is written to, but dimension ", i,
           " has stride 0: its elements share memory\n@note pass a tensor with memory for each "
           "element, such as torch.empty(...)");
    }
    contiguous *= tensor.shape[i];
  }
}

ffi::Tensor Signature::Allocate(const Param& param, const CallState& state) const {
  if (!state.device) {
    Fail("'", param.name,
         "' cannot be allocated, as no tensor is passed that tells on which device");
  }
  std::vector<int64_t> shape;
  for (const Extent& extent : param.shape) {
    shape.push_back(extent.program.Evaluate(state.values.data()));
  }
  ffi::ShapeView view(shape.data(), shape.size());
  if (state.device->device_type == kDLCPU && !driver::HasLentAllocator()) {
    return ffi::Tensor::FromNDAlloc(HostAllocator(), view, param.dtype, *state.device);
  }
  return driver::Allocate(view, param.dtype, *state.device);
}

}  // namespace tilelang::runtime
