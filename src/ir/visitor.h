// Walks over the IR: read-only visitors and copy-on-write mutators.
#ifndef TILELANG_IR_VISITOR_H_
#define TILELANG_IR_VISITOR_H_

#include <functional>

#include "ir/copy_operator.h"
#include "ir/function.h"
#include "ir/gemm.h"

namespace tilelang::ir {

class Completion;
class IssueNode;
class WaitNode;
class ArriveNode;
class WaitParityNode;
class FenceNode;
class BarrierNode;
class TmemAllocNode;
class CommitGroupNode;
class WaitGroupNode;
class MbarrierInitNode;
class GridDependencyNode;

// Visits expressions. Override the kinds of interest; the defaults visit the children.
class ExprVisitor {
 public:
  virtual ~ExprVisitor() = default;
  virtual void VisitExpr(const Expr& e);
#define TL_DECLARE(Name) virtual void Visit(const Name##Node* op);
  TL_EXPR_KINDS(TL_DECLARE)
#undef TL_DECLARE

 protected:
  // Called for the buffer of each Load, Store, Region and Alloc.
  virtual void VisitBuffer(const Buffer& buffer) {}
  void VisitExprs(const Array<Expr>& exprs);
};

// Visits statements and the expressions in them.
class StmtVisitor : public ExprVisitor {
 public:
  using ExprVisitor::Visit;
  virtual void VisitStmt(const Stmt& s);
#define TL_DECLARE(Name) virtual void Visit(const Name##Node* op);
  TL_STMT_KINDS(TL_DECLARE)
#undef TL_DECLARE

 protected:
  virtual void VisitRegion(const Region& region);
};

// Rewrites expressions. The defaults rewrite the children and return the node itself when none
// changed.
class ExprMutator {
 public:
  virtual ~ExprMutator() = default;
  virtual Expr Mutate(const Expr& e);
#define TL_DECLARE(Name) virtual Expr Rewrite(const Name##Node* op);
  TL_EXPR_KINDS(TL_DECLARE)
#undef TL_DECLARE

 protected:
  virtual Buffer MutateBuffer(const Buffer& buffer) { return buffer; }
  Array<Expr> MutateExprs(const Array<Expr>& exprs);
};

class StmtMutator : public ExprMutator {
 public:
  using ExprMutator::Rewrite;
  virtual Stmt MutateStmt(const Stmt& s);
#define TL_DECLARE(Name) virtual Stmt Rewrite(const Name##Node* op);
  TL_STMT_KINDS(TL_DECLARE)
#undef TL_DECLARE

 protected:
  virtual Region MutateRegion(const Region& region);
  Completion MutateCompletion(const Completion& completion);
  Array<Buffer> MutateBuffers(const Array<Buffer>& buffers);
  // Tiles that an arrival or a barrier hands over.
  virtual Optional<Array<Buffer>> MutateGiven(const Optional<Array<Buffer>>& given);
};

// `e` with the variables replaced.
Expr Substitute(const Expr& e, const Map<Var, Expr>& replacement);
Stmt Substitute(const Stmt& s, const Map<Var, Expr>& replacement);
// Buffers replaced in loads, stores, regions and allocations.
Stmt ReplaceBuffers(const Stmt& s, const Map<Buffer, Buffer>& replacement);
// Calls `fn` on every expression or statement, parents before children; returning false skips
// the children.
void WalkExprs(const Expr& e, const std::function<bool(const Expr&)>& fn);
void WalkExprs(const Stmt& s, const std::function<bool(const Expr&)>& fn);
void WalkStmts(const Stmt& s, const std::function<bool(const Stmt&)>& fn);
// Return whether an expression, a statement or a call in it, at any depth, passes the test.
bool HasExpr(const Expr& e, const std::function<bool(const Expr&)>& test);
bool HasExpr(const Stmt& s, const std::function<bool(const Expr&)>& test);
bool HasStmt(const Stmt& s, const std::function<bool(const Stmt&)>& test);
bool HasCall(const Stmt& s, const std::function<bool(const CallNode*)>& test);
bool HasCall(const Stmt& s, Builtin builtin);
bool UsesVar(const Expr& e, const Var& var);
bool HasLoad(const Expr& e);
bool UsesBuffer(const Stmt& s, const Buffer& buffer);
// Returns whether `s` holds a break or continue of a loop around it, not of one inside.
bool MayLeaveLoop(const Stmt& s);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_VISITOR_H_
