#include "emulator/async/warpgroup.h"

#include <algorithm>
#include <bit>

namespace tilelang::emulator {
namespace {

constexpr const char* kRule =
    " (.aligned: all threads of the warpgroup, four warps from a multiple of four on, execute the "
    "same wgmma instruction)";

}  // namespace

std::string Warpgroup::NameOf(const Op& op) const {
  const SourceLine& line = cta_.cluster.kernel().sources[op.source];
  return line.spelling.substr(0, line.spelling.find(".sync")) + " at PTX line " +
         std::to_string(line.ptx_line);
}

void Warpgroup::CheckThreads(const Warp& warp) const {
  const Issuer issuer = warp.Here(std::countr_zero(warp.split().mask));
  if (first_warp_ + kWarpgroupWarps > cta_.warps.size()) {
    Fail(issuer, "divergence",
         "the CTA has only the warps " + std::to_string(first_warp_) + " to " +
             std::to_string(cta_.warps.size() - 1) + " of this warpgroup" + kRule);
  }
  if (warp.live != kAllLanes) {
    Fail(issuer, "divergence",
         std::string("threads of the warp have exited or do not exist") + kRule);
  }
}

Warpgroup::Step& Warpgroup::Enter(Warp& warp, const Op& op) {
  CheckThreads(warp);
  while (!steps_.empty() && steps_.front().complete()) {
    steps_.pop_front();
    ++first_step_;
  }
  const uint32_t place = warp.index - first_warp_;
  const uint64_t number = next_[place]++;
  if (number == first_step_ + steps_.size()) steps_.push_back({&op, 0, nullptr});
  Step& step = steps_[number - first_step_];
  const Issuer issuer = warp.Here(0);
  if (step.op != &op) {
    const uint32_t other = first_warp_ + std::countr_zero(step.executed);
    Fail(issuer, "divergence",
         NameOf(op) + " is executed where warp " + std::to_string(other) +
             " of the warpgroup has executed " + NameOf(*step.op) + kRule);
  }
  for (uint32_t i = 0; i < kWarpgroupWarps; ++i) {
    if (next_[i] > number || cta_.warps[first_warp_ + i]->live != 0) continue;
    Fail(issuer, "divergence",
         "warp " + std::to_string(first_warp_ + i) + " of the warpgroup has exited without " +
             NameOf(op) + kRule);
  }
  step.executed |= 1u << place;
  return step;
}

uint32_t Warpgroup::committed_by_all() const {
  return *std::min_element(committed_.begin(), committed_.end());
}

std::array<Warp*, kWarpgroupWarps> Warpgroup::warps() const {
  std::array<Warp*, kWarpgroupWarps> all;
  for (int i = 0; i < kWarpgroupWarps; ++i) all[i] = cta_.warps[first_warp_ + i].get();
  return all;
}

std::string Warpgroup::Missing(const Step& step) const {
  std::string warps;
  for (uint32_t i = 0; i < kWarpgroupWarps; ++i) {
    if (step.executed >> i & 1) continue;
    warps += (warps.empty() ? "warp " : ", ") + std::to_string(first_warp_ + i);
  }
  return warps + " of the warpgroup did not execute the " + NameOf(*step.op);
}

std::string Warpgroup::DescribeMissing() const {
  for (const Step& step : steps_) {
    if (!step.complete()) return Missing(step);
  }
  return "";
}

void Warpgroup::CheckComplete() const {
  for (const Step& step : steps_) {
    if (step.complete()) continue;
    Issuer issuer = Owner(*step.op);
    issuer.warp += std::countr_zero(step.executed);
    Fail(issuer, "divergence", Missing(step) + kRule);
  }
}

}  // namespace tilelang::emulator
