// Operations of the asynchronous engines: TMA, the tensor core, tensor memory.
#include <algorithm>

#include "emulator/timing/cluster_timing.h"

namespace tilelang::emulator {
namespace {

constexpr double kPortBytes = 128;  // of shared memory in a cycle

}  // namespace

void ClusterTiming::EngineSlice(int32_t* track, const char* name, const Issuer& issuer, Cycle begin,
                                Cycle end) {
  Recorder& recorder = machine_.recorder;
  if (*track < 0) {
    Track made;
    made.engine = true;
    made.sm = static_cast<int>(issuer.cta->rank);
    made.name = name;
    if (made.sm != 0) made.name += " " + std::to_string(made.sm);
    *track = recorder.AddTrack(std::move(made));
  }
  const int32_t slice = recorder.Engine(*track, PcOf(issuer), begin, end);
  if (issuer.warp >= 0 && !acting_) recorder.Flow(recorder.Last(ClockOf(issuer).track), slice);
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
  // Parts of a row that are no whole line are a request each.
  const double requests =
      std::max<double>(static_cast<double>(work.runs.size()), work.bytes / figures.tma_bytes);
  const Cycle start = work.kind == K::kBulkWrite || work.multicast
                          ? now_
                          : sm.tma.Claim(now_, figures.tma_issue + requests) - requests;
  Cycle end = start;
  for (const GlobalRun& run : work.runs) {
    const uint64_t last = (run.address + run.bytes + 31) / 32;
    for (uint64_t sector = run.address / 32; sector < last;) {
      const uint64_t stop = std::min(last, (sector | 3) + 1);
      const uint32_t mask = ((1u << (stop - sector)) - 1) << (sector & 3);
      const LineAccess access{sector / 4, mask};
      if (work.kind == K::kBulkLoad) {
        const Cycle port = sm.l2_port.Claim(start, access.bytes()) + figures.l2_latency;
        const Cycle there =
            work.multicast ? start + figures.l2_latency : sm.memory.Load(start, access);
        end = std::max({end, sm.shared.Claim(std::max(port, there) - 1, 1)});
      } else {
        end = std::max(end, sm.memory.Store(start, access));
      }
      sector = stop;
    }
  }
  if (work.kind == K::kBulkLoad) end += figures.tma_latency;
  EngineSlice(&sm.tma_track, "TMA", issuer, begin, end);
  engine_ends_[end] = {machine_.recorder.Last(sm.tma_track), Reason::kBarrierTma};
  return end;
}

// The pipe and the port of shared memory for the operands.
Cycle ClusterTiming::TensorPipe(const Issuer&, Sm& sm, double cycles, double wavefronts,
                                Cycle* begin) {
  const Cycle end = sm.tensor.Claim(now_, std::max(cycles, wavefronts));
  *begin = end - std::max(cycles, wavefronts);
  if (wavefronts > 0) sm.shared.Claim(*begin, wavefronts * machine_.figures.operand_share);
  return end;
}

Cycle ClusterTiming::Matrix(const Issuer& issuer, const AsyncWork& work, Sm& sm) {
  using K = AsyncWork::Kind;
  const Figures& figures = machine_.figures;
  Cycle begin = now_, end = now_;
  if (work.kind == K::kTensorShift) return sm.tensor.Claim(now_, figures.tmem_shift);
  if (work.kind == K::kTensorCopy) {
    return sm.tensor_copy.Claim(now_, work.bytes) + figures.tmem_copy_latency;
  }
  const bool wgmma = work.kind == K::kWgmma;
  const double operand_bytes = 32.0 * (work.n + (work.a_in_shared ? work.m : 0));
  const double rate = wgmma ? figures.wgmma_flops : figures.tcgen05_flops;
  // Half of the rows leave half of the tcgen05 pipe idle.
  const double rows = wgmma ? work.m : std::max(work.m, 128);
  double cycles = 2.0 * rows * work.n * 16 / rate;
  if (wgmma) cycles = std::max<double>(cycles, figures.wgmma_least);
  end = TensorPipe(issuer, sm, cycles, operand_bytes / kPortBytes, &begin);
  const double flops = static_cast<double>(work.flops);
  machine_.flops += flops;
  machine_.tensor_flops += flops;
  const int warp = wgmma ? issuer.warp : issuer.warp * kLanes + issuer.lane;
  std::deque<Cycle>& queue = tensor_queues_[{issuer.cta->rank, warp}];
  queue.push_back(end);
  if (queue.size() > 64) queue.pop_front();
  const size_t most = static_cast<size_t>(figures.tcgen05_queue);
  if (!wgmma && queue.size() > most) {
    ClockOf(issuer).Wait(queue[queue.size() - 1 - most], Reason::kTensorPipe, -1);
  }
  EngineSlice(&sm.tensor_track, "tensor pipe", issuer, begin, end);
  const Cycle ready =
      end + (wgmma ? work.a_in_shared ? figures.wgmma_latency : figures.wgmma_register_latency
             : work.a_in_shared && work.m < 128 ? figures.tcgen05_half_latency
             : work.a_in_shared                 ? figures.tcgen05_ss_latency
                                                : figures.tcgen05_ts_latency);
  engine_ends_[ready] = {machine_.recorder.Last(sm.tensor_track), Reason::kBarrierTensor};
  return ready;
}

}  // namespace tilelang::emulator
