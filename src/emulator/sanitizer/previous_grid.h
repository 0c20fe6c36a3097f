// The grid before a programmatic launch. Here it has ended; on the GPU it may still run. So its
// stores are taken back until the dependents' threads wait for its end: what they read before is
// what was there before.
#ifndef TILELANG_EMULATOR_SANITIZER_PREVIOUS_GRID_H_
#define TILELANG_EMULATOR_SANITIZER_PREVIOUS_GRID_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/memory/global.h"
#include "emulator/sanitizer/grid_footprint.h"

namespace tilelang::emulator {

class PreviousGrid {
 public:
  explicit PreviousGrid(std::shared_ptr<const GridFootprint> footprint)
      : footprint_(std::move(footprint)) {}

  const GridFootprint& footprint() const { return *footprint_; }
  // Returns whether the host has changed the results of the grid in `memory`. On the GPU that is
  // work between the two launches, which therefore do not overlap.
  bool Overwritten(const GlobalMemory& memory) const;
  // Takes back what it has stored in `memory`, by plain stores that nothing has made visible.
  void Withdraw(const GlobalMemory& memory);
  // Stores it again, over what the dependents have written meanwhile.
  void End();

 private:
  struct Store {
    uint8_t* host;
    uint64_t bytes;
    const HostBytes* values;
  };

  std::shared_ptr<const GridFootprint> footprint_;
  std::vector<Store> withdrawn_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_PREVIOUS_GRID_H_
