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

  // Returns the source for people, with "// file.py:12" above the code of each Python line.
  std::string Readable() const;
  // Returns the source for the compiler, with a "#line" directive wherever the line does not follow
  // from the previous one.
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
