// Returns how many SMs the device of an architecture has.
#ifndef TILELANG_EMULATOR_CORE_SM_COUNT_H_
#define TILELANG_EMULATOR_CORE_SM_COUNT_H_

#include <string>

namespace tilelang::emulator {

// 0: no such device.
int SmCountOf(const std::string& arch);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_SM_COUNT_H_
