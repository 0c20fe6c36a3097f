// Names for elements of tensors that a function only reads, so that the analyzer can keep what
// T.assume states about them.
#ifndef TILELANG_LOWER_NAMED_ELEMENTS_H_
#define TILELANG_LOWER_NAMED_ELEMENTS_H_

#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/visitor.h"

namespace tilelang::lower {

// Puts a variable in place of each load from a tensor parameter that no launch of the function
// writes, adds to or takes the address of, and whose memory no such tensor shares. Equal loads get
// the same variable, which is named like the load.
class NamedElements : public ir::StmtMutator {
 public:
  explicit NamedElements(const ir::Func& func);

  using StmtMutator::Mutate;
  using StmtMutator::Rewrite;
  ir::Expr Rewrite(const ir::LoadNode* op) override;

 private:
  std::unordered_set<const ir::ffi::Object*> read_only_;
  std::vector<std::pair<ir::Expr, ir::Var>> names_;
};

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_NAMED_ELEMENTS_H_
