#include "transform/resolve_roles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/kernel_scope.h"
#include "analysis/uniformity.h"
#include "check/check_parts.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/copy_tmem.h"
#include "op/effect.h"
#include "op/issue.h"
#include "transform/shared_elements.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// The name of what threads must execute together; null for other statements.
const char* CollectiveName(const Stmt& s) {
  if (const char* name = check::TileOpName(s)) return name;
  const auto* arrive = s.as<ir::ArriveNode>();
  bool commits = arrive != nullptr && arrive->Kind() == ir::ArriveKind::kIssuerCommit;
  return commits ? "T.tcgen05_mma_arrive" : nullptr;
}

bool HasCollective(const Stmt& s) {
  return ir::HasStmt(s, [&](const Stmt& part) { return CollectiveName(part) != nullptr; });
}

// One thread alone can execute it: it issues what others wait for, or moves bytes.
bool IsForOneThread(const Stmt& s) {
  if (const auto* copy = s.as<ir::CopyNode>()) {
    auto moves = [](const ir::Buffer& buffer) { return buffer.IsGlobal() || buffer.IsShared(); };
    return moves(copy->src->buffer) && moves(copy->dst->buffer) && copy->options->cluster_mask == 0;
  }
  const auto* gemm = s.as<ir::GemmNode>();
  if (gemm == nullptr) return s->kind == ir::StmtKind::kEvaluate || ir::IsOrdering(s);
  bool issued = gemm->mbar.defined() || gemm->annotations.count("is_tcgen05") != 0;
  std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
  bool in_registers = std::any_of(inputs.begin(), inputs.end(),
                                  [](const auto* input) { return input->buffer().IsFragment(); });
  return issued && !in_registers && gemm->result()->buffer.IsTmem();
}

// Each warp can execute it alone, for the elements that it holds: in registers and tensor memory,
// without exchange.
bool IsForWarps(const Stmt& s) {
  auto in_registers = [](const ir::Buffer& buffer) {
    return buffer.IsFragment() || buffer.IsLocal();
  };
  if (const auto* fill = s.as<ir::FillNode>()) return fill->dst->buffer.IsFragment();
  if (const auto* copy = s.as<ir::CopyNode>()) {
    bool moves = copy->src->buffer.IsFragment() && copy->dst->buffer.IsFragment();
    return moves || op::IsTmemCopy(copy);
  }
  if (s->kind != ir::StmtKind::kParallelFor) return false;
  bool fits = true;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    fits &= !effect.Writes() || in_registers(effect.buffer);
  });
  return fits;
}

bool AreForWarps(const Stmt& s) {
  bool fit = true;
  ir::WalkStmts(s, [&](const Stmt& part) {
    bool collective = CollectiveName(part) != nullptr;
    fit &= !collective || IsForWarps(part);
    return !collective;
  });
  return fit;
}

class RoleResolver : public ir::StmtMutator {
 public:
  explicit RoleResolver(const ir::KernelLaunchNode* launch)
      : uniformity_(launch),
        threads_(uniformity_.threads()),
        linear_(analysis::ThreadsOf(launch).linear),
        active_(threads_.All()) {}

  using StmtMutator::Rewrite;

  Stmt MutateStmt(const Stmt& s) override {
    const char* name = CollectiveName(s);
    if (name == nullptr) return StmtMutator::MutateStmt(s);
    CheckReach(s, name);
    return s;
  }

