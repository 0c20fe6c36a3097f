/*! Tiles in tensor memory as tiles of another type of elements. */
#ifndef TILELANG_LAYOUT_TMEM_VIEW_H_
#define TILELANG_LAYOUT_TMEM_VIEW_H_

#include "layout/tcgen05_layout.h"

namespace tilelang::layout {

/*!
 * The same cells as elements of `bits` bits: the last extent changes by the ratio. Raises
 * LayoutError where the elements that make a wider one do not follow each other.
 */
TmemLayout Reinterpret(const TmemLayout& layout, int64_t bits);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_TMEM_VIEW_H_
