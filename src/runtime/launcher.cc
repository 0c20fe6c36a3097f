#include "runtime/launcher.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <memory>

#include "registry/functions.h"

namespace tilelang::runtime {

Launcher::Launcher(const KernelSpec& spec, const ffi::Array<int64_t>& outputs, ffi::Bytes cubin,
                   Target target, ffi::Function emulate, ffi::Optional<ffi::Function> make_variant)
    : signature_(spec, outputs, &slots_),
      assumptions_(spec->assumptions, &slots_),
      cubin_(std::move(cubin)),
      target_(std::move(target)),
      emulate_(std::move(emulate)),
      make_variant_(std::move(make_variant)) {
  for (const LaunchSpec& launch : spec->launches) {
    launches_.emplace_back(launch, signature_, target_->shared_memory_per_block, &slots_);
    for (const auto& extents : {launch->grid, launch->block}) {
      for (const ir::Expr& extent : extents) signature_.Require(extent, &slots_);
    }
    signature_.Require(launch->shared_memory, &slots_);
  }
  signature_.Seal(slots_);
}

ffi::Any Launcher::Call(ffi::PackedArgs args) {
  CallState state;
  signature_.Bind(args, &state);
  assumptions_.Check(state);
  if (make_variant_ && signature_.Overlap(state)) {
    ffi::Any result;
    Variant().CallPacked(args, &result);
    return result;
  }
  bool on_cpu = !state.device || state.device->device_type == kDLCPU;
  if (on_cpu) {
    signature_.BindZeroed(&zeroed_, nullptr, &state);
    for (const LaunchPlan& launch : launches_) {
      launch.Emulate(emulate_, state, &launch == &launches_.front());
    }
    signature_.GiveBackZeroed(&zeroed_, state);
  } else {
    int device = state.device->device_id;
    driver::DeviceGuard guard(device);
    const std::vector<driver::Kernel>& kernels = KernelsOn(device);
    driver::Stream stream = TVMFFIEnvGetStream(kDLCUDA, device);
    signature_.BindZeroed(&zeroed_, stream, &state);
    for (size_t i = 0; i < launches_.size(); ++i) {
      launches_[i].Launch(kernels[i], state, stream);
    }
  }
  if (state.outputs.empty()) return nullptr;
  if (state.outputs.size() == 1) return state.outputs[0];
  return ffi::Array<ffi::Tensor>(state.outputs.begin(), state.outputs.end());
}

ffi::Function Launcher::Variant() {
  {
    std::lock_guard<std::mutex> lock(variant_mutex_);
    if (variant_) return *variant_;
  }
  // The lock is not held: the call compiles in Python, whose lock another thread may hold.
  ffi::Function made = (*make_variant_)().cast<ffi::Function>();
  std::lock_guard<std::mutex> lock(variant_mutex_);
  variant_ = made;
  return made;
}

const std::vector<driver::Kernel>& Launcher::KernelsOn(int device) {
  DeviceKernels& entry = devices_.at(device);
  std::call_once(entry.loaded, [&] { Load(device, &entry.kernels); });
  return entry.kernels;
}

void Launcher::Load(int device, std::vector<driver::Kernel>* kernels) {
  CheckCapability(device);
  const driver::Api& api = driver::Get();
  // Never unloaded: the object may go while its kernels still run.
  std::call_once(library_loaded_, [&] {
    driver::Check(
        api.load_library(&library_, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading the compiled kernel (cuLibraryLoadData)");
  });
  kernels->clear();
  for (const LaunchPlan& launch : launches_) {
    driver::Kernel kernel;
    driver::Check(api.get_kernel(&kernel, library_, launch.name().c_str()), "cuLibraryGetKernel");
    Configure(launch, kernel, device);
    kernels->push_back(kernel);
  }
}

void Launcher::Configure(const LaunchPlan& launch, driver::Kernel kernel, int device) const {
  constexpr int64_t kWithoutOptIn = 48 * 1024;
  constexpr int64_t kPortableCluster = 8;
  const driver::Api& api = driver::Get();
  int64_t bytes = launch.ConstantSharedMemory();
  if (bytes < 0) bytes = target_->shared_memory_per_block;
  if (bytes > kWithoutOptIn) {
    driver::Check(api.set_kernel_attribute(driver::kKernelMaxDynamicSharedMemory,
                                           static_cast<int>(bytes), kernel, device),
                  "allowing the dynamic shared memory (cuKernelSetAttribute)");
  }
  if (launch.ClusterSize() > kPortableCluster) {
    driver::Check(
        api.set_kernel_attribute(driver::kKernelNonPortableClusterSize, 1, kernel, device),
        "allowing the cluster size (cuKernelSetAttribute)");
  }
}

void Launcher::CheckCapability(int device) const {
  auto [major, minor] = driver::Capability(device);
  bool specific = std::string(target_->arch).back() == 'a';
  bool fits =
      major == target_->major && (specific ? minor == target_->minor : minor >= target_->minor);
  if (fits) return;
  throw ffi::Error("tilelang.TargetError",
                   "the kernel is compiled for " + std::string(target_->arch) +
                       ", but cuda:" + std::to_string(device) + " has compute capability " +
                       std::to_string(major) + "." + std::to_string(minor) +
                       "\n@note compile it with target=\"auto\" for this GPU, or pass CPU tensors "
                       "to run it on the emulator of " +
                       std::string(target_->arch),
                   "");
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add(
      "tl.runtime.MakeLauncher",
      [](KernelSpec spec, ffi::Array<int64_t> outputs, ffi::Bytes cubin, Target target,
         ffi::Function emulate, ffi::Optional<ffi::Function> make_variant) {
        auto launcher =
            std::make_shared<Launcher>(spec, outputs, std::move(cubin), std::move(target),
                                       std::move(emulate), std::move(make_variant));
        return ffi::Function::FromPacked(
            [launcher](ffi::PackedArgs args, ffi::Any* result) { *result = launcher->Call(args); });
      });
}

}  // namespace tilelang::runtime
