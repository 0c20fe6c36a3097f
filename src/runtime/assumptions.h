// Facts of `T.assume` that hold or fail for a call as a whole: the host checks them.
#ifndef TILELANG_RUNTIME_ASSUMPTIONS_H_
#define TILELANG_RUNTIME_ASSUMPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "runtime/arguments.h"

namespace tilelang::runtime {

// Returns the facts that every block of a launch states first or last, under no condition, and
// that depend only on integer parameters and on symbolic dimensions. The condition of an Assert
// also holds where the grid is empty; its message is the statement. Other facts stay unchecked:
// they depend on the block, the thread, a loop or memory.
ffi::Array<ir::Assert> AssumptionsOf(const ir::Func& program);

// The facts of a kernel in the form that checks them fast.
class Assumptions {
 public:
  Assumptions(const ffi::Array<ir::Assert>& facts, VarSlots* slots);

  // Throws tilelang.AssumptionError for the first fact that does not hold, with its line and the
  // values of its variables. Facts about the shape of a tensor that is passed as None hold.
  void Check(const CallState& state) const;

 private:
  struct Fact {
    HostExpr holds;
    std::string text;
    ir::Span span;
    std::vector<std::pair<std::string, int>> variables;  // name, slot

    bool IsUndetermined(const CallState& state) const;
  };
  std::vector<Fact> facts_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_ASSUMPTIONS_H_
