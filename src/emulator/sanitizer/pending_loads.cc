#include "emulator/sanitizer/pending_loads.h"

#include <bit>
#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/isa/row.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

const SourceLine& SourceOf(const Warp& warp, const Op& op) {
  return warp.cta.cluster.kernel().sources[op.source];
}

}  // namespace

PendingLoads::Load PendingLoads::Read(const OperandUse& use, uint32_t lanes) const {
  Load all;
  for (uint32_t slot : use.reads) {
    const auto found = loads_.find(slot);
    if (found == loads_.end() || !(found->second.lanes & lanes)) continue;
    all.lanes |= found->second.lanes & lanes;
    all.op = found->second.op;
  }
  return all;
}

void PendingLoads::Set(uint32_t slot, uint32_t lanes, uint32_t op) {
  Load& load = loads_[slot];
  load.lanes |= lanes;
  load.op = op;
}

void PendingLoads::Clear(uint32_t slot, uint32_t lanes) {
  const auto found = loads_.find(slot);
  if (found == loads_.end()) return;
  found->second.lanes &= ~lanes;
  if (found->second.lanes == 0) loads_.erase(found);
}

void PendingLoads::Check(const Warp& warp, const Op& op, uint32_t lanes) const {
  if (!lint_ || loads_.empty()) return;
  const SourceLine& source = SourceOf(warp, op);
  if (source.row->operands == isa::Operands::kMoved) return;
  const Load read = Read(source.use, lanes);
  if (read.lanes == 0) return;
  const Where load = PlaceOf(warp.cta.cluster.kernel(), read.op);
  EmulatorError error("ld-before-wait",
                      "reads what the tcgen05.ld at PTX line " + std::to_string(load.ptx_line) +
                          " loads, before tcgen05.wait::ld",
                      WhereOf(warp.Here(std::countr_zero(read.lanes))));
  error.earlier = load;
  warp.cta.cluster.launch.Report(error);
}

PendingLoads::InFlight* PendingLoads::Find(uint32_t step) {
  if (in_flight_.empty()) return nullptr;
  const size_t index = step - in_flight_.front().step.step;
  return index < in_flight_.size() ? &in_flight_[index] : nullptr;
}

void PendingLoads::Use(const Origin& origin) {
  InFlight* load = Find(origin.step);
  uint32_t& unused = At(origin.slot).unused;
  if (!load || unused != origin.step) return;
  unused = 0;
  --load->unused;
}

// Overwriting a register of a load waits for the load. Overwriting a copy does not.
void PendingLoads::Overwrite(uint32_t slot) {
  Register& entry = At(slot);
  if (entry.unused) Use({entry.unused, slot});
  entry.origins.clear();
}

void PendingLoads::Begin(const OperandUse& use) {
  const uint32_t step = issued_->step;
  for (const uint32_t slot : use.writes) {
    At(slot).unused = step;
    At(slot).origins.push_back({step, slot});
  }
  in_flight_.push_back({*issued_, use.writes.size()});
  issued_.reset();
}

void PendingLoads::End(const Warp& warp, uint32_t lanes) {
  while (!in_flight_.empty() && in_flight_.front().unused == 0) {
    const Step& step = in_flight_.front().step;
    step.sanitizer->Of(warp.Here(std::countr_zero(lanes))).happened.Raise(step.actor, step.step);
    in_flight_.pop_front();
  }
}

void PendingLoads::Follow(const Warp& warp, const SourceLine& source, uint32_t lanes) {
  if (source.row->operands == isa::Operands::kTensorWait) in_flight_.clear();
  if (in_flight_.empty() && !issued_) return;
  const OperandUse& use = source.use;
  const bool moves = source.row->operands == isa::Operands::kMoved;
  std::vector<Origin> moved;
  for (const uint32_t slot : use.reads) {
    for (const Origin& origin : At(slot).origins) {
      if (!moves) {
        Use(origin);
      } else if (Find(origin.step)) {
        moved.push_back(origin);
      }
    }
  }
  for (const uint32_t slot : use.writes) {
    Overwrite(slot);
    At(slot).origins = moved;
  }
  if (issued_) Begin(use);
  End(warp, lanes);
}

void PendingLoads::Executed(const Warp& warp, const Op& op, uint32_t lanes) {
  Follow(warp, SourceOf(warp, op), lanes);
  if (lint_) Lint(warp, op, lanes);
}

void PendingLoads::Lint(const Warp& warp, const Op& op, uint32_t lanes) {
  const SourceLine& source = SourceOf(warp, op);
  const OperandUse& use = source.use;
  if (source.row->operands == isa::Operands::kTensorLoad) {
    const auto index = static_cast<uint32_t>(&op - warp.cta.cluster.kernel().code.data());
    for (uint32_t slot : use.writes) Set(slot, lanes, index);
    return;
  }
  if (loads_.empty()) return;
  if (source.row->operands == isa::Operands::kTensorWait) {
    loads_.clear();  // all lanes of the warp execute it together
    return;
  }
  const Load read = Read(use, lanes);
  for (uint32_t slot : use.writes) {
    Clear(slot, lanes);
    if (read.lanes) Set(slot, read.lanes, read.op);
  }
}

}  // namespace tilelang::emulator
