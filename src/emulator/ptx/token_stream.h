// The tokens of a PTX text and a place among them, for recursive descent.
#ifndef TILELANG_EMULATOR_PTX_TOKEN_STREAM_H_
#define TILELANG_EMULATOR_PTX_TOKEN_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/lexer.h"

namespace tilelang::emulator::ptx {

class TokenStream {
 public:
  // `text` must live as long as the stream.
  explicit TokenStream(const std::string& text);

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  bool AtEnd() const { return Peek().kind == TokenKind::kEnd; }
  // Stays at the end of the text: a loop that advances must look for it.
  const Token& Advance();
  bool Accept(char c);
  void Expect(char c);
  bool IsPunctuation(char c, size_t ahead = 0) const;
  bool IsDotted(std::string_view name) const;
  bool AcceptDotted(std::string_view name);
  std::string Identifier();
  // Two's complement: -1 is 2^64 - 1.
  uint64_t Integer();
  // Reads an integer. Outside of [low, high] it is an error that calls the number `what`.
  int64_t IntegerIn(int64_t low, int64_t high, const std::string& what);
  // Throws EmulatorError("syntax") at the line of the next token.
  [[noreturn]] void Error(const std::string& message) const;

  // One level of brackets or signs while it lives; too many are an error.
  class Level {
   public:
    explicit Level(TokenStream& stream);
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

  // The text, for error messages.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<Token> tokens_;
  std::vector<std::string> lines_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace tilelang::emulator::ptx

#endif  // TILELANG_EMULATOR_PTX_TOKEN_STREAM_H_
