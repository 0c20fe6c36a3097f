// Threads that the hardware takes together, the same on every architecture.
// Source: PTX ISA 9.1, "Cooperative Thread Arrays" and "Warpgroup".
#ifndef TILELANG_TARGET_WARP_H_
#define TILELANG_TARGET_WARP_H_

namespace tilelang {

constexpr int kWarp = 32;              // threads
constexpr int kWarpgroup = 4 * kWarp;  // the first at a multiple of it

}  // namespace tilelang

#endif  // TILELANG_TARGET_WARP_H_
