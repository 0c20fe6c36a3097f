/*! User errors of the layout algebra. */
#ifndef TILELANG_LAYOUT_THROW_H_
#define TILELANG_LAYOUT_THROW_H_

#include <tvm/ffi/error.h>

/*! Raises `tilelang.errors.<Kind>` with the streamed message. */
#define LAYOUT_THROW(Kind) TVM_FFI_THROW(tilelang.Kind)

/*! Raises `tilelang.errors.<Kind>` with the streamed message unless the condition holds. */
#define LAYOUT_REQUIRE(condition, Kind) \
  if (!(condition)) LAYOUT_THROW(Kind)

#endif  // TILELANG_LAYOUT_THROW_H_
