#include "verify/program.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <utility>

#include "ir/async.h"
#include "ir/visitor.h"
#include "op/issue.h"
#include "verify/control.h"
#include "verify/period.h"
#include "verify/site_finder.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether the statement waits on a barrier of the program, and therefore orders itself.
bool IsRole(const Stmt& s) {
  return ir::HasStmt(s, [&](const Stmt& part) {
    const auto* wait = part.as<ir::WaitParityNode>();
    return wait != nullptr && op::IsProgramBarrier(wait->barrier());
  });
}

}  // namespace

// Builds the steps of a launch.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(Program* program)
      : program_(program), control_(program->launch_), finder_(program->launch_, program) {
    for (const ir::Var& var : program->launch_->thread_vars) threads_.insert(var.get());
  }

  void Run() {
    FindParameters();
    program_->root_ = Build(program_->launch_->body);
    if (!program_->root_) program_->root_ = Make(StepKind::kSeq, program_->launch_->body);
  }

 private:
  using StepPtr = std::unique_ptr<Step>;

  StepPtr Make(StepKind kind, const Stmt& s) {
    auto step = std::make_unique<Step>();
    step->kind = kind;
    step->stmt = s;
    step->id = static_cast<int>(program_->steps_.size());
    step->guards = guards_;
    program_->steps_.push_back(step.get());
    return step;
  }

  void FindParameters();
  // Builds the step of a statement. Returns null if no order depends on the statement.
  StepPtr Build(const Stmt& s);
  StepPtr BuildSeq(const ir::SeqNode* op);
  StepPtr BuildIf(const ir::IfNode* op);
  StepPtr BuildLoop(StepKind kind, const Stmt& s, const Stmt& body, const Expr& head);
  StepPtr BuildOperation(const Stmt& s);
  StepPtr BuildAccess(const Stmt& s);
  // Adds the accesses and the waits of an expression that the step itself evaluates.
  void AddOwn(Step* step, const Expr& e);
  void AddSites(Step* step, std::vector<Site> sites);
  StepPtr BuildBranch(const Stmt& s, const Expr& guard);

  bool UsesThread(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* call = part.as<ir::CallNode>();
      return threads_.count(part.get()) != 0 ||
             (call != nullptr && call->Is(ir::Builtin::kElectOne));
    });
  }

  Program* program_;
  Control control_;
  SiteFinder finder_;
  std::unordered_set<const ir::ffi::Object*> threads_;  // variables that differ between threads
  std::vector<Expr> guards_;
  int role_ = 0;   // the outermost around
  int roles_ = 0;  // so far
};

// Finds the variables that the launch neither binds nor uses as an index.
void ProgramBuilder::FindParameters() {
  std::unordered_set<const ir::ffi::Object*> bound;
  for (const auto& vars : {program_->launch_->block_vars, program_->launch_->thread_vars}) {
    for (const ir::Var& var : vars) bound.insert(var.get());
  }
  ir::WalkStmts(program_->launch_->body, [&](const Stmt& s) {
    if (const auto* op = s.as<ir::BindNode>()) bound.insert(op->var.get());
    if (const auto* op = s.as<ir::ForNode>()) bound.insert(op->var.get());
    return true;
  });
  ir::WalkExprs(program_->launch_->body, [&](const Expr& e) {
    auto var = e.as<ir::Var>();
    if (!var || !ir::IsIntegral(e.dtype()) || !bound.insert(e.get()).second) return true;
    program_->parameters_.push_back(*var);
    return true;
  });
}

void ProgramBuilder::AddSites(Step* step, std::vector<Site> sites) {
  for (Site& site : sites) {
    site.step = step->id;
    site.role = role_;
    step->sites.push_back(static_cast<int>(program_->sites_.size()));
    program_->sites_.push_back(std::move(site));
  }
}

void ProgramBuilder::AddOwn(Step* step, const Expr& e) {
  AddSites(step, finder_.Find(ir::Evaluate(e, e.span().defined() ? e.span() : step->stmt.span())));
  step->free = finder_.FreeOf(ir::Evaluate(e));
  ir::WalkExprs(e, [&](const Expr& part) {
    const auto* call = part.as<ir::CallNode>();
    if (call == nullptr) return true;
    OperationKind kind = OperationOf(call).kind;
    bool meets = kind == OperationKind::kBarrier || kind == OperationKind::kElect;
    if (meets) step->barriers.push_back(part);
    if (!meets && kind != OperationKind::kNone) program_->unsupported_ = std::string(call->name);
    return true;
  });
}

