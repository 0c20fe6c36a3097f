#include "codegen/names.h"

#include <cctype>

#include "ir/intrinsics.h"

namespace tilelang {

namespace {

const std::unordered_set<std::string>& Reserved() {
  static const auto* words = [] {
    auto* set = new std::unordered_set<std::string>{
        "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char",
        "class", "concept", "const", "consteval", "constexpr", "constinit", "continue", "decltype",
        "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern",
        "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
        "namespace", "new", "noexcept", "not", "nullptr", "operator", "or", "private", "protected",
        "public", "register", "requires", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "template", "this", "throw", "true", "try", "typedef", "typeid", "typename",
        "union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor",
        // CUDA and the device headers.
        "tl", "smem", "half_t", "bfloat16_t", "fp8_e4_t", "fp8_e5_t", "threadIdx", "blockIdx",
        "blockDim", "gridDim", "warpSize", "min", "max", "dim3", "CUtensorMap", "printf", "assert",
        "main", "j0", "j1", "jn", "y0", "y1", "yn", "signbit", "int2", "int4", "uint2", "uint4",
        "float2", "float4", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t",
        "uint32_t", "uint64_t", "INFINITY", "NAN", "TL_DEVICE", "block_index"};
    for (const ir::Intrinsic& intrinsic : ir::AllIntrinsics()) {
      set->insert(std::string(intrinsic.spelling));
      set->insert(std::string(intrinsic.spelling) + "f");
    }
    return set;
  }();
  return *words;
}

// Any text as an identifier.
std::string Identifier(const std::string& text) {
  std::string result;
  for (char c : text) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "v" + result;
  // Names with two leading underscores belong to the implementation.
  if (result.rfind("__", 0) == 0) result = "v" + result;
  return result;
}

}  // namespace

const std::string& Names::Of(const ffi::Object* node, const ffi::String& wanted) {
  auto it = names_.find(node);
  if (it == names_.end()) it = names_.emplace(node, Fresh(wanted)).first;
  return it->second;
}

std::string Names::Fresh(const std::string& wanted) {
  std::string base = Identifier(wanted);
  std::string name = base;
  for (int i = 1; Reserved().count(name) || !used_.insert(name).second; ++i) {
    name = base + "_" + std::to_string(i);
  }
  return name;
}

}  // namespace tilelang
