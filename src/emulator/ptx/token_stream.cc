#include "emulator/ptx/token_stream.h"

#include <sstream>

#include "emulator/base/error.h"

namespace tilelang::emulator::ptx {
namespace {

// Far more than compilers nest, far less than what fills a stack.
constexpr int kMaxNesting = 64;

}  // namespace

TokenStream::TokenStream(const std::string& text) : tokens_(Tokenize(text)) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
}

const Token& TokenStream::Advance() {
  const Token& token = Peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TokenStream::IsPunctuation(char c, size_t ahead) const {
  const Token& token = Peek(ahead);
  return token.kind == TokenKind::kPunctuation && token.text[0] == c;
}

bool TokenStream::Accept(char c) {
  if (!IsPunctuation(c)) return false;
  Advance();
  return true;
}

void TokenStream::Expect(char c) {
  if (Accept(c)) return;
  Error(std::string("expected '") + c + "' but found '" + std::string(Peek().text) + "'");
}

bool TokenStream::IsDotted(std::string_view name) const {
  return Peek().kind == TokenKind::kDotted && Peek().text == name;
}

bool TokenStream::AcceptDotted(std::string_view name) {
  if (!IsDotted(name)) return false;
  Advance();
  return true;
}

std::string TokenStream::Identifier() {
  if (Peek().kind != TokenKind::kIdentifier) {
    Error("expected a name but found '" + std::string(Peek().text) + "'");
  }
  return std::string(Advance().text);
}

uint64_t TokenStream::Integer() {
  const bool negative = Accept('-');
  if (Peek().kind != TokenKind::kInteger) {
    Error("expected an integer but found '" + std::string(Peek().text) + "'");
  }
  const uint64_t value = Advance().bits;
  return negative ? -value : value;
}

int64_t TokenStream::IntegerIn(int64_t low, int64_t high, const std::string& what) {
  const bool negative = IsPunctuation('-');
  const std::string text =
      std::string(negative ? "-" : "") + std::string(Peek(negative ? 1 : 0).text);
  const int64_t value = static_cast<int64_t>(Integer());
  // Integers from 2^63 on have turned negative.
  const bool wrapped = !negative && value < 0;
  if (!wrapped && value >= low && value <= high) return value;
  --position_;  // the error is at the number, not after it
  Error(what + " must be " + std::to_string(low) + " to " + std::to_string(high) + ", not " + text);
}

void TokenStream::Error(const std::string& message) const {
  Where where;
  where.ptx_line = Peek().line;
  if (where.ptx_line >= 1 && where.ptx_line <= static_cast<int>(lines_.size())) {
    where.ptx_text = lines_[static_cast<size_t>(where.ptx_line) - 1];
  }
  throw EmulatorError("syntax", message, where);
}

TokenStream::Level::Level(TokenStream& stream) : stream_(stream) {
  if (stream.depth_ >= kMaxNesting) {
    stream.Error("brackets and signs nest deeper than " + std::to_string(kMaxNesting) + " levels");
  }
  ++stream.depth_;
}

}  // namespace tilelang::emulator::ptx
