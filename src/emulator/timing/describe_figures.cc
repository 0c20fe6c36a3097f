#include <algorithm>

#include "emulator/core/json.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {
namespace {

constexpr double kLanes = 32, kSubCores = 4, kWordBytes = 4;

}  // namespace

std::string DescribeFigures(const Figures& f) {
  Json json;
  json.Open('{');
  json.Field("tensor", std::max({f.mma_flops, f.wgmma_flops, f.tcgen05_flops}));
  json.Field("special", kSubCores * kLanes / f.mufu_cycles);
  json.Field("float", kSubCores * kLanes / f.fma_cycles);
  json.Field("l2", std::min(f.l2_bytes, L2BytesAt(f, f.tensor_clock_mhz) * f.l2_merge / f.sms));
  json.Field("tensor_memory", f.tmem_columns * kSubCores * kLanes * kWordBytes);
  json.Field("latency", double{f.l2_latency} + f.tma_latency);
  json.Field("clock", f.clock_mhz);
  json.Close('}');
  return json.Take();
}

}  // namespace tilelang::emulator
