#include "emulator/timing/result.h"

#include <cstring>
#include <functional>
#include <map>
#include <type_traits>

#include "emulator/base/json.h"

namespace tilelang::emulator {
namespace {

template <typename T, typename Rows, typename Field>
std::string Pack(const Rows& rows, Field field) {
  std::string bytes(rows.size() * sizeof(T), '\0');
  char* at = bytes.data();
  const auto put = [&](const auto& row) {
    const T value = static_cast<T>(field(row));
    std::memcpy(at, &value, sizeof(T));
    at += sizeof(T);
  };
  if constexpr (std::is_same_v<Rows, SliceList>) {
    rows.ForEach(put);
  } else {
    for (const auto& row : rows) put(row);
  }
  return bytes;
}

// Cycles are never negative.
int64_t Round(double cycles) { return static_cast<int64_t>(cycles + 0.5); }
int64_t Round(Cycle time) { return Round(time.cycles()); }

template <typename Rows, typename Field>
void Texts(Json& json, const char* name, const Rows& rows, Field field) {
  json.Key(name).Open('[');
  for (const auto& row : rows) json.Value(field(row));
  json.Close(']');
}

using Column = std::function<std::string(const TimingResult&)>;

void AddSliceColumns(std::map<std::string, Column>& c) {
  c["slice_track"] = [](const auto& r) {
    return Pack<int32_t>(r.slices, [](const Slice& s) { return s.track; });
  };
  c["slice_begin"] = [](const auto& r) {
    return Pack<int64_t>(r.slices, [](const Slice& s) { return Round(s.begin); });
  };
  c["slice_end"] = [](const auto& r) {
    return Pack<int64_t>(r.slices, [](const Slice& s) { return Round(s.end); });
  };
  c["slice_inst"] = [](const auto& r) {
    return Pack<int32_t>(r.slices, [](const Slice& s) { return s.instruction; });
  };
  c["slice_reason"] = [](const auto& r) {
    return Pack<uint8_t>(r.slices, [](const Slice& s) { return s.reason; });
  };
  c["flow_from"] = [](const auto& r) {
    return Pack<int32_t>(r.flows, [](const FlowEdge& f) { return f.from; });
  };
  c["flow_to"] = [](const auto& r) {
    return Pack<int32_t>(r.flows, [](const FlowEdge& f) { return f.to; });
  };
}

void AddPathColumns(std::map<std::string, Column>& c) {
  c["path_track"] = [](const auto& r) {
    return Pack<int32_t>(r.path, [](const PathStep& s) { return s.track; });
  };
  c["path_begin"] = [](const auto& r) {
    return Pack<int64_t>(r.path, [](const PathStep& s) { return Round(s.begin); });
  };
  c["path_end"] = [](const auto& r) {
    return Pack<int64_t>(r.path, [](const PathStep& s) { return Round(s.end); });
  };
  c["path_inst"] = [](const auto& r) {
    return Pack<int32_t>(r.path, [](const PathStep& s) { return s.instruction; });
  };
  c["path_reason"] = [](const auto& r) {
    return Pack<uint8_t>(r.path, [](const PathStep& s) { return s.reason; });
  };
}

void AddSumColumns(std::map<std::string, Column>& c) {
  using Stall = Recorder::Stall;
  c["stall_track"] = [](const auto& r) {
    return Pack<int32_t>(r.stalls, [](const Stall& s) { return s.track; });
  };
  c["stall_reason"] = [](const auto& r) {
    return Pack<uint8_t>(r.stalls, [](const Stall& s) { return s.reason; });
  };
  c["stall_inst"] = [](const auto& r) {
    return Pack<int32_t>(r.stalls, [](const Stall& s) { return s.instruction; });
  };
  c["stall_cycles"] = [](const auto& r) {
    return Pack<int64_t>(r.stalls, [](const Stall& s) { return Round(s.cycles); });
  };
  const auto add = [&c](const char* name, int64_t InstructionTime::* field) {
    c[name] = [field](const auto& r) {
      return Pack<int64_t>(r.instructions, [=](const InstructionTime& i) { return i.*field; });
    };
  };
  add("inst_issues", &InstructionTime::issues);
  add("inst_wavefronts", &InstructionTime::wavefronts);
  add("inst_conflicts", &InstructionTime::conflicts);
  add("inst_sectors", &InstructionTime::sectors);
}

const std::map<std::string, Column>& Columns() {
  static const std::map<std::string, Column> columns = [] {
    std::map<std::string, Column> c;
    AddSliceColumns(c);
    AddPathColumns(c);
    AddSumColumns(c);
    return c;
  }();
  return columns;
}

void WriteScalars(Json& json, const TimingResult& r) {
  json.Field("arch", r.arch).Field("gpu", r.gpu).Field("kernel", r.kernel).Field("sms", r.sms);
  json.Field("clock_mhz", r.clock_mhz).Field("power_factor", r.power_factor);
  json.Field("launch_us", r.launch_us).Field("span_cycles", Round(r.span_cycles));
  json.Field("cta_cycles", r.cta_cycles).Field("wave_cycles", r.wave_cycles);
  json.Field("grid_cycles", r.grid_cycles).Field("waves", r.waves);
  json.Field("flops", r.flops).Field("tensor_flops", r.tensor_flops);
  json.Field("dram_bytes", r.dram_bytes).Field("l2_bytes", r.l2_bytes);
  json.Field("ctas", r.ctas).Field("timed_ctas", r.timed_ctas);
  json.Field("ctas_per_sm", r.occupancy.ctas);
  json.Field("occupancy_limit", std::string(r.occupancy.limit));
  json.Field("registers", r.occupancy.registers).Field("threads", r.occupancy.threads);
  json.Field("shared_bytes", r.occupancy.shared_bytes);
}

}  // namespace

std::string DescribeTiming(const TimingResult& r) {
  Json json;
  json.Open('{');
  WriteScalars(json, r);
  json.Key("reasons").Open('[');
  for (int i = 0; i < kReasons; ++i) json.Value(std::string(ReasonName(static_cast<Reason>(i))));
  json.Close(']');
  Texts(json, "track_kind", r.tracks,
        [](const Track& t) { return std::string(t.engine ? "engine" : "warp"); });
  Texts(json, "track_name", r.tracks, [](const Track& t) { return t.name; });
  Texts(json, "track_cta", r.tracks, [](const Track& t) { return t.cta; });
  Texts(json, "track_warp", r.tracks, [](const Track& t) { return t.warp; });
  Texts(json, "track_sm", r.tracks, [](const Track& t) { return t.sm; });
  Texts(json, "inst_opcode", r.instructions, [](const InstructionTime& i) { return i.opcode; });
  Texts(json, "inst_file", r.instructions, [](const InstructionTime& i) { return i.file; });
  Texts(json, "inst_ptx_line", r.instructions, [](const InstructionTime& i) { return i.ptx_line; });
  Texts(json, "inst_line", r.instructions, [](const InstructionTime& i) { return i.line; });
  Texts(json, "inst_free", r.instructions, [](const InstructionTime& i) { return int{i.free}; });
  Texts(json, "engine_name", r.engines, [](const EngineUse& e) { return e.name; });
  Texts(json, "engine_busy", r.engines, [](const EngineUse& e) { return e.busy; });
  Texts(json, "engine_share", r.engines, [](const EngineUse& e) { return e.share; });
  return json.Close('}').Take();
}

std::string TimingColumn(const TimingResult& result, const std::string& name) {
  const auto found = Columns().find(name);
  return found == Columns().end() ? "" : found->second(result);
}

}  // namespace tilelang::emulator
