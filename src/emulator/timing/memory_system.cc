#include "emulator/timing/memory_system.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

// Cycles in which an SM may send its requests to L2 at once: other SMs pause during that time.
constexpr int kBurst = 1024;
// Cycles over which the model averages how busy HBM is.
constexpr double kWindow = 2000;
// Logarithm of the number of lines whose neighbours are awaited.
constexpr int kRecentBits = 14;
// A buffer that at least this many CTAs of a cluster read, on average, belongs to a cluster of four
// or more.
constexpr double kWide = 3.5;

double DramBytes(const Figures& figures, double clock_mhz) {
  return figures.dram_gbs * 1e3 / clock_mhz;
}

}  // namespace

MemorySystem::MemorySystem(const Figures& figures, int timed, int active, bool warm,
                           double clock_mhz)
    : figures_(figures),
      warm_(warm),
      start_clock_(clock_mhz / figures.clock_mhz),
      l2_(L2BytesAt(figures, clock_mhz) * timed / active, kBurst),
      dram_(DramBytes(figures, clock_mhz) * timed / active, 256),
      recent_(size_t{1} << kRecentBits),
      others_(static_cast<double>(active) / timed) {
  dram_.Occupy(0, figures.dram_start, 1 - figures.dram_start_share);
}

bool MemorySystem::HasNeighbour(uint64_t line) {
  Pair& pair = recent_[(line / 2 * 0x9E3779B97F4A7C15u) >> (64 - kRecentBits)];
  if (pair.number != line / 2) pair = {line / 2, 0};
  pair.seen |= 1u << (line & 1);
  return (pair.seen & (2u >> (line & 1))) != 0;
}

MemorySystem::Missing MemorySystem::Misses(const LineAccess& access, bool whole) {
  const double half = figures_.l2_half;
  if (warm_) return {0, half > 0 && sharing.bytes() > half};
  Present& present = present_[access.line];
  const double loaded = dram_bytes_ * others_;
  if (loaded - present.when > figures_.l2_capacity) present.sectors = present.stored = 0;
  const bool far = half > 0 && present.sectors != 0 && loaded - present.when > half;
  // HBM is read in pairs of sectors.
  const uint32_t pairs =
      whole ? 15 : access.sectors | (access.sectors & 5) << 1 | (access.sectors & 10) >> 1;
  const uint32_t missing = (access.sectors & ~present.sectors) != 0 ? pairs & ~present.sectors : 0;
  present.sectors |= pairs;
  present.when = loaded;
  return {static_cast<double>(LineAccess{access.line, missing}.bytes()), far};
}

double MemorySystem::QueueOf(Cycle from) {
  constexpr double kMost = 0.85;
  if (from > window_begin_ + kWindow) {
    const double most = dram_.rate() * (from - window_begin_).cycles();
    const double busy = std::min(kMost, (dram_.served() - window_served_) / most);
    queue_ = figures_.dram_queue * busy / (1 - busy);
    window_begin_ = from;
    window_served_ = dram_.served();
  }
  return queue_;
}

Cycle MemorySystem::Load(Cycle from, const LineAccess& access, Asker asker, bool wide) {
  const bool whole = asker == Asker::kTensorMap;
  Sharing::Buffer& buffer = sharing.Of(access.line);
  const double least = whole ? figures_.l2_tensor_request_bytes : figures_.l2_request_bytes;
  const double served = std::max<double>(access.bytes(), least);
  l2_bytes_ += access.bytes();
  // Requests of copies for parts of lines are served one by one.
  const bool alone = asker != Asker::kThread && access.sectors != 0xF;
  const double neighbours = buffer.cluster_sharers();
  const double merged = alone ? 1
                              : std::max(std::min(buffer.sharers(), figures_.l2_merge),
                                         std::min(neighbours, figures_.l2_cluster_merge));
  const auto [missing, far] = Misses(access, whole);
  // If several multiprocessors read the bytes, and they do not fit in one half of L2, some
  // multiprocessors get them through the other half.
  const bool both =
      whole && buffer.sharers() > 1 && figures_.l2_half > 0 && sharing.bytes() > figures_.l2_half;
  const double beyond_half = far || both ? figures_.l2_far_ns * 1e-3 * figures_.clock_mhz : 0;
  const Cycle l2 =
      TakeL2(from, served / merged) + figures_.l2_latency + start_clock_ * clock_ * beyond_half;
  if (others_ > 1) sharing.Follow(buffer, access.line);
  if (missing == 0) return l2;
  // The other readers in the same wave wait for the same bytes. If all CTAs are timed, only the
  // first one finds that it misses the bytes.
  const double sharers = others_ > 1 ? buffer.sharers() : 1;
  const double share = others_ > 1 ? sharing.Load(buffer, missing * others_ / sharers) : 1;
  if (share == 0) return l2;
  const double bytes = missing * share / sharers;
  dram_bytes_ += bytes;
  // The first of two neighbours does not know about the second one. The second one corrects the
  // time of both.
  const double lone =
      HasNeighbour(access.line) ? -figures_.dram_lone_load : figures_.dram_lone_load;
  const double taken = std::max(0.0, bytes + lone * share / sharers);
  const double more = whole                   ? figures_.tma_dram_latency
                      : asker == Asker::kCopy ? figures_.copy_dram_latency
                                              : 0;
  // The latency that HBM adds to the latency of L2 takes the same time at any clock of the SMs.
  const double times = wide || neighbours > kWide ? figures_.dram_wide_cluster : 1;
  const double beyond_l2 =
      times * (figures_.dram_latency - figures_.l2_latency) + more + QueueOf(from) + beyond_half;
  const Cycle claimed = ClaimDram(from, taken);
  // If less than half of the line misses, the load mostly takes it from L2.
  if (share < 0.5) return l2;
  return std::max(l2, claimed + figures_.l2_latency + start_clock_ * clock_ * beyond_l2);
}

Cycle MemorySystem::Store(Cycle from, const LineAccess& access) {
  l2_bytes_ += access.bytes();
  const Cycle l2 = TakeL2(from, std::max<double>(access.bytes(), figures_.l2_store_request_bytes));
  if (warm_) return l2;
  Misses(access);
  uint32_t& stored = present_[access.line].stored;
  const uint32_t sent = figures_.dram_stores_once ? access.sectors & ~stored : access.sectors;
  stored |= access.sectors;
  if (sent == 0) return l2;
  const double bytes = LineAccess{access.line, sent}.bytes();
  dram_bytes_ += bytes;
  sharing.Store(bytes * others_);
  const double lone =
      HasNeighbour(access.line) ? -figures_.dram_lone_store : figures_.dram_lone_store;
  const double taken = std::max(0.0, bytes * figures_.dram_store_cost + lone);
  return std::max(l2, ClaimDram(from, taken));
}

Cycle MemorySystem::Atomic(Cycle from, const LineAccess& access) {
  l2_bytes_ += access.bytes();
  Misses(access);
  return TakeL2(from, 2.0 * access.bytes()) + figures_.atomic_latency;
}

void MemorySystem::Forget(Cycle time) {
  l2_.Forget(time);
  dram_.Forget(time);
}

}  // namespace tilelang::emulator
