// Describes what a cvt instruction asks for.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_CONVERT_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_CONVERT_H_

#include "emulator/core/decoder.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {

struct Conversion {
  Type to = Type::kNone, from = Type::kNone;
  Rounding rounding = Rounding::kNearestEven;
  bool has_rounding = false;
  bool to_integer = false;  // .rni, .rzi, .rmi, .rpi
  bool flush = false, saturate = false, satfinite = false, relu = false;
  int from_register = 0, to_register = 0;  // bytes; registers may be wider than the types
};

// Packed types: f16x2, bf16x2 and the x2 forms of narrow floats.
void DecodeConvertPacked(Decoder& d, const Conversion& conversion);
// cvt.rs
void DecodeConvertStochastic(Decoder& d);
// cvt.pack.sat
void DecodeConvertPack(Decoder& d);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_CONVERT_H_
