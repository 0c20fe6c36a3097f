#include "runtime/launch_plan.h"

#include <tvm/ffi/error.h>

#include <bit>

#include "emulator/numerics/float_formats.h"

namespace tilelang::runtime {

namespace {

std::vector<HostExpr> CompileExtents(const ffi::Array<ir::Expr>& exprs, VarSlots* slots) {
  std::vector<HostExpr> programs;
  for (const ir::Expr& expr : exprs) programs.emplace_back(expr, slots);
  TVM_FFI_ICHECK(!programs.empty() && programs.size() <= 3) << "a grid has 1 to 3 dimensions";
  return programs;
}

// The bits of a floating-point scalar as a kernel parameter.
uint64_t EncodeFloatScalar(double value, ir::DType dtype) {
  using namespace tilelang::emulator;  // NOLINT(google-build-using-namespace): formats only
  if (dtype == ir::dtypes::kFloat64) return std::bit_cast<uint64_t>(value);
  if (dtype == ir::dtypes::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (dtype == ir::dtypes::kFloat16) return EncodeFloat(kF16, value, Rounding::kNearestEven, false);
  if (dtype == ir::dtypes::kBFloat16)
    return EncodeFloat(kBf16, value, Rounding::kNearestEven, false);
  if (dtype == ir::dtypes::kFloat8E4M3)
    return EncodeFloat(kE4m3, value, Rounding::kNearestEven, true);
  return EncodeFloat(kE5m2, value, Rounding::kNearestEven, true);
}

void* Address(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

ffi::Array<int64_t> ToArray(const int64_t* values) { return {values[0], values[1], values[2]}; }

std::string Dims(const int64_t* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

}  // namespace

LaunchPlan::LaunchPlan(const LaunchSpec& spec, const Signature& signature,
                       int64_t most_shared_memory, VarSlots* slots)
    : name_(spec->kernel_name),
      grid_(CompileExtents(spec->grid, slots)),
      block_(CompileExtents(spec->block, slots)),
      cluster_(spec->cluster.begin(), spec->cluster.end()),
      cooperative_(spec->cooperative),
      dependent_(spec->dependent),
      shared_memory_(spec->shared_memory, slots),
      most_shared_memory_(most_shared_memory) {
  if (!cluster_.empty()) cluster_.resize(3, 1);
  for (const ffi::Any& any : spec->args) {
    args_.push_back(MakeArg(any, signature, slots));
    tensor_map_count_ += std::holds_alternative<TensorMapPlan>(args_.back());
  }
}

LaunchPlan::Arg LaunchPlan::MakeArg(const ffi::Any& any, const Signature& signature,
                                    VarSlots* slots) const {
  if (auto buffer = any.as<ir::Buffer>()) return TensorArg{signature.TensorIndex(*buffer)};
  if (auto map = any.as<TensorMapSpec>()) return TensorMapPlan(*map, signature, slots);
  ir::Expr expr = any.cast<ir::Expr>();
  return ScalarArg{HostExpr(expr, slots), expr.dtype()};
}

int64_t LaunchPlan::ConstantSharedMemory() const {
  return shared_memory_.IsConstant() ? shared_memory_.Evaluate(nullptr) : -1;
}

int64_t LaunchPlan::ClusterSize() const {
  int64_t size = 1;
  for (unsigned extent : cluster_) size *= extent;
  return size;
}

uint64_t LaunchPlan::ScalarArg::Encode(const CallState& state) const {
  int64_t value = program.Evaluate(state.values.data());
  // A floating-point scalar is passed through: its slot holds the bits of a double.
  if (ir::IsFloat(dtype)) return EncodeFloatScalar(std::bit_cast<double>(value), dtype);
  return static_cast<uint64_t>(value);
}

LaunchPlan::Geometry LaunchPlan::Evaluate(const CallState& state) const {
  Geometry geometry{{1, 1, 1}, {1, 1, 1}, shared_memory_.Evaluate(state.values.data())};
  for (size_t i = 0; i < grid_.size(); ++i) {
    geometry.grid[i] = grid_[i].Evaluate(state.values.data());
    int64_t limit = i == 0 ? INT32_MAX : 65535;
    if (geometry.grid[i] < 0 || geometry.grid[i] > limit) {
      throw ffi::Error("tilelang.ArgumentError",
                       "the arguments give a grid of " + std::to_string(geometry.grid[i]) +
                           " blocks in dimension " + std::to_string(i) + " (" + grid_[i].Text() +
                           "), but CUDA allows at most " + std::to_string(limit),
                       "");
    }
  }
  for (size_t i = 0; i < cluster_.size(); ++i) {
    if (geometry.grid[i] % cluster_[i] == 0) continue;
    throw ffi::Error("tilelang.ArgumentError",
                     "the arguments give a grid of " + std::to_string(geometry.grid[i]) +
                         " blocks in dimension " + std::to_string(i) +
                         (i < grid_.size() ? " (" + grid_[i].Text() + ")" : "") +
                         ", which clusters of " + std::to_string(cluster_[i]) + " do not divide",
                     "");
  }
  for (size_t i = 0; i < block_.size(); ++i) {
    geometry.block[i] = block_[i].Evaluate(state.values.data());
  }
  if (geometry.shared_memory > most_shared_memory_) {
    throw ffi::Error("tilelang.ArgumentError",
                     "the arguments give tiles of " + std::to_string(geometry.shared_memory) +
                         " bytes of shared memory, but a block has at most " +
                         std::to_string(most_shared_memory_),
                     "");
  }
  return geometry;
}

void LaunchPlan::Launch(driver::Kernel kernel, const CallState& state,
                        driver::Stream stream) const {
  Geometry geometry = Evaluate(state);
  if (geometry.grid[0] * geometry.grid[1] * geometry.grid[2] == 0) return;
  std::vector<uint64_t> scalars(args_.size());
  std::vector<driver::TensorMap> maps(tensor_map_count_);
  std::vector<void*> pointers(args_.size());
  size_t next_map = 0;
  for (size_t i = 0; i < args_.size(); ++i) {
    pointers[i] = &scalars[i];
    if (auto* tensor = std::get_if<TensorArg>(&args_[i])) {
      const ffi::TensorObj* passed = state.tensors[tensor->index];
      scalars[i] = passed ? reinterpret_cast<uint64_t>(Address(*passed)) : 0;
    } else if (auto* scalar = std::get_if<ScalarArg>(&args_[i])) {
      scalars[i] = scalar->Encode(state);
    } else {
      pointers[i] = &maps[next_map];
      std::get<TensorMapPlan>(args_[i]).Encode(state, stream, &maps[next_map++]);
    }
  }
  driver::LaunchConfig config{};
  for (int i = 0; i < 3; ++i) {
    config.grid[i] = static_cast<unsigned>(geometry.grid[i]);
    config.block[i] = static_cast<unsigned>(geometry.block[i]);
  }
  config.shared_memory_bytes = static_cast<unsigned>(geometry.shared_memory);
  config.stream = stream;
  driver::LaunchAttribute attributes[3] = {};
  config.attributes = attributes;
  if (!cluster_.empty()) {
    driver::LaunchAttribute& cluster = attributes[config.attribute_count++];
    cluster.id = driver::kLaunchClusterDimension;
    cluster.value.cluster = {cluster_[0], cluster_[1], cluster_[2]};
  }
  if (cooperative_) {
    driver::LaunchAttribute& together = attributes[config.attribute_count++];
    together.id = driver::kLaunchCooperative;
    together.value.flag = 1;
  }
  if (dependent_) {
    driver::LaunchAttribute& early = attributes[config.attribute_count++];
    early.id = driver::kLaunchProgrammaticSerialization;
    early.value.flag = 1;
  }
  CheckLaunch(driver::Get().launch(&config, kernel, pointers.data(), nullptr), geometry);
}

void LaunchPlan::CheckLaunch(driver::Result result, const Geometry& geometry) const {
  if (result == 0) return;
  if (result == driver::kCooperativeLaunchTooLarge) {
    throw ffi::Error("tilelang.ArgumentError",
                     "'" + name_ + "' waits for its whole grid (T.sync_grid), but " +
                         Dims(geometry.grid) + " blocks of " + Dims(geometry.block) +
                         " threads do not fit on the GPU at the same time\n@note launch fewer "
                         "blocks, each of which loops over several tiles (T.Persistent)",
                     "");
  }
  std::string action = "launching '" + name_ + "' with grid " + Dims(geometry.grid) + ", block " +
                       Dims(geometry.block) + " and " + std::to_string(geometry.shared_memory) +
                       " bytes of dynamic shared memory";
  driver::Check(result, action.c_str());
}

ffi::Any LaunchPlan::EmulatedArg(const Arg& arg, const CallState& state) const {
  if (auto* map = std::get_if<TensorMapPlan>(&arg)) return map->Describe(state);
  if (auto* tensor = std::get_if<TensorArg>(&arg)) {
    const ffi::TensorObj* passed = state.tensors[tensor->index];
    if (passed == nullptr) return ffi::Bytes(std::string(sizeof(uint64_t), '\0'));
    return ffi::GetRef<ffi::Tensor>(passed);
  }
  const ScalarArg& scalar = std::get<ScalarArg>(arg);
  uint64_t bits = scalar.Encode(state);
  return ffi::Bytes(reinterpret_cast<const char*>(&bits), ir::Bytes(scalar.dtype));
}

void LaunchPlan::Emulate(const ffi::Function& emulate, const CallState& state, bool first) const {
  Geometry geometry = Evaluate(state);
  if (geometry.grid[0] * geometry.grid[1] * geometry.grid[2] == 0) return;
  ffi::Array<ffi::Any> args;
  for (const Arg& arg : args_) args.push_back(EmulatedArg(arg, state));
  ffi::Array<int64_t> cluster;
  for (unsigned extent : cluster_) cluster.push_back(extent);
  ffi::Array<ffi::Any> pointees;
  for (const ffi::TensorObj* tensor : state.pointees) {
    pointees.push_back(ffi::GetRef<ffi::Tensor>(tensor));
  }
  ffi::Array<ffi::Any> allocated;
  if (first) allocated = ffi::Array<ffi::Any>(state.outputs.begin(), state.outputs.end());
  emulate(name_, ToArray(geometry.grid), ToArray(geometry.block), cluster, geometry.shared_memory,
          args, pointees, allocated, dependent_);
}

}  // namespace tilelang::runtime
