#include "emulator/core/report.h"

#include "emulator/base/demangle.h"
#include "emulator/base/json.h"

namespace tilelang::emulator {

void WriteWhere(Json& json, const Where& where) {
  json.Field("kernel", where.kernel).Field("short_kernel", ShortName(where.kernel));
  json.Field("ptx_line", where.ptx_line);
  json.Field("ptx_text", where.ptx_text);
  json.Field("source_file", where.source_file).Field("source_line", where.source_line);
  json.Field("inlined_file", where.inlined_file).Field("inlined_line", where.inlined_line);
  if (where.in_cta) {
    json.Field("cta", std::vector<int>{static_cast<int>(where.cta.x), static_cast<int>(where.cta.y),
                                       static_cast<int>(where.cta.z)});
  }
  json.Field("warp", where.warp).Field("lane", where.lane).Field("buffer", where.buffer);
  if (where.has_address) json.Field("address", where.address);
}

namespace {

void WriteFields(Json& json, const EmulatorError& error) {
  json.Field("kind", error.kind).Field("message", std::string(error.what()));
  json.Field("report", error.Report());
  WriteWhere(json, error.where);
  if (!error.earlier) return;
  json.Key("earlier").Open('{');
  WriteWhere(json, *error.earlier);
  json.Close('}');
}

void WriteError(Json& json, const EmulatorError& error) {
  json.Key("error").Open('{');
  WriteFields(json, error);
  json.Close('}');
}

void WriteFindings(Json& json, const Launch& launch) {
  json.Key("findings").Open('[');
  for (const auto& [key, finding] : launch.findings) {
    json.Open('{').Field("count", finding.count);
    WriteFields(json, finding.error);
    json.Close('}');
  }
  json.Close(']').Key("suppressed").Open('[');
  for (const uint64_t count : launch.suppressed) json.Value(count);
  json.Close(']');
}

void WriteKernel(Json& json, const Kernel& kernel) {
  json.Open('{').Field("name", kernel.name);
  json.Key("params").Open('[');
  for (const ParamInfo& param : kernel.params) {
    json.Open('{').Field("name", param.name).Field("type", std::string(TypeName(param.type)));
    json.Field("offset", param.offset).Field("size", param.size).Field("align", param.align);
    json.Field("array", param.is_array ? 1 : 0).Close('}');
  }
  json.Close(']');
  json.Field("param_bytes", kernel.param_bytes);
  json.Field("static_shared", kernel.static_shared);
  json.Key("shared_variables").Open('[');
  for (const SharedVariable& variable : kernel.shared_variables) {
    json.Open('{').Field("name", ShortName(variable.name));
    json.Field("address", variable.address).Field("bytes", variable.bytes).Close('}');
  }
  json.Close(']');
  json.Field("communicates", kernel.communicates);
  json.Field("dynamic_shared", kernel.uses_dynamic_shared ? 1 : 0);
  json.Field("shared_offset", kernel.dynamic_shared_offset);
  json.Field("local_bytes", kernel.local_bytes);
  json.Field("reqntid", kernel.reqntid).Field("maxntid", kernel.maxntid);
  json.Field("cluster", kernel.reqnctapercluster);
  json.Field("minnctapersm", kernel.minnctapersm).Field("maxnreg", kernel.maxnreg);
  json.Field("instructions", kernel.code.size());
  json.Key("unsupported").Open('[');
  for (const UnsupportedUse& use : kernel.unsupported_uses) {
    json.Open('{').Field("what", use.what).Field("count", use.count);
    json.Field("line", use.where.ptx_line).Close('}');
  }
  json.Close(']');
  if (kernel.unsupported) WriteError(json, *kernel.unsupported);
  json.Close('}');
}

}  // namespace

std::string DescribeError(const EmulatorError& error) {
  Json json;
  json.Open('{');
  WriteError(json, error);
  return json.Close('}').Take();
}

std::string DescribeModule(const Module& module) {
  Json json;
  json.Open('{').Field("target", module.target);
  json.Key("kernels").Open('[');
  for (const auto& kernel : module.kernels) WriteKernel(json, *kernel);
  json.Close(']').Key("globals").Open('{');
  for (const auto& [name, address] : module.globals) json.Field(name, address);
  return json.Close('}').Close('}').Take();
}

std::string DescribeLaunch(const Launch& launch, double seconds) {
  Json json;
  json.Open('{');
  if (launch.error) WriteError(json, *launch.error);
  json.Key("warnings").Open('[');
  for (const auto& [key, warning] : launch.warnings) {
    json.Open('{').Field("kind", warning.kind).Field("message", warning.message);
    json.Field("count", warning.count);
    WriteWhere(json, warning.where);
    json.Close('}');
  }
  json.Close(']');
  WriteFindings(json, launch);
  std::string output;
  for (const auto& [cta, text] : launch.output) output += text;
  json.Field("output", output);
  json.Field("instructions", launch.instructions.load());
  json.Key("by_class").Open('{');
  for (int i = 0; i < kInstructionClasses; ++i) {
    const InstructionCount& count = launch.counts[static_cast<size_t>(i)];
    if (count.warps == 0) continue;
    json.Key(ClassName(static_cast<InstructionClass>(i))).Open('{');
    json.Field("instructions", count.warps).Field("lane_instructions", count.lanes).Close('}');
  }
  json.Close('}');
  json.Field("ctas", launch.finished_ctas.load()).Field("seconds", seconds);
  return json.Close('}').Take();
}

}  // namespace tilelang::emulator
