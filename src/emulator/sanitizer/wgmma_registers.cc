#include "emulator/sanitizer/wgmma_registers.h"

#include <bit>

#include "emulator/core/machine.h"

namespace tilelang::emulator {
namespace {

std::string LineOf(const Warp& warp, const Op& op) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  std::string text = "at PTX line " + std::to_string(source.ptx_line);
  if (source.location.line > 0) {
    text += " (source line " + std::to_string(source.location.line) + ")";
  }
  return text;
}

Issuer IssuerOf(const Warp& warp) { return warp.Here(std::countr_zero(warp.split().mask)); }

}  // namespace

WgmmaRegisters::WgmmaRegisters(const Warp& warp)
    : registers_(warp.cta.cluster.kernel().file_bytes / 32 + 1) {}

void WgmmaRegisters::CheckInFlight(const Warp& warp, const Register& entry,
                                   const char* verb) const {
  if (entry.group <= complete_) return;
  const bool accumulates = entry.role == Role::kAccumulator;
  const std::string advice =
      entry.group > committed_
          ? "no wgmma.commit_group follows it, and wgmma.wait_group waits for committed groups only"
          : "wgmma.wait_group for its group must come first";
  Report(IssuerOf(warp), "missing-wait",
         std::string(verb) + " " + *entry.name + ", which the wgmma.mma_async " +
             LineOf(warp, *entry.mma) +
             (accumulates ? " accumulates into" : " reads a fragment of A from") + "; " + advice +
             " (PTX ISA, wgmma.wait_group: access to the registers before is undefined)");
}

void WgmmaRegisters::Check(const Warp& warp, const Op& op) {
  const OperandUse& use = warp.cta.cluster.kernel().sources[op.source].use;
  for (uint32_t slot : use.reads) {
    Register& entry = At(slot);
    CheckInFlight(warp, entry, "reads");
    entry.accessed = fences_ + 1;
    entry.access = &op;
  }
  for (uint32_t slot : use.writes) {
    Register& entry = At(slot);
    CheckInFlight(warp, entry, "writes");
    entry.accessed = entry.written = fences_ + 1;
    entry.access = &op;
  }
}

void WgmmaRegisters::ReportFence(const Warp& warp, const std::string& what) const {
  Report(IssuerOf(warp), "missing-wgmma-fence",
         what +
             " (PTX ISA, wgmma.fence: it orders accesses of registers and wgmma.mma_async; only "
             "those of one shape that accumulate in the same registers need none in between)");
}

void WgmmaRegisters::Use(const Warp& warp, const Op& op, const WgmmaRegisterUse& use, uint32_t slot,
                         Role role, const std::string& name) {
  Register& entry = At(slot);
  const bool accumulates = role == Role::kAccumulator;
  const std::string what =
      std::string(accumulates ? "accumulates into " : "reads a fragment of A from ") + name;
  const uint32_t now = fences_ + 1;
  // Two instructions that only read a fragment of A do not conflict.
  if ((accumulates ? entry.accessed : entry.written) == now) {
    ReportFence(warp, what + ", which the instruction " + LineOf(warp, *entry.access) +
                          " accesses, without wgmma.fence in between");
  }
  if (entry.role != role) CheckInFlight(warp, entry, accumulates ? "accumulates into" : "reads");
  const bool changed = entry.role != role || (accumulates && entry.n != use.n);
  if (changed && entry.issued == now) {
    ReportFence(warp, what + ", which the wgmma.mma_async " + LineOf(warp, *entry.mma) +
                          " of another "
                          "shape or role uses, without wgmma.fence in between");
  }
  entry.issued = now;
  entry.mma = &op;
  entry.name = &name;
  entry.group = use.group;
  entry.n = use.n;
  entry.role = role;
}

void WgmmaRegisters::Issue(const Warp& warp, const Op& op, const WgmmaRegisterUse& use) {
  if (fences_ == 0) {
    ReportFence(warp, "no wgmma.fence comes before the first wgmma.mma_async of the warp");
  }
  size_t next = 0;
  for (uint32_t slot : use.accumulators) {
    Use(warp, op, use, slot, Role::kAccumulator, use.names[next++]);
  }
  for (uint32_t slot : use.fragments) {
    Use(warp, op, use, slot, Role::kFragment, use.names[next++]);
  }
}

}  // namespace tilelang::emulator
