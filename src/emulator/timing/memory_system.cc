#include "emulator/timing/memory_system.h"

#include <algorithm>

#include "emulator/memory/global.h"

namespace tilelang::emulator {
namespace {

// Cycles in which the requests of an SM to L2 may come at once: others have pauses then.
constexpr int kBurst = 1024;
// Cycles over which it is asked how busy HBM is.
constexpr double kWindow = 2000;
// Lines of which the neighbours are awaited.
constexpr int kRecentBits = 14;
// A buffer is 2^36 bytes of addresses: so many bits of a line's number are inside of it.
constexpr int kBufferLines = kBufferShift - 7;
// CTAs of a cluster, at most.
constexpr uint64_t kMostOfCluster = 16;
// So many, on average, are a cluster of four or more.
constexpr double kWide = 3.5;

double DramBytes(const Figures& figures, double clock_mhz) {
  return figures.dram_gbs * 1e3 / clock_mhz;
}

}  // namespace

void Sharing::Note(uint64_t line, uint64_t cluster, uint64_t rank) {
  const uint64_t cta = cluster * kMostOfCluster + rank;
  const auto [seen, first] = last_cta_.try_emplace(line, cta);
  if (!first && seen->second == cta) return;
  Buffer& buffer = buffers_[line >> kBufferLines];
  buffer.touches += 1;
  buffer.lines += first ? 1 : 0;
  buffer.clusters += first || seen->second / kMostOfCluster != cluster ? 1 : 0;
  seen->second = cta;
}

void Sharing::Extend(double grid_over_part, double l2_bytes, const GlobalMemory& memory) {
  constexpr double kMost = 0.25, kRoom = 0.5;
  for (auto& [number, buffer] : buffers_) {
    const double size = static_cast<double>(memory.SizeAt(number << kBufferShift));
    bytes_ += size;
    const bool small = size > 0 && size < kRoom * l2_bytes;
    if (small) buffer.kept = size;
    if (small && buffer.lines * 128 > kMost * size) buffer.rest = grid_over_part;
  }
}

double Sharing::WaveSharersOf(uint64_t line) const {
  const auto found = buffers_.find(line >> kBufferLines);
  return found == buffers_.end() ? 1 : found->second.touches / found->second.lines;
}

double Sharing::ClusterSharersOf(uint64_t line) const {
  const auto found = buffers_.find(line >> kBufferLines);
  return found == buffers_.end() ? 1 : found->second.touches / found->second.clusters;
}

bool Sharing::Loaded(uint64_t line, double bytes) {
  const auto found = buffers_.find(line >> kBufferLines);
  if (found == buffers_.end() || found->second.kept == 0) return false;
  found->second.loaded += bytes;
  return found->second.loaded > found->second.kept;
}

double Sharing::SharersOf(uint64_t line) const {
  const auto found = buffers_.find(line >> kBufferLines);
  return found == buffers_.end() ? 1 : WaveSharersOf(line) * found->second.rest;
}

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
  const double sharers = sharing.SharersOf(access.line);
  const double least = whole ? figures_.l2_tensor_request_bytes : figures_.l2_request_bytes;
  const double served = std::max<double>(access.bytes(), least);
  l2_bytes_ += access.bytes();
  // What copies ask for of parts of lines is served one by one.
  const bool alone = asker != Asker::kThread && access.sectors != 0xF;
  const double neighbours = sharing.ClusterSharersOf(access.line);
  const double merged =
      alone ? 1
            : std::max(std::min(sharing.WaveSharersOf(access.line), figures_.l2_merge),
                       std::min(neighbours, figures_.l2_cluster_merge));
  const auto [missing, far] = Misses(access, whole);
  const double beyond_half = far ? figures_.l2_far_ns * 1e-3 * figures_.clock_mhz : 0;
  const Cycle l2 =
      TakeL2(from, served / merged) + figures_.l2_latency + start_clock_ * clock_ * beyond_half;
  if (missing == 0) return l2;
  // The others that want it in the same wave wait for the same bytes.
  const double bytes = missing / sharers;
  dram_bytes_ += bytes;
  if (sharing.Loaded(access.line, missing * others_ / sharing.WaveSharersOf(access.line)))
    return l2;
  // The first of two neighbours does not know of the second one, which makes good for both.
  const double lone =
      HasNeighbour(access.line) ? -figures_.dram_lone_load : figures_.dram_lone_load;
  const double taken = std::max(0.0, bytes + lone / sharers);
  const double more = whole                   ? figures_.tma_dram_latency
                      : asker == Asker::kCopy ? figures_.copy_dram_latency
                                              : 0;
  // What HBM adds to the latency of L2 takes the same time at any clock of the SMs.
  const double times = wide || neighbours > kWide ? figures_.dram_wide_cluster : 1;
  const double beyond_l2 =
      times * (figures_.dram_latency - figures_.l2_latency) + more + QueueOf(from);
  return std::max(l2,
                  ClaimDram(from, taken) + figures_.l2_latency + start_clock_ * clock_ * beyond_l2);
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
