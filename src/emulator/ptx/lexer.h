// Splits PTX text into tokens.
#ifndef TILELANG_EMULATOR_PTX_LEXER_H_
#define TILELANG_EMULATOR_PTX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilelang::emulator::ptx {

enum class TokenKind : uint8_t {
  kIdentifier,  // also registers: %r1, $L__BB0_1, %%px
  kDotted,      // .name or .name::part, text without the dot
  kInteger,     // bits
  kFloat,       // real, or bits with float_bits 32/64 for 0f/0d spellings
  kString,
  kPunctuation,  // one character
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  int line = 0;
  uint64_t bits = 0;
  double real = 0;
  int float_bits = 0;
};

// Comments and white space vanish; throws EmulatorError("syntax"). Views point into `text`.
std::vector<Token> Tokenize(const std::string& text);

}  // namespace tilelang::emulator::ptx

#endif  // TILELANG_EMULATOR_PTX_LEXER_H_
