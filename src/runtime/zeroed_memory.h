// Workspaces that a kernel finds zero and leaves zero: counters of arrivals, sums of atomics.
#ifndef TILELANG_RUNTIME_ZEROED_MEMORY_H_
#define TILELANG_RUNTIME_ZEROED_MEMORY_H_

#include <tvm/ffi/container/tensor.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/driver.h"

namespace tilelang::runtime {

namespace ffi = tvm::ffi;

// An attribute of workspaces (T.alloc_global buffers): they are zero at the start of every launch,
// and the kernel leaves them zero.
inline constexpr const char* kZeroed = "zeroed";

// Thread-safe. Launches of a stream follow one another, so that they share their memory; it is set
// to zero once. A launch that is captured into a CUDA graph has memory of its own, and the graph
// sets it to zero: the graph may run beside launches of any stream.
class ZeroedMemory {
 public:
  using Allocate = std::function<ffi::Tensor()>;

  // The `which`-th workspace of a launch, of at least `elements`, all zero in the order of `stream`
  // (of CUDA devices). `allocate` makes a tensor of as many.
  ffi::Tensor Take(size_t which, int64_t elements, DLDevice device, driver::Stream stream,
                   const Allocate& allocate);

  // After a launch on the emulator. Memory that is not zero, as after one of which only some blocks
  // ran, is not used again.
  void GiveBack(size_t which, const ffi::Tensor& tensor);

 private:
  ffi::Tensor OnHost(size_t which, int64_t elements, const Allocate& allocate);

  std::mutex mutex_;
  // Free memory of the host, by the number of the workspace and its elements.
  std::map<std::pair<size_t, int64_t>, std::vector<ffi::Tensor>> free_;
  std::map<std::tuple<int, driver::Stream, size_t>, std::optional<ffi::Tensor>> of_stream_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_ZEROED_MEMORY_H_
