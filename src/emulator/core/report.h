// Modules, launches and errors as JSON, for Python.
#ifndef TILELANG_EMULATOR_CORE_REPORT_H_
#define TILELANG_EMULATOR_CORE_REPORT_H_

#include <string>

#include "emulator/core/kernel.h"
#include "emulator/core/launch.h"

namespace tilelang::emulator {

// {"target": .., "kernels": [{"name", "params": [..], "reqntid": [..], ..}], "globals": {..}}
std::string DescribeModule(const Module& module);
// {"error": {"kind", "message", "kernel", "ptx_line", ..}}
std::string DescribeError(const EmulatorError& error);
// {"error"?: .., "warnings": [..], "output": "..", "instructions": n, "seconds": s}
std::string DescribeLaunch(const Launch& launch, double seconds);

class Json;
// The fields of a place.
void WriteWhere(Json& json, const Where& where);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_REPORT_H_
