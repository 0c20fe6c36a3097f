// The common code of all libraries that `kernel.export_library` writes (tilelang/jit/library.py):
// checking tensors and launching, without the compiler. It is compiled where the library is.
#ifndef TILELANG_RUNTIME_EXPORTED_LIBRARY_H_
#define TILELANG_RUNTIME_EXPORTED_LIBRARY_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device_memory.h"
#include "runtime/driver.h"

namespace tilelang::exported {

namespace ffi = tvm::ffi;

[[noreturn]] inline void Refuse(const std::string& problem) {
  throw ffi::Error("tilelang.ArgumentError", problem, "");
}

inline char* Address(const ffi::TensorView& tensor) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

// Memory between the launches of a call, or `instead`, where that is no null pointer.
class Workspace {
 public:
  Workspace(int device, const char* dtype, const std::vector<int64_t>& shape,
            char* instead = nullptr)
      : address_(instead) {
    if (instead != nullptr) return;
    ffi::ShapeView view(shape.data(), shape.size());
    memory_ = driver::Allocate(view, ffi::StringToDLDataType(dtype), {kDLCUDA, device});
    address_ = static_cast<char*>(memory_->data_ptr());
  }
  char* address() const { return address_; }

 private:
  std::optional<ffi::Tensor> memory_;
  char* address_;
};

inline char* Address(const Workspace& workspace) { return workspace.address(); }

// The checks of a call: each names the argument, what is expected and what came.
class Arguments {
 public:
  // A contiguous tensor of a GPU, the same for all arguments.
  void Tensor(const char* name, const ffi::TensorView& tensor, DLDataType dtype, int rank,
              int64_t alignment) {
    std::string argument = std::string("argument '") + name + "': ";
    if (tensor.device().device_type != kDLCUDA) Refuse(argument + "a tensor on a GPU is expected");
    if (device_ >= 0 && tensor.device().device_id != device_) {
      Refuse(argument + "it is on another GPU than the first tensor");
    }
    device_ = tensor.device().device_id;
    if (tensor.dtype() != dtype) {
      Refuse(argument + "expected " + std::string(ffi::DLDataTypeToString(dtype)) + ", got " +
             std::string(ffi::DLDataTypeToString(tensor.dtype())));
    }
    if (tensor.ndim() != rank) {
      Refuse(argument + "expected " + std::to_string(rank) + " dimensions, got " +
             std::to_string(tensor.ndim()));
    }
    if (!tensor.IsContiguous()) Refuse(argument + "it must be contiguous");
    if (reinterpret_cast<uintptr_t>(Address(tensor)) % alignment != 0) {
      Refuse(argument + "its address is not a multiple of " + std::to_string(alignment) + " bytes");
    }
  }

  void Extent(const char* name, const ffi::TensorView& tensor, int dimension, int64_t expected) {
    if (tensor.size(dimension) == expected) return;
    Refuse(std::string("argument '") + name + "': expected the extent " + std::to_string(expected) +
           " in dimension " + std::to_string(dimension) + ", got " +
           std::to_string(tensor.size(dimension)));
  }

  // Kernels compute with the extent in the type of its expression.
  void Fits(const char* name, const ffi::TensorView& tensor, int dimension, const char* extent,
            int64_t most) {
    if (tensor.size(dimension) <= most) return;
    Refuse(std::string("argument '") + name + "': the extent " +
           std::to_string(tensor.size(dimension)) + " in dimension " + std::to_string(dimension) +
           " does not fit the dtype of '" + extent + "'");
  }

  int device() const { return device_; }

 private:
  int device_ = -1;
};

// Refuses a call that does not fulfil a fact which the kernel assumes.
inline void Assumed(bool holds, const char* fact) {
  if (holds) return;
  throw ffi::Error("tilelang.AssumptionError", std::string(fact) + " does not hold in this call",
                   "");
}

// A tensor that a call passes, and whether the kernel writes to it.
struct Passed {
  const ffi::TensorView& tensor;
  bool written;
};

// Returns whether two tensors may share memory that the kernel writes to. Compares ranges of
// addresses.
inline bool Overlap(std::initializer_list<Passed> tensors) {
  auto begin = [](const Passed& each) { return Address(each.tensor); };
  auto end = [&](const Passed& each) {
    return begin(each) + ffi::GetDataSize(each.tensor.numel(), each.tensor.dtype());
  };
  for (const Passed& a : tensors) {
    for (const Passed& b : tensors) {
      bool common = begin(a) < end(b) && begin(b) < end(a);
      if (&a != &b && a.written && common) return true;
    }
  }
  return false;
}

// The fixed part of a tensor map.
struct MapForm {
  int dtype;  // CUtensorMapDataType
  std::vector<uint32_t> box, element_strides;
  int interleave, swizzle, l2_promotion, oob_fill;
};

inline driver::TensorMap Encode(const char* name, const MapForm& form, int device, char* address,
                                const std::vector<int64_t>& dims,
                                const std::vector<int64_t>& strides) {
  std::string argument = std::string("argument '") + name + "': ";
  std::vector<uint64_t> extents(dims.begin(), dims.end()), steps(strides.begin(), strides.end());
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
    // Maps have no extents of 0: that of a tensor without elements has one.
    extents.assign(extents.size(), 1);
    steps.assign(steps.size(), 16);
    address =
        reinterpret_cast<char*>(driver::ZeroElement(device, TVMFFIEnvGetStream(kDLCUDA, device)));
  }
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    Refuse(argument + "its address is not a multiple of 16 bytes");
  }
  for (uint64_t stride : steps) {
    if (stride % 16 != 0) Refuse(argument + "a stride is not a multiple of 16 bytes");
  }
  driver::TensorMap map;
  driver::Result result = driver::Get().encode_tiled(
      &map, form.dtype, static_cast<uint32_t>(dims.size()), address, extents.data(), steps.data(),
      form.box.data(), form.element_strides.data(), form.interleave, form.swizzle,
      form.l2_promotion, form.oob_fill);
  if (result != 0) Refuse(argument + "the driver refuses its extents, strides or box");
  return map;
}

