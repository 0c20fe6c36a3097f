// Defines the results of a timed launch.
#ifndef TILELANG_EMULATOR_TIMING_RESULT_H_
#define TILELANG_EMULATOR_TIMING_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/timing/occupancy.h"
#include "emulator/timing/recorder.h"

namespace tilelang::emulator {

struct EngineUse {
  std::string name;
  double busy = 0;   // cycles of work at the engine's full rate
  double share = 0;  // of the timed span
};

struct InstructionTime {
  std::string opcode, file;
  int ptx_line = 0, line = 0;
  bool free = false;
  int64_t issues = 0, wavefronts = 0, conflicts = 0, sectors = 0;
};

struct TimingResult {
  std::string arch, gpu, kernel;
  int sms = 0;
  double clock_mhz = 0, power_factor = 1, launch_us = 0;
  double span_cycles = 0;  // of what was timed in detail
  double cta_cycles = 0, wave_cycles = 0, grid_cycles = 0;
  double waves = 0, flops = 0, tensor_flops = 0, dram_bytes = 0, l2_bytes = 0;
  uint64_t ctas = 0, timed_ctas = 0;
  Occupancy occupancy;
  std::vector<EngineUse> engines;
  std::vector<InstructionTime> instructions;
  std::vector<Track> tracks;
  SliceList slices;
  std::vector<FlowEdge> flows;
  std::vector<Recorder::Stall> stalls;
  std::vector<PathStep> path;
};

// Scalars and tables of texts as JSON; a column of numbers, little-endian: slice_track (int32),
// slice_begin (int64), ...; "" for no such column.
std::string DescribeTiming(const TimingResult& result);
std::string TimingColumn(const TimingResult& result, const std::string& name);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_RESULT_H_
