// A compiled kernel that can be called: on a GPU through the driver, or on the emulator.
#ifndef TILELANG_RUNTIME_LAUNCHER_H_
#define TILELANG_RUNTIME_LAUNCHER_H_

#include <array>
#include <mutex>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/assumptions.h"
#include "runtime/driver.h"
#include "runtime/launch_plan.h"
#include "target/target.h"

namespace tilelang::runtime {

// Thread-safe. Kernels run on the caller's current stream of the tensors' device.
class Launcher {
 public:
  // `outputs`: parameters that are allocated and returned. `cubin`: code for `target`.
  // `emulate`: runs a launch whose tensors are on the CPU (see LaunchPlan::Emulate).
  // `make_variant`: returns what to call instead, with the same arguments, where tensors overlap
  // that the kernel writes to: `cubin` may take its pointers to be __restrict__. Without it
  // overlaps are not looked for.
  Launcher(const KernelSpec& spec, const ffi::Array<int64_t>& outputs, ffi::Bytes cubin,
           Target target, ffi::Function emulate, ffi::Optional<ffi::Function> make_variant);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Returns nothing, the output, or an array of the outputs.
  ffi::Any Call(ffi::PackedArgs args);

 private:
  static constexpr int kMaxDevices = 64;
  struct DeviceKernels {
    std::once_flag loaded;
    std::vector<driver::Kernel> kernels;
  };
  const std::vector<driver::Kernel>& KernelsOn(int device);
  void Load(int device, std::vector<driver::Kernel>* kernels);
  void Configure(const LaunchPlan& launch, driver::Kernel kernel, int device) const;
  void CheckCapability(int device) const;
  ffi::Function Variant();

  VarSlots slots_;
  Signature signature_;
  std::vector<LaunchPlan> launches_;
  Assumptions assumptions_;
  ZeroedMemory zeroed_;
  ffi::Bytes cubin_;
  Target target_;
  ffi::Function emulate_;
  ffi::Optional<ffi::Function> make_variant_;
  std::mutex variant_mutex_;
  ffi::Optional<ffi::Function> variant_;
  std::once_flag library_loaded_;
  driver::Library library_ = nullptr;
  std::array<DeviceKernels, kMaxDevices> devices_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_LAUNCHER_H_
