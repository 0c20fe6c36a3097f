#include "emulator/base/error.h"

#include <cstdio>
#include <new>

#include "emulator/base/demangle.h"

namespace tilelang::emulator {

std::string EmulatorError::Report() const {
  std::string text = what();
  auto line = [&](const std::string& label, const std::string& value) {
    text += "\n  " + label + ": " + value;
  };
  if (!where.kernel.empty()) line("kernel", ShortName(where.kernel));
  if (where.ptx_line > 0) {
    std::string ptx = "line " + std::to_string(where.ptx_line);
    if (!where.ptx_text.empty()) {
      size_t begin = where.ptx_text.find_first_not_of(" \t");
      ptx += ": " + where.ptx_text.substr(begin == std::string::npos ? 0 : begin, 200);
    }
    line("PTX", ptx);
  }
  if (where.source_line > 0) {
    line("source", where.source_file + ":" + std::to_string(where.source_line));
  }
  if (where.inlined_line > 0) {
    line("inlined from", where.inlined_file + ":" + std::to_string(where.inlined_line));
  }
  if (where.in_cta) {
    std::string thread = "CTA (" + std::to_string(where.cta.x) + ", " +
                         std::to_string(where.cta.y) + ", " + std::to_string(where.cta.z) + ")";
    if (where.warp >= 0) thread += ", warp " + std::to_string(where.warp);
    if (where.lane >= 0) thread += ", lane " + std::to_string(where.lane);
    line("thread", thread);
  }
  if (where.has_address) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(where.address));
    line("address", hex);
  }
  if (!where.buffer.empty()) line("buffer", where.buffer);
  return text;
}

EmulatorError CurrentError(const std::string& doing) {
  try {
    throw;
  } catch (const EmulatorError& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return EmulatorError("out-of-memory", "the host ran out of memory while " + doing);
  } catch (const std::exception& error) {
    return EmulatorError("internal", std::string(error.what()) + " while " + doing);
  }
}

}  // namespace tilelang::emulator
