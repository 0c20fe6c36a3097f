// Instruction families cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch.
#include <cstring>
#include <span>
#include <string>

#include "emulator/async/bulk_transfer.h"
#include "emulator/async/cta_state.h"
#include "emulator/async/tcgen05_pair.h"
#include "emulator/async/tensor_walk.h"
#include "emulator/core/algebra.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

enum class TensorMode : uint8_t { kTile, kGather, kIm2col, kIm2colWide };

struct TensorForm : TransferForm {
  AddressOperand shared;
  AddressOperand map;
  TensorMode mode = TensorMode::kTile;
  int rank = 1;
  int coordinates = 1;
  int offsets = 0;          // im2col filter offsets, or the halo and the offset of im2col::w
  bool pair = false;        // .cta_group::2: the mbarrier may be that of the peer CTA
  bool own_shared = false;  // the destination is .shared::cta

  bool im2col() const { return mode == TensorMode::kIm2col || mode == TensorMode::kIm2colWide; }
};

// Operands: coordinates, then im2col offsets, then the CTA mask of a multicast.
struct TensorRequest {
  TensorMap map;
  TensorWalk walk;
};

TensorMap ReadMap(Warp& w, int lane, const TensorForm& form) {
  const uint64_t address = form.map.At(w, lane);
  CtaState::Of(w.cta).maps.CheckUse(address, w.Here(lane));
  const uint8_t* bytes = ThreadAccess(w, lane, form.map.symbol_space, address, TensorMap::kBytes,
                                      64, AccessKind::kRead);
  TensorMap map =
      Located(w.Here(lane), address, "tensor map", [&] { return TensorMap::Decode(bytes); });
  if (map.rank != form.rank || map.im2col != form.im2col()) {
    Fail(w.Here(lane), "tensor-map",
         "the instruction is for a " + std::to_string(form.rank) + "-dimensional " +
             (form.im2col() ? "im2col" : "tiled") + " map, but the map is a " +
             std::to_string(map.rank) + "-dimensional " + (map.im2col ? "im2col" : "tiled") +
             " one",
         address, "tensor map");
  }
  return map;
}

// A tiled copy begins at a multiple of 16 bytes of the innermost dimension. The ISA does not say
// so; a Hopper GPU raises "illegal instruction" for every other start.
void CheckStart(const Issuer& issuer, const TensorMap& map, int32_t innermost) {
  constexpr int64_t kStartBits = 16 * 8;
  if (map.Interleaved()) return;  // every position is a slice
  if (static_cast<int64_t>(innermost) * map.ElementBits() % kStartBits == 0) return;
  Fail(issuer, "tensor-map",
       "the innermost coordinate " + std::to_string(innermost) + " of " +
           std::to_string(map.ElementBits()) +
           "-bit elements is no multiple of 16 bytes: the GPU stops with an illegal instruction");
}

TensorRequest RequestOf(Warp& w, const Op& op, int lane) {
  const auto& form = op.Extra<TensorForm>();
  TensorRequest request{ReadMap(w, lane, form), {}};
  std::array<int32_t, 5> coordinates{};
  for (int i = 0; i < form.coordinates; ++i) {
    coordinates[i] = w.Reg<int32_t>(op.slots[i])[lane];
  }
  std::array<uint16_t, 3> offsets{};
  for (int i = 0; i < form.offsets; ++i) {
    offsets[i] = w.Reg<uint16_t>(op.slots[form.coordinates + i])[lane];
  }
  const std::span<const int32_t> at(coordinates.data(), form.coordinates);
  if (form.mode == TensorMode::kTile) CheckStart(w.Here(lane), request.map, at[0]);
  request.walk = Located(w.Here(lane), form.map.At(w, lane), "tensor map", [&] {
    switch (form.mode) {
      case TensorMode::kGather:
        return WalkGather(request.map, at);
      case TensorMode::kIm2col:
        return WalkIm2col(request.map, at, std::span(offsets.data(), form.offsets));
      case TensorMode::kIm2colWide:
        return WalkIm2colWide(request.map, at, offsets[0], offsets[1]);
      default:
        return WalkTile(request.map, at);
    }
  });
  return request;
}

