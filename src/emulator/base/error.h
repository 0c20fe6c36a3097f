// The one exception type of the emulator: what went wrong and where in the emulated program.
#ifndef TILELANG_EMULATOR_BASE_ERROR_H_
#define TILELANG_EMULATOR_BASE_ERROR_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace tilelang::emulator {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

// Place of an error in the emulated machine. Fields that do not apply keep their defaults.
struct Where {
  std::string kernel;
  int ptx_line = 0;
  std::string ptx_text;
  std::string source_file;
  int source_line = 0;       // the user's line
  std::string inlined_file;  // of the function inlined there, if the instruction is part of one
  int inlined_line = 0;
  bool in_cta = false;
  Dim3 cta{0, 0, 0};
  int warp = -1;
  int lane = -1;
  bool has_address = false;
  uint64_t address = 0;
  std::string buffer;
};

// `kind` is a short stable name that tests and users can match: "out-of-bounds", "misaligned",
// "deadlock", "unsupported", "syntax", "divergence", "illegal-operand", "mbarrier", "tmem", ...
class EmulatorError : public std::runtime_error {
 public:
  EmulatorError(std::string kind, const std::string& message, Where where = {})
      : std::runtime_error(message), kind(std::move(kind)), where(std::move(where)) {}

  // The message followed by one line for each known part of `where`.
  std::string Report() const;

  std::string kind;
  Where where;
  std::optional<Where> earlier;  // the other of two accesses that conflict
};

// Returns the exception that is being handled as an EmulatorError. An EmulatorError stays itself, a
// failed allocation is "out-of-memory", and everything else is "internal", a defect of the
// emulator. `doing` says during what, for example "loading PTX".
EmulatorError CurrentError(const std::string& doing);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_BASE_ERROR_H_
