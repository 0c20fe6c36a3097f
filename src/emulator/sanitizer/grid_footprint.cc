#include "emulator/sanitizer/grid_footprint.h"

#include <bit>

#include "emulator/core/machine.h"

namespace tilelang::emulator {
namespace {

// Calls put(host line, bytes of it, first byte of the access' line there) for the one or two lines
// on the host.
template <typename Visit>
void VisitHostLines(uintptr_t host, uint64_t bytes, Visit visit) {
  const int shift = static_cast<int>(host % GridShadow::kLineBytes);
  visit(host / GridShadow::kLineBytes, bytes << shift, -shift);
  if (shift == 0) return;
  visit(host / GridShadow::kLineBytes + 1, bytes >> (64 - shift), 64 - shift);
}

const uint8_t* Memory(uintptr_t line) {
  return reinterpret_cast<const uint8_t*>(line * GridShadow::kLineBytes);
}

}  // namespace

void CopyBytes(const uint8_t* from, uint64_t bytes, uint8_t* to) {
  for (; bytes; bytes &= bytes - 1) {
    const int i = std::countr_zero(bytes);
    to[i] = from[i];
  }
}

void GridFootprint::Keep(uintptr_t host, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  VisitHostLines(host, bytes, [&](uintptr_t at, uint64_t here, int) {
    if (here == 0) return;
    Kept& kept = kept_[at];
    CopyBytes(Memory(at), here & ~kept.bytes, kept.before.data());
    kept.bytes |= here;
  });
}

void GridFootprint::Finish() {
  for (auto& [at, kept] : kept_) CopyBytes(Memory(at), kept.bytes, kept.after.data());
}

void GridFootprint::Add(uintptr_t host, const GridAccess& access, const Kernel& kernel) {
  if (!places_.count(access.op)) places_[access.op] = PlaceOf(kernel, access.op);
  VisitHostLines(host, access.bytes, [&](uintptr_t at, uint64_t bytes, int) {
    if (bytes == 0) return;
    Line& line = lines_[at];
    line.bytes[access.write][access.strong] |= bytes;
    line.op[access.write][access.strong] = access.op;
  });
}

std::optional<GridFootprint::Conflict> GridFootprint::Find(uintptr_t host,
                                                           const GridAccess& access) const {
  std::optional<Conflict> found;
  VisitHostLines(host, access.bytes, [&](uintptr_t at, uint64_t bytes, int first) {
    const auto line = lines_.find(at);
    if (bytes == 0 || line == lines_.end()) return;
    for (const bool write : {true, false}) {
      for (const bool strong : {false, true}) {
        const uint64_t both = line->second.bytes[write][strong] & bytes;
        if (found || both == 0 || !(write || access.write) || (strong && access.strong)) continue;
        found = Conflict{first + std::countr_zero(both), write, line->second.op[write][strong]};
      }
    }
  });
  return found;
}

}  // namespace tilelang::emulator