uint32_t BytesOf(const TensorRequest& request) {
  return request.map.SharedBytes(request.walk.row_elements) *
         static_cast<uint32_t>(request.walk.rows.size());
}

// Returns the bytes of a load that an mbarrier counts. Padded elements count with their bytes in
// global memory. Source: CUTLASS, which expects this number.
uint32_t CountedBytesOf(const TensorRequest& request) {
  return request.map.GlobalBytes(request.walk.row_elements) *
         static_cast<uint32_t>(request.walk.rows.size());
}

// The rows in global memory, for timed launches.
std::vector<GlobalRun> RunsOf(const Warp& w, const TensorRequest& request) {
  std::vector<GlobalRun> runs;
  if (!w.cta.cluster.timing) return runs;
  for (const TensorRow& row : request.walk.rows) {
    if (row.count != 0) runs.push_back({row.address, request.map.GlobalBytes(row.count)});
  }
  return runs;
}

// Rows that lie in one swizzle pattern need not begin it: several copies fill it.
void CheckSharedAlignment(const Issuer& issuer, const TensorRequest& request, uint32_t address) {
  CheckAligned(issuer, "the shared address of a tensor copy", address, 128);
  const TensorMap& map = request.map;
  const uint32_t repeat = SwizzleRepeat(map.swizzle);
  const size_t bytes = map.SharedBytes(request.walk.row_elements) * request.walk.rows.size();
  if (address % repeat != 0 && address % repeat + bytes > repeat) {
    Warn(issuer, "swizzle-alignment",
         "the shared address of a tensor copy is not aligned to its swizzle pattern of " +
             std::to_string(repeat) + " bytes");
  }
  if (map.interleave == Interleave::k16B && map.swizzle != Swizzle::kNone) {
    Warn(issuer, "interleaved-swizzle",
         "no published source says how slices of 16 bytes are swizzled; a dense box is assumed");
  }
}

// Notes what of a row nothing has written: what becomes of such bytes differs from what becomes of
// ones, unless they are filled in.
void NoteUnwritten(const Cluster& cluster, const TensorRequest& request, const TensorRow& row,
                   Loaded& loaded) {
  const uint8_t* written = cluster.launch.global.WrittenAt(row.address);
  const uint32_t bytes = request.map.GlobalBytes(row.count);
  if (!written || !std::memchr(written, 0, bytes)) return;
  if (loaded.written.empty()) loaded.written.assign(loaded.bytes.size(), 1);
  const uint32_t elements = request.walk.row_elements;
  const std::vector<uint8_t> ones(bytes, 1);
  std::vector<uint8_t> all = loaded.bytes, found = loaded.bytes;
  FillRow(request.map, row, elements, ones.data(), all.data() + row.offset);
  FillRow(request.map, row, elements, written, found.data() + row.offset);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != found[i]) loaded.written[i] = 0;
  }
}

// Fetches all rows, dense, from global memory.
void Fetch(Cluster& cluster, const Issuer& issuer, const TensorRequest& request, Loaded& loaded) {
  const uint32_t elements = request.walk.row_elements;
  for (const TensorRow& row : request.walk.rows) {
    const uint8_t* global = nullptr;
    if (row.count != 0) {
      global = GlobalAccess(cluster, issuer, row.address, request.map.GlobalBytes(row.count), 1,
                            AccessKind::kRead, Proxy::kAsync, kBulkEngine);
    }
    FillRow(request.map, row, elements, global, loaded.bytes.data() + row.offset);
    if (row.count != 0) NoteUnwritten(cluster, request, row, loaded);
  }
}

