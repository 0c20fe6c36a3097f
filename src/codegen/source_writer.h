// Collects lines of generated source and where each comes from.
#ifndef TILELANG_CODEGEN_SOURCE_WRITER_H_
#define TILELANG_CODEGEN_SOURCE_WRITER_H_

#include <string>
#include <vector>

#include "ir/span.h"

namespace tilelang {

namespace ffi = tvm::ffi;

class SourceWriter {
 public:
  // The Python source of the lines that follow; null: none in particular.
  void SetSpan(const ir::Span& span) { span_ = span; }
  const ir::Span& span() const { return span_; }

  void Line(const std::string& text);
  // A line that opens a block: "text {", and the line that closes it.
  void Open(const std::string& text);
  void Close(const std::string& text = "}");
  void Indent() { ++indent_; }
  void Dedent() { --indent_; }
  void Append(const SourceWriter& other);

  // For people: "// file.py:12" above the code of each Python line.
  std::string Readable() const;
  // For the compiler: "#line" directives wherever the line of a file does not follow by itself.
  std::string WithLineDirectives() const;

 private:
  struct SourceLine {
    std::string text;
    ir::Span span;
  };
  std::vector<SourceLine> lines_;
  ir::Span span_;
  int indent_ = 0;
};

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_SOURCE_WRITER_H_
