#include "emulator/base/types.h"

namespace tilelang::emulator {
namespace {

struct TypeInfo {
  Type type;
  const char* name;
  int bits;
  bool is_float, is_signed;
};

constexpr TypeInfo kTypes[] = {
    {Type::kPred, "pred", 1, false, false},    {Type::kB8, "b8", 8, false, false},
    {Type::kB16, "b16", 16, false, false},     {Type::kB32, "b32", 32, false, false},
    {Type::kB64, "b64", 64, false, false},     {Type::kB128, "b128", 128, false, false},
    {Type::kU8, "u8", 8, false, false},        {Type::kU16, "u16", 16, false, false},
    {Type::kU32, "u32", 32, false, false},     {Type::kU64, "u64", 64, false, false},
    {Type::kS8, "s8", 8, false, true},         {Type::kS16, "s16", 16, false, true},
    {Type::kS32, "s32", 32, false, true},      {Type::kS64, "s64", 64, false, true},
    {Type::kF16, "f16", 16, true, true},       {Type::kBF16, "bf16", 16, true, true},
    {Type::kTF32, "tf32", 32, true, true},     {Type::kF32, "f32", 32, true, true},
    {Type::kF64, "f64", 64, true, true},       {Type::kF16x2, "f16x2", 32, true, true},
    {Type::kBF16x2, "bf16x2", 32, true, true}, {Type::kF32x2, "f32x2", 64, true, true},
    {Type::kU16x2, "u16x2", 32, false, false}, {Type::kS16x2, "s16x2", 32, false, true},
    {Type::kE4M3, "e4m3", 8, true, true},      {Type::kE5M2, "e5m2", 8, true, true},
    {Type::kE4M3x2, "e4m3x2", 16, true, true}, {Type::kE5M2x2, "e5m2x2", 16, true, true},
    {Type::kE2M1x2, "e2m1x2", 8, true, true},  {Type::kE2M3x2, "e2m3x2", 16, true, true},
    {Type::kE3M2x2, "e3m2x2", 16, true, true}, {Type::kUE8M0x2, "ue8m0x2", 16, true, false},
    {Type::kS2F6x2, "s2f6x2", 16, true, true},
};

const TypeInfo* Find(Type type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

}  // namespace

Type ParseType(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (name == info.name) return info.type;
  }
  return Type::kNone;
}

const char* TypeName(Type type) {
  const TypeInfo* info = Find(type);
  return info ? info->name : "none";
}

int TypeBits(Type type) {
  const TypeInfo* info = Find(type);
  return info ? info->bits : 0;
}

bool IsFloat(Type type) {
  const TypeInfo* info = Find(type);
  return info && info->is_float;
}

bool IsSigned(Type type) {
  const TypeInfo* info = Find(type);
  return info && info->is_signed;
}

}  // namespace tilelang::emulator
