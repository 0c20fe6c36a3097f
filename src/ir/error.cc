#include "ir/error.h"

#include <tvm/ffi/error.h>

namespace tilelang::ir {

namespace {

const char* ClassName(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::kSyntax:
      return "tilelang.UnsupportedSyntaxError";
    case ErrorClass::kDType:
      return "tilelang.DTypeError";
    case ErrorClass::kShape:
      return "tilelang.ShapeError";
    case ErrorClass::kBounds:
      return "tilelang.BoundsError";
    case ErrorClass::kScope:
      return "tilelang.ScopeError";
    case ErrorClass::kLayout:
      return "tilelang.LayoutError";
    case ErrorClass::kResource:
      return "tilelang.ResourceError";
    case ErrorClass::kTarget:
      return "tilelang.TargetError";
    case ErrorClass::kSemantics:
      return "tilelang.SemanticsError";
    case ErrorClass::kSynchronization:
      return "tilelang.SynchronizationError";
  }
  return "tilelang.InternalError";
}

std::string WithSpan(const Span& span, const std::string& message) {
  if (!span.defined()) return message;
  std::ostringstream os;
  os << "@span " << std::string(span->file) << ":" << span->line << ":" << span->column << ":"
     << span->end_line << ":" << span->end_column << "\n"
     << message;
  return os.str();
}

}  // namespace

void ThrowUserError(ErrorClass error_class, const Span& span, const std::string& message) {
  throw ffi::Error(ClassName(error_class), WithSpan(span, message), "");
}

void RethrowAt(const Span& span, const ffi::Error& error) {
  std::string kind(error.kind());
  std::string message(error.message());
  bool placed = message.rfind("@span", 0) == 0;
  if (placed || kind.rfind("tilelang.", 0) != 0 || kind == "tilelang.InternalError") throw error;
  throw ffi::Error(kind, WithSpan(span, message), "");
}

void ThrowInternalError(const Span& span, const std::string& message) {
  throw ffi::Error("tilelang.InternalError", WithSpan(span, message), "");
}

}  // namespace tilelang::ir
