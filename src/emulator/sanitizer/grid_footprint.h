// What a grid has read and written in global memory. A launch that may begin before that grid has
// ended (programmatic dependent launch) races with all of it until griddepcontrol.wait.
//
// Bytes are known by their place on the host, since arrays are mapped anew for each launch.
#ifndef TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_
#define TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "emulator/sanitizer/grid_shadow.h"

namespace tilelang::emulator {

class GridFootprint {
 public:
  explicit GridFootprint(std::string kernel) : kernel_(std::move(kernel)) {}

  // `host` is where the first byte of the access' line would be.
  void Add(uintptr_t host, const GridAccess& access, int ptx_line);

  struct Conflict {
    int byte = 0;  // of the line
    bool write = false;
    int ptx_line = 0;
  };
  std::optional<Conflict> Find(uintptr_t host, const GridAccess& access) const;
  const std::string& kernel() const { return kernel_; }

 private:
  // By writing and strong accesses: which bytes, and the PTX line of one of them.
  struct Line {
    std::array<std::array<uint64_t, 2>, 2> bytes{};
    std::array<std::array<int, 2>, 2> ptx_line{};
  };

  std::string kernel_;
  std::unordered_map<uintptr_t, Line> lines_;  // of 64 bytes on the host
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_GRID_FOOTPRINT_H_
