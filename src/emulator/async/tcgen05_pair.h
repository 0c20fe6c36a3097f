// The CTAs that an instruction of tcgen05 is for: that of the thread, or with .cta_group::2 the two
// of a pair, whose ranks in the cluster differ in the last bit only.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_PAIR_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_PAIR_H_

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/core/decoder.h"
#include "emulator/core/machine.h"

namespace tilelang::emulator {

// Takes .cta_group of a tcgen05 instruction; true for ::2. All of a kernel's must agree.
bool TakeCtaGroup(Decoder& d);

// The other CTA of the pair; fails when the cluster has none.
Cta& PeerOf(const Issuer& issuer);

// The CTAs on which the instruction works, that of even rank first. Fails when a peer has exited.
std::vector<Cta*> CtasOf(const Issuer& issuer, bool pair);

// Allocation management of a pair is a matter of one warp of each CTA. What the warps of one CTA
// have begun:
struct PairTurns {
  struct Allocation {
    Issuer issuer;
    uint32_t columns = 0;
    int column = -1;  // where, once both CTAs have it
  };
  std::vector<Allocation> allocations;
  std::array<uint32_t, 512> deallocations{};  // by first column
  uint32_t relinquished = 0;
};

// Waits in `w` for the peer's warp, which does the same `what`, or fails because it cannot come.
Flow AwaitPeer(Warp& w, const Issuer& issuer, const char* what);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_PAIR_H_
