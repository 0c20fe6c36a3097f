#include "runtime/driver.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <array>
#include <mutex>
#include <optional>

namespace tilelang::driver {

namespace {

constexpr int kMaxDevices = 64;

[[noreturn]] void Fail(const std::string& message) {
  throw tvm::ffi::Error("tilelang.DriverError", message, "");
}

template <typename Function>
void Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) Fail(std::string("the CUDA driver is too old: it lacks ") + name);
}

Api LoadAll(void* library) {
  Api api;
  Load(library, "cuInit", &api.init);
  Load(library, "cuGetErrorName", &api.get_error_name);
  Load(library, "cuGetErrorString", &api.get_error_string);
  Load(library, "cuDeviceGetCount", &api.device_count);
  Load(library, "cuDeviceGetAttribute", &api.device_attribute);
  Load(library, "cuDevicePrimaryCtxRetain", &api.retain_primary_context);
  Load(library, "cuCtxGetCurrent", &api.current_context);
  Load(library, "cuCtxSetCurrent", &api.set_current_context);
  Load(library, "cuLibraryLoadData", &api.load_library);
  Load(library, "cuLibraryGetKernel", &api.get_kernel);
  Load(library, "cuKernelSetAttribute", &api.set_kernel_attribute);
  Load(library, "cuLaunchKernelEx", &api.launch);
  Load(library, "cuMemAlloc_v2", &api.allocate);
  Load(library, "cuMemFree_v2", &api.free);
  Load(library, "cuMemsetD8Async", &api.memset);
  Load(library, "cuStreamIsCapturing", &api.is_capturing);
  Load(library, "cuTensorMapEncodeTiled", &api.encode_tiled);
  return api;
}

Api Start() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Fail(
        "there is no CUDA driver (libcuda.so.1) on this machine\n"
        "@note pass CPU tensors to run the kernel on the emulator");
  }
  Api api = LoadAll(library);
  if (Result result = api.init(0)) {
    const char* text = nullptr;
    api.get_error_string(result, &text);
    Fail(std::string("the CUDA driver does not start: ") + (text ? text : "unknown error"));
  }
  return api;
}

// The primary context of a device, retained for the life of the process as the CUDA runtime does.
Context PrimaryContext(Device device) {
  static std::array<std::once_flag, kMaxDevices> flags;
  static std::array<Context, kMaxDevices> contexts;
  if (device < 0 || device >= kMaxDevices) Fail("no CUDA device " + std::to_string(device));
  std::call_once(flags[device], [device] {
    Check(Get().retain_primary_context(&contexts[device], device), "cuDevicePrimaryCtxRetain");
  });
  return contexts[device];
}

}  // namespace

const Api& Get() {
  static const Api api = Start();
  return api;
}

int DeviceCount() {
  int count = 0;
  try {
    Get().device_count(&count);
  } catch (const tvm::ffi::Error&) {
    return 0;
  }
  return count;
}

std::pair<int, int> Capability(Device device) {
  if (device >= DeviceCount()) return {0, 0};
  int major = 0;
  int minor = 0;
  Check(Get().device_attribute(&major, kDeviceCapabilityMajor, device), "cuDeviceGetAttribute");
  Check(Get().device_attribute(&minor, kDeviceCapabilityMinor, device), "cuDeviceGetAttribute");
  return {major, minor};
}

int Multiprocessors(Device device) {
  if (device >= DeviceCount()) return 0;
  int count = 0;
  Check(Get().device_attribute(&count, kDeviceMultiprocessors, device), "cuDeviceGetAttribute");
  return count;
}

void Check(Result result, const char* action) {
  if (result == 0) return;
  const char* name = nullptr;
  const char* text = nullptr;
  Get().get_error_name(result, &name);
  Get().get_error_string(result, &text);
  Fail(std::string(action) + " failed: " + (name ? name : std::to_string(result).c_str()) + " (" +
       (text ? text : "no description") + ")");
}

uint64_t ZeroElement(Device device, Stream stream) {
  static std::array<std::once_flag, kMaxDevices> flags;
  static std::array<uint64_t, kMaxDevices> addresses;
  constexpr size_t kBytes = 16;
  std::call_once(flags[device], [device] {
    Check(Get().allocate(&addresses[device], kBytes), "allocating an element (cuMemAlloc)");
  });
  // A store of an earlier launch may have changed it.
  Check(Get().memset(addresses[device], 0, kBytes, stream), "clearing it (cuMemsetD8Async)");
  return addresses[device];
}

DeviceGuard::DeviceGuard(Device device) {
  Context wanted = PrimaryContext(device);
  Check(Get().current_context(&previous_), "cuCtxGetCurrent");
  if (previous_ == wanted) return;
  Check(Get().set_current_context(wanted), "cuCtxSetCurrent");
  // A thread without a context keeps the one it got, as with the CUDA runtime.
  changed_ = previous_ != nullptr;
}

DeviceGuard::~DeviceGuard() {
  if (changed_) Get().set_current_context(previous_);
}

}  // namespace tilelang::driver
