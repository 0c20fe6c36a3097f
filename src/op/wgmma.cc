#include "op/wgmma.h"

#include <array>

namespace tilelang::op {

using ir::DType;
using namespace ir::dtypes;  // NOLINT(google-build-using-namespace)

namespace {

struct TypeRow {
  DType type;
  const char* name;
};

constexpr std::array<TypeRow, 7> kOperands = {{{kFloat16, "f16"},
                                               {kBFloat16, "bf16"},
                                               {kFloat32, "tf32"},
                                               {kFloat8E4M3, "e4m3"},
                                               {kFloat8E5M2, "e5m2"},
                                               {kInt8, "s8"},
                                               {kUInt8, "u8"}}};

std::string OperandName(DType type) {
  for (const TypeRow& row : kOperands) {
    if (row.type == type) return row.name;
  }
  return "";
}

bool IsInteger8(DType t) { return t == kInt8 || t == kUInt8; }

// Returns the ".dtype" of the accumulators, or an empty string if the instruction does not have
// that type.
std::string AccumulatorName(DType a, DType b, DType c) {
  bool floats8 = ir::IsFloat8(a) && ir::IsFloat8(b);
  if (IsInteger8(a) && IsInteger8(b)) return c == kInt32 ? "s32" : "";
  if ((a != b && !floats8) || OperandName(a).empty()) return "";
  if (c == kFloat32) return "f32";
  return c == kFloat16 && (floats8 || a == kFloat16) ? "f16" : "";
}

// Lists items separated by commas, in lines of `per_line` items.
template <typename Item>
std::string List(int64_t count, int64_t per_line, const std::string& line_end,
                 const std::string& line_begin, Item item) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += i % per_line == 0 ? "," + line_end + line_begin : ", ";
    text += item(i);
  }
  return text;
}

std::string ShapeText(const WgmmaForm& form) {
  int64_t k = form.kind.atom.K() * (form.sparse_selector < 0 ? 1 : 2);
  return "m64n" + std::to_string(form.n) + "k" + std::to_string(k);
}

// Returns the immediates: scales of A and B, and which operands in shared memory are transposed.
std::string Immediates(const WgmmaForm& form) {
  if (form.kind.IsInteger()) return "";
  std::string text = ", 1, 1";
  if (!form.kind.HasMnMajor()) return text;
  if (!form.a_in_registers) text += form.a_mn_major ? ", 1" : ", 0";
  return text + (form.b_mn_major ? ", 1" : ", 0");
}

}  // namespace

bool WgmmaKind::HasWidth(int64_t n) const {
  bool step = n % 8 == 0 && n > 0 && n <= 256;
  return step && (!IsInteger() || n <= 16 || n == 24 || n % 16 == 0);
}

std::optional<WgmmaKind> ChooseWgmmaKind(DType a, DType b, DType c) {
  WgmmaKind kind{
      OperandName(a), OperandName(b), AccumulatorName(a, b, c), {2, 2, 4 / ir::Bytes(a)}};
  if (kind.d.empty()) return std::nullopt;
  return kind;
}

std::string WgmmaFunctionName(const WgmmaForm& form) {
  bool sparse = form.sparse_selector >= 0;
  std::string name = (sparse ? "wgmma_sp" + std::to_string(form.sparse_selector) + "_" : "wgmma_") +
                     ShapeText(form) + "_" + form.kind.d + "_" + form.kind.a + "_" + form.kind.b +
                     (form.a_in_registers ? "_rs" : "_ss");
  if (form.a_mn_major) name += "_ta";
  if (form.b_mn_major) name += "_tb";
  if (form.overwrites) name += "_overwrite";
  return name;
}

std::string WgmmaFunction(const WgmmaForm& form) {
  const WgmmaKind& kind = form.kind;
  int64_t count = kind.Registers(form.n);
  bool is_float = kind.d == "f32";
  auto operand = [](int64_t i) { return "%" + std::to_string(i); };
  bool sparse = form.sparse_selector >= 0;
  // B comes first, then the metadata, then the predicate.
  int64_t next = count + (form.a_in_registers ? 4 : 1);
  std::string a =
      form.a_in_registers
          ? "{" + List(4, 4, "", "", [&](int64_t i) { return operand(count + i); }) + "}"
          : operand(count);
  std::string inputs =
      form.a_in_registers
          ? List(4, 4, "", "", [](int64_t i) { return "\"r\"(a[" + std::to_string(i) + "])"; })
          : "\"l\"(a)";
  std::string registers = List(count, 12, "\"\n", "      \" ", operand);
  std::string outputs = List(count, 6, "\n", "        ", [&](int64_t i) {
    return std::string("\"") + (form.overwrites ? "=" : "+") + (is_float ? "f" : "r") + "\"(d[" +
           std::to_string(i) + "])";
  });
  std::string text =
      "namespace tl {\nTL_DEVICE void " + WgmmaFunctionName(form) + "(void* accumulators, ";
  text += form.a_in_registers ? "const void* a_registers, " : "uint64_t a, ";
  text += sparse ? "uint64_t b, const void* metadata" : "uint64_t b";
  text += form.overwrites ? ") {\n" : ",\n    bool accumulate) {\n";
  text += std::string("  auto* d = static_cast<") + (is_float ? "float" : "uint32_t") +
          "*>(accumulators);\n";
  if (form.a_in_registers) text += "  auto* a = static_cast<const uint32_t*>(a_registers);\n";
  text += "  asm volatile(\n";
  std::string accumulate = form.overwrites ? "0" : operand(next + (sparse ? 2 : 1));
  text += "      \"{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, " + accumulate + ", 0;\\n\\t\"\n";
  text += std::string("      \"wgmma.mma_async.") + (sparse ? "sp." : "") + "sync.aligned." +
          ShapeText(form) + "." + kind.d + "." + kind.a + "." + kind.b + "\"\n";
  text += "      \" {" + registers + "},\"\n";
  std::string metadata =
      sparse ? ", " + operand(next + 1) + ", " + std::to_string(form.sparse_selector) : "";
  text +=
      "      \" " + a + ", " + operand(next) + metadata + ", p" + Immediates(form) + ";\\n\\t}\"\n";
  text += "      : " + outputs + "\n";
  text += "      : " + inputs + ", \"l\"(b)";
  if (sparse) text += ", \"r\"(*static_cast<const uint32_t*>(metadata))";
  if (!form.overwrites) text += ", \"r\"(static_cast<uint32_t>(accumulate))";
  text += ");\n}\n";
  return text + "}  // namespace tl";
}

}  // namespace tilelang::op
