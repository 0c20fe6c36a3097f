// The interface between the core and the algebraic mode, in which floats carry elements of a finite
// field beside their bits; a class of the algebra room derives from it.
#ifndef TILELANG_EMULATOR_CORE_ALGEBRA_H_
#define TILELANG_EMULATOR_CORE_ALGEBRA_H_

#include <cstddef>
#include <cstring>
#include <memory>

#include "emulator/core/register_checks.h"

namespace tilelang::emulator {

class Warp;

class Algebra {
 public:
  virtual ~Algebra() = default;
  virtual std::unique_ptr<RegisterChecks> MakeWarpValues(const Warp& warp) = 0;
  // Bytes of the host have become others, and hold no float that has an element.
  virtual void Forget(const void* at, size_t bytes) = 0;
  // Bytes move, and the elements of the floats among them.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
};

// The algebra of the launch whose clusters this host thread runs; nullptr in the ordinary mode.
inline thread_local Algebra* current_algebra = nullptr;

// memcpy of bytes that may hold floats.
inline void CopyBytes(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  if (current_algebra) current_algebra->Copy(to, from, bytes);
}

// memset to 0 of such bytes.
inline void ZeroBytes(void* at, size_t bytes) {
  std::memset(at, 0, bytes);
  if (current_algebra) current_algebra->Forget(at, bytes);
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_ALGEBRA_H_
