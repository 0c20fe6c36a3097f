// Tensor copies by the tensor memory accelerator (sm_90 and later), issued by one thread.
// Coordinates count elements from the tensor's corner, the fastest dimension first.
#pragma once

#include "barrier.h"
#include "tensor_map.h"

namespace tl {

// How long the L2 cache keeps the tensor's lines.
enum class L2Policy { evict_normal, evict_first, evict_last };

template <L2Policy kPolicy>
TL_DEVICE uint64_t l2_policy() {
  uint64_t policy;
  if constexpr (kPolicy == L2Policy::evict_first) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  }
  return policy;
}

TL_DEVICE void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#define TL_TMA_LOAD(rank, hint, coords, ...)                                    \
  asm volatile("cp.async.bulk.tensor." rank                                     \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" hint \
               " [%0], [%1, " coords::"r"(shared_address(destination)),         \
               "l"(map), "r"(shared_address(&barrier)), __VA_ARGS__             \
               : "memory")
#define TL_TMA_MULTICAST(rank, hint, coords, ...)                                                  \
  asm volatile("cp.async.bulk.tensor." rank                                                        \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster" hint \
               " [%0], [%1, " coords::"r"(shared_address(destination)),                            \
               "l"(map), "r"(shared_address(&barrier)), __VA_ARGS__                                \
               : "memory")
#define TL_TMA_PAIR(rank, hint, coords, ...)                                                 \
  asm volatile("cp.async.bulk.tensor." rank                                                  \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2" hint \
               " [%0], [%1, " coords::"r"(shared_address(destination)),                      \
               "l"(map), "r"(address_in_leader(&barrier)), __VA_ARGS__                       \
               : "memory")
#define TL_TMA_ADD(rank, coords, ...)                                            \
  asm volatile("cp.reduce.async.bulk.tensor." rank                               \
               ".global.shared::cta.add.tile.bulk_group [%0, " coords::"l"(map), \
               "r"(shared_address(source)), __VA_ARGS__                          \
               : "memory")
#define TL_TMA_STORE(rank, hint, coords, ...)                                          \
  asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group" hint \
               " [%0, " coords::"l"(map),                                              \
               "r"(shared_address(source)), __VA_ARGS__                                \
               : "memory")

#define TL_TMA_GATHER(hint, coords, ...)                                    \
  asm volatile(                                                             \
      "cp.async.bulk.tensor.2d"                                             \
      ".shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes" hint \
      " [%0], [%1, " coords::"r"(shared_address(destination)),              \
      "l"(map), "r"(shared_address(&barrier)), __VA_ARGS__                  \
      : "memory")

// tma_load: a box to shared memory at `destination` (128-byte aligned); completes that many bytes
// on the barrier, out-of-bounds elements, which become zero, included.
// tma_load_multicast: the same for each block of the cluster that has a bit in `blocks`, to its
// shared memory and on its barrier.
// tma_load_pair: the same, but completes on that barrier of the even CTA of the pair.
// tma_store: a box from shared memory; out-of-bounds elements are left out. Complete as a group,
// see below. tma_store_add: the same, added to what is there, each element atomically.
#define TL_TMA_COPIES(rank, load, load_hint, load_next, store, store_hint, parameters, ...)        \
  template <L2Policy kPolicy = L2Policy::evict_normal>                                             \
  TL_DEVICE void tma_load(const CUtensorMap* map, uint64_t& barrier, void* destination,            \
                          TL_UNPACK parameters) {                                                  \
    if constexpr (kPolicy == L2Policy::evict_normal) {                                             \
      TL_TMA_LOAD(rank, "", load "], [%2];", __VA_ARGS__);                                         \
    } else {                                                                                       \
      TL_TMA_LOAD(rank, ".L2::cache_hint", load "], [%2], " load_hint ";", __VA_ARGS__,            \
                  "l"(l2_policy<kPolicy>()));                                                      \
    }                                                                                              \
  }                                                                                                \
  template <L2Policy kPolicy = L2Policy::evict_normal>                                             \
  TL_DEVICE void tma_load_multicast(const CUtensorMap* map, uint64_t& barrier, void* destination,  \
                                    uint16_t blocks, TL_UNPACK parameters) {                       \
    if constexpr (kPolicy == L2Policy::evict_normal) {                                             \
      TL_TMA_MULTICAST(rank, "", load "], [%2], " load_hint ";", __VA_ARGS__, "h"(blocks));        \
    } else {                                                                                       \
      TL_TMA_MULTICAST(rank, ".L2::cache_hint", load "], [%2], " load_hint ", " load_next ";",     \
                       __VA_ARGS__, "h"(blocks), "l"(l2_policy<kPolicy>()));                       \
    }                                                                                              \
  }                                                                                                \
  template <L2Policy kPolicy = L2Policy::evict_normal>                                             \
  TL_DEVICE void tma_load_pair(const CUtensorMap* map, uint64_t& barrier, void* destination,       \
                               TL_UNPACK parameters) {                                             \
    if constexpr (kPolicy == L2Policy::evict_normal) {                                             \
      TL_TMA_PAIR(rank, "", load "], [%2];", __VA_ARGS__);                                         \
    } else {                                                                                       \
      TL_TMA_PAIR(rank, ".L2::cache_hint", load "], [%2], " load_hint ";", __VA_ARGS__,            \
                  "l"(l2_policy<kPolicy>()));                                                      \
    }                                                                                              \
  }                                                                                                \
  template <L2Policy kPolicy = L2Policy::evict_normal>                                             \
  TL_DEVICE void tma_store(const CUtensorMap* map, const void* source, TL_UNPACK parameters) {     \
    if constexpr (kPolicy == L2Policy::evict_normal) {                                             \
      TL_TMA_STORE(rank, "", store "], [%1];", __VA_ARGS__);                                       \
    } else {                                                                                       \
      TL_TMA_STORE(rank, ".L2::cache_hint", store "], [%1], " store_hint ";", __VA_ARGS__,         \
                   "l"(l2_policy<kPolicy>()));                                                     \
    }                                                                                              \
  }                                                                                                \
  TL_DEVICE void tma_store_add(const CUtensorMap* map, const void* source, TL_UNPACK parameters) { \
    TL_TMA_ADD(rank, store "], [%1];", __VA_ARGS__);                                               \
  }
#define TL_UNPACK(...) __VA_ARGS__

TL_TMA_COPIES("1d", "{%3}", "%4", "%5", "{%2}", "%3", (int c0), "r"(c0))
TL_TMA_COPIES("2d", "{%3, %4}", "%5", "%6", "{%2, %3}", "%4", (int c0, int c1), "r"(c0), "r"(c1))
TL_TMA_COPIES("3d", "{%3, %4, %5}", "%6", "%7", "{%2, %3, %4}", "%5", (int c0, int c1, int c2),
              "r"(c0), "r"(c1), "r"(c2))
TL_TMA_COPIES("4d", "{%3, %4, %5, %6}", "%7", "%8", "{%2, %3, %4, %5}", "%6",
              (int c0, int c1, int c2, int c3), "r"(c0), "r"(c1), "r"(c2), "r"(c3))
TL_TMA_COPIES("5d", "{%3, %4, %5, %6, %7}", "%8", "%9", "{%2, %3, %4, %5, %6}", "%7",
              (int c0, int c1, int c2, int c3, int c4), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4))

// Loads the columns of a box, from c0 on, of four rows of a matrix, one row after the other. The
// map has boxes of one row.
template <L2Policy kPolicy = L2Policy::evict_normal>
TL_DEVICE void tma_load_gather4(const CUtensorMap* map, uint64_t& barrier, void* destination,
                                int c0, int r0, int r1, int r2, int r3) {
  if constexpr (kPolicy == L2Policy::evict_normal) {
    TL_TMA_GATHER("", "{%3, %4, %5, %6, %7}], [%2];", "r"(c0), "r"(r0), "r"(r1), "r"(r2), "r"(r3));
  } else {
    TL_TMA_GATHER(".L2::cache_hint", "{%3, %4, %5, %6, %7}], [%2], %8;", "r"(c0), "r"(r0), "r"(r1),
                  "r"(r2), "r"(r3), "l"(l2_policy<kPolicy>()));
  }
}

// Makes a group of this thread's stores since the last commit.
TL_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most kPending of this thread's groups are incomplete, or have not yet read
// shared memory.
template <int kPending>
TL_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
TL_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace tl
