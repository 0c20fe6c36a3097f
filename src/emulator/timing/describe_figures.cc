#include <algorithm>

#include "emulator/base/json.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {
namespace {

constexpr double kWarpLanes = 32, kQuarters = 4, kCellBytes = 4;

}  // namespace

std::string DescribeFigures(const Figures& f) {
  Json json;
  json.Open('{');
  json.Field("tensor", std::max({f.mma_flops, f.wgmma_flops, f.tcgen05_flops}));
  json.Field("special", kQuarters * kWarpLanes / f.mufu_cycles);
  json.Field("float", kQuarters * kWarpLanes / f.fma_cycles);
  json.Field("l2", std::min(f.l2_bytes, L2BytesAt(f, f.tensor_clock_mhz) * f.l2_merge / f.sms));
  json.Field("tensor_memory", f.tmem_columns * kQuarters * kWarpLanes * kCellBytes);
  json.Field("latency", static_cast<double>(f.l2_latency) + f.tma_latency);
  json.Field("clock", f.clock_mhz);
  json.Close('}');
  return json.Take();
}

}  // namespace tilelang::emulator