// Returns where a load arrives. Its mbarrier is in the CTA that receives, or with .cta_group::2 in
// the peer of that CTA. A multicast signals the CTAs that receive, or with .cta_group::2 the CTAs
// of their pairs that have the parity of the given one.
std::vector<LoadTarget> TargetsOf(Warp& w, int lane, const TensorForm& form, uint32_t destination,
                                  const BarrierRef& barrier, uint32_t ctas) {
  const Issuer issuer = w.Here(lane);
  std::vector<LoadTarget> targets =
      LoadTargets(w, lane, destination, barrier, form.multicast, ctas);
  for (LoadTarget& target : targets) {
    if (form.multicast && form.pair) {
      const uint32_t rank = (target.cta->rank & ~1u) | (barrier.owner->rank & 1);
      if (rank >= w.cta.cluster.ctas.size()) PeerOf({target.cta, issuer.op, issuer.warp, lane});
      target.barrier.owner = w.cta.cluster.ctas[rank].get();
    }
    const uint32_t apart = target.cta->rank ^ target.barrier.owner->rank;
    if (apart > (form.pair ? 1 : 0)) {
      Fail(issuer, "mbarrier",
           "the copy writes shared memory of rank " + std::to_string(target.cta->rank) +
               " of the cluster, but completes on an mbarrier of rank " +
               std::to_string(target.barrier.owner->rank) +
               (form.pair ? ": it must be in that CTA or its peer"
                          : ": it must be in that CTA, or with .cta_group::2 in its peer"),
           target.barrier.address(), "shared memory");
    }
    if (form.own_shared && (target.cta != &w.cta || target.barrier.owner != &w.cta)) {
      Fail(issuer, "illegal-operand",
           "with .shared::cta destination and mbarrier are in the CTA of the thread; use "
           ".shared::cluster",
           target.barrier.address(), "shared memory");
    }
  }
  return targets;
}

Flow Load(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<TensorForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const auto request = std::make_shared<TensorRequest>(RequestOf(w, op, lane));
    const uint32_t destination = ToSharedAddress(w, lane, Space::kShared, form.shared.At(w, lane));
    CheckSharedAlignment(issuer, *request, destination);
    const BarrierRef barrier = ResolveBarrier(w, lane, Space::kShared, form.barrier.At(w, lane));
    const uint32_t ctas =
        form.multicast ? w.Reg<uint16_t>(op.slots[form.coordinates + form.offsets])[lane] : 0;
    Delivery delivery{"cp.async.bulk.tensor"};
    delivery.units = SparseUnits(request->map, BytesOf(*request), destination & 0xFFFFFF);
    delivery.runs = RunsOf(w, *request);
    delivery.counted = CountedBytesOf(*request);
    IssueLoad(
        w, lane, delivery, TargetsOf(w, lane, form, destination, barrier, ctas), BytesOf(*request),
        [&cluster, issuer, request](Loaded& loaded) { Fetch(cluster, issuer, *request, loaded); },
        [request](const std::vector<uint8_t>& data, uint8_t* shared, uint32_t offset) {
          ScatterRows(request->map, data.data(), static_cast<uint32_t>(data.size()), offset,
                      shared);
        });
  });
  return Flow::kNext;
}

void WriteRows(Cluster& cluster, const Issuer& issuer, const TensorForm& form,
               const TensorRequest& request, const std::vector<uint8_t>& data) {
  const TensorMap& map = request.map;
  for (const TensorRow& row : request.walk.rows) {
    if (row.count == 0) continue;
    const uint32_t bytes = map.GlobalBytes(row.count);
    const uint8_t* from = data.data() + row.offset + map.GlobalBytes(row.first);
    uint8_t* to = PlaceOfWrite(cluster, issuer, {row.address, bytes, 1}, form.written_as(),
                               form.reduces ? nullptr : from);
    if (form.reduces) {
      Reduce(form.reduce, map.type, from, to, bytes, map.type == TensorType::kF32Ftz);
    } else {
      CopyBytes(to, from, bytes);
    }
  }
}

// Returns the rows of collected bytes that lie inside the tensor.
std::vector<std::pair<uint32_t, uint32_t>> ArrivingRows(const TensorRequest& request) {
  std::vector<std::pair<uint32_t, uint32_t>> rows;
  for (const TensorRow& row : request.walk.rows) {
    if (row.count == 0) continue;
    rows.emplace_back(row.offset + request.map.GlobalBytes(row.first),
                      request.map.GlobalBytes(row.count));
  }
  return rows;
}

