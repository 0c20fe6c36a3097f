#include "emulator/timing/sharing.h"

#include <algorithm>
#include <bit>

namespace tilelang::emulator {
namespace {

// A buffer is 2^36 bytes of addresses, so this many bits of a line's number lie inside of it.
constexpr int kBufferLines = kBufferShift - 7;
// The largest number of CTAs of a cluster.
constexpr uint64_t kMostOfCluster = 16;
// Number of loads after which the model computes anew what L2 keeps.
constexpr int kLoadsOfPlan = 1024;
// Timed CTAs may load more than their share, so a buffer counts as loaded whole only once all CTAs
// seem to have loaded this multiple of its size.
constexpr double kAll = 1.25;
constexpr double kPairs = 2;  // of sectors in a line

// The pairs of sectors, a bit for each, of which a sector is read.
uint32_t PairsOf(uint32_t sectors) {
  return ((sectors & 3) != 0 ? 1u : 0u) | ((sectors & 12) != 0 ? 2u : 0u);
}

}  // namespace

void Sharing::Note(uint64_t line, uint32_t sectors, uint64_t cluster, uint64_t rank) {
  const uint64_t cta = cluster * kMostOfCluster + rank;
  Readers& readers = readers_.try_emplace(line, Readers{cta}).first->second;
  if (readers.cta / kMostOfCluster != cluster) readers.of_cluster = 0;
  if (readers.cta != cta) readers.own = 0;
  readers.cta = cta;
  const uint32_t pairs = PairsOf(sectors) & ~readers.own;
  if (pairs == 0) return;
  Buffer& buffer = buffers_[line >> kBufferLines];
  buffer.touches += std::popcount(pairs) / kPairs;
  buffer.lines += std::popcount(pairs & ~readers.all) / kPairs;
  buffer.clusters += std::popcount(pairs & ~readers.of_cluster) / kPairs;
  readers.own |= pairs;
  readers.of_cluster |= pairs;
  readers.all |= pairs;
}

void Sharing::Compare(uint64_t line) {
  Buffer& buffer = Of(line);
  buffer.seen += 1;
  buffer.repeated += readers_.count(line) != 0 ? 1 : 0;
}

void Sharing::Extend(double clusters, double waves, bool follows, double l2_bytes,
                     const GlobalMemory& memory) {
  l2_bytes_ = l2_bytes;
  follows_ = follows;
  waves_ = waves;
  for (auto& [number, buffer] : buffers_) {
    buffer.size = static_cast<double>(memory.SizeAt(number << kBufferShift));
    bytes_ += buffer.size;
    first_ += buffer.clusters / clusters;
  }
}

void Sharing::BeginWave() {
  if (begun_ == 1) {
    for (auto& [number, buffer] : buffers_) buffer.first = buffer.loaded;
  }
  ++begun_;
  until_plan_ = 0;
}

Sharing::Buffer& Sharing::Of(uint64_t line) { return buffers_[line >> kBufferLines]; }

void Sharing::Follow(Buffer& buffer, uint64_t line) {
  if (!follows_) return;
  const bool known = readers_.count(line) != 0;
  if (!known) {
    ++elsewhere_;
  } else {
    // The CTA has gone through the rest of its work, and begins again as the CTAs of the first wave
    // did.
    if (elsewhere_ > first_) {
      BeginWave();
      compared_ = first_;
    }
    elsewhere_ = 0;
  }
  if (compared_ <= 0) return;
  --compared_;
  buffer.seen += 1;
  buffer.repeated += known ? 1 : 0;
}

double Sharing::OfWave(const Buffer& buffer) const {
  const double bytes = waves_ > 1 && begun_ > 1 ? buffer.first : buffer.loaded / begun_;
  return buffer.size > 0 ? std::min(buffer.size, bytes) : bytes;
}

bool Sharing::Keeps(const Buffer& buffer) const {
  const double of_wave = OfWave(buffer);
  if (buffer.size == 0 || of_wave == 0) return false;
  // While the waves go through one buffer, they use the other buffers again and again, and store
  // results.
  double between = buffer.size + stored_ / begun_ * buffer.size / of_wave;
  for (const auto& [number, other] : buffers_) {
    if (&other != &buffer) between += OfWave(other);
  }
  return between <= l2_bytes_;
}

double Sharing::ShareOf(const Buffer& buffer) const {
  const bool all = buffer.size > 0 && buffer.loaded > kAll * buffer.size;
  if (waves_ > 1 && begun_ == 1) return all ? 0 : 1;
  if (Keeps(buffer)) {
    if (waves_ == 1) return all ? 0 : 1;
    const double later = buffer.size / OfWave(buffer) - 1;
    return std::clamp(later / (waves_ - 1), 0.0, 1.0);
  }
  double of_wave = stored_ / begun_;
  for (const auto& [number, other] : buffers_) of_wave += OfWave(other);
  return of_wave > l2_bytes_ || buffer.seen == 0 ? 1 : 1 - buffer.repeated / buffer.seen;
}

void Sharing::Plan() {
  for (auto& [number, buffer] : buffers_) buffer.share = ShareOf(buffer);
  until_plan_ = kLoadsOfPlan;
}

double Sharing::Load(Buffer& buffer, double bytes) {
  buffer.loaded += bytes;
  if (until_plan_-- <= 0) Plan();
  return buffer.share;
}

double Sharing::once_bytes() const {
  double once = 0;
  if (waves_ == 1 || begun_ == 1) return once;
  for (const auto& [number, buffer] : buffers_) {
    const double first = buffer.size > 0 ? std::min(buffer.size, buffer.first) : buffer.first;
    once += first * (1 - buffer.share);
  }
  return once;
}

}  // namespace tilelang::emulator
