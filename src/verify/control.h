// Finds the statements that decide what other statements of a launch do.
#ifndef TILELANG_VERIFY_CONTROL_H_
#define TILELANG_VERIFY_CONTROL_H_

#include <unordered_map>
#include <unordered_set>

#include "ir/stmt.h"

namespace tilelang::verify {

// Statements that hold operations (verify/operation.h), leave loops, choose which of two accesses
// of shared memory all threads execute, or set memory of the thread on which such statements and
// the indices of shared memory depend. All others are bodies of work.
class Control {
 public:
  explicit Control(const ir::KernelLaunchNode* launch);
  bool Has(const ir::Stmt& s) const { return control_.count(s.get()) != 0; }

 private:
  // Returns whether all threads that get to the branch take the same side in each execution, and no
  // thread on one side runs beside a thread on the other side.
  bool IsChoice(const ir::Stmt& branch) const { return choices_.count(branch.get()) != 0; }

  friend class ControlFinder;
  std::unordered_set<const ir::ffi::Object*> choices_;
  std::unordered_set<const ir::ffi::Object*> control_;
  std::unordered_set<const ir::ffi::Object*> needed_;  // variables and buffers of the thread
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_CONTROL_H_
