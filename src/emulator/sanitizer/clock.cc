#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {
namespace {

bool Covers(const VectorClock* known, const VectorClock* other) {
  return !other || known == other || (known && known->Covers(*other));
}

}  // namespace

void GridClock::Raise(uint64_t cluster, const VectorClock& clock) {
  if (Covers(At(cluster), &clock)) return;
  auto copy = clocks_ ? std::make_shared<Clocks>(*clocks_) : std::make_shared<Clocks>();
  if (copy->size() <= cluster) copy->resize(cluster + 1);
  auto joined = std::make_shared<VectorClock>(clock);
  if ((*copy)[cluster]) joined->Join(*(*copy)[cluster]);
  (*copy)[cluster] = std::move(joined);
  clocks_ = std::move(copy);
}

void GridClock::Join(const GridClock& other) {
  if (!other.clocks_ || other.clocks_ == clocks_) return;
  if (!clocks_) {
    clocks_ = other.clocks_;
    return;
  }
  bool covers = true, covered = true;
  for (uint64_t i = 0; i < std::max(clocks_->size(), other.clocks_->size()); ++i) {
    covers &= Covers(At(i), other.At(i));
    covered &= Covers(other.At(i), At(i));
  }
  if (covers) return;
  if (covered) {
    clocks_ = other.clocks_;
    return;
  }
  for (uint64_t i = 0; i < other.clocks_->size(); ++i) {
    if (other.At(i)) Raise(i, *other.At(i));
  }
}

}  // namespace tilelang::emulator
