#include "emulator/async/cta_state.h"

#include <cstring>

#include "emulator/async/engines.h"
#include "emulator/core/algebra.h"

namespace tilelang::emulator {

std::unique_ptr<CtaAsyncState> MakeCtaAsyncState(Cta& cta) {
  return std::make_unique<CtaState>(cta);
}

void CtaState::OnExit() {
  for (const auto& [number, warpgroup] : warpgroups_) warpgroup.CheckComplete();
  if (Sanitizer* sanitizer = Engines::Of(cta_.cluster).sanitizer()) sanitizer->OnExit(cta_);
  for (const auto& [offset, entry] : barriers_) {
    if (entry.object.transactions() >= 0) continue;
    Fail(entry.created_by, "mbarrier",
         "the CTA exits after " + std::to_string(-entry.object.transactions()) +
             " more bytes completed on this mbarrier than were expected",
         cta_.shared_base() + offset, "shared memory");
  }
  if (!tensor_ || !tensor_->HasAllocations()) return;
  Fail(last_allocator, "tmem-leak",
       "the CTA exits with tensor memory allocated (" + tensor_->DescribeAllocations() +
           "); tcgen05.dealloc it, or the next CTA on this SM may wait for ever");
}

Warpgroup& CtaState::WarpgroupOf(const Warp& warp) {
  const uint32_t number = warp.index / kWarpgroupWarps;
  return warpgroups_.try_emplace(number, cta_, number * kWarpgroupWarps).first->second;
}

BarrierEntry& CtaState::Barrier(const Issuer& issuer, uint32_t offset) {
  const uint32_t address = cta_.shared_base() + offset;
  const auto found = barriers_.find(offset);
  if (found == barriers_.end()) {
    Fail(issuer, "mbarrier", "no mbarrier was initialised at this address", address,
         "shared memory");
  }
  uint64_t word;
  std::memcpy(&word, cta_.shared.at(offset), sizeof word);
  if (word != found->second.object.Word()) {
    Fail(issuer, "mbarrier", "the mbarrier object was overwritten by an ordinary write", address,
         "shared memory");
  }
  return found->second;
}

void CtaState::CreateBarrier(const Issuer& issuer, uint32_t offset, int64_t count) {
  BarrierEntry& entry = barriers_[offset];
  entry = BarrierEntry();
  entry.object = Mbarrier(count);
  entry.created_by = issuer;
  cta_.shared.MarkWritten(offset, 8);
  Publish(offset, entry);
}

void CtaState::DestroyBarrier(const Issuer& issuer, uint32_t offset) {
  Barrier(issuer, offset);
  barriers_.erase(offset);
}

const BarrierEntry* CtaState::FindBarrier(uint32_t offset) const {
  const auto found = barriers_.find(offset);
  return found == barriers_.end() ? nullptr : &found->second;
}

void CtaState::Publish(uint32_t offset, const BarrierEntry& entry) {
  const uint64_t word = entry.object.Word();
  std::memcpy(cta_.shared.at(offset), &word, sizeof word);
}

TensorMemory& CtaState::tensor() {
  if (!tensor_) {
    tensor_ = std::make_unique<TensorMemory>();
    if (current_algebra) {
      const size_t cells = size_t{TensorMemory::kLanes} * TensorMemory::kStride;
      current_algebra->Forget(tensor_->Row(0), cells * sizeof(uint32_t));
    }
  }
  return *tensor_;
}

}  // namespace tilelang::emulator
