// JSON texts for Python.
#ifndef TILELANG_EMULATOR_BASE_JSON_H_
#define TILELANG_EMULATOR_BASE_JSON_H_

#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tilelang::emulator {

// Writes JSON objects and arrays in order, minding the commas.
class Json {
 public:
  Json& Open(char bracket) {
    Separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  Json& Close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  Json& Key(const std::string& name) {
    Separate();
    Quote(name);
    text_ += ':';
    first_ = true;
    return *this;
  }
  Json& Value(const std::string& value) {
    Separate();
    Quote(value);
    return *this;
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  Json& Value(T value) {
    Separate();
    text_ += std::to_string(value);
    return *this;
  }
  template <typename T>
  Json& Field(const std::string& name, const T& value) {
    return Key(name).Value(value);
  }
  Json& Field(const std::string& name, const std::vector<int>& values) {
    Key(name).Open('[');
    for (int value : values) Value(value);
    return Close(']');
  }
  std::string Take() { return std::move(text_); }

 private:
  void Separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  void Quote(const std::string& value) {
    text_ += '"';
    for (unsigned char c : value) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += static_cast<char>(c);
      } else if (c < 0x20 || c >= 0x7F) {
        // bytes of kernel output need not be UTF-8: each becomes one Latin-1 character
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", c);
        text_ += escape;
      } else {
        text_ += static_cast<char>(c);
      }
    }
    text_ += '"';
  }
  std::string text_;
  bool first_ = true;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_BASE_JSON_H_
