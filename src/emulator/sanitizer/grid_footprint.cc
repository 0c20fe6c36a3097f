#include "emulator/sanitizer/grid_footprint.h"

#include <bit>

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

}  // namespace

void GridFootprint::Add(uintptr_t host, const GridAccess& access, int ptx_line) {
  VisitHostLines(host, access.bytes, [&](uintptr_t at, uint64_t bytes, int) {
    if (bytes == 0) return;
    Line& line = lines_[at];
    line.bytes[access.write][access.strong] |= bytes;
    line.ptx_line[access.write][access.strong] = ptx_line;
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
        found =
            Conflict{first + std::countr_zero(both), write, line->second.ptx_line[write][strong]};
      }
    }
  });
  return found;
}

}  // namespace tilelang::emulator