void CheckStore(const Issuer& issuer, const TensorForm& form, const TensorMap& map) {
  if (map.Padded()) {
    Fail(issuer, "unsupported", "stores of padded 4- and 6-bit tensors");
  }
  for (int i = 0; map.im2col && i < map.rank - 2; ++i) {
    if (map.lower[i] >= 0 && map.upper[i] <= 0) continue;
    Fail(
        issuer, "tensor-map",
        "an im2col store needs a bounding box inside of the tensor: lower corners from 0 on, upper "
        "ones up to 0");
  }
  if (form.reduces && !ReduceExists(form.reduce, map.type)) {
    Fail(issuer, "tensor-map",
         std::string("tensor copies do not have this reduction for elements of type ") +
             TensorTypeName(map.type));
  }
}

// The PTX ISA forbids stores from negative coordinates; the GPU stops at them.
void CheckStoreStart(const Issuer& issuer, int32_t coordinate) {
  if (coordinate >= 0) return;
  Fail(issuer, "tensor-map",
       "a tensor copy to global memory begins at the coordinate " + std::to_string(coordinate) +
           "; coordinates of stores and reductions are not negative");
}

// Returns a key that tells the stores of two lanes apart.
std::vector<uint64_t> StoreKey(Warp& w, const Op& op, int lane) {
  const auto& form = op.Extra<TensorForm>();
  std::vector<uint64_t> key = {form.map.At(w, lane), form.shared.At(w, lane)};
  for (int i = 0; i < form.coordinates; ++i) key.push_back(w.Reg<uint32_t>(op.slots[i])[lane]);
  for (int i = 0; i < form.offsets; ++i) {
    key.push_back(w.Reg<uint16_t>(op.slots[form.coordinates + i])[lane]);
  }
  return key;
}

Flow Store(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<TensorForm>();
  Cluster& cluster = w.cta.cluster;
  const auto key = [&](int lane) { return StoreKey(w, op, lane); };
  ForEachAlike(mask, !form.reduces, key, [&](int lane, uint32_t lanes) {
    const Issuer issuer = w.Here(lane);
    const auto request = std::make_shared<TensorRequest>(RequestOf(w, op, lane));
    CheckStore(issuer, form, request->map);
    for (int i = 0; i < form.coordinates; ++i) {
      CheckStoreStart(issuer, w.Reg<int32_t>(op.slots[i])[lane]);
    }
    const uint32_t source = ToSharedAddress(w, lane, Space::kShared, form.shared.At(w, lane));
    CheckSharedAlignment(issuer, *request, source);
    const auto collect = [request](std::vector<uint8_t>& data, const uint8_t* shared,
                                   uint32_t offset) {
      GatherRows(request->map, data.data(), static_cast<uint32_t>(data.size()), offset, shared);
    };
    const auto deliver = [&cluster, &form, issuer, request](const std::vector<uint8_t>& data) {
      WriteRows(cluster, issuer, form, *request, data);
    };
    IssueStore(w, lanes,
               {.name = "cp.async.bulk.tensor",
                .source = source,
                .bytes = BytesOf(*request),
                .units = SparseUnits(request->map, BytesOf(*request), source & 0xFFFFFF),
                .collect = collect,
                .deliver = deliver,
                .arriving = ArrivingRows(*request),
                .runs = RunsOf(w, *request)});
  });
  return Flow::kNext;
}

Flow Prefetch(Warp& w, const Op& op, uint32_t mask) {
  ForEachLane(mask, [&](int lane) { RequestOf(w, op, lane); });
  return Flow::kNext;
}

