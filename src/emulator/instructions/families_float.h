// Families that integers and floats share are registered by the integer file; these decode the
// float forms. Each returns false, having taken nothing, when the type is no float.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_FAMILIES_FLOAT_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_FAMILIES_FLOAT_H_

#include "emulator/core/decoder.h"

namespace tilelang::emulator {

bool DecodeFloatAddSub(Decoder& d, bool subtract);
bool DecodeFloatMul(Decoder& d);
bool DecodeFloatFma(Decoder& d);
bool DecodeFloatMinMax(Decoder& d, bool is_max);
bool DecodeFloatDiv(Decoder& d);
bool DecodeFloatSign(Decoder& d, bool negate);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_FAMILIES_FLOAT_H_
