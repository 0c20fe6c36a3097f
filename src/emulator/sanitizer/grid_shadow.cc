#include "emulator/sanitizer/grid_shadow.h"

#include <bit>
#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/sanitizer/grid_footprint.h"

namespace tilelang::emulator {
namespace {

// The largest grid that may synchronise through memory; the clocks of more clusters would cost too
// much.
constexpr uint64_t kMaxFollowedClusters = 1024;

bool Conflicting(const GridAccess& a, const GridAccess& b) {
  return (a.bytes & b.bytes) != 0 && (a.write || b.write) && !(a.strong && b.strong);
}

Dim3 CtaOf(const Launch& launch, const GridAccess& access) {
  const Dim3& cluster = launch.options.cluster;
  const Dim3& grid = launch.options.grid;
  const uint32_t columns = grid.x / cluster.x, rows = grid.y / cluster.y;
  const uint32_t x = access.cluster % columns, y = access.cluster / columns % rows;
  const uint32_t z = access.cluster / columns / rows;
  return {x * cluster.x + access.rank % cluster.x,
          y * cluster.y + access.rank / cluster.x % cluster.y,
          z * cluster.z + access.rank / cluster.x / cluster.y};
}

std::string DescribeAccess(const Launch& launch, const GridAccess& access) {
  const Dim3 cta = CtaOf(launch, access);
  const SourceLine& line = launch.kernel.sources[launch.kernel.code[access.op].source];
  std::string text = "CTA (" + std::to_string(cta.x) + "," + std::to_string(cta.y) + "," +
                     std::to_string(cta.z) + ") warp " + std::to_string(access.warp) +
                     " at PTX line " + std::to_string(line.ptx_line);
  if (line.location.line > 0) {
    text += " (source line " + std::to_string(line.location.line) + ")";
  }
  return text;
}

}  // namespace

std::optional<uintptr_t> HostLine(const Launch& launch, uint64_t line, uint64_t bytes) {
  const int first = std::countr_zero(bytes);
  const uint8_t* host = launch.global.Find(line + first, 1, false);
  if (!host) return std::nullopt;
  return reinterpret_cast<uintptr_t>(host) - first;
}

void GridLine::Forget(uint64_t bytes) {
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    accesses[i].bytes &= ~bytes;
    if (accesses[i].bytes) accesses[kept++] = accesses[i];
  }
  count = static_cast<uint8_t>(kept);
}

void GridLine::Remember(const GridAccess& access) {
  int kept = 0;
  bool merged = false;
  for (int i = 0; i < count; ++i) {
    GridAccess& old = accesses[i];
    const bool own = old.actor == access.actor && old.cluster == access.cluster &&
                     old.write == access.write && old.strong == access.strong &&
                     old.engine == access.engine;
    const bool again = own && old.step == access.step && old.op == access.op;
    if (again && (!access.write || old.bytes == access.bytes)) {
      old.bytes |= access.bytes;
      old.digest = access.digest;
      merged = true;
    } else if (access.write || own) {
      old.bytes &= ~access.bytes;
    }
    if (old.bytes != 0) accesses[kept++] = old;
  }
  count = static_cast<uint8_t>(kept);
  if (merged) return;
  if (count == kAccesses) {
    int victim = 0;
    while (victim + 1 < count && accesses[victim].write) ++victim;
    for (int i = victim; i + 1 < count; ++i) accesses[i] = accesses[i + 1];
    --count;
  }
  accesses[count++] = access;
}

GridShadow::GridShadow(Launch& launch)
    : launch_(launch),
      follows_grid_(!launch.kernel.communicates ||
                    (launch.clusters() <= kMaxFollowedClusters && launch.options.threads <= 1)),
      merges_(!launch.kernel.communicates && launch.options.threads != 1) {}

GridLine& GridShadow::LineOf(uint64_t address) {
  const uint64_t buffer = address >> kBufferShift;
  const uint64_t line = (address & ((uint64_t{1} << kBufferShift) - 1)) / kLineBytes;
  if (buffer >= buffers_.size()) buffers_.resize(buffer + 1);
  auto& pages = buffers_[buffer];
  if (line / kPageLines >= pages.size()) pages.resize(line / kPageLines + 1);
  auto& page = pages[line / kPageLines];
  if (!page) {
    page = std::make_unique<Page>();
    ++pages_;
  }
  return (*page)[line % kPageLines];
}

bool GridShadow::Ordered(const GridAccess& earlier, const GridAccess& access,
                         const Knowledge& knowledge) const {
  if (earlier.cluster != access.cluster) {
    if (!follows_grid_) return true;
    const VectorClock* clock = knowledge.grid.At(earlier.cluster);
    return clock && clock->At(earlier.actor) >= earlier.step;
  }
  if (earlier.actor == access.actor && !earlier.engine) return true;
  return knowledge.happened.At(earlier.actor) >= earlier.step;
}

const GridAccess* GridShadow::Touch(uint64_t address, const GridAccess& access,
                                    const Knowledge& knowledge, const uint8_t* values) {
  GridLine& line = LineOf(address);
  for (int i = 0; i < line.count; ++i) {  // again, in a loop without synchronisation
    const GridAccess& earlier = line.accesses[i];
    const bool same = earlier.step == access.step && earlier.op == access.op &&
                      earlier.actor == access.actor && earlier.cluster == access.cluster;
    if (same && !access.digest && (access.bytes & ~earlier.bytes) == 0) return nullptr;
  }
  const GridAccess* found = nullptr;
  uint64_t shared = 0;
  for (int i = 0; i < line.count && !found; ++i) {
    const GridAccess& earlier = line.accesses[i];
    if (!Conflicting(earlier, access) || Ordered(earlier, access, knowledge)) continue;
    if (WritesTheSame(address, earlier, access, values)) {
      shared |= earlier.bytes & access.bytes;
    } else {
      conflict_ = earlier;
      found = &conflict_;
    }
  }
  line.Remember(access);
  if (shared) line.Forget(shared);  // whose they are cannot be told any more
  return found;
}

