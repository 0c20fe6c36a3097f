// Knows facts about integer expressions: bounds, divisibility, proofs, simplification.
//
// Signed integers of 32 and 64 bits that are computed from variables are assumed not to overflow,
// as in C++. Values that come from memory or calls, and narrow and unsigned integers, wrap: only
// ring arithmetic is done on them, unless their bounds show that they do not wrap. Floating-point
// arithmetic is never touched.
#ifndef TILELANG_ARITH_ANALYZER_H_
#define TILELANG_ARITH_ANALYZER_H_

#include <memory>
#include <optional>

#include "arith/interval.h"
#include "arith/modular_set.h"
#include "ir/function.h"

namespace tilelang::arith {

class Knowledge;

class Analyzer {
 public:
  Analyzer();
  ~Analyzer();
  Analyzer(const Analyzer&) = delete;
  Analyzer& operator=(const Analyzer&) = delete;

  // From here to the end of the current scope, or for good outside any.
  // var is in [min, min + extent), and extent >= 1; both may be symbolic.
  void Bind(const ir::Var& var, const ir::Expr& min, const ir::Expr& extent);
  // var has this value. It stays a variable in simplified expressions unless the value is a
  // constant or another variable.
  void Bind(const ir::Var& var, const ir::Expr& value);
  // Symbolic dimensions of tensors are not negative. (A tensor may be empty.)
  void BindParams(const ir::Array<ir::Any>& params);
  // Block and thread variables of a launch.
  void BindLaunch(const ir::KernelLaunchNode* launch);
  // A condition that holds. Conditions on values in memory are ignored: a store would end them.
  void Assume(const ir::Expr& condition);

  // Takes back, when it ends, whatever was bound or assumed during its life.
  class Scope {
   public:
    explicit Scope(Analyzer* analyzer);
    Scope(Analyzer* analyzer, const ir::Expr& condition);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Analyzer* analyzer_;
  };

  // All values of an integer or bool expression lie inside.
  Interval ConstBounds(const ir::Expr& e);
  ModularSet Modular(const ir::Expr& e);
  // True when proven; false says nothing.
  bool CanProve(const ir::Expr& condition);
  bool CanProveNonNegative(const ir::Expr& e);
  bool CanProveLess(const ir::Expr& e, const ir::Expr& bound);
  bool CanProveEqual(const ir::Expr& a, const ir::Expr& b);
  // Every value of e is a multiple of n > 0.
  bool Divides(const ir::Expr& e, int64_t n);

  // An equal expression, no more costly. `e` itself when nothing is gained.
  ir::Expr Simplify(const ir::Expr& e);

  // e == stride * var + rest, neither depending on var: the stride, or nullopt. The stride of an
  // expression that does not depend on var is 0.
  std::optional<ir::Expr> LinearIn(const ir::Expr& e, const ir::Var& var);
  // The same where the stride is a constant.
  std::optional<int64_t> StrideOf(const ir::Expr& e, const ir::Var& var);

 private:
  std::unique_ptr<Knowledge> knowledge_;
};

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_ANALYZER_H_
