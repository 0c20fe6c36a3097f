// Legal forms of mov and cvt.
#include "emulator/core/form_tables.h"

namespace tilelang::emulator {
namespace {

constexpr FormRow kConversionForms[] = {
    {"mov", "b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64 pred b128", ""},
    {"mov", "u32 u64", "v2/v4"},
    {"cvta", "u32 u64", "to? space"},
    {"mapa", "u32 s32 u64 s64", "shared::cluster?"},
    // between integers; .sat where the result's range does not hold the source's
    {"cvt", "int.int", ""},
    {"cvt",
     "u8.s8/u16/s16/u32/s32/u64/s64 s8.u8/u16/s16/u32/s32/u64/s64 u16.s8/s16/u32/s32/u64/s64 "
     "s16.u16/u32/s32/u64/s64 u32.s8/s16/s32/u64/s64 s32.u32/u64/s64 u64.s8/s16/s32/s64 s64.u64",
     "sat"},
    // from floating point to integers
    {"cvt", "int.f16/f64", "integral sat?"},
    {"cvt", "int.f32", "integral ftz? sat?"},
    {"cvt", "int.bf16", "integral"},
    // from integers to floating point
    {"cvt", "f16/f64.int", "round sat?"},
    {"cvt", "f32.int f32.f64", "round ftz? sat?"},
    {"cvt", "bf16.int bf16.f64", "round"},
    // between floating-point types
    {"cvt", "f16.f16 f64.f64", "integral? sat?"},
    {"cvt", "f32.f32", "integral? ftz? sat?"},
    {"cvt", "bf16.bf16", "integral?"},
    {"cvt", "f16.f64", "round sat?"},
    {"cvt", "f16.bf16 bf16.f16 f64.bf16", "round?"},
    {"cvt", "f64.f16", "sat?"},
    {"cvt", "f32.f16 f64.f32", "ftz? sat?"},
    {"cvt", "f32.bf16", "round? ftz?"},
    {"cvt", "f16.f32", "round ftz? sat?"},
    {"cvt", "bf16.f32", "round ftz?"},
    {"cvt", "f16.f32 bf16.f32 tf32.f32", "rn/rz satfinite? relu?"},
    {"cvt", "tf32.f32", "rna satfinite?"},
    // pairs
    {"cvt", "f16x2.f32 bf16x2.f32", "rn/rz satfinite? relu?"},
    {"cvt", "e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2.f32/f16x2/bf16x2", "rn satfinite relu?"},
    {"cvt", "f16x2.e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2", "rn relu?"},
    {"cvt", "bf16x2.e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2", "rn satfinite? relu? scaled::n2::ue8m0?"},
    {"cvt", "ue8m0x2.f32/bf16x2", "rz/rp satfinite?"},
    {"cvt", "bf16x2.ue8m0x2", "rn"},
    {"cvt", "u16.s32 s16.s32", "pack sat"},
    {"cvt", "u8.s32.b32 s8.s32.b32", "pack sat"},
    {"cvt", "s32.b32", "u4/s4/u2/s2 pack sat"},
    // stochastic rounding
    {"cvt", "f16x2.f32 bf16x2.f32", "rs satfinite? relu?"},
    {"cvt", "e4m3x4/e5m2x4/e2m3x4/e3m2x4/e2m1x4.f32", "rs satfinite relu?"},
    {"cvt", "f32", "rs satfinite relu? e4m3x4/e5m2x4/e2m3x4/e3m2x4/e2m1x4"},
};

}  // namespace

std::span<const FormRow> ConversionForms() { return kConversionForms; }

}  // namespace tilelang::emulator
