#include "emulator/core/stall.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "emulator/core/call_stack.h"
#include "emulator/isa/work.h"

namespace tilelang::emulator {
namespace {

constexpr uint64_t kFirstGap = 64;
constexpr uint64_t kLargestGap = 8192;
constexpr uint64_t kFirstCheck = 1024;
// Rounds in which every split of a warp has had its turn.
constexpr uint64_t kAllTurns = 8;

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

uint64_t HashBytes(uint64_t hash, const uint8_t* bytes, size_t size) {
  uint64_t word = 0;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::memcpy(&word, bytes + i, 8);
    hash = Mix(hash, word);
  }
  word = 0;
  std::memcpy(&word, bytes + i, size - i);
  return Mix(hash, word);
}

// Returns a digest of the places of the warp's lanes.
uint64_t PlacesOf(const Warp& warp) {
  uint64_t splits = 0;  // in any order
  for (const Split& split : warp.splits()) {
    const uint64_t place = uint64_t{split.pc} << 32 | split.mask;
    splits += Mix(Mix(place, split.resume), uint64_t{split.depth} << 1 | split.waiting);
  }
  return splits;
}

uint64_t StateOf(Warp& warp) {
  const Kernel& kernel = warp.cta.cluster.kernel();
  uint64_t hash = HashBytes(warp.live, warp.Reg<uint8_t>(0), kernel.file_bytes);
  for (int lane = 0; kernel.thread_bytes() && lane < kLanes; ++lane) {
    hash = HashBytes(hash, warp.local(lane), warp.local_bytes(lane));
    if (kernel.uses_stack) hash = Mix(hash, warp.calls().Digest(lane));
  }
  return Mix(Mix(hash, PlacesOf(warp)), warp.carry);
}

template <typename F>
void ForEachWarp(const std::vector<Cluster*>& clusters, F&& body) {
  for (Cluster* cluster : clusters) {
    for (auto& cta : cluster->ctas) {
      for (auto& warp : cta->warps) {
        if (warp->live) body(*warp);
      }
    }
  }
}

bool Blocked(const Warp& warp) {
  return std::all_of(warp.splits().begin(), warp.splits().end(),
                     [](const Split& split) { return split.waiting && !split.wait.timed; });
}

}  // namespace

StallWatch::StallWatch(const Kernel& kernel) {
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const SourceLine& source = kernel.sources[kernel.code[pc].source];
    const isa::Effect effect = isa::EffectOf(*source.row, source.kind);
    if (effect == isa::Effect::kWrite) writes_.push_back(pc);
    if (effect == isa::Effect::kSync) syncs_.push_back(pc);
  }
  Restart();
}

void StallWatch::Restart() {
  rounds_ = left_ = polling_rounds_ = 0;
  gap_ = kFirstGap;
}

StallWatch::Totals StallWatch::Count(const std::vector<Cluster*>& clusters) const {
  Totals totals;
  for (const Cluster* cluster : clusters) {
    for (uint32_t pc : writes_) totals.writes += cluster->counts[pc].lanes;
    for (uint32_t pc : syncs_) totals.syncs += cluster->counts[pc].lanes;
    totals.writes += cluster->engine_acts;
  }
  ForEachWarp(clusters, [&](const Warp& warp) {
    totals.writes += warp.changes;
    totals.news += warp.news;
  });
  return totals;
}

bool StallWatch::Unchanged(const std::vector<Cluster*>& clusters) const {
  const Totals now = Count(clusters);
  return now.writes == at_window_.writes && now.syncs == at_window_.syncs;
}

void StallWatch::OpenWindow(const std::vector<Cluster*>& clusters) {
  left_ = gap_ / 2;
  at_window_ = Count(clusters);
  seen_.clear();
  ForEachWarp(clusters, [&](Warp& warp) {
    seen_.push_back({&warp, PlacesOf(warp), StateOf(warp)});
    warp.ExpireTimedWaits();  // such a thread must come back to its wait to count
  });
}

bool StallWatch::AllRepeat() {
  bool all = true;
  for (Seen& seen : seen_) {
    // A warp that a random schedule keeps away stands still without repeating itself.
    seen.repeats = seen.repeats || (!seen.warp->away && PlacesOf(*seen.warp) == seen.places &&
                                    StateOf(const_cast<Warp&>(*seen.warp)) == seen.state);
    all &= seen.repeats;
  }
  return all;
}

bool StallWatch::OnlyPolls(const std::vector<Cluster*>& clusters) {
  const Totals now = Count(clusters);
  bool only = now.writes == at_check_.writes && now.news == at_check_.news;
  at_check_ = now;
  std::vector<uint64_t> polls;
  ForEachWarp(clusters, [&](const Warp& warp) {
    const size_t i = polls.size();
    only &= i < polls_.size() && (polls_[i] != warp.polls || Blocked(warp));
    polls.push_back(warp.polls);
  });
  only &= polls.size() == polls_.size();
  polls_ = std::move(polls);
  return only;
}