void TakeMode(Decoder& d, TensorForm& form) {
  const std::string dims = d.mods.TakeOneOf({"1d", "2d", "3d", "4d", "5d"});
  if (dims.empty()) d.Illegal("a tensor copy needs its number of dimensions, .1d to .5d");
  form.rank = form.coordinates = dims[0] - '0';
  const std::string mode = d.mods.TakeOneOf(
      {"tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs", "im2col::w"});
  if (mode == "tile::gather4" || mode == "tile::scatter4") {
    form.mode = TensorMode::kGather;
    form.coordinates = 5;
  } else if (mode == "im2col" || mode == "im2col_no_offs") {
    form.mode = TensorMode::kIm2col;
    form.offsets = mode == "im2col" ? form.rank - 2 : 0;
  } else if (mode == "im2col::w") {
    form.mode = TensorMode::kIm2colWide;
    form.offsets = 2;
  }
}

// [map, {coordinates}]
void TakeMap(Decoder& d, TensorForm& form, const ptx::Operand& operand) {
  form.map = d.Address(operand);
  if (operand.elements.size() != 2) {
    d.Illegal("'" + d.inst.Spelling() + "' needs the map and its coordinates: [map, {x, y}]");
  }
  for (const ptx::Operand* at : d.Vector(operand.elements[1], form.coordinates, "coordinates")) {
    d.Push(d.Source(*at, Type::kS32));
  }
}

// The filter offsets at operand `*next`, if the form has them.
void TakeOffsets(Decoder& d, const TensorForm& form, size_t* next) {
  if (form.offsets == 0) return;
  for (const ptx::Operand* of : d.Vector(d.operand((*next)++), form.offsets, "im2col offsets")) {
    d.Push(d.Source(*of, Type::kU16));
  }
}

void DecodeTransfer(Decoder& d, bool reduces) {
  TensorForm& form = d.MakeExtra<TensorForm>();
  TakeMode(d, form);
  const std::string group = d.mods.TakePrefix("cta_group::");
  if (!group.empty() && group != "1" && group != "2") d.Illegal("unknown .cta_group::" + group);
  const bool own = d.mods.Has("shared::cta");
  const char* name = reduces ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor";
  switch (TakeRoute(d, form, reduces, name)) {
    case Route::kLoad: {
      if (own && form.multicast) d.Illegal("a multicast writes .shared::cluster memory");
      form.shared = d.Address(d.operand(0));
      TakeMap(d, form, d.operand(1));
      form.barrier = d.Address(d.operand(2));
      form.pair = group == "2";
      form.own_shared = own;
      size_t next = 3;
      TakeOffsets(d, form, &next);
      if (form.multicast) d.Push(d.Source(d.operand(next), Type::kU16));
      d.op.handler = Load;
      return;
    }
    case Route::kStore:
      if (!group.empty())
        d.Illegal(".cta_group is allowed only on copies that complete on an mbarrier");
      TakeMap(d, form, d.operand(0));
      form.shared = d.Address(d.operand(1));
      // The type is in the map, which is known only at run time, so these may be sums of floats.
      if (reduces && !Commutes(form.reduce, TensorType::kF32)) d.MarkUnordered();
      d.op.handler = Store;
      return;
    case Route::kSend:
      d.Illegal(std::string(name) + " does not go from shared to shared memory");
  }
}

void DecodeCopy(Decoder& d) { DecodeTransfer(d, false); }
void DecodeReduce(Decoder& d) { DecodeTransfer(d, true); }

void DecodePrefetch(Decoder& d) {
  TensorForm& form = d.MakeExtra<TensorForm>();
  TakeMode(d, form);
  d.mods.Take("L2");
  d.mods.Take("global");
  d.mods.Take("L2::cache_hint");
  TakeMap(d, form, d.operand(0));
  size_t next = 1;
  TakeOffsets(d, form, &next);
  d.op.handler = Prefetch;
}

}  // namespace

void RegisterTensorCopy() {
  FamilyRegistry::Add("cp.async.bulk.tensor", DecodeCopy);
  FamilyRegistry::Add("cp.reduce.async.bulk.tensor", DecodeReduce);
  FamilyRegistry::Add("cp.async.bulk.prefetch.tensor", DecodePrefetch);
}

}  // namespace tilelang::emulator
