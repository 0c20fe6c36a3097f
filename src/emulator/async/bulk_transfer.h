// Declares the common parts of one-dimensional and tensor bulk copies: how they are issued, checked
// and queued, and how they complete.
#ifndef TILELANG_EMULATOR_ASYNC_BULK_TRANSFER_H_
#define TILELANG_EMULATOR_ASYNC_BULK_TRANSFER_H_

#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator/async/engines.h"
#include "emulator/async/reduce.h"
#include "emulator/async/signals.h"
#include "emulator/core/decoder.h"

namespace tilelang::emulator {

constexpr const char* kBulkEngine = "bulk copy";

// The common fields of both decoded forms.
struct TransferForm {
  AddressOperand barrier;
  bool multicast = false;
  bool reduces = false;
  ReduceOp reduce = ReduceOp::kAdd;

  // Reductions to global memory are atomic, element by element.
  AccessKind written_as() const { return reduces ? AccessKind::kAtomic : AccessKind::kWrite; }
};

// The direction of a copy: from global to shared memory, from shared memory to the shared memory of
// another CTA, or from shared to global memory.
enum class Route : uint8_t { kLoad, kSend, kStore };

// Takes state spaces, completion mechanism, .multicast, the cache hint and, if the instruction
// reduces, the operation. `instruction` names it in errors.
Route TakeRoute(Decoder& d, TransferForm& form, bool reduces, const std::string& instruction);

// The destination of a load: one place of shared memory and the mbarrier that counts its bytes.
struct LoadTarget {
  Cta* cta = nullptr;
  uint32_t offset = 0;
  BarrierRef barrier;
  uint64_t phase = 0;  // that the barrier ran when the load was issued
};

// The targets of a load to shared address `destination` with the mbarrier at `barrier`; with
// `multicast` every CTA of `cta_mask` receives at the same offsets.
std::vector<LoadTarget> LoadTargets(Warp& w, int lane, uint32_t destination,
                                    const BarrierRef& barrier, bool multicast, uint32_t cta_mask);

// Fails unless `address` is a multiple of `align`. `what` names it.
void CheckAligned(const Issuer& issuer, const char* what, uint64_t address, uint32_t align);

// The bytes of a load, and for each whether something had written it; empty: something had.
struct Loaded {
  std::vector<uint8_t> bytes, written;
};
// Fills `bytes` bytes for the targets of one load; called when it acts.
using Produce = std::function<void(Loaded& loaded)>;
// Puts the bytes of a load into one target's shared memory (whose start is given).
using Deposit =
    std::function<void(const std::vector<uint8_t>& bytes, uint8_t* shared, uint32_t offset)>;

// Says how a load writes shared memory.
struct Delivery {
  const char* name;                             // of the instruction
  const char* engine = kBulkEngine;             // in messages
  const char* writes = "the bulk copy writes";  // in messages
  uint32_t align = 16;
  Proxy proxy = Proxy::kAsync;
  bool atomic = false;  // others may reduce into the same bytes at the same time
  // The 16-byte units of the window that are written, if they are not one run.
  std::vector<uint32_t> units = {};
  // The kind of work and the reads of global memory, for timed launches.
  AsyncWork::Kind work = AsyncWork::Kind::kBulkLoad;
  std::vector<GlobalRun> runs = {};
  // Bytes that the mbarrier counts, if they differ from the written bytes.
  uint32_t counted = 0;
};

// Issues a load of `bytes` bytes: checks ordering now, acts later.
void IssueLoad(Warp& w, int lane, const Delivery& delivery, std::vector<LoadTarget> targets,
               uint32_t bytes, Produce produce, Deposit deposit);

// The sanitizer's actors of the issuer's bulk stores: their groups' reads, and their writes.
ActorId StoreReads(Engines& engines, const Issuer& issuer);
ActorId StoreWrites(Engines& engines, const Issuer& issuer);

// Takes the bytes of a store out of shared memory, and later writes them to global memory.
using Collect =
    std::function<void(std::vector<uint8_t>& bytes, const uint8_t* shared, uint32_t offset)>;
using Deliver = std::function<void(const std::vector<uint8_t>& bytes)>;

// The source and the destination of one lane's store.
struct StoreRequest {
  const char* name;  // of the instruction
  uint32_t source = 0;
  uint32_t bytes = 0;
  std::vector<uint32_t> units = {};  // of 16 bytes of the window that are read, unless empty
  Collect collect;
  Deliver deliver;
  // The collected bytes that arrive in global memory: first and number of each run.
  std::vector<std::pair<uint32_t, uint32_t>> arriving = {};
  std::vector<GlobalRun> runs = {};  // for timed launches
};

// Issues a store in the open bulk group of each of `lanes`, which ask for the same one: it is
// carried out once, as on the GPU, for the first of them.
void IssueStore(Warp& w, uint32_t lanes, const StoreRequest& request);

// A range of global memory that a store writes.
struct WrittenRange {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t align = 1;
};
// Returns where a bulk store writes. Tells the sanitizer the `values`; null: they are not known
// before the write.
uint8_t* PlaceOfWrite(Cluster& cluster, const Issuer& issuer, const WrittenRange& range,
                      AccessKind kind, const uint8_t* values);

// Calls `fn` for sets of lanes with equal keys; for each lane alone unless `merges`.
template <typename Key, typename Fn>
void ForEachAlike(uint32_t mask, bool merges, const Key& key, const Fn& fn) {
  while (mask != 0) {
    const int first = std::countr_zero(mask);
    uint32_t alike = uint32_t{1} << first;
    if (merges && mask != alike) {
      const auto wanted = key(first);
      ForEachLane(mask & ~alike, [&](int lane) {
        if (key(lane) == wanted) alike |= uint32_t{1} << lane;
      });
    }
    fn(first, alike);
    mask &= ~alike;
  }
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_BULK_TRANSFER_H_
