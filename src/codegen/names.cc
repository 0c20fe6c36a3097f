#include "codegen/names.h"

#include <cctype>
#include <cstdint>
#include <cstdio>

#include "ir/intrinsics.h"

namespace tilelang {

namespace {

const std::unordered_set<std::string>& Reserved() {
  static const auto* words = [] {
    auto* set = new std::unordered_set<std::string>{
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
        "case", "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await",
        "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
        "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double",
        "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
        "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
        "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
        "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static",
        "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local",
        "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned",
        "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
        // Macros that are not told by their spelling: of NVRTC, of other compilers, of headers.
        "INFINITY", "NAN", "NULL", "EOF", "assert", "errno", "i386", "linux", "stderr", "stdin",
        "stdout", "unix", "va_arg", "va_copy", "va_end", "va_start",
        // CUDA and the device headers.
        "tl", "smem", "half_t", "bfloat16_t", "fp8_e4_t", "fp8_e5_t", "threadIdx", "blockIdx",
        "blockDim", "gridDim", "warpSize", "min", "max", "dim3", "CUtensorMap", "printf", "main",
        "j0", "j1", "jn", "y0", "y1", "yn", "signbit", "int2", "int4", "uint2", "uint3", "uint4",
        "float2", "float4", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t",
        "uint32_t", "uint64_t", "block_index"};
    for (const ir::Intrinsic& intrinsic : ir::AllIntrinsics()) {
      set->insert(std::string(intrinsic.spelling));
      set->insert(std::string(intrinsic.spelling) + "f");
    }
    return set;
  }();
  return *words;
}

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// Returns whether a name may be a macro: a name of the implementation or of NVRTC's headers, or,
// since a kernel may import any header, a conventional macro name such as CHAR_BIT.
bool MayBeMacro(const std::string& name) {
  for (const char* prefix : {"NV_", "CUDA", "TL_"}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  bool has_words = false;  // A_1 is the second A
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '_' && IsUpper(name[i + 1])) has_words = true;
    bool is_digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    if (!IsUpper(name[i]) && name[i] != '_' && !is_digit) return false;
  }
  return has_words && IsUpper(name[0]);
}

// The code point that starts at text[*at] in UTF-8; moves to its last byte.
uint32_t CodePoint(const std::string& text, size_t* at) {
  auto first = static_cast<unsigned char>(text[*at]);
  int following = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  uint32_t point = first & (0x3f >> following);
  for (int i = 0; i < following && *at + 1 < text.size(); ++i) {
    point = point << 6 | (static_cast<unsigned char>(text[++*at]) & 0x3f);
  }
  return point;
}

}  // namespace

std::string Identifier(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      char hex[16];
      std::snprintf(hex, sizeof(hex), "u%04x", CodePoint(text, &i));
      result += hex;
    } else {
      result += std::isalnum(c) ? text[i] : '_';
    }
  }
  bool starts_badly = result.empty() || std::isdigit(static_cast<unsigned char>(result[0]));
  // C++ reserves these names for the implementation.
  bool is_reserved =
      result.size() > 1 && result[0] == '_' && (result[1] == '_' || IsUpper(result[1]));
  return starts_badly || is_reserved ? "v" + result : result;
}

const std::string& Names::Of(const ffi::Object* node, const ffi::String& wanted) {
  auto it = names_.find(node);
  if (it == names_.end()) it = names_.emplace(node, Fresh(wanted)).first;
  return it->second;
}

std::string Names::Fresh(const std::string& wanted) {
  std::string base = Identifier(wanted);
  std::string name = base;
  auto is_taken = [&] {
    return Reserved().count(name) || MayBeMacro(name) || !used_.insert(name).second;
  };
  if (MayBeMacro(name)) name = base = "v_" + base;
  for (int i = 1; is_taken(); ++i) name = base + "_" + std::to_string(i);
  return name;
}

}  // namespace tilelang
