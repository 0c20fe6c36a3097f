// Tensor maps in global memory that a CTA has changed, and that it may not use yet.
//
// TMA reads maps through a proxy of its own. A thread that uses a changed map comes after
// fence.proxy.tensormap::generic.acquire for this map; without it, TMA may take the map from its
// cache. A fence in any thread of the CTA is taken for one that orders all of them, and maps that
// ordinary stores or other CTAs have changed are not followed.
#ifndef TILELANG_EMULATOR_ASYNC_TENSOR_MAP_EDITS_H_
#define TILELANG_EMULATOR_ASYNC_TENSOR_MAP_EDITS_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

class TensorMapEdits {
 public:
  void Change(uint64_t map, const Issuer& issuer) { changed_.insert_or_assign(map, issuer.op); }
  void Acquire(uint64_t map) { changed_.erase(map); }
  // Reports a use of a map that no fence has acquired since its last change.
  void CheckUse(uint64_t map, const Issuer& issuer) const;

 private:
  std::unordered_map<uint64_t, const Op*> changed_;  // by what, by the address of the map
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TENSOR_MAP_EDITS_H_
