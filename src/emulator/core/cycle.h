// Time of a timed launch.
#ifndef TILELANG_EMULATOR_CORE_CYCLE_H_
#define TILELANG_EMULATOR_CORE_CYCLE_H_

#include <compare>
#include <concepts>
#include <cstdint>

namespace tilelang::emulator {

// A moment, or a stretch of time, in cycles of an SM. Counted in whole parts of a cycle: sums do
// not depend on their order.
class Cycle {
 public:
  constexpr Cycle() = default;
  constexpr Cycle(double cycles) : parts_(static_cast<int64_t>(cycles * kParts)) {}
  template <std::integral T>
  constexpr Cycle(T cycles) : parts_(static_cast<int64_t>(cycles) * kParts) {}
  static constexpr Cycle OfParts(int64_t parts) {
    Cycle time;
    time.parts_ = parts;
    return time;
  }

  constexpr int64_t parts() const { return parts_; }
  constexpr double cycles() const { return static_cast<double>(parts_) * (1.0 / kParts); }
  friend constexpr auto operator<=>(Cycle, Cycle) = default;
  friend constexpr Cycle operator+(Cycle a, Cycle b) { return OfParts(a.parts_ + b.parts_); }
  friend constexpr Cycle operator-(Cycle a, Cycle b) { return OfParts(a.parts_ - b.parts_); }
  friend constexpr Cycle operator*(double times, Cycle time) { return times * time.cycles(); }
  constexpr Cycle& operator+=(Cycle other) { return *this = *this + other; }

  static constexpr int64_t kParts = 1 << 20;

 private:
  int64_t parts_ = 0;
};

// Later than all that happens; what is added to it once does no harm.
constexpr Cycle kNever = Cycle::OfParts(int64_t{1} << 62);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_CYCLE_H_
