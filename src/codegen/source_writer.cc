#include "codegen/source_writer.h"

namespace tilelang {

namespace {

std::string FileName(const ir::Span& span) {
  std::string path = span->file;
  size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool SameLine(const ir::Span& a, const ir::Span& b) {
  return a.defined() && b.defined() && a->line == b->line && a->file == b->file;
}

// Inside quotes of a preprocessor directive.
std::string Quoted(const std::string& path) {
  std::string result = "\"";
  for (char c : path) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

size_t IndentOf(const std::string& text) {
  size_t indent = text.find_first_not_of(' ');
  return indent == std::string::npos ? 0 : indent;
}

}  // namespace

void SourceWriter::Line(const std::string& text) {
  bool flush_left = text.empty() || text[0] == '#';
  lines_.push_back({flush_left ? text : std::string(2 * indent_, ' ') + text, span_});
}

void SourceWriter::Open(const std::string& text) {
  Line(text + " {");
  ++indent_;
}

void SourceWriter::Close(const std::string& text) {
  --indent_;
  Line(text);
}

void SourceWriter::Append(const SourceWriter& other) {
  lines_.insert(lines_.end(), other.lines_.begin(), other.lines_.end());
}

std::string SourceWriter::Readable() const {
  std::string result;
  ir::Span last;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const SourceLine& line = lines_[i];
    bool closing = line.text.compare(IndentOf(line.text), 1, "}") == 0;
    if (line.span.defined() && !closing && !SameLine(line.span, last)) {
      // A pragma stands flush left: the comment takes the indentation of the loop below it.
      bool pragma = line.text[0] == '#' && i + 1 < lines_.size();
      result += std::string(IndentOf(pragma ? lines_[i + 1].text : line.text), ' ') + "// " +
                FileName(line.span) + ":" + std::to_string(line.span->line) + "\n";
      last = line.span;
    }
    result += line.text + "\n";
  }
  return result;
}

std::string SourceWriter::WithLineDirectives() const {
  std::string result;
  std::string file;
  int64_t expected = -1;  // the Python line that the compiler would count for the next line
  ir::Span span;          // of this line, or else of the last that had one
  for (const SourceLine& line : lines_) {
    if (line.span.defined()) span = line.span;
    if (span.defined() && (span->line != expected || span->file != file)) {
      file = span->file;
      expected = span->line;
      result += "#line " + std::to_string(expected) + " " + Quoted(file) + "\n";
    }
    result += line.text + "\n";
    ++expected;
  }
  return result;
}

}  // namespace tilelang
