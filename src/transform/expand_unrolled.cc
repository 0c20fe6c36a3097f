#include "transform/expand_unrolled.h"

#include <tvm/ffi/cast.h>

#include <unordered_set>

#include "ir/fresh_copy.h"
#include "transform/simplify.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

// Finds a tile operator, or a parallel loop that reads tensor memory, that uses the variable or a
// value computed from it to choose a part of tensor memory or of a fragment.
class SliceFinder : public ir::StmtVisitor {
 public:
  explicit SliceFinder(const Var& var) : derived_{var.get()} {}
  bool found() const { return found_; }
  // A copy between tensor memory and a slice of a fragment: registers have constant numbers.
  bool chooses_registers() const { return chooses_registers_; }

  using StmtVisitor::Visit;
  void Visit(const ir::BindNode* op) override {
    if (IsDerived(op->value)) derived_.insert(op->var.get());
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::ForNode* op) override {
    if (IsDerived(op->min)) derived_.insert(op->var.get());
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::LoadNode* op) override {
    if (op->buffer.IsTmem()) Check(op->indices);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CopyNode* op) override {
    bool load = op->src->buffer.IsTmem();
    const ir::Region& other = load ? op->dst : op->src;
    bool registers = other->buffer.IsFragment() && (load || op->dst->buffer.IsTmem());
    chooses_registers_ |= registers && AreDerived(other->mins);
    StmtVisitor::Visit(op);
  }

 protected:
  void VisitRegion(const ir::Region& region) override {
    if (region->buffer.IsTmem() || region->buffer.IsFragment()) Check(region->mins);
    StmtVisitor::VisitRegion(region);
  }

 private:
  bool IsDerived(const Expr& e) const {
    bool derived = false;
    ir::WalkExprs(e, [&](const Expr& part) {
      derived = derived || derived_.count(part.get()) != 0;
      return !derived;
    });
    return derived;
  }

  bool AreDerived(const ir::Array<Expr>& indices) const {
    bool derived = false;
    for (const Expr& index : indices) derived = derived || IsDerived(index);
    return derived;
  }

  void Check(const ir::Array<Expr>& indices) { found_ = found_ || AreDerived(indices); }

  std::unordered_set<const ffi::Object*> derived_;
  bool found_ = false;
  bool chooses_registers_ = false;
};

// Allocates what threads share, or what layouts are annotated for.
bool AllocatesTiles(const Stmt& body) {
  return ir::HasStmt(body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    return alloc != nullptr && !alloc->buffer.IsLocal();
  });
}

// Returns whether the loop is to be unrolled: it says so and chooses slices, or it is serial and
// could not be compiled otherwise.
bool NeedsConstants(const ir::ForNode* loop) {
  bool unrolled = loop->Kind() == ir::ForKind::kUnrolled;
  constexpr int64_t kMostTurns = 64;
  bool serial = loop->Kind() == ir::ForKind::kSerial && loop->annotations.empty() &&
                *ir::AsInt(loop->extent) <= kMostTurns;
  if (!unrolled && !serial) return false;
  SliceFinder finder(loop->var);
  finder.VisitStmt(loop->body);
  return unrolled ? finder.found() : finder.chooses_registers();
}

class Expander : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  // Outer loops first: the bounds of inner ones may depend on their variable.
  Stmt Rewrite(const ir::ForNode* op) override {
    if (!Expands(op)) return StmtMutator::Rewrite(op);
    std::vector<Stmt> iterations;
    int64_t first = *ir::AsInt(op->min);
    for (int64_t i = 0; i < *ir::AsInt(op->extent); ++i) {
      ir::FreshCopy iteration;
      iteration.Set(op->var, ir::Const(op->var.dtype(), first + i));
      iterations.push_back(MutateStmt(iteration.MutateStmt(op->body)));
    }
    return ir::MakeSeq(iterations, op->span);
  }

 private:
  static bool Expands(const ir::ForNode* op) {
    return ir::AsInt(op->min) && ir::AsInt(op->extent) &&
           op->annotations.count("unroll_factor") == 0 && !ir::MayLeaveLoop(op->body) &&
           !AllocatesTiles(op->body) && NeedsConstants(op);
  }
};

}  // namespace

ir::Func ExpandUnrolled(const ir::Func& func) {
  Stmt body = Expander().MutateStmt(func->body);
  return body.same_as(func->body) ? func : Simplify(func.WithBody(body));
}

}  // namespace tilelang::transform
