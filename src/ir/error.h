// Errors raised by the compiler core.
//
// A user error is a fault of the kernel being compiled: it names a class of `tilelang.errors`
// and carries the source span of the statement at fault. An internal error is a fault of ours.
// Both travel to Python as tvm-ffi errors: the kind is "tilelang.<Class>", and the first line of
// the message is "@span file:line:col:end_line:end_col" when the span is known.
#ifndef TILELANG_IR_ERROR_H_
#define TILELANG_IR_ERROR_H_

#include <tvm/ffi/error.h>

#include <sstream>
#include <string>

#include "ir/span.h"

namespace tilelang::ir {

// The classes of tilelang.errors that the core raises.
enum class ErrorClass {
  kSyntax,           // UnsupportedSyntaxError: a form of program that the compiler does not take
  kDType,            // DTypeError
  kShape,            // ShapeError: ranks, extents, slices
  kBounds,           // BoundsError: constant indices outside a buffer
  kScope,            // ScopeError: names used outside of where they exist, wrong memory scopes
  kLayout,           // LayoutError: layouts that cannot be reconciled
  kResource,         // ResourceError: shared memory, registers, threads, tensor memory
  kTarget,           // TargetError: not on this architecture
  kSemantics,        // SemanticsError: everything else that is wrong with a kernel
  kSynchronization,  // SynchronizationError: accesses of a compiled kernel that nothing orders
};

[[noreturn]] void ThrowUserError(ErrorClass error_class, const Span& span,
                                 const std::string& message);
[[noreturn]] void RethrowAt(const Span& span, const ffi::Error& error);
[[noreturn]] void ThrowInternalError(const Span& span, const std::string& message);

// Runs `fn`; a user error without a place that it throws (the layout algebra knows of none) gets
// this one.
template <typename Fn>
auto WithPlace(const Span& span, Fn fn) {
  try {
    return fn();
  } catch (const ffi::Error& error) {
    RethrowAt(span, error);
  }
}

// Builds a message with operator<< and throws in its destructor's place: see TL_USER_ERROR.
class ErrorStream {
 public:
  template <typename T>
  ErrorStream& operator<<(const T& value) {
    stream_ << value;
    return *this;
  }
  std::string str() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
};

// TL_USER_ERROR(kShape, span, "copy of " << a << " to " << b);
#define TL_USER_ERROR(error_class, span, message)                                 \
  ::tilelang::ir::ThrowUserError(::tilelang::ir::ErrorClass::error_class, (span), \
                                 (::tilelang::ir::ErrorStream() << message).str())
// An invariant of ours; `condition` false is a bug of the compiler.
#define TL_CHECK(condition, span, message)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      ::tilelang::ir::ThrowInternalError((span),                                            \
                                         (::tilelang::ir::ErrorStream() << message).str()); \
    }                                                                                       \
  } while (false)

}  // namespace tilelang::ir

#endif  // TILELANG_IR_ERROR_H_
