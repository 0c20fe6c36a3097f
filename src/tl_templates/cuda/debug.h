// Assertions on the device.
#pragma once

// CUDA's own: the driver prints the message with its place, the block and the thread, and the
// launch fails as one whose assertion failed.
#define TL_CHECK(condition, message)                                          \
  do {                                                                        \
    if (!(condition)) __assertfail(message, __FILE__, __LINE__, __func__, 1); \
  } while (false)