ProgramBuilder::StepPtr ProgramBuilder::Build(const Stmt& s) {
  switch (s->kind) {
    case ir::StmtKind::kSeq:
      return control_.Has(s) ? BuildSeq(s.as<ir::SeqNode>()) : BuildAccess(s);
    case ir::StmtKind::kIf:
      return control_.Has(s) ? BuildIf(s.as<ir::IfNode>()) : BuildAccess(s);
    case ir::StmtKind::kFor:
      if (!control_.Has(s)) return BuildAccess(s);
      return BuildLoop(StepKind::kFor, s, s.as<ir::ForNode>()->body, s.as<ir::ForNode>()->extent);
    case ir::StmtKind::kWhile:
      if (!control_.Has(s)) return BuildAccess(s);
      return BuildLoop(StepKind::kWhile, s, s.as<ir::WhileNode>()->body,
                       s.as<ir::WhileNode>()->condition);
    case ir::StmtKind::kBreak:
    case ir::StmtKind::kContinue:
      return Make(StepKind::kLeave, s);
    case ir::StmtKind::kBind: {
      const auto* op = s.as<ir::BindNode>();
      if (UsesThread(op->value)) threads_.insert(op->var.get());
      StepPtr step = Make(StepKind::kSet, s);
      AddOwn(step.get(), op->value);
      return step;
    }
    case ir::StmtKind::kStore: {
      const auto* op = s.as<ir::StoreNode>();
      if (!op->buffer.IsLocal() || !control_.Has(s)) return BuildAccess(s);
      StepPtr step = Make(StepKind::kSet, s);
      AddOwn(step.get(), op->value);
      return step;
    }
    case ir::StmtKind::kAlloc: {
      const ir::Buffer& buffer = s.as<ir::AllocNode>()->buffer;
      if (buffer.IsBarrier()) {
        program_->has_own_barriers_ |= op::IsProgramBarrier(buffer);
      }
      return control_.Has(s) ? Make(StepKind::kSet, s) : nullptr;
    }
    default:
      return OperationOf(s).kind != OperationKind::kNone ? BuildOperation(s) : BuildAccess(s);
  }
}

ProgramBuilder::StepPtr ProgramBuilder::BuildSeq(const ir::SeqNode* op) {
  StepPtr step = Make(StepKind::kSeq, tvm::ffi::GetRef<Stmt>(op));
  for (const Stmt& child : op->stmts) {
    if (StepPtr part = Build(child)) step->parts.push_back(std::move(part));
  }
  return step;
}

ProgramBuilder::StepPtr ProgramBuilder::BuildBranch(const Stmt& s, const Expr& guard) {
  bool divides = UsesThread(guard);
  if (divides) guards_.push_back(guard);
  StepPtr step = Build(s);
  if (!step) step = Make(StepKind::kSeq, s);
  if (step->kind == StepKind::kSeq && s->kind != ir::StmtKind::kSeq) step->stmt = Stmt();
  if (divides) guards_.pop_back();
  return step;
}

ProgramBuilder::StepPtr ProgramBuilder::BuildIf(const ir::IfNode* op) {
  Stmt whole = tvm::ffi::GetRef<Stmt>(op);
  StepPtr step = Make(StepKind::kIf, whole);
  AddOwn(step.get(), op->condition);
  bool divides = role_ == 0 && UsesThread(op->condition) && IsRole(whole);
  if (divides) role_ = ++roles_;
  step->parts.push_back(BuildBranch(op->then_case, op->condition));
  step->has_else = op->else_case.defined();
  if (divides) role_ = ++roles_;
  if (step->has_else) {
    step->parts.push_back(BuildBranch(op->else_case, ir::Not(op->condition)));
  }
  if (divides) role_ = 0;
  return step;
}

ProgramBuilder::StepPtr ProgramBuilder::BuildLoop(StepKind kind, const Stmt& s, const Stmt& body,
                                                  const Expr& head) {
  StepPtr step = Make(kind, s);
  AddOwn(step.get(), head);
  StepPtr part = Build(body);
  if (part) step->parts.push_back(std::move(part));
  return step;
}

ProgramBuilder::StepPtr ProgramBuilder::BuildOperation(const Stmt& s) {
  StepPtr step = Make(StepKind::kOperation, s);
  step->operation = OperationOf(s);
  if (step->operation.kind == OperationKind::kUnsupported) {
    program_->unsupported_ = std::string(CallOf(s)->name);
  }
  if (step->operation.kind == OperationKind::kAllocTmem) {
    const auto* address = s.as<ir::TmemAllocNode>()->address.as<ir::CallNode>();
    program_->tmem_slot_ = address->args[0].as<ir::LoadNode>()->buffer.get();
  }
  AddSites(step.get(), finder_.FindOfOperation(s, step->operation.kind));
  // Each thread copies elements of its own.
  if (step->operation.kind == OperationKind::kCopyAsync) step->free = finder_.FreeOf(s);
  return step;
}

ProgramBuilder::StepPtr ProgramBuilder::BuildAccess(const Stmt& s) {
  std::vector<Site> sites = finder_.Find(s);
  if (sites.empty()) return nullptr;
  StepPtr step = Make(StepKind::kAccess, s);
  AddSites(step.get(), std::move(sites));
  step->free = finder_.FreeOf(s);
  ir::WalkStmts(s, [&](const Stmt& part) {
    const auto* loop = part.as<ir::ForNode>();
    bool runs = loop != nullptr && loop->Kind() != ir::ForKind::kVectorized;
    step->is_loop |= runs || part->kind == ir::StmtKind::kWhile;
    return !step->is_loop;
  });
  return step;
}

Program::Program(const ir::KernelLaunchNode* launch) : launch_(launch), period_(PeriodOf(launch)) {
  if (auto offsets = launch->attrs.Get("smem_offsets")) {
    offsets_ = (*offsets).cast<ir::Map<ir::Buffer, int64_t>>();
  }
  ProgramBuilder(this).Run();
}

}  // namespace tilelang::verify
