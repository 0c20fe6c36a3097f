#include "emulator/timing/memory_system.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

// Cycles of queue before HBM that hold no store back.
constexpr double kNaturalQueue = 1000;

double DramBytes(const Figures& figures, double clock_mhz) {
  return figures.dram_gbs * 1e3 / clock_mhz;
}

}  // namespace

void Sharing::Note(uint64_t line, uint64_t cta) {
  Seen& seen = lines_[line];
  if (seen.last_cta == cta) return;
  seen.last_cta = cta;
  ++seen.ctas;
}

void Sharing::Resolve(int ctas_looked_at, double ctas_of_wave) {
  looked_at_ = ctas_looked_at;
  others_for_each_ = ctas_looked_at > 1 ? (ctas_of_wave - 1) / (ctas_looked_at - 1) : 0;
}

double Sharing::SharersOf(uint64_t line) const {
  if (looked_at_ < 2) return 1;
  const auto found = lines_.find(line);
  if (found == lines_.end()) return 1;
  return 1 + (found->second.ctas - 1) * others_for_each_;
}

MemorySystem::MemorySystem(const Figures& figures, int timed, int active, bool warm,
                           double clock_mhz)
    : figures_(figures),
      warm_(warm),
      l2_(figures.l2_total_bytes * timed / active, 64),
      dram_(DramBytes(figures, clock_mhz) * timed / active, 256) {}

bool MemorySystem::Misses(const LineAccess& access) {
  if (warm_) return false;
  uint32_t& present = present_[access.line];
  const bool misses = (access.sectors & ~present) != 0;
  present |= access.sectors;
  return misses;
}

Cycle MemorySystem::Load(Cycle from, const LineAccess& access) {
  const double sharers = sharing.SharersOf(access.line);
  l2_bytes_ += access.bytes();
  const Cycle l2 = l2_.Claim(from, access.bytes()) + figures_.l2_latency;
  if (!Misses(access)) return l2;
  // The others that want it in the same wave wait for the same bytes.
  const double bytes = access.bytes() / sharers;
  dram_bytes_ += bytes;
  return std::max(l2, dram_.Claim(from, bytes) + figures_.dram_latency);
}

Cycle MemorySystem::Store(Cycle from, const LineAccess& access) {
  l2_bytes_ += access.bytes();
  const Cycle l2 = l2_.Claim(from, access.bytes());
  if (warm_) return l2;
  dram_bytes_ += access.bytes();
  present_[access.line] |= access.sectors;
  return std::max(l2, dram_.Claim(from, access.bytes() * figures_.dram_store_cost));
}

Cycle MemorySystem::Atomic(Cycle from, const LineAccess& access) {
  l2_bytes_ += access.bytes();
  Misses(access);
  return l2_.Claim(from, 2.0 * access.bytes()) + figures_.atomic_latency;
}

Cycle MemorySystem::Accepts(Cycle from) const {
  return std::max(from, std::max(dram_.Next(from), l2_.Next(from)) - kNaturalQueue);
}

void MemorySystem::Forget(Cycle time) {
  l2_.Forget(time);
  dram_.Forget(time);
}

}  // namespace tilelang::emulator
