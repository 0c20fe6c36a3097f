// Handlers that apply a function to each lane, compiled for the baseline and for wider vectors.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H_

#include <cstdint>

#include "emulator/core/machine.h"

#if defined(__x86_64__)
#define TL_WIDE_TARGET __attribute__((target("avx2,fma,f16c,popcnt")))
#else
#define TL_WIDE_TARGET
#endif

namespace tilelang::emulator {

// Returns whether the host runs code compiled for TL_WIDE_TARGET.
inline bool HasWideTarget() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
  return has;
#else
  return false;
#endif
}

// The body runs 32 times without branches when all lanes are active, so that it vectorises.
// A destination may be one of the sources, at the same lane only: hence ivdep.
template <typename F>
[[gnu::always_inline]] inline void Lanes(uint32_t mask, F&& body) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) body(i);
  } else {
    for (; mask; mask &= mask - 1) body(__builtin_ctz(mask));
  }
}

// F: a stateless function object, e.g. struct { D operator()(A a, B b) const; }.
template <typename F, typename D, typename A>
[[gnu::always_inline]] inline Flow UnaryBody(Warp& w, const Op& op, uint32_t mask) {
  D* d = w.Reg<D>(op.a[0]);
  const A* a = w.Reg<A>(op.a[1]);
  Lanes(mask, [=](int i) __attribute__((always_inline)) { d[i] = F()(a[i]); });
  return Flow::kNext;
}
template <typename F, typename D, typename A>
Flow UnaryBase(Warp& w, const Op& op, uint32_t mask) {
  return UnaryBody<F, D, A>(w, op, mask);
}
template <typename F, typename D, typename A>
TL_WIDE_TARGET Flow UnaryWide(Warp& w, const Op& op, uint32_t mask) {
  return UnaryBody<F, D, A>(w, op, mask);
}
template <typename F, typename D, typename A = D>
Handler Unary() {
  return HasWideTarget() ? UnaryWide<F, D, A> : UnaryBase<F, D, A>;
}

template <typename F, typename D, typename A, typename B>
[[gnu::always_inline]] inline Flow BinaryBody(Warp& w, const Op& op, uint32_t mask) {
  D* d = w.Reg<D>(op.a[0]);
  const A* a = w.Reg<A>(op.a[1]);
  const B* b = w.Reg<B>(op.a[2]);
  Lanes(mask, [=](int i) __attribute__((always_inline)) { d[i] = F()(a[i], b[i]); });
  return Flow::kNext;
}
template <typename F, typename D, typename A, typename B>
Flow BinaryBase(Warp& w, const Op& op, uint32_t mask) {
  return BinaryBody<F, D, A, B>(w, op, mask);
}
template <typename F, typename D, typename A, typename B>
TL_WIDE_TARGET Flow BinaryWide(Warp& w, const Op& op, uint32_t mask) {
  return BinaryBody<F, D, A, B>(w, op, mask);
}
template <typename F, typename D, typename A = D, typename B = A>
Handler Binary() {
  return HasWideTarget() ? BinaryWide<F, D, A, B> : BinaryBase<F, D, A, B>;
}

template <typename F, typename D, typename A, typename B, typename C>
[[gnu::always_inline]] inline Flow TernaryBody(Warp& w, const Op& op, uint32_t mask) {
  D* d = w.Reg<D>(op.a[0]);
  const A* a = w.Reg<A>(op.a[1]);
  const B* b = w.Reg<B>(op.a[2]);
  const C* c = w.Reg<C>(op.a[3]);
  Lanes(mask, [=](int i) __attribute__((always_inline)) { d[i] = F()(a[i], b[i], c[i]); });
  return Flow::kNext;
}
template <typename F, typename D, typename A, typename B, typename C>
Flow TernaryBase(Warp& w, const Op& op, uint32_t mask) {
  return TernaryBody<F, D, A, B, C>(w, op, mask);
}
template <typename F, typename D, typename A, typename B, typename C>
TL_WIDE_TARGET Flow TernaryWide(Warp& w, const Op& op, uint32_t mask) {
  return TernaryBody<F, D, A, B, C>(w, op, mask);
}
template <typename F, typename D, typename A = D, typename B = A, typename C = B>
Handler Ternary() {
  return HasWideTarget() ? TernaryWide<F, D, A, B, C> : TernaryBase<F, D, A, B, C>;
}

// Decoding of `op.type d, a[, b[, c]]` where all operands have the instruction's type.
inline void PushUniform(Decoder& d, Type type, int sources) {
  d.PushDestination(0, type);
  for (int i = 1; i <= sources; ++i) d.PushSource(static_cast<size_t>(i), type);
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H_
