// The tables behind forms.h. A row says: these instructions, with one of these type lists, take
// these modifiers, in any order. Instructions are named as their families (core/decoder.h).
#ifndef TILELANG_EMULATOR_CORE_FORM_TABLES_H_
#define TILELANG_EMULATOR_CORE_FORM_TABLES_H_

#include <span>
#include <vector>

namespace tilelang::emulator {

// `types`: alternatives apart by spaces; each a list "f32.f16", a position may be "f16/bf16" or a
// name of kNamedAlternatives. `modifiers`: groups apart by spaces, of each group "rn/rz" exactly
// one, of "ftz?" at most one.
struct FormRow {
  const char* opcodes;
  const char* types;
  const char* modifiers;
};

struct NamedAlternatives {
  const char* name;
  const char* expansion;
};

inline constexpr NamedAlternatives kNamedAlternatives[] = {
    {"int", "u8/s8/u16/s16/u32/s32/u64/s64"},
    {"round", "rn/rz/rm/rp"},
    {"integral", "rni/rzi/rmi/rpi"},
    {"ordered", "eq/ne/lt/le/gt/ge"},
    {"combine", "and/or/xor"},
    {"scope", "cta/cluster/gpu/sys"},
    {"space",
     "global/shared/shared::cta/shared::cluster/local/param/param::entry/param::func/const"},
    {"writable", "global/shared/shared::cta/shared::cluster/local/param/param::func"},
    {"sharable", "global/shared/shared::cta/shared::cluster"},
    {"atomic", "relaxed/acquire/release/acq_rel"},
    {"any8", "b8/u8/s8"},
    {"any16", "b16/u16/s16"},
    {"any32", "b32/u32/s32/f32"},
    {"any64", "b64/u64/s64/f64"},
    {"l1", "L1::evict_normal/L1::evict_unchanged/L1::evict_first/L1::evict_last/L1::no_allocate"},
    {"l2", "L2::evict_normal/L2::evict_first/L2::evict_last"},
    {"prefetch", "L2::64B/L2::128B/L2::256B"},
};

std::span<const FormRow> ArithmeticForms();
std::span<const FormRow> ConversionForms();
std::span<const FormRow> MemoryForms();

inline std::vector<std::span<const FormRow>> FormTables() {
  return {ArithmeticForms(), ConversionForms(), MemoryForms()};
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_FORM_TABLES_H_
