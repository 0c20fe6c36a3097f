// The part of the CUDA driver that launching needs, found at run time in libcuda.so.1: the library
// neither links nor includes CUDA. Types mirror the driver's stable C interface (cuda.h).
#ifndef TILELANG_RUNTIME_DRIVER_H_
#define TILELANG_RUNTIME_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tilelang::driver {

using Result = int;  // CUresult; 0 is success
using Device = int;
using Context = struct ContextTag*;
using Stream = void*;
using Library = struct LibraryTag*;
using Kernel = struct KernelTag*;  // accepted wherever the driver takes a CUfunction

struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

struct LaunchAttribute {
  int id;
  char pad[8 - sizeof(int)];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
  } value;
};

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_memory_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

inline constexpr int kLaunchCooperative = 2;
inline constexpr int kLaunchClusterDimension = 4;
inline constexpr int kLaunchProgrammaticSerialization = 6;
inline constexpr Result kCooperativeLaunchTooLarge = 720;
inline constexpr int kKernelMaxDynamicSharedMemory = 8;
inline constexpr int kKernelNonPortableClusterSize = 14;
inline constexpr int kDeviceMultiprocessors = 16;
inline constexpr int kDeviceCapabilityMajor = 75;
inline constexpr int kDeviceCapabilityMinor = 76;

struct Api {
  Result (*init)(unsigned flags);
  Result (*get_error_name)(Result error, const char** name);
  Result (*get_error_string)(Result error, const char** text);
  Result (*device_count)(int* count);
  Result (*device_attribute)(int* value, int attribute, Device device);
  Result (*retain_primary_context)(Context* context, Device device);
  Result (*current_context)(Context* context);
  Result (*set_current_context)(Context context);
  Result (*load_library)(Library* library, const void* code, void* jit_options, void** jit_values,
                         unsigned jit_count, void* options, void** values, unsigned count);
  Result (*get_kernel)(Kernel* kernel, Library library, const char* name);
  Result (*set_kernel_attribute)(int attribute, int value, Kernel kernel, Device device);
  Result (*launch)(const LaunchConfig* config, Kernel kernel, void** arguments, void** extra);
  Result (*allocate)(uint64_t* address, size_t bytes);
  Result (*free)(uint64_t address);
  Result (*memset)(uint64_t address, unsigned char value, size_t bytes, Stream stream);
  Result (*is_capturing)(Stream stream, int* status);
  Result (*encode_tiled)(TensorMap* map, int dtype, uint32_t rank, void* address,
                         const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                         const uint32_t* element_strides, int interleave, int swizzle,
                         int l2_promotion, int oob_fill);
};

// The driver, initialized. Throws tilelang.DriverError where there is none or it does not start.
const Api& Get();

// The number of GPUs; 0 where there is no driver.
int DeviceCount();

// Compute capability (major, minor) of a device; (0, 0) where there is no such device.
std::pair<int, int> Capability(Device device);
// 0 for a device that does not exist.
int Multiprocessors(Device device);

// Throws tilelang.DriverError, saying what failed and the driver's name and text of the error.
void Check(Result result, const char* action);

// The address of 16 bytes of the current device, zero in the order of the stream: what tensor maps
// of tensors without elements have for their one element.
uint64_t ZeroElement(Device device, Stream stream);

// Makes the primary context of a device current for the life of the object.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  Context previous_ = nullptr;
  bool changed_ = false;
};

}  // namespace tilelang::driver

#endif  // TILELANG_RUNTIME_DRIVER_H_
