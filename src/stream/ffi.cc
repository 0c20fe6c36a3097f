// Functions that Python calls to cut streams on the CPU (tilelang/stream/native.py).
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "registry/functions.h"
#include "stream/coarsen.h"
#include "stream/scatter.h"

namespace tilelang::stream {
namespace {

namespace ffi = tvm::ffi;
using Numbers = ffi::Array<int64_t>;

class ThreadsObj : public ffi::Object {
 public:
  explicit ThreadsObj(int64_t count) : threads(count) {}

  Threads threads;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.stream.StreamThreads", ThreadsObj, ffi::Object);
};

class ThreadsRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(ThreadsRef, ffi::ObjectRef, ThreadsObj);
};

class LayoutObj : public ffi::Object {
 public:
  explicit LayoutObj(TileLayout given) : layout(std::move(given)) {}

  TileLayout layout;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.stream.StreamLayout", LayoutObj, ffi::Object);
};

class LayoutRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(LayoutRef, ffi::ObjectRef, LayoutObj);
};

class WindowsObj : public ffi::Object {
 public:
  explicit WindowsObj(Windows given) : windows(std::move(given)) {}

  Windows windows;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.stream.StreamWindows", WindowsObj, ffi::Object);
};

class WindowsRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(WindowsRef, ffi::ObjectRef, WindowsObj);
};

// Addresses are those of arrays that Python keeps.
std::byte* At(int64_t address) { return reinterpret_cast<std::byte*>(address); }

// `axes`: extent, tile and weight of each axis; `numbers`: live, tile, period, itemsize.
LayoutRef MakeLayout(Numbers axes, Numbers numbers) {
  std::vector<TileAxis> found;
  for (size_t d = 0; d < axes.size(); d += 3) found.push_back({axes[d], axes[d + 1], axes[d + 2]});
  TileLayout layout(std::move(found), numbers[0], numbers[1], numbers[2], numbers[3]);
  return LayoutRef(ffi::make_object<LayoutObj>(std::move(layout)));
}

// `axes`: the fields of each WindowAxis.
WindowsRef MakeWindows(Numbers axes, ffi::String method, ffi::String dtype) {
  std::vector<WindowAxis> found;
  for (size_t d = 0; d < axes.size(); d += 6) {
    found.push_back({axes[d], axes[d + 1], axes[d + 2], axes[d + 3], axes[d + 4], axes[d + 5]});
  }
  try {
    Windows windows(std::move(found), method, dtype);
    return WindowsRef(ffi::make_object<WindowsObj>(std::move(windows)));
  } catch (const std::invalid_argument& error) {
    TVM_FFI_THROW(ValueError) << error.what();
  }
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.stream.Threads",
           [](int64_t count) { return ThreadsRef(ffi::make_object<ThreadsObj>(count)); })
      .Add("tl.stream.Layout", MakeLayout)
      .Add("tl.stream.Scatter",
           [](LayoutRef layout, ThreadsRef threads, int64_t elements, int64_t first, int64_t count,
              int64_t tiles) {
             Scatter(layout->layout, At(elements), first, count, At(tiles),
                     const_cast<ThreadsObj*>(threads.get())->threads);
           })
      .Add("tl.stream.Pad",
           [](LayoutRef layout, ThreadsRef threads, int64_t padding, int64_t position,
              int64_t begin, int64_t end, int64_t tiles) {
             Pad(layout->layout, At(padding), position, begin, end, At(tiles),
                 const_cast<ThreadsObj*>(threads.get())->threads);
           })
      .Add("tl.stream.Windows", MakeWindows)
      .Add("tl.stream.Coarsen", [](WindowsRef windows, ThreadsRef threads, int64_t origin,
                                   Numbers span, int64_t end, int64_t coarse) {
        windows->windows.Run(At(origin), span[0], span[1], end, At(coarse),
                             const_cast<ThreadsObj*>(threads.get())->threads);
      });
}

}  // namespace tilelang::stream
