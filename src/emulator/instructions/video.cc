// Video instructions of two and four numbers in a register, as the functions __vabsdiffu4 and the
// like of CUDA use them: without masks and selectors of bytes.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

enum class VideoOperation : uint8_t { kAdd, kSub, kAverage, kDifference, kMin, kMax };

struct VideoOp {
  VideoOperation operation = VideoOperation::kAdd;
  int bits = 8;  // of a number
  bool a_signed = false, b_signed = false, d_signed = false;
  bool saturate = false;
  bool accumulate = false;  // .add: d = c + the sum of the results
};

int32_t NumberAt(uint32_t word, int at, int bits, bool is_signed) {
  const uint32_t field = word >> at & ((1u << bits) - 1);
  const int unused = 32 - bits;
  return is_signed ? static_cast<int32_t>(field << unused) >> unused : static_cast<int32_t>(field);
}

int32_t Combine(VideoOperation operation, int32_t a, int32_t b) {
  switch (operation) {
    case VideoOperation::kAdd:
      return a + b;
    case VideoOperation::kSub:
      return a - b;
    case VideoOperation::kAverage:
      return (a + b + (a + b >= 0)) >> 1;
    case VideoOperation::kDifference:
      return std::abs(a - b);
    case VideoOperation::kMin:
      return std::min(a, b);
    case VideoOperation::kMax:
      return std::max(a, b);
  }
  return 0;
}

Flow RunVideo(Warp& w, const Op& op, uint32_t mask) {
  const VideoOp& v = op.Extra<VideoOp>();
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  const uint32_t* a = w.Reg<uint32_t>(op.a[1]);
  const uint32_t* b = w.Reg<uint32_t>(op.a[2]);
  const uint32_t* c = w.Reg<uint32_t>(op.a[3]);
  const int32_t range = 1 << v.bits;
  const int32_t low = v.d_signed ? -range / 2 : 0, high = low + range - 1;
  ForEachLane(mask, [&](int lane) {
    uint32_t packed = 0, sum = c[lane];
    for (int at = 0; at < 32; at += v.bits) {
      int32_t result = Combine(v.operation, NumberAt(a[lane], at, v.bits, v.a_signed),
                               NumberAt(b[lane], at, v.bits, v.b_signed));
      sum += static_cast<uint32_t>(result);
      if (v.saturate) result = std::clamp(result, low, high);
      packed |= (static_cast<uint32_t>(result) & static_cast<uint32_t>(range - 1)) << at;
    }
    d[lane] = v.accumulate ? sum : packed;
  });
  return Flow::kNext;
}

template <VideoOperation operation, int bits>
void DecodeVideo(Decoder& d) {
  VideoOp v;
  v.operation = operation;
  v.bits = bits;
  v.saturate = d.mods.Take("sat");
  v.accumulate = d.mods.Take("add");
  for (bool* is_signed : {&v.d_signed, &v.a_signed, &v.b_signed}) {
    const Type type = d.mods.TakeType();
    if (type != Type::kU32 && type != Type::kS32) {
      d.Illegal("'" + d.inst.Spelling() + "' needs the types of D, A and B, .u32 or .s32");
    }
    *is_signed = type == Type::kS32;
  }
  if (v.saturate && v.accumulate) d.Illegal(".sat and .add do not go together");
  PushUniform(d, Type::kU32, 3);
  d.MakeExtra<VideoOp>(v);
  d.op.handler = RunVideo;
}

template <VideoOperation operation>
void AddVideo(const std::string& name) {
  FamilyRegistry::Add(name + "2", DecodeVideo<operation, 16>);
  FamilyRegistry::Add(name + "4", DecodeVideo<operation, 8>);
}

}  // namespace

void RegisterVideo() {
  AddVideo<VideoOperation::kAdd>("vadd");
  AddVideo<VideoOperation::kSub>("vsub");
  AddVideo<VideoOperation::kAverage>("vavrg");
  AddVideo<VideoOperation::kDifference>("vabsdiff");
  AddVideo<VideoOperation::kMin>("vmin");
  AddVideo<VideoOperation::kMax>("vmax");
}

}  // namespace tilelang::emulator
