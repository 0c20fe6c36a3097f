// Copies from global to shared memory that a thread asks for, and waits for by groups.
#pragma once

namespace tl {

// Of the bytes (a constant: 4, 8 or 16) the first source_bytes are read; the others become zero.
// Both addresses are multiples of their number. 16 bytes go around the L1 cache, which has no use
// for them.
#define TL_CP_ASYNC(cache, bytes)                                    \
  asm volatile("cp.async." cache ".shared.global [%0], [%1], " bytes \
               ", %2;" ::"r"(shared_address(target)),                \
               "l"(source), "r"(source_bytes)                        \
               : "memory")
TL_DEVICE void cp_async(void* target, const void* source, int bytes, int source_bytes) {
  if (bytes == 16) {
    TL_CP_ASYNC("cg", "16");
  } else if (bytes == 8) {
    TL_CP_ASYNC("ca", "8");
  } else {
    TL_CP_ASYNC("ca", "4");
  }
}
#undef TL_CP_ASYNC

// Makes a group of the copies that the thread has issued since the last commit.
TL_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of the thread but the kLeft newest are complete.
template <int kLeft>
TL_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Arrives on the mbarrier, one of those it was made for, when the thread's copies are there.
TL_DEVICE void cp_async_arrive(uint64_t& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

}  // namespace tl
