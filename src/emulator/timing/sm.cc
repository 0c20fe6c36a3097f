#include "emulator/timing/sm.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tilelang::emulator {
namespace {

constexpr double kLineBytes = 128;

}  // namespace

void SubCore::Forget(Cycle time) {
  for (Capacity* pipe : {&issue, &fma, &alu, &half_rate, &mufu, &fp64, &mma, &tensor_memory}) {
    pipe->Forget(time);
  }
}

L1::L1(double bytes)
    : sets_(std::max<size_t>(1, static_cast<size_t>(bytes) / 128 / kWays)), lines_(sets_ * kWays) {}

const L1::Line* L1::Lookup(uint64_t line) const {
  const Line* set = &lines_[line % sets_ * kWays];
  const Line* found = std::find_if(set, set + kWays, [&](const Line& l) { return l.line == line; });
  return found == set + kWays ? nullptr : found;
}

Cycle L1::Find(const LineAccess& access) const {
  const Line* line = Lookup(access.line);
  return line && (access.sectors & ~line->sectors) == 0 ? line->ready : kNever;
}

void L1::Fill(const LineAccess& access, Cycle ready) {
  Line* line = const_cast<Line*>(Lookup(access.line));
  if (!line) {
    Line* set = &lines_[access.line % sets_ * kWays];
    line = std::min_element(set, set + kWays,
                            [](const Line& a, const Line& b) { return a.used < b.used; });
    *line = {access.line, 0, 0, 0};
  }
  line->sectors |= access.sectors;
  line->ready = std::max(line->ready, ready);
  line->used = ++clock_;
}

Sm::Sm(const Figures& figures, MemorySystem& memory, double l1_bytes, int number)
    : shared(figures.shared_wavefronts, 16),
      fill(figures.shared_wavefronts, 16),
      lsu(1, 16),
      l2_port(figures.l2_bytes, 32),
      l2_store_port(figures.l2_store_bytes, 32),
      launcher(1, 64),
      tma(1, 32),
      tensor(1, 32),
      memory(memory),
      number(number),
      figures_(figures),
      l1_(l1_bytes),
      requests_(figures.copy_requests) {}

Cycle Sm::CopyLine(Cycle from, const LineAccess& access) {
  // The next request is accepted when the oldest one has come back.
  Cycle& oldest = requests_[oldest_];
  const Cycle at = lsu.Claim(std::max(from, oldest), figures_.copy_line_cycles);
  copies_taken_ = std::max(copies_taken_, at);
  copied_ += access.bytes();
  // It takes as long to send a part of a line as the whole line.
  const Cycle port = l2_port.Claim(at, kLineBytes);
  oldest = std::max(memory.Load(at, access, Asker::kCopy), port + figures_.l2_latency);
  oldest_ = (oldest_ + 1) % requests_.size();
  return oldest;
}

Cycle Sm::LoadLines(Cycle from, const std::vector<LineAccess>& lines, Route route) {
  const bool through_l1 = route == Route::kL1;
  Cycle ready = from;
  // Cycles of the tag stage that an instruction takes in addition to its lines.
  constexpr double kTags = 0.65;
  double tags = through_l1 ? kTags : 0;
  bool past_l1 = false;
  for (const LineAccess& access : lines) {
    if (route == Route::kToShared) {
      ready = std::max(ready, CopyLine(from, access));
      continue;
    }
    const Cycle at = lsu.Claim(from, 1 + std::exchange(tags, 0));
    shared.Claim(at, 1);
    Cycle there = through_l1 ? l1_.Find(access) : kNever;
    if (there == kNever) {
      past_l1 = true;
      const Cycle port = l2_port.Claim(at, access.bytes());
      there = std::max(memory.Load(at, access), port + figures_.l2_latency);
      if (through_l1) l1_.Fill(access, there);
    }
    ready = std::max({ready, there, at + figures_.l1_latency});
  }
  if (past_l1) under_way_ += (ready - from).cycles();
  return ready;
}

Cycle Sm::StoreLines(Cycle from, const std::vector<LineAccess>& lines) {
  if (lines.size() == 1) lsu.Claim(from, 1);
  Cycle accepted = from;
  for (const LineAccess& access : lines) {
    // A lone sector takes twice the time of several sectors.
    const double tags = lines.size() > 1 && std::has_single_bit(access.sectors) ? 2 : 1;
    const Cycle at = l2_store_port.Claim(lsu.Claim(from, tags), access.bytes());
    shared.Claim(at, 1);
    memory.Store(at, access);
    accepted = std::max(accepted, at);
  }
  return accepted;
}

Cycle Sm::AtomicLines(Cycle from, const std::vector<LineAccess>& lines) {
  Cycle done = from;
  for (const LineAccess& access : lines) {
    const Cycle at = l2_store_port.Claim(lsu.Claim(from, 1), access.bytes());
    done = std::max(done, memory.Atomic(at, access));
  }
  return done;
}

void Sm::Forget(Cycle time) {
  for (SubCore& core : cores) core.Forget(time);
  for (Capacity* pipe :
       {&shared, &fill, &lsu, &l2_port, &l2_store_port, &launcher, &tma, &tensor}) {
    pipe->Forget(time);
  }
}

}  // namespace tilelang::emulator
