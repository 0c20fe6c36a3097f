// Tensor maps edited on the device: tensormap.replace and tensormap.cp_fenceproxy.
#include <bit>
#include <cstring>

#include "emulator/async/cta_state.h"
#include "emulator/async/tensor_map.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/machine.h"
#include "emulator/memory/hex.h"

namespace tilelang::emulator {
namespace {

// A field of the 128-byte encoding: `bits` bits from bit `first`, `step` bits from one ordinal to
// the next; it stores the value minus `bias`.
struct MapField {
  const char* name;
  Type type;
  int first, bits, step;
  uint32_t bias;
};

constexpr MapField kFields[] = {
    {"global_address", Type::kB64, 0, 64, 0, 0},    {"rank", Type::kB32, 68, 3, 0, 0},
    {"box_dim", Type::kB32, 440, 8, 8, 1},          {"global_dim", Type::kB32, 256, 32, 32, 1},
    {"global_stride", Type::kB64, 96, 32, 32, 0},   {"element_stride", Type::kB32, 416, 3, 3, 1},
    {"elemtype", Type::kB32, 71, 4, 0, 0},          {"interleave_layout", Type::kB32, 75, 2, 0, 0},
    {"swizzle_mode", Type::kB32, 77, 2, 0, 0},      {"fill_mode", Type::kB32, 79, 1, 0, 0},
    {"swizzle_atomicity", Type::kB32, 83, 2, 0, 0},
};
constexpr int kElementTypeBit = 71;
constexpr int kStrideUpperBits = 224;  // four bits for each stride

struct ReplaceOp {
  AddressOperand address;
  Space space = Space::kGeneric;
  const MapField* field = nullptr;
  int ordinal = 0;
  uint32_t value = kNoSlot;
};

void WriteBits(uint8_t* map, int first, int bits, uint64_t value) {
  for (int i = 0; i < bits; ++i) {
    int at = first + i;
    uint8_t bit = static_cast<uint8_t>(1u << (at % 8));
    map[at / 8] = static_cast<uint8_t>((value >> i) & 1 ? map[at / 8] | bit : map[at / 8] & ~bit);
  }
}

constexpr int kElementRoundsBit = 80;
constexpr uint64_t kSwizzle96B = 4;

// The instruction's codes of element types from 11 on, with the code and the rounding bit of the
// encoding.
struct ElementType {
  uint64_t code;
  bool rounds;
};
constexpr ElementType kElementTypes[] = {
    {static_cast<uint64_t>(TensorType::kF32), true},     // tf32
    {static_cast<uint64_t>(TensorType::kF32Ftz), true},  // tf32.ftz
    {static_cast<uint64_t>(TensorType::kU4), false},
    {static_cast<uint64_t>(TensorType::kU4UnpackU8), false},
    {static_cast<uint64_t>(TensorType::kU6UnpackU8), false},
};
constexpr uint64_t kFirstTableType = 11;
constexpr uint64_t kFirstPackedType = 13;

void ReplaceElementType(uint8_t* map, int first, uint64_t value) {
  ElementType type{value, false};
  if (value >= kFirstTableType) type = kElementTypes[value - kFirstTableType];
  WriteBits(map, first, 4, type.code);
  WriteBits(map, kElementRoundsBit, 1, type.rounds);
}

// Fails if the field cannot hold the value.
void CheckValue(const Issuer& issuer, const MapField& field, uint64_t value) {
  const std::string name = field.name;
  if (name == "swizzle_mode" && value == kSwizzle96B) {
    Fail(issuer, "unsupported", "the 96-byte swizzle of tensormap.replace");
  }
  if (name == "global_stride" && value % 16 != 0) {
    Fail(issuer, "tensor-map",
         "the stride " + std::to_string(value) + " of a tensor map must be a multiple of 16 bytes");
  }
  const uint64_t stored = field.type == Type::kB64 ? 0 : static_cast<uint32_t>(value - field.bias);
  if (stored >> field.bits == 0) return;
  Fail(issuer, "tensor-map",
       "tensormap.replace." + name + ": a tensor map holds no " + std::to_string(value));
}

void ReplaceField(uint8_t* map, const ReplaceOp& r, uint64_t value) {
  const MapField& field = *r.field;
  int first = field.first + r.ordinal * field.step;
  if (field.step == 32 && field.type == Type::kB64) {  // strides count 16-byte units
    value /= 16;
    WriteBits(map, kStrideUpperBits + 4 * r.ordinal, 4, value >> 32);
  }
  if (field.first == kElementTypeBit) return ReplaceElementType(map, first, value);
  WriteBits(map, first, field.bits, value - field.bias);
}

Flow Replace(Warp& w, const Op& op, uint32_t mask) {
  const ReplaceOp& r = op.Extra<ReplaceOp>();
  ForEachLane(mask, [&](int lane) {
    uint64_t value = r.field->type == Type::kB64 ? w.Reg<uint64_t>(r.value)[lane]
                                                 : w.Reg<uint32_t>(r.value)[lane];
    CheckValue(w.Here(lane), *r.field, value);
    ReplaceField(ThreadAccess(w, lane, r.space, r.address.At(w, lane), TensorMap::kBytes, 64,
                              AccessKind::kWrite),
                 r, value);
    if (r.space == Space::kGlobal) {
      CtaState::Of(w.cta).maps.Change(r.address.At(w, lane), w.Here(lane));
    }
  });
  return Flow::kNext;
}

void DecodeReplace(Decoder& d) {
  ReplaceOp r;
  if (!d.mods.Take("tile")) d.Unsupported();
  for (const MapField& field : kFields) {
    if (d.mods.Take(field.name)) r.field = &field;
  }
  if (!r.field) d.Unsupported();
  r.space = d.mods.TakeSpace();
  if (!d.mods.Take("b1024")) d.Illegal("tensormap.replace needs .b1024");
  if (d.mods.TakeType() != r.field->type) d.Illegal("wrong type for this field of a tensor map");
  r.address = d.Address(d.operand(0));
  size_t next = 1;
  if (r.field->step != 0) {
    r.ordinal = static_cast<int>(d.Integer(d.operand(next++)));
    int limit = r.field->type == Type::kB64 ? TensorMap::kMaxRank - 1 : TensorMap::kMaxRank;
    if (r.ordinal < 0 || r.ordinal >= limit) d.Illegal("a tensor map does not have this dimension");
  }
  const ptx::Operand& value = d.operand(next);
  if (r.field->first == kElementTypeBit && value.kind == ptx::Operand::Kind::kInteger &&
      value.bits >= kFirstPackedType && d.function().context().device.sm < 100) {
    d.Illegal("element types of four and six bits of a tensor map need sm_100f or higher");
  }
  r.value = d.Source(value, r.field->type);
  d.MakeExtra<ReplaceOp>(r);
  d.op.handler = Replace;
}

struct CopyOp {
  AddressOperand target, source;
};

// The warp copies one map from shared to global memory.
Flow CopyFence(Warp& w, const Op& op, uint32_t mask) {
  if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const CopyOp& c = op.Extra<CopyOp>();
  int lane = std::countr_zero(mask);
  const uint8_t* source = ThreadAccess(w, lane, Space::kShared, c.source.At(w, lane),
                                       TensorMap::kBytes, 128, AccessKind::kRead);
  uint8_t* target = ThreadAccess(w, lane, Space::kGlobal, c.target.At(w, lane), TensorMap::kBytes,
                                 128, AccessKind::kWrite);
  std::memcpy(target, source, TensorMap::kBytes);
  CtaState::Of(w.cta).maps.Change(c.target.At(w, lane), w.Here(lane));
  return Flow::kNext;
}

void DecodeCopyFence(Decoder& d) {
  for (const char* name :
       {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"}) {
    if (!d.mods.Take(name)) d.Illegal("tensormap.cp_fenceproxy needs ." + std::string(name));
  }
  d.mods.TakeOneOf({"cta", "cluster", "gpu", "sys"});
  if (d.Integer(d.operand(2)) != TensorMap::kBytes) d.Illegal("a tensor map has 128 bytes");
  CopyOp c;
  c.target = d.Address(d.operand(0));
  c.source = d.Address(d.operand(1));
  d.MakeExtra<CopyOp>(c);
  d.op.handler = CopyFence;
}

// A fence with .release orders changes before later synchronization, and nothing depends on it.
Flow ReleaseMaps(Warp&, const Op&, uint32_t) { return Flow::kNext; }

Flow AcquireMap(Warp& w, const Op& op, uint32_t mask) {
  const auto& map = op.Extra<AddressOperand>();
  ForEachLane(mask, [&](int lane) { CtaState::Of(w.cta).maps.Acquire(map.At(w, lane)); });
  return Flow::kNext;
}

void DecodeMapFence(Decoder& d) {
  d.mods.TakeOneOf({"cta", "cluster", "gpu", "sys"});
  if (d.mods.Take("release")) {
    d.op.handler = ReleaseMaps;
    return;
  }
  if (!d.mods.Take("acquire")) d.Illegal("a fence of tensor maps must be .acquire or .release");
  d.MakeExtra<AddressOperand>(d.Address(d.operand(0)));
  if (d.Integer(d.operand(1)) != TensorMap::kBytes) d.Illegal("a tensor map has 128 bytes");
  d.op.handler = AcquireMap;
}

}  // namespace

void TensorMapEdits::CheckUse(uint64_t map, const Issuer& issuer) const {
  const auto change = changed_.find(map);
  Launch& launch = issuer.cta->cluster.launch;
  if (change == changed_.end() || !launch.options.sanitize) return;
  EmulatorError error("missing-proxy-fence",
                      "TMA uses the tensor map at " + Hex(map) +
                          ", which this CTA has changed, without "
                          "fence.proxy.tensormap::generic.acquire for this map in between",
                      WhereOf(issuer));
  const auto op = static_cast<uint32_t>(change->second - launch.kernel.code.data());
  error.earlier = PlaceOf(launch.kernel, op);
  launch.Report(error);
}

void RegisterTensorMapEdits() {
  FamilyRegistry::Add("fence.proxy.tensormap::generic", DecodeMapFence);
  FamilyRegistry::Add("tensormap.replace", DecodeReplace);
  FamilyRegistry::Add("tensormap.cp_fenceproxy", DecodeCopyFence);
}

}  // namespace tilelang::emulator