bool GridShadow::WritesTheSame(uint64_t address, const GridAccess& earlier,
                               const GridAccess& access, const uint8_t* values) const {
  if (!earlier.write || !access.write || earlier.strong || access.strong) return false;
  if (earlier.bytes == access.bytes && earlier.digest && earlier.digest == access.digest) {
    return true;
  }
  if (!values) return false;
  for (uint64_t bytes = earlier.bytes & access.bytes; bytes; bytes &= bytes - 1) {
    const int i = std::countr_zero(bytes);
    const uint8_t* memory = launch_.global.Find(address + i, 1, false);
    if (!memory || *memory != values[i]) return false;
  }
  return true;
}

uint32_t GridShadow::Digest(uint64_t bytes, const uint8_t* values) {
  uint64_t digest = 1;
  const auto mix = [&](uint64_t word) {
    digest = (digest ^ word) * 0x9E3779B97F4A7C15u;
    digest ^= digest >> 29;
  };
  for (int i = 0; i < static_cast<int>(kLineBytes); i += 8) {
    uint64_t part = bytes >> i & 0xFF, word = 0;
    if (part == 0xFF) {
      std::memcpy(&word, values + i, 8);
    } else {
      for (; part; part &= part - 1) {
        const int k = std::countr_zero(part);
        word |= uint64_t{values[i + k]} << (8 * k);
      }
    }
    mix(word);
  }
  return static_cast<uint32_t>(digest) | 1;
}

void GridShadow::Merge(const GridShadow& other) {
  for (const auto& [cluster, happened] : other.released_) Release(cluster, happened);
  if (!follows_grid_) return;
  for (uint64_t buffer = 0; buffer < other.buffers_.size(); ++buffer) {
    for (uint64_t page = 0; page < other.buffers_[buffer].size(); ++page) {
      if (!other.buffers_[buffer][page]) continue;
      for (uint64_t i = 0; i < kPageLines; ++i) {
        const GridLine& theirs = (*other.buffers_[buffer][page])[i];
        const uint64_t address = (buffer << kBufferShift) + (page * kPageLines + i) * kLineBytes;
        for (int k = 0; k < theirs.count; ++k) {
          const GridAccess& access = theirs.accesses[k];
          const GridAccess* earlier = Touch(address, access, Knowledge());
          if (earlier && earlier->cluster != access.cluster) Report(access, *earlier, address);
        }
      }
    }
  }
}

void GridShadow::AddTo(GridFootprint& footprint) const {
  for (uint64_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    for (uint64_t page = 0; page < buffers_[buffer].size(); ++page) {
      if (!buffers_[buffer][page]) continue;
      for (uint64_t i = 0; i < kPageLines; ++i) {
        const GridLine& line = (*buffers_[buffer][page])[i];
        const uint64_t address = (buffer << kBufferShift) + (page * kPageLines + i) * kLineBytes;
        for (int k = 0; k < line.count; ++k) {
          const GridAccess& access = line.accesses[k];
          const auto released = released_.find(access.cluster);
          if (released != released_.end() && released->second.At(access.actor) >= access.step) {
            continue;
          }
          const std::optional<uintptr_t> host = HostLine(launch_, address, access.bytes);
          if (host) footprint.Add(*host, access, launch_.kernel);
        }
      }
    }
  }
}

void GridShadow::Report(const GridAccess& one, const GridAccess& other, uint64_t address) {
  const GridAccess& late = one.cluster > other.cluster ? one : other;
  const GridAccess& early = one.cluster > other.cluster ? other : one;
  Where where = PlaceOf(launch_.kernel, late.op);
  where.in_cta = true;
  where.cta = CtaOf(launch_, late);
  where.warp = late.warp;
  where.has_address = true;
  where.address = address + static_cast<uint64_t>(std::countr_zero(one.bytes & other.bytes));
  where.buffer = launch_.global.NameOf(where.address);
  EmulatorError error("race", GridRaceMessage(launch_, late, early, where.address), where);
  error.earlier = PlaceOf(launch_.kernel, early.op);
  launch_.Report(error);
}

std::string GridRaceMessage(const Launch& launch, const GridAccess& late, const GridAccess& early,
                            uint64_t address) {
  const auto verb = [](const GridAccess& access) {
    if (access.strong) return access.write ? "atomic access" : "strong read";
    return access.write ? "write" : "read";
  };
  std::string text = std::string(verb(late)) + " of global memory, " +
                     launch.global.Describe(address) + ": it conflicts with the " + verb(early) +
                     " by " + DescribeAccess(launch, early) + ", and nothing orders the two; ";
  if (early.cluster == late.cluster) {
    if (!early.engine && !late.engine) {
      return text + "put a barrier between them, or use atomic operations";
    }
    return text +
           "wait for the asynchronous copy in the thread that issued it (cp.async.bulk.wait_group "
           "without .read, or its mbarrier), and then execute a barrier";
  }
  return text +
         "use atomic operations, order the CTAs by a release and an acquire of gpu scope on one "
         "location, or use two launches";
}

}  // namespace tilelang::emulator
