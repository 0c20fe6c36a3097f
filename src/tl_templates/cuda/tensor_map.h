// Tensor maps, which the host encodes and passes as kernel parameters.
#pragma once

struct alignas(64) CUtensorMap {
  uint64_t opaque[16];
};