  Stmt Rewrite(const ir::IfNode* op) override {
    if (!HasCollective(ffi::GetRef<Stmt>(op))) return ffi::GetRef<Stmt>(op);
    analysis::ThreadSelection selection = threads_.Select(op->condition, active_);
    const analysis::ThreadSet& chosen = selection.threads;
    Expr rest;
    for (const Expr& part : selection.rest) {
      if (!uniformity_.IsUniform(part, chosen)) {
        bool by_warps = uniformity_.IsUniformInWarps(op->condition, active_) &&
                        AreForWarps(ffi::GetRef<Stmt>(op));
        if (!by_warps) {
          if (Stmt agreed = ByOneThread(op); agreed.defined()) return agreed;
        }
        Side some{active_, by_warps ? nullptr : kUnknown};
        return Under(op, op->condition, some, some);
      }
      rest = rest.defined() ? rest && part : part;
    }
    if (chosen.IsEmpty()) return Else(op);
    bool all = chosen == active_;
    analysis::ThreadSet others = active_ - chosen;
    if (rest.defined()) {
      // A range of threads can be tested without the rest of the condition.
      bool apart =
          !op->else_case.defined() || (chosen.AsRange() && !Reaches(chosen, op->else_case));
      if (!all && apart) {
        // One condition around the other: then passes see that all of `chosen` decide alike.
        Expr of_chosen = Spell(chosen, op->condition);
        ir::If inner(rest, Within(op->then_case, {chosen}, op->condition), Stmt(), op->span);
        Stmt outer = op->else_case;
        if (outer.defined()) outer = Within(outer, {others}, Not(op->condition));
        return ir::If(of_chosen, inner, outer, op->span);
      }
      Expr spelled = all ? rest : Spell(chosen, op->condition) && rest;
      return Under(op, spelled, {chosen}, {active_, all ? nullptr : kUnknownOthers});
    }
    if (all) return MutateStmt(op->then_case);
    if (!chosen.AsRange() && others.AsRange() && op->else_case.defined()) {
      ir::If swapped(Not(op->condition), op->else_case, op->then_case, op->span);
      return Rewrite(swapped.get());
    }
    return Under(op, Spell(chosen, op->condition), {chosen}, {others});
  }

  Stmt Rewrite(const ir::ForNode* op) override {
    return InLoop(op, [&] { return StmtMutator::Rewrite(op); });
  }
  Stmt Rewrite(const ir::WhileNode* op) override {
    return InLoop(op, [&] { return StmtMutator::Rewrite(op); });
  }

 private:
  // Describes a condition that divides the threads around a statement in a way that the compiler
  // cannot resolve.
  struct Obstacle {
    std::string what;  // "under `condition`"
    std::string why;
  };

  // Returns the branch, decided for all active threads by elements of tensors that one of them
  // reads; null if such elements do not decide. Threads that read them themselves might find
  // different values, because the kernel writes the tensors.
  Stmt ByOneThread(const ir::IfNode* op) {
    if (obstacle_ || !active_.AsWarps()) return Stmt();
    SharedElements shared = ShareElements(op->condition, [&](const ir::LoadNode* load) {
      return load->buffer.IsGlobal() &&
             std::all_of(load->indices.begin(), load->indices.end(),
                         [&](const Expr& i) { return uniformity_.IsUniform(i, active_); });
    });
    if (shared.stmts.empty() || !uniformity_.IsUniform(shared.value, active_)) return Stmt();
    ir::If branch(shared.value, op->then_case, op->else_case, op->span);
    shared.stmts.push_back(Rewrite(branch.as<ir::IfNode>()));
    return ir::Seq(ir::Array<Stmt>(shared.stmts.begin(), shared.stmts.end()), op->span);
  }

  // Returns whether some of the threads may do something in the statement.
  bool Reaches(const analysis::ThreadSet& threads, const Stmt& s) const {
    if (threads.IsEmpty()) return false;
    if (const auto* seq = s.as<ir::SeqNode>()) {
      return std::any_of(seq->stmts.begin(), seq->stmts.end(),
                         [&](const Stmt& part) { return Reaches(threads, part); });
    }
    const auto* branch = s.as<ir::IfNode>();
    if (branch == nullptr) return true;
    analysis::ThreadSelection taken = threads_.Select(branch->condition, threads);
    if (Reaches(taken.threads, branch->then_case)) return true;
    if (!branch->else_case.defined()) return false;
    return Reaches(taken.rest.empty() ? threads - taken.threads : threads, branch->else_case);
  }

  // A condition that holds in these of the active threads, in terms of the linear index.
  Expr Spell(const analysis::ThreadSet& chosen, const Expr& condition) const {
    auto range = chosen.AsRange();
    if (!range) return condition;
    auto constant = [](int64_t value) { return ir::Const(ir::dtypes::kInt32, value); };
    if (range->count == 1) return threads_.Is(range->begin);
    auto around = active_.AsRange();
    int64_t end = range->begin + range->count;
    bool lower = !around || range->begin > around->begin;
    bool upper = !around || end < around->begin + around->count;
    Expr from = linear_ >= constant(range->begin);
    Expr to = linear_ < constant(end);
    if (lower && upper) return from && to;
    return lower ? from : to;
  }