StallWatch::Finding StallWatch::Observe(const std::vector<Cluster*>& clusters, bool polling) {
  polling_rounds_ = polling ? polling_rounds_ + 1 : 0;
  if (polling_rounds_ >= kFirstCheck && std::has_single_bit(polling_rounds_)) {
    const bool first = polling_rounds_ == kFirstCheck;
    if (!OnlyPolls(clusters) && !first) polling_rounds_ = 0;
  }
  if (polling_rounds_ > kMaxPolls) {
    if (OnlyPolls(clusters)) return Finding::kGivenUp;
    polling_rounds_ = 0;
  }
  if (left_ == 0) {
    if (++rounds_ >= gap_) OpenWindow(clusters);
    return Finding::kNone;
  }
  --left_;
  const bool first = left_ + 1 == gap_ / 2;
  const bool changed = first && !Unchanged(clusters);
  const bool ran = gap_ / 2 - left_ > kAllTurns;
  if (!changed && ran && AllRepeat() && Unchanged(clusters)) {
    left_ = rounds_ = 0;
    const bool idle = std::all_of(clusters.begin(), clusters.end(), [](const Cluster* cluster) {
      return cluster->engines->Describe().empty();
    });
    return idle ? Finding::kRepeats : Finding::kNone;
  }
  if (changed) left_ = 0;
  if (left_ == 0) {
    rounds_ = 0;
    gap_ = std::min(2 * gap_, kLargestGap);
  }
  return Finding::kNone;
}

// --- reports ----------------------------------------------------------------------------------

namespace {

std::string LaneList(uint32_t mask) {
  if (mask == kAllLanes) return "all lanes";
  std::string text = "lanes ";
  bool first = true;
  while (mask) {
    int begin = std::countr_zero(mask);
    int length = std::countr_one(mask >> begin);
    if (!first) text += ",";
    first = false;
    text += std::to_string(begin);
    if (length > 1) text.append("-").append(std::to_string(begin + length - 1));
    mask &= length == 32 ? 0 : ~(((1u << length) - 1) << begin);
  }
  return text;
}

std::string DescribeObject(const Warp& warp, const WaitInfo& info) {
  std::string text = info.object;
  if (info.address) {
    char hex[32];
    std::snprintf(hex, sizeof hex, " at 0x%llx", static_cast<unsigned long long>(info.address));
    text += hex;
  }
  if (info.describe) text += ": " + info.describe(warp, info);
  return text;
}

std::string DescribeSplit(const Warp& warp, const Split& split, const Op& op) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const Dim3& id = warp.cta.id;
  std::string text = "\n  CTA (" + std::to_string(id.x) + "," + std::to_string(id.y) + "," +
                     std::to_string(id.z) + ") warp " + std::to_string(warp.index) + " " +
                     LaneList(split.mask) + " at line " + std::to_string(source.ptx_line) + " (" +
                     source.spelling + ")";
  if (source.location.line > 0) {
    text += ", source line " + std::to_string(source.location.line) + ",";
  }
  if (split.waiting) return text + " wait for " + DescribeObject(warp, split.wait);
  if (split.poll_pc == Split::kNoPoll) return text + " run in a loop";
  return text + " poll " + DescribeObject(warp, split.poll);
}

}  // namespace

std::string DescribeThreads(const std::vector<Cluster*>& clusters, size_t limit, Issuer* where) {
  std::string text;
  size_t count = 0;
  ForEachWarp(clusters, [&](const Warp& warp) {
    for (const Split& split : warp.splits()) {
      if (!split.mask) continue;
      const bool polls = !split.waiting && split.poll_pc != Split::kNoPoll;
      const Op& op = warp.cta.cluster.kernel().code[polls ? split.poll_pc : split.pc];
      if (count == 0) {
        *where = Issuer{&warp.cta, &op, static_cast<int>(warp.index), std::countr_zero(split.mask)};
      }
      if (count++ < limit) text += DescribeSplit(warp, split, op);
    }
  });
  if (count > limit) text += "\n  and " + std::to_string(count - limit) + " more";
  return text;
}

void FailStuck(const std::vector<Cluster*>& running, StallWatch::Finding finding,
               const std::string& note) {
  // Threads that the report lists.
  constexpr size_t kMaxListed = 64;
  Issuer where;
  const std::string threads = DescribeThreads(running, kMaxListed, &where);
  const std::string tries = std::to_string(StallWatch::kMaxPolls);
  Fail(where, "deadlock",
       (finding == StallWatch::Finding::kRepeats
            ? "deadlock: all threads that are left wait or run in a loop, and nothing changes"
            : "deadlock: all threads that are left wait or poll, and nothing has changed for " +
                  tries + " tries") +
           threads + note);
}

}  // namespace tilelang::emulator
