// Reduces windows of a stream's array, which lie in tiles, on the CPU.
#ifndef TILELANG_STREAM_COARSEN_H_
#define TILELANG_STREAM_COARSEN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stream/threads.h"

namespace tilelang::stream {

/*! An axis of windows; at least two. Numbers count elements; the first axis has no extent. */
struct WindowAxis {
  int64_t extent;
  int64_t factor;
  int64_t tile;
  int64_t weight;       // distance of neighbours in a tile
  int64_t tile_stride;  // distance of the tiles that follow each other along this axis
  int64_t stride;       // distance of neighbours in the stream
};

/*! How the elements of a window become one: "mean", "min", "max" or "median". */
class Windows {
 public:
  /*! Throws a std::invalid_argument where elements of `dtype` are not reduced by `method`. */
  Windows(std::vector<WindowAxis> axes, const std::string& method, const std::string& dtype);

  /*!
   * Writes `count` elements of the coarse array from the `first` on, in row-major order. `origin`
   * is where the element of index 0 along all axes lies; there are no elements from position `end`
   * on.
   */
  void Run(const std::byte* origin, int64_t first, int64_t count, int64_t end, std::byte* coarse,
           Threads& threads) const;

 private:
  using Kernel = void (*)(const Windows&, const std::byte* origin, int64_t first, int64_t count,
                          int64_t end, std::byte* coarse);
  friend class WindowRows;

  std::vector<WindowAxis> axes_;
  std::vector<int64_t> columns_;  // where elements of a row lie, relative to the first one
  int64_t itemsize_ = 0;
  Kernel kernel_ = nullptr;
};

}  // namespace tilelang::stream

#endif  // TILELANG_STREAM_COARSEN_H_
