// Puts elements of a stream into tiles on the CPU.
#ifndef TILELANG_STREAM_SCATTER_H_
#define TILELANG_STREAM_SCATTER_H_

#include <cstddef>
#include <cstdint>

#include "stream/threads.h"
#include "stream/tile_layout.h"

namespace tilelang::stream {

/*!
 * Copies `count` elements that arrive at position `first` to their places in `tiles`, where the
 * first tile of the epoch that positions count from begins.
 */
void Scatter(const TileLayout& layout, const std::byte* elements, int64_t first, int64_t count,
             std::byte* tiles, Threads& threads);

/*!
 * Puts `padding`, one element, into the cells of tiles `begin` to `end` (exclusive, counted from
 * `tiles`) that lie outside of the array or at positions from `position` on.
 */
void Pad(const TileLayout& layout, const std::byte* padding, int64_t position, int64_t begin,
         int64_t end, std::byte* tiles, Threads& threads);

}  // namespace tilelang::stream

#endif  // TILELANG_STREAM_SCATTER_H_