// One __global__ function of the library's code.
struct Entry {
  const char* name;
  int64_t shared_memory;  // the most dynamic shared memory of a launch, bytes
  std::vector<unsigned> cluster;
  bool cooperative, dependent;
};

// The code of the library, loaded at the first call on each device.
class Code {
 public:
  Code(const unsigned char* image, std::vector<Entry> entries, int major, int minor, bool exact)
      : image_(image), entries_(std::move(entries)), major_(major), minor_(minor), exact_(exact) {}

  const std::vector<driver::Kernel>& On(int device) {
    if (device < 0 || device >= kMaxDevices) Refuse("no CUDA device " + std::to_string(device));
    std::call_once(loaded_[device], [&] { Load(device); });
    return kernels_[device];
  }

  const Entry& entry(size_t i) const { return entries_[i]; }

 private:
  static constexpr int kMaxDevices = 64;

  void Load(int device) {
    auto [major, minor] = driver::Capability(device);
    if (major != major_ || (exact_ ? minor != minor_ : minor < minor_)) {
      throw ffi::Error("tilelang.TargetError",
                       "the library is for compute capability " + std::to_string(major_) + "." +
                           std::to_string(minor_) + ", but cuda:" + std::to_string(device) +
                           " has " + std::to_string(major) + "." + std::to_string(minor),
                       "");
    }
    const driver::Api& api = driver::Get();
    std::call_once(library_loaded_, [&] {
      driver::Check(api.load_library(&library_, image_, nullptr, nullptr, 0, nullptr, nullptr, 0),
                    "loading the library's code (cuLibraryLoadData)");
    });
    for (const Entry& entry : entries_) {
      driver::Kernel kernel;
      driver::Check(api.get_kernel(&kernel, library_, entry.name), "cuLibraryGetKernel");
      Configure(entry, kernel, device);
      kernels_[device].push_back(kernel);
    }
  }

  static void Configure(const Entry& entry, driver::Kernel kernel, int device) {
    const driver::Api& api = driver::Get();
    if (entry.shared_memory > 48 * 1024) {
      driver::Check(api.set_kernel_attribute(driver::kKernelMaxDynamicSharedMemory,
                                             static_cast<int>(entry.shared_memory), kernel, device),
                    "allowing the dynamic shared memory (cuKernelSetAttribute)");
    }
    unsigned ctas = 1;
    for (unsigned extent : entry.cluster) ctas *= extent;
    if (ctas > 8) {
      driver::Check(
          api.set_kernel_attribute(driver::kKernelNonPortableClusterSize, 1, kernel, device),
          "allowing the cluster size (cuKernelSetAttribute)");
    }
  }

  const unsigned char* image_;
  std::vector<Entry> entries_;
  int major_, minor_;
  bool exact_;
  std::once_flag library_loaded_;
  driver::Library library_ = nullptr;
  std::array<std::once_flag, kMaxDevices> loaded_;
  std::array<std::vector<driver::Kernel>, kMaxDevices> kernels_;
};

// The bits of a scalar as the kernel's parameter has them.
template <typename Type>
uint64_t Bits(Type value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// An empty grid is not launched, and no tensor map describes what it would copy.
inline bool IsEmpty(const std::array<int64_t, 3>& grid) { return grid[0] * grid[1] * grid[2] == 0; }

// Launches on the caller's stream of the device.
inline void Launch(const Entry& entry, driver::Kernel kernel, int device,
                   std::array<int64_t, 3> grid, std::array<int64_t, 3> block, int64_t shared_memory,
                   std::vector<void*> arguments) {
  constexpr int64_t kMostBlocks[3] = {0x7FFFFFFF, 65535, 65535};
  driver::LaunchConfig config{};
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0 || grid[i] > kMostBlocks[i]) {
      Refuse("the arguments give a grid of " + std::to_string(grid[i]) + " blocks in dimension " +
             std::to_string(i));
    }
    config.grid[i] = static_cast<unsigned>(grid[i]);
    config.block[i] = static_cast<unsigned>(block[i]);
  }
  config.shared_memory_bytes = static_cast<unsigned>(shared_memory);
  config.stream = TVMFFIEnvGetStream(kDLCUDA, device);
  driver::LaunchAttribute attributes[3] = {};
  config.attributes = attributes;
  if (!entry.cluster.empty()) {
    driver::LaunchAttribute& cluster = attributes[config.attribute_count++];
    cluster.id = driver::kLaunchClusterDimension;
    cluster.value.cluster = {entry.cluster[0], entry.cluster[1], entry.cluster[2]};
  }
  if (entry.cooperative) {
    driver::LaunchAttribute& together = attributes[config.attribute_count++];
    together.id = driver::kLaunchCooperative;
    together.value.flag = 1;
  }
  if (entry.dependent) {
    driver::LaunchAttribute& early = attributes[config.attribute_count++];
    early.id = driver::kLaunchProgrammaticSerialization;
    early.value.flag = 1;
  }
  driver::Check(driver::Get().launch(&config, kernel, arguments.data(), nullptr),
                (std::string("launching '") + entry.name + "'").c_str());
}

}  // namespace tilelang::exported

#endif  // TILELANG_RUNTIME_EXPORTED_LIBRARY_H_