  // The threads that take a branch, or why the compiler cannot tell.
  struct Side {
    analysis::ThreadSet threads;
    const char* why = nullptr;
  };
  static constexpr const char* kUnknown =
      "which is decided at run time and may differ between threads";
  static constexpr const char* kUnknownOthers =
      "on the side that some threads take by their index, the others by a value known at run time";

  Stmt Under(const ir::IfNode* op, const Expr& condition, const Side& then_side,
             const Side& else_side) {
    Stmt then_case = Within(op->then_case, then_side, op->condition);
    Stmt else_case =
        op->else_case.defined() ? Within(op->else_case, else_side, Not(op->condition)) : Stmt();
    return ir::If(condition, then_case, else_case, op->span);
  }

  Stmt Within(const Stmt& body, const Side& side, const Expr& condition) {
    analysis::ThreadSet outer = active_;
    Expr outer_condition = condition_;
    std::optional<Obstacle> outer_obstacle = obstacle_;
    if (side.threads != active_) condition_ = condition;
    if (side.why != nullptr) obstacle_ = {"under `" + ir::Print(condition) + "`", side.why};
    active_ = side.threads;
    Stmt result = MutateStmt(body);
    active_ = outer;
    condition_ = outer_condition;
    obstacle_ = outer_obstacle;
    return result;
  }

  Stmt Else(const ir::IfNode* op) {
    return op->else_case.defined() ? MutateStmt(op->else_case) : ir::Seq(ir::Array<Stmt>());
  }

  template <typename Fn>
  Stmt InLoop(const ir::StmtNode* loop, const Fn& rewrite) {
    std::optional<Obstacle> outer = obstacle_;
    if (!uniformity_.IsUniformLoop(loop)) {
      obstacle_ = {"in a loop",
                   "which its threads may run a different number of times, or leave "
                   "or skip at different times"};
    }
    Stmt result = rewrite();
    obstacle_ = outer;
    return result;
  }

  void CheckReach(const Stmt& s, const char* name) const {
    if (obstacle_) RefuseUnknown(s, name);
    if (active_.AsWarps()) return;
    if (active_.Count() == 1 && IsForOneThread(s)) return;
    Refuse(s, name);
  }

  [[noreturn]] void RefuseUnknown(const Stmt& s, const char* name) const {
    TL_USER_ERROR(kSemantics, s.span(),
                  name << " is " << obstacle_->what << ", " << obstacle_->why
                       << ". The compiler must know which threads execute it together. Write one "
                          "`if` for the threads, and inside it an `if` on a value that all of "
                          "these threads share. If the whole block reaches the operator, make the "
                          "value equal first: `if T.syncthreads_or(<value>):`");
  }

  [[noreturn]] void Refuse(const Stmt& s, const char* name) const {
    bool alone = active_.Count() == 1;
    std::string remedy =
        alone ? "One thread alone can copy between global and shared memory, and issue T.gemm or "
                "T.tcgen05_gemm with mbar=, from A in shared or tensor memory into C in tensor "
                "memory, and T.tcgen05_mma_arrive; anything else is done by"
              : "Tile operators are executed by";
    TL_USER_ERROR(kSemantics, s.span(),
                  name << " is under the condition `" << ir::Print(condition_) << "`, so only "
                       << active_.ToString() << " of " << threads_.count() << " reach it. "
                       << remedy
                       << " consecutive whole warps. Select whole warps, as in `tid // 128 == 1`, "
                          "`T.get_warp_idx() < 4` or `with T.ws(0):`, or move the operator out of "
                          "the condition");
  }

  analysis::Uniformity uniformity_;
  const analysis::BlockThreads& threads_;
  Expr linear_;
  analysis::ThreadSet active_;  // reach the current statement, unless there is an obstacle
  Expr condition_;              // the innermost that selects among threads
  std::optional<Obstacle> obstacle_;
};

class LaunchResolver : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    if (!HasCollective(op->body)) return ffi::GetRef<Stmt>(op);
    Stmt body = RoleResolver(op).MutateStmt(op->body);
    return ir::WithBody(op, body);
  }
};

}  // namespace

ir::Func ResolveRoles(const ir::Func& func, const Target& target) {
  return func.WithBody(LaunchResolver().MutateStmt(func->body));
}

}  // namespace tilelang::transform
