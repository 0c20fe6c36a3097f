// Moves, selections, addresses and conversions.
#include "emulator/isa/row.h"

namespace tilelang::emulator::isa {
namespace {

constexpr Row kMoveRows[] = {
    {.families = "mov",
     .kind = InstructionClass::kMove,
     .cost = Cost::kMove,
     .operands = Operands::kMoved,
     .forms = {{"b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64 pred b128", ""},
               {"u32 u64", "v2/v4"}}},
    {.families = "selp",
     .kind = InstructionClass::kMove,
     .cost = Cost::kSelect,
     .operands = Operands::kSelected,
     .forms = {{"b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64", ""}}},
    {.families = "slct",
     .kind = InstructionClass::kMove,
     .cost = Cost::kSelect,
     .forms = {{"b16/u16/s16/b32/u32/s32/b64/u64/s64/f32/f64.s32 "
                "b16/u16/s16/b32/u32/s32/b64/u64/s64/f32/f64.f32",
                ""},
               {"b16/u16/s16/b32/u32/s32/b64/u64/s64/f32/f64.f32", "ftz"}}},
    // Addresses.
    {.families = "cvta",
     .kind = InstructionClass::kMove,
     .cost = Cost::kFree,
     .forms = {{"u32 u64", "to? space"}}},
    {.families = "isspacep", .kind = InstructionClass::kInteger, .cost = Cost::kAlu},
    {.families = "mapa",
     .kind = InstructionClass::kInteger,
     .cost = Cost::kAlu,
     .targets = kSm90,
     .forms = {{"u32 s32 u64 s64", "shared::cluster?"}}},
    {.families = "getctarank",
     .kind = InstructionClass::kInteger,
     .cost = Cost::kAlu,
     .targets = kSm90},
    // Conversions.
    {.families = "cvt",
     .kind = InstructionClass::kConversion,
     .cost = Cost::kConversion,
     .notes = {{"bf16", kSm80},
               {"bf16 !f32", kSm90},
               {"bf16x2/f16x2/relu/tf32", kSm80},
               {"tf32 !rna", kSm90},
               {"tf32 satfinite !rna", kSm100},
               {"e4m3x2/e5m2x2", kSm89},
               {"e2m1x2/e2m3x2/e3m2x2/ue8m0x2", kSm100Family},
               {"e4m3x2/e5m2x2 bf16x2", kSm100Family},
               {"s2f6x2", Targets("sm_100a sm_103a sm_110a sm_120a sm_121a")},
               {"rs", Targets("sm_100a sm_103a")}},
     .forms = {{"int.int", ""},
               {"u8.s8/u16/s16/u32/s32/u64/s64 s8.u8/u16/s16/u32/s32/u64/s64 "
                "u16.s8/s16/u32/s32/u64/s64 s16.u16/u32/s32/u64/s64 u32.s8/s16/s32/u64/s64 "
                "s32.u32/u64/s64 u64.s8/s16/s32/s64 s64.u64",
                "sat"},
               {"int.f16/f64", "integral sat?"},
               {"int.f32", "integral ftz? sat?"},
               {"int.bf16", "integral"},
               {"f16/f64.int", "round sat?"},
               {"f32.int f32.f64", "round ftz? sat?"},
               {"bf16.int bf16.f64", "round"},
               {"f16.f16 f64.f64", "integral? sat?"},
               {"f32.f32", "integral? ftz? sat?"},
               {"bf16.bf16", "integral?"},
               {"f16.f64", "round sat?"},
               {"f16.bf16 bf16.f16 f64.bf16", "round?"},
               {"f64.f16", "sat?"},
               {"f32.f16 f64.f32", "ftz? sat?"},
               {"f32.bf16", "round? ftz?"},
               {"f16.f32", "round ftz? sat?"},
               {"bf16.f32", "round ftz?"},
               {"f16.f32 bf16.f32 tf32.f32", "rn/rz satfinite? relu?"},
               {"tf32.f32", "rna satfinite?"},
               {"f16x2.f32 bf16x2.f32", "rn/rz satfinite? relu?"},
               {"e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2.f32/f16x2/bf16x2", "rn satfinite relu?"},
               {"f16x2.e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2", "rn relu?"},
               {"bf16x2.e4m3x2/e5m2x2/e2m3x2/e3m2x2/e2m1x2",
                "rn satfinite? relu? scaled::n2::ue8m0?"},
               {"s2f6x2.f32/bf16x2", "rn satfinite relu? scaled::n2::ue8m0?"},
               {"bf16x2.s2f6x2", "rn satfinite? relu? scaled::n2::ue8m0?"},
               {"ue8m0x2.f32/bf16x2", "rz/rp satfinite?"},
               {"bf16x2.ue8m0x2", "rn"},
               {"u16.s32 s16.s32", "pack sat"},
               {"u8.s32.b32 s8.s32.b32", "pack sat"},
               {"s32.b32", "u4/s4/u2/s2 pack sat"},
               {"f16x2.f32 bf16x2.f32", "rs satfinite? relu?"},
               {"f32", "rs satfinite relu? e4m3x4/e5m2x4/e2m3x4/e3m2x4/e2m1x4"}}},
};

static_assert(AllSet(kMoveRows));

}  // namespace

std::span<const Row> MoveRows() { return kMoveRows; }

}  // namespace tilelang::emulator::isa
