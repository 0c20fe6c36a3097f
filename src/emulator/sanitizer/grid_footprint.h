// Records what a grid has read and written in global memory, and the values before. A launch that
// may begin before that grid has ended (programmatic dependent launch) races with all of it until
// griddepcontrol.wait.
//
// Bytes are known by their place on the host, since arrays are mapped anew for each launch.
#ifndef TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_
#define TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "emulator/base/error.h"
#include "emulator/sanitizer/grid_shadow.h"

namespace tilelang::emulator {

struct Kernel;

// 64 bytes on the host, which start at a multiple of 64.
using HostBytes = std::array<uint8_t, GridShadow::kLineBytes>;
// Copies the bytes whose bit is set.
void CopyBytes(const uint8_t* from, uint64_t bytes, uint8_t* to);

class GridFootprint {
 public:
  explicit GridFootprint(std::string kernel) : kernel_(std::move(kernel)) {}

  // `host` is always where the first byte of the access' line would be.
  //
  // The grid is about to write these bytes by a plain store. For all host threads.
  void Keep(uintptr_t host, uint64_t bytes);
  // An access that nothing orders before the dependents.
  void Add(uintptr_t host, const GridAccess& access, const Kernel& kernel);
  // The grid has ended: keeps what it leaves. Its memory is still mapped.
  void Finish();

  struct Conflict {
    int byte = 0;  // of the line
    bool write = false;
    uint32_t op = 0;
  };
  std::optional<Conflict> Find(uintptr_t host, const GridAccess& access) const;
  // Returns the place of an instruction of a conflict.
  const Where& Place(uint32_t op) const { return places_.at(op); }
  const std::string& kernel() const { return kernel_; }

  // Calls visit(host address, bytes of it, before, after) for each 64 bytes of which plain stores
  // alone have written some.
  template <typename Visit>
  void VisitStored(Visit visit) const {
    for (const auto& [at, kept] : kept_) {
      const auto line = lines_.find(at);
      if (line == lines_.end()) continue;
      const auto& [plain, strong] = line->second.bytes[true];
      const uint64_t bytes = kept.bytes & plain & ~strong;
      if (bytes) visit(at * GridShadow::kLineBytes, bytes, kept.before, kept.after);
    }
  }

 private:
  // The bytes of writing and of strong accesses, and the instruction of one access of each kind.
  struct Line {
    std::array<std::array<uint64_t, 2>, 2> bytes{};
    std::array<std::array<uint32_t, 2>, 2> op{};
  };
  struct Kept {
    uint64_t bytes = 0;
    HostBytes before, after;
  };

  std::string kernel_;
  std::mutex mutex_;  // guards kept_ while the grid runs
  std::unordered_map<uintptr_t, Kept> kept_;
  std::unordered_map<uintptr_t, Line> lines_;  // both by host address / 64
  std::map<uint32_t, Where> places_;           // by instruction
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_
