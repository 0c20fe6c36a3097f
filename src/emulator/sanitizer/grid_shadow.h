// Shadow of global memory: which warps of which clusters accessed every byte last, and what
// atomics and fences of one cluster made known to others.
#ifndef TILELANG_EMULATOR_SANITIZER_GRID_SHADOW_H_
#define TILELANG_EMULATOR_SANITIZER_GRID_SHADOW_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/base/error.h"
#include "emulator/sanitizer/clock.h"
#include "emulator/sanitizer/sync_location.h"

namespace tilelang::emulator {

struct Launch;
class GridFootprint;

// An access to bytes of one line, by a warp or by an engine that it has told to.
struct GridAccess {
  uint64_t bytes = 0;  // one bit for each byte of the line
  uint32_t cluster = 0;
  uint32_t step = 0;  // of `actor`
  uint32_t op : 28 = 0;
  bool write : 1 = false;
  bool strong : 1 = false;  // atomic, volatile, relaxed, ...
  bool engine : 1 = false;  // asynchronous, on behalf of the warp
  ActorId actor = kNoActor;
  uint8_t rank = 0, warp = 0;
  uint32_t digest = 0;  // of the bytes that a plain store writes; 0: unknown
};

// The last accesses to a line; when there are more, older reads are forgotten first.
struct GridLine {
  static constexpr int kAccesses = 4;
  std::array<GridAccess, kAccesses> accesses;
  uint8_t count = 0;

  void Remember(const GridAccess& access);
  void Forget(uint64_t bytes);
};

// The clusters that one host thread runs share such a shadow. Host threads beside each other run
// only kernels whose CTAs do not wait for each other: their accesses are compared at the end.
class GridShadow {
 public:
  static constexpr uint64_t kLineBytes = 64;
  explicit GridShadow(Launch& launch);

  // The earlier access that conflicts with `access` of bytes of the line at `address`, and is not
  // ordered before it by `knowledge`; nullptr if none. Remembers the access. `values`: what it
  // writes at each byte of the line, or null; stores of what is there already do not conflict.
  const GridAccess* Touch(uint64_t address, const GridAccess& access, const Knowledge& knowledge,
                          const uint8_t* values = nullptr);
  // Returns whether shadows will be merged. Accesses then need a digest.
  bool merges() const { return merges_; }
  static uint32_t Digest(uint64_t bytes, const uint8_t* values);
  // Returns the locations of atomics and other strong accesses.
  SyncLocations& locations() { return locations_; }
  // Returns the bytes on the host that the accesses take.
  uint64_t Bytes() const { return pages_ * sizeof(Page); }
  // Accesses of two clusters are compared only when this is set.
  bool follows_grid() const { return follows_grid_; }
  // Looks for conflicts of this shadow's accesses with the accesses of another host thread, which
  // nothing can have ordered, and takes over the latter. Reports to the launch.
  void Merge(const GridShadow& other);
  // Notes the steps of the cluster that come before all grids that may overlap with this one.
  void Release(uint64_t cluster, const VectorClock& happened) { released_[cluster].Join(happened); }
  // All else that is remembered, for a launch that may overlap with this one.
  void AddTo(GridFootprint& footprint) const;

 private:
  static constexpr uint64_t kPageLines = 64;
  using Page = std::array<GridLine, kPageLines>;

  GridLine& LineOf(uint64_t address);
  bool Ordered(const GridAccess& earlier, const GridAccess& access,
               const Knowledge& knowledge) const;
  bool WritesTheSame(uint64_t address, const GridAccess& earlier, const GridAccess& access,
                     const uint8_t* values) const;
  void Report(const GridAccess& one, const GridAccess& other, uint64_t address);

  Launch& launch_;
  bool follows_grid_;
  bool merges_;
  std::vector<std::vector<std::unique_ptr<Page>>> buffers_;
  uint64_t pages_ = 0;
  SyncLocations locations_;
  std::unordered_map<uint64_t, VectorClock> released_;  // by cluster
  GridAccess conflict_;
};

// Returns the place of the line's first byte on the host, found through one of its `bytes`. Returns
// nothing if that byte is not mapped any more.
std::optional<uintptr_t> HostLine(const Launch& launch, uint64_t line, uint64_t bytes);

// Returns the message for two conflicting accesses, the later one first.
std::string GridRaceMessage(const Launch& launch, const GridAccess& late, const GridAccess& early,
                            uint64_t address);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_GRID_SHADOW_H_
