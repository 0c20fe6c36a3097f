// Times the operations of the asynchronous engines: TMA, the tensor core, tensor memory.
#include <algorithm>
#include <utility>

#include "emulator/timing/cluster_timing.h"

namespace tilelang::emulator {
namespace {

constexpr double kPortBytes = 128;  // of shared memory in a cycle
constexpr uint32_t kWideCluster = 4;

}  // namespace

void ClusterTiming::EngineSlice(int32_t* track, const char* name, const Issuer& issuer, size_t rank,
                                Cycle begin, Cycle end) {
  Recorder& recorder = machine_.recorder;
  if (*track < 0) {
    Track made;
    made.engine = true;
    made.sm = sms_[rank]->number;
    made.name = name;
    if (made.sm != 0) made.name += " " + std::to_string(made.sm);
    *track = recorder.AddTrack(std::move(made));
  }
  const int32_t slice = recorder.Engine(*track, PcOf(issuer), begin, end);
  if (issuer.warp >= 0 && !acting_) recorder.Flow(ClockOf(issuer).account->last(), slice);
}

Cycle ClusterTiming::Start(const Issuer& issuer, const AsyncWork& work) {
  using K = AsyncWork::Kind;
  Sm& sm = *sms_[issuer.cta->rank];
  const Figures& figures = machine_.figures;
  switch (work.kind) {
    case K::kMarker:
      return now_;
    case K::kThreadCopy:
      return std::max(now_, ClockOf(issuer).copies);
    case K::kBulkLoad:
    case K::kBulkSend:
    case K::kBulkRead:
    case K::kBulkWrite:
      return Copy(issuer, work, sm);
    case K::kWgmma:
    case K::kTensorMma:
    case K::kTensorCopy:
    case K::kTensorShift:
      return Matrix(issuer, work, sm);
    case K::kTensorCommit:
      return now_ + figures.commit_latency;
    case K::kTensorStore: {
      SubCore& core = sm.cores[static_cast<size_t>(ClockOf(issuer).sub_core)];
      const OpCost& cost = machine_.costs[PcOf(issuer)];
      return core.tensor_memory.Claim(now_, cost.cycles) + cost.latency;
    }
    case K::kRemoteStore:
      return sm.shared.Claim(now_, 1) + figures.l2_latency;
  }
  return now_;
}

Cycle ClusterTiming::Copy(const Issuer& issuer, const AsyncWork& work, Sm& sm) {
  using K = AsyncWork::Kind;
  const Figures& figures = machine_.figures;
  const double wavefronts = work.bytes / kPortBytes;
  if (work.kind == K::kBulkRead) {
    const Cycle unit = sm.tma.Claim(now_, figures.tma_issue);
    sm.shared.Claim(unit, wavefronts);
    return sm.l2_store_port.Claim(unit, work.bytes) + figures.tma_store_latency;
  }
  if (work.kind == K::kBulkSend) {
    const Cycle unit = sm.tma.Claim(now_, figures.tma_issue);
    return sm.shared.Claim(unit, 2 * wavefronts) + figures.l2_latency;
  }
  const Cycle begin = now_;
  // A part of a row that is not a whole line is one request.
  const double requests =
      std::max<double>(static_cast<double>(work.runs.size()), work.bytes / figures.tma_bytes);
  const Cycle start = work.kind == K::kBulkWrite || work.multicast
                          ? now_
                          : sm.tma.Claim(now_, figures.tma_issue + requests) - requests;
  const bool first =
      work.kind == K::kBulkLoad && !work.multicast && !std::exchange(sm.loaded, true);
  const Cycle asked = first ? start + figures.tma_first : start;
  Cycle end = asked;
  // The loaded lines of a multicast arrive at all CTAs at the same time.
  if (work.kind == K::kBulkLoad && !work.multicast) arrivals_.clear();
  size_t line = 0;
  Sm& to = work.kind == K::kBulkLoad ? *sms_[work.receiver] : sm;
  for (const GlobalRun& run : work.runs) {
    const uint64_t last = (run.address + run.bytes + 31) / 32;
    for (uint64_t sector = run.address / 32; sector < last;) {
      const uint64_t stop = std::min(last, (sector | 3) + 1);
      const uint32_t mask = ((1u << (stop - sector)) - 1) << (sector & 3);
      const LineAccess access{sector / 4, mask};
      if (work.kind == K::kBulkLoad) {
        if (!work.multicast) {
          arrivals_.push_back(
              sm.memory.Load(asked, access, Asker::kTensorMap, work.targets >= kWideCluster));
        }
        const Cycle there = arrivals_[line++];
        const Cycle port =
            to.l2_port.Claim(there - figures.l2_latency, access.bytes()) + figures.l2_latency;
        Capacity& written = figures.fills_apart ? to.fill : to.shared;
        end = std::max(end, written.Claim(port - 1, access.bytes() / kPortBytes));
      } else {
        end = std::max(end, sm.memory.Store(start, access));
      }
      sector = stop;
    }
  }
  if (work.kind == K::kBulkLoad) end += figures.tma_latency;
  EngineSlice(&sm.tma_track, "TMA", issuer, issuer.cta->rank, begin, end);
  engine_ends_[end] = {machine_.recorder.AccountOf(sm.tma_track).last(), Reason::kBarrierTma};
  return end;
}

// Takes the pipe, and the port of shared memory for the operands.
Cycle ClusterTiming::TensorPipe(Sm& sm, Cycle from, double cycles, double wavefronts) {
  const double takes = std::max(cycles, wavefronts);
  const Cycle end = sm.tensor.Claim(from, takes);
  if (wavefronts > 0) {
    sm.shared.Claim(end - takes, wavefronts * machine_.figures.operand_share);
  }
  return end;
}

// Returns how long one instruction occupies the pipe of an SM, and how long it takes beyond that
// until it is complete.
ClusterTiming::TensorTime ClusterTiming::TimeOf(const AsyncWork& work) const {
  const Figures& figures = machine_.figures;
  const bool wgmma = work.kind == AsyncWork::Kind::kWgmma;
  const int ctas = work.pair ? 2 : 1;
  const int rows = work.m / ctas;
  // Half of the rows leave half of the tcgen05 pipe idle. A pair is an exception: each CTA computes
  // its rows with half of the columns, twice.
  const double busy = wgmma || work.pair ? rows : std::max(rows, 128);
  const double rate = wgmma ? figures.wgmma_flops : figures.tcgen05_flops;
  const int least = wgmma ? figures.wgmma_least : work.pair ? figures.pair_least : 0;
  const double a_rows = work.a_in_shared ? rows * (work.pair ? figures.pair_row_cost : 1) : 0;
  TensorTime time;
  time.cycles = std::max<double>(2.0 * busy * work.n * 16 / rate, least);
  time.wavefronts = 32.0 * (static_cast<double>(work.n) / ctas + a_rows) / kPortBytes;
  const bool half = work.a_in_shared && rows < 128;
  if (wgmma) {
    time.latency = work.a_in_shared ? figures.wgmma_latency : figures.wgmma_register_latency;
  } else if (work.pair) {
    time.latency = half               ? figures.pair_half_latency
                   : work.a_in_shared ? figures.pair_ss_latency
                                      : figures.pair_ts_latency;
  } else {
    time.latency = half               ? figures.tcgen05_half_latency
                   : work.a_in_shared ? figures.tcgen05_ss_latency
                                      : figures.tcgen05_ts_latency;
  }
  return time;
}

Cycle ClusterTiming::Matrix(const Issuer& issuer, const AsyncWork& work, Sm& sm) {
  using K = AsyncWork::Kind;
  const Figures& figures = machine_.figures;
  Sm* peer = work.pair ? sms_[issuer.cta->rank ^ 1] : nullptr;
  // Both SMs of a pair begin together.
  const auto both = [&](auto claim) {
    const Cycle end = claim(sm, now_);
    return peer ? std::max(end, claim(*peer, now_)) : end;
  };
  if (work.kind == K::kTensorShift) {
    return both([&](Sm& at, Cycle from) { return at.tensor.Claim(from, figures.tmem_shift); });
  }
  if (work.kind == K::kTensorCopy) {
    const double cycles = work.bytes / figures.tmem_copy_bytes;
    return both([&](Sm& at, Cycle from) {
             at.scale_cycles += cycles;
             return at.tensor.Claim(from, cycles);
           }) +
           figures.tmem_copy_latency;
  }
  const TensorTime time = TimeOf(work);
  const Cycle end =
      both([&](Sm& at, Cycle from) { return TensorPipe(at, from, time.cycles, time.wavefronts); });
  const Cycle begin = end - std::max(time.cycles, time.wavefronts);
  const double flops = static_cast<double>(work.flops);
  machine_.tensor_flops += flops;
  beside_wgmma_ = true;
  const bool wgmma = work.kind == K::kWgmma;
  const int warp = wgmma ? issuer.warp : issuer.warp * kLanes + issuer.lane;
  std::deque<Cycle>& queue = tensor_queues_[{issuer.cta->rank, warp}];
  queue.push_back(end);
  if (queue.size() > 64) queue.pop_front();
  const size_t most = static_cast<size_t>(figures.tcgen05_queue);
  if (!wgmma && queue.size() > most) {
    ClockOf(issuer).Wait(queue[queue.size() - 1 - most], Reason::kTensorPipe, -1);
  }
  if (peer) {
    EngineSlice(&peer->tensor_track, "tensor pipe", issuer, issuer.cta->rank ^ 1, begin, end);
  }
  EngineSlice(&sm.tensor_track, "tensor pipe", issuer, issuer.cta->rank, begin, end);
  const Cycle ready = end + time.latency;
  engine_ends_[ready] = {machine_.recorder.AccountOf(sm.tensor_track).last(),
                         Reason::kBarrierTensor};
  if (!wgmma) return ready;
  for (size_t i = 0; i < 4; ++i) {
    WarpClock& clock = *clocks_[issuer.cta->rank * warps_ + static_cast<size_t>(issuer.warp) + i];
    clock.products = std::max(clock.products, ready);
  }
  return ready;
}

}  // namespace tilelang::emulator
