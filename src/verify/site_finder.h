// The accesses that statements make, as sites of a program.
#ifndef TILELANG_VERIFY_SITE_FINDER_H_
#define TILELANG_VERIFY_SITE_FINDER_H_

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "verify/operands.h"
#include "verify/program.h"

namespace tilelang::verify {

// Returns whether threads or engines touch shared memory in the statement.
bool TouchesShared(const ir::Stmt& s);

class SiteFinder {
 public:
  SiteFinder(const ir::KernelLaunchNode* launch, const Program* program);

  // Finds the accesses of a statement without operations: at most one read and one write of each
  // buffer.
  std::vector<Site> Find(const ir::Stmt& s) const;
  // Finds the accesses of an operation.
  std::vector<Site> FindOfOperation(const ir::Stmt& s, OperationKind kind) const;
  // Returns the variables from outside of a statement, and the buffers of its thread, that decide
  // what it touches of shared memory. Variables that have one value in a launch do not count.
  // Variables that differ by thread are replaced by the variables that they are computed from.
  std::vector<ir::ffi::ObjectRef> FreeOf(const ir::Stmt& s) const;

 private:
  bool IsTracked(const ir::Buffer& buffer) const {
    return buffer.IsShared() || registers_.count(buffer.get()) != 0;
  }
  Site MakeSite(const ir::Buffer& buffer, const ir::Span& span) const;
  // `number` counts the operands in shared memory.
  Site EngineSite(const ir::CallNode* call, const Operand& operand, size_t number,
                  OperationKind kind, const ir::Span& span) const;
  static Site TmemSite(const ir::CallNode* call, const Operand& operand, OperationKind kind,
                       const ir::Span& span);
  void AddRegisters(const ir::CallNode* call, const ir::Span& span, std::vector<Site>* sites) const;

  const Program* program_;
  OperandReader operands_;
  std::unordered_set<const ir::ffi::Object*> registers_;  // that wgmma reads and writes
  std::unordered_set<const ir::ffi::Object*> constant_;   // variables with one value in a launch
  std::unordered_map<const ir::ffi::Object*, ir::Expr> of_threads_;  // that differ by thread
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_SITE_FINDER_H_
