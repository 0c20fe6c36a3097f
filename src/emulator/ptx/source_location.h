// The place of an instruction in the source, by the .loc directives in front of it.
#ifndef TILELANG_EMULATOR_PTX_SOURCE_LOCATION_H_
#define TILELANG_EMULATOR_PTX_SOURCE_LOCATION_H_

#include <compare>
#include <map>

namespace tilelang::emulator::ptx {

struct SourceLocation {
  int file = 0, line = 0, column = 0;
  auto operator<=>(const SourceLocation&) const = default;
};

// Follows the .loc directives of one function. Code of an inlined function names, after
// `inlined_at`, the call that it replaces; that may be inlined code in its turn, as an earlier
// directive has told. The user's line is the innermost one in the file that the function itself is
// written in: not the line of a library header, but that of the call.
class SourceLocations {
 public:
  void StartFunction() { *this = SourceLocations(); }
  // `call`: the operand of `inlined_at`, or nullptr.
  void Set(const SourceLocation& here, const SourceLocation* call) {
    exact_ = here;
    if (call) {
      calls_[here] = *call;
    } else {
      calls_.erase(here);
      if (home_ == 0 && here.line > 0) home_ = here.file;
    }
    SourceLocation at = here;
    for (size_t depth = 0; depth <= calls_.size(); ++depth) {
      if (at.line > 0 && (at.file == home_ || home_ == 0)) {
        user_ = at;
        return;
      }
      const auto found = calls_.find(at);
      if (found == calls_.end()) return;  // generated code: the line before is the nearest
      at = found->second;
    }
  }
  const SourceLocation& exact() const { return exact_; }
  const SourceLocation& user() const { return user_; }

 private:
  std::map<SourceLocation, SourceLocation> calls_;
  int home_ = 0;  // the file of the function's own code
  SourceLocation exact_, user_;
};

}  // namespace tilelang::emulator::ptx

#endif  // TILELANG_EMULATOR_PTX_SOURCE_LOCATION_H_
