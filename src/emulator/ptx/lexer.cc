#include "emulator/ptx/lexer.h"

#include <cctype>
#include <charconv>
#include <cstdlib>

#include "emulator/base/error.h"

namespace tilelang::emulator::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

// Begins a comment that holds an instruction for the emulator (instructions/tile_index.cc).
constexpr std::string_view kForUs = "//@ tilelang.";
constexpr size_t kMark = 4;  // "//@ "

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {}

  std::vector<Token> Run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4);
    while (SkipSpace()) {
      tokens.push_back(Next());
    }
    Token end;
    end.line = line_;
    tokens.push_back(end);
    return tokens;
  }

 private:
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  [[noreturn]] void Error(const std::string& message) const {
    Where where;
    where.ptx_line = line_;
    throw EmulatorError("syntax", message, where);
  }

  void SkipBlockComment() {
    position_ += 2;
    while (position_ < text_.size() && !(At(position_) == '*' && At(position_ + 1) == '/')) {
      line_ += At(position_) == '\n';
      ++position_;
    }
    if (position_ >= text_.size()) Error("unterminated comment");
    position_ += 2;
  }

  // False at the end of the text.
  bool SkipSpace() {
    while (position_ < text_.size()) {
      char c = text_[position_];
      if (c == '\n') {
        ++line_;
        ++position_;
      } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
        ++position_;
      } else if (c == '/' && text_.compare(position_, kForUs.size(), kForUs) == 0) {
        position_ += kMark;
      } else if (c == '/' && At(position_ + 1) == '/') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == '/' && At(position_ + 1) == '*') {
        SkipBlockComment();
      } else {
        return true;
      }
    }
    return false;
  }

  Token Make(TokenKind kind, size_t begin) const {
    Token token;
    token.kind = kind;
    token.text = std::string_view(text_).substr(begin, position_ - begin);
    token.line = line_;
    return token;
  }

  Token Next() {
    char c = text_[position_];
    size_t begin = position_;
    if (IsWordStart(c) ||
        ((c == '%' || c == '$') && (IsWord(At(begin + 1)) || At(begin + 1) == '%'))) {
      while (At(position_) == '%') ++position_;
      while (IsWord(At(position_))) ++position_;
      return Make(TokenKind::kIdentifier, begin);
    }
    if (c == '.' && (IsWord(At(begin + 1)))) return Dotted(begin);
    if (IsDigit(c)) return Number(begin);
    if (c == '"') return String(begin);
    ++position_;
    return Make(TokenKind::kPunctuation, begin);
  }

  Token Dotted(size_t begin) {
    ++position_;
    while (true) {
      while (IsWord(At(position_))) ++position_;
      if (At(position_) != ':' || At(position_ + 1) != ':' || !IsWord(At(position_ + 2))) break;
      position_ += 2;
    }
    Token token = Make(TokenKind::kDotted, begin);
    token.text.remove_prefix(1);
    return token;
  }

  Token String(size_t begin) {
    ++position_;
    while (position_ < text_.size() && text_[position_] != '"') {
      if (text_[position_] == '\\') ++position_;
      line_ += At(position_) == '\n';
      ++position_;
    }
    if (position_ >= text_.size()) Error("unterminated string");
    ++position_;
    Token token = Make(TokenKind::kString, begin);
    token.text.remove_prefix(1);
    token.text.remove_suffix(1);
    return token;
  }

  Token ExactFloat(size_t begin, int digits) {
    position_ += 2;
    while (std::isxdigit(static_cast<unsigned char>(At(position_)))) ++position_;
    if (position_ - begin != static_cast<size_t>(digits) + 2) Error("malformed float constant");
    Token token = Make(TokenKind::kFloat, begin);
    token.bits = std::strtoull(std::string(token.text.substr(2)).c_str(), nullptr, 16);
    token.float_bits = digits * 4;
    return token;
  }

  // Digits of `base` from the current place on; what does not fit 64 bits is an error.
  uint64_t Digits(int base) {
    const char* first = text_.data() + position_;
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), bits, base);
    if (error == std::errc::result_out_of_range) Error("integer constant of more than 64 bits");
    if (error != std::errc()) Error("malformed integer constant");
    position_ += static_cast<size_t>(end - first);
    return bits;
  }

  Token Integer(size_t begin, int base, size_t prefix) {
    position_ += prefix;
    const uint64_t bits = Digits(base);
    if (At(position_) == 'U' || At(position_) == 'u') ++position_;
    Token token = Make(TokenKind::kInteger, begin);
    token.bits = bits;
    return token;
  }

  // 1.5, 1e10: digits, then a point and a digit, or an exponent.
  bool IsDecimalFloat() const {
    size_t at = position_;
    while (IsDigit(At(at))) ++at;
    return At(at) == 'e' || At(at) == 'E' || (At(at) == '.' && IsDigit(At(at + 1)));
  }

  Token DecimalFloat(size_t begin) {
    const char* first = text_.data() + begin;
    double real = 0;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), real);
    if (error != std::errc()) Error("malformed float constant, or one out of the range of f64");
    position_ = begin + static_cast<size_t>(end - first);
    Token token = Make(TokenKind::kFloat, begin);
    token.real = real;
    return token;
  }

  Token Number(size_t begin) {
    const char next = At(begin + 1);
    if (text_[begin] == '0') {
      if (next == 'f' || next == 'F') return ExactFloat(begin, 8);
      if (next == 'd' || next == 'D') return ExactFloat(begin, 16);
      if (next == 'x' || next == 'X') return Integer(begin, 16, 2);
      if (next == 'b' || next == 'B') return Integer(begin, 2, 2);
    }
    if (IsDecimalFloat()) return DecimalFloat(begin);
    return Integer(begin, text_[begin] == '0' ? 8 : 10, 0);
  }

  const std::string& text_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> Tokenize(const std::string& text) { return Lexer(text).Run(); }

}  // namespace tilelang::emulator::ptx
