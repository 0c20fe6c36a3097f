#include "lower/keep_maxima.h"

#include <tvm/ffi/cast.h>

#include <string>
#include <vector>

#include "analysis/running_softmax.h"
#include "ir/remark.h"
#include "ir/visitor.h"

namespace tilelang::lower {

using analysis::RunningSoftmax;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr double kLeastFactor = 1.0 / 256;  // 2^-8: weights stay below 2^8

class MaximumKeeper : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    return StmtMutator::Rewrite(op);
  }

  // New statements join the sequence of the loop, and that of its body: other passes look there for
  // what comes behind a loop.
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      const auto* loop = s.as<ir::ForNode>();
      if (softmax_ != nullptr && s.get() == softmax_->rescaling) {
        Rescale(s, &stmts);
      } else if (loop == nullptr || !Keep(loop, &stmts)) {
        stmts.push_back(MutateStmt(s));
      }
    }
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  // Appends the loop with what keeps its maxima; returns false if it is no softmax.
  bool Keep(const ir::ForNode* op, std::vector<Stmt>* stmts) {
    bool gemms =
        ir::HasStmt(op->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
    auto softmax = gemms ? analysis::FindRunningSoftmax(launch_, op) : std::nullopt;
    bool fits = softmax && softmax->bounds && (softmax->rises || softmax->ends_in_quotients);
    if (!fits) return false;
    Remark(op->span, "maxima",
           "T.Pipelined: the maximum of a row stays until weights would exceed 2^8, so few "
           "iterations rescale the results. The pass option tl.disable_kept_maxima turns this off");
    softmax_ = &*softmax;
    const ir::Span& span = op->span;
    greatest_ = Rows("greatest", span);
    Buffer scale = Rows("rescale", span);
    ir::Region kept = ir::Region::Whole(softmax->carried);
    ir::Region greatest = ir::Region::Whole(greatest_);
    stmts->push_back(ir::Alloc(greatest_, span));
    stmts->push_back(ir::Copy(kept, greatest, span));
    stmts->push_back(StmtMutator::Rewrite(op));
    stmts->push_back(ir::Alloc(scale, span));
    stmts->push_back(Correction(scale, span));
    for (const Buffer& sum : softmax->sums) stmts->push_back(Rescaled(sum, scale, span));
    stmts->push_back(ir::Copy(greatest, kept, span));
    softmax_ = nullptr;
    return true;
  }

  // Appends the loop that computes the factor, and what keeps maxima. The factor may take the place
  // of the old maximum.
  void Rescale(const Stmt& loop, std::vector<Stmt>* stmts) const {
    Buffer before = softmax_->before;
    if (softmax_->factor.same_as(before)) {
      Buffer old = Rows("old", loop.span());
      stmts->push_back(ir::Alloc(old, loop.span()));
      stmts->push_back(ir::Copy(ir::Region::Whole(before), ir::Region::Whole(old), loop.span()));
      before = old;
    }
    if (!softmax_->rises) stmts->push_back(Risen(before, loop.span()));
    stmts->push_back(loop);
    stmts->push_back(Kept(before, loop.span()));
  }

  Buffer Rows(const char* name, const ir::Span& span) const {
    return Buffer(name, ir::dtypes::kFloat32, softmax_->highest->shape, {}, "local.fragment", {},
                  span);
  }
  static Expr Number(double value) { return ir::Const(ir::dtypes::kFloat32, value); }

  template <typename Fn>
  static Stmt ForRows(const Buffer& tile, const ir::Span& span, const Fn& body) {
    ir::Array<ir::Var> vars;
    for (size_t d = 0; d < tile->shape.size(); ++d) {
      vars.push_back(ir::Var(d == 0 ? "i" : "j", ir::dtypes::kInt32, span));
    }
    return ir::ParallelFor(vars, tile->shape, body(vars), {}, span);
  }

  // Makes the maximum of a tile that of all tiles so far.
  Stmt Risen(const Buffer& before, const ir::Span& span) const {
    const Buffer& highest = softmax_->highest;
    return ForRows(highest, span, [&](const ir::Array<ir::Var>& at) -> Stmt {
      Expr greatest = ir::Max(ir::Load(highest, {at[0]}, span), ir::Load(before, {at[0]}, span));
      return ir::Store(highest, {at[0]}, greatest, span);
    });
  }

  // Notes the true maximum; where the factor is not small, takes the old one back.
  Stmt Kept(const Buffer& before, const ir::Span& span) const {
    const Buffer &highest = softmax_->highest, &factor = softmax_->factor;
    return ForRows(highest, span, [&](const ir::Array<ir::Var>& at) -> Stmt {
      auto load = [&](const Buffer& b) { return Expr(ir::Load(b, {at[0]}, span)); };
      Expr keeps = load(factor) >= Number(kLeastFactor);
      auto store = [&](const Buffer& b, const Expr& value) {
        return Stmt(ir::Store(b, {at[0]}, value, span));
      };
      return ir::MakeSeq({store(greatest_, ir::Max(load(greatest_), load(highest))),
                          store(highest, ir::Select(keeps, load(before), load(highest), span)),
                          store(factor, ir::Select(keeps, Number(1), load(factor), span))},
                         span);
    });
  }

  // Returns by how much sums are greater than those relative to the true maximum. Two infinities
  // are the same.
  Stmt Correction(const Buffer& scale, const ir::Span& span) const {
    return ForRows(scale, span, [&](const ir::Array<ir::Var>& at) -> Stmt {
      Expr kept = ir::Load(softmax_->carried, {at[0]}, span);
      Expr greatest = ir::Load(greatest_, {at[0]}, span);
      Expr power = ir::Call(ir::dtypes::kFloat32, softmax_->exponential,
                            {(kept - greatest) * Number(softmax_->scale)}, {}, span);
      return ir::Store(scale, {at[0]},
                       ir::Select(ir::MakeEq(kept, greatest), Number(1), power, span), span);
    });
  }
  static Stmt Rescaled(const Buffer& sum, const Buffer& scale, const ir::Span& span) {
    return ForRows(sum, span, [&](const ir::Array<ir::Var>& at) -> Stmt {
      ir::Array<Expr> indices(at.begin(), at.end());
      Expr value = ir::Load(sum, indices, span) * ir::Load(scale, {at[0]}, span);
      return ir::Store(sum, indices, value, span);
    });
  }

  const ir::KernelLaunchNode* launch_ = nullptr;
  const RunningSoftmax* softmax_ = nullptr;
  Buffer greatest_;
};

}  // namespace

ir::Func KeepMaxima(const ir::Func& func, const Target& target) {
  if (target->tmem_columns == 0) return func;
  return func.WithBody(MaximumKeeper().MutateStmt(func->body));
}

}  // namespace tilelang::lower
