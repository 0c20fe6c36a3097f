#include "sync/write_waits.h"

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "analysis/thread_set.h"
#include "op/effect.h"
#include "op/gemm_wgmma.h"
#include "op/issue.h"

namespace tilelang::sync {

using ir::Stmt;

namespace {

class Writer : public analysis::ScopedMutator {
 public:
  explicit Writer(const ir::KernelLaunchNode* launch)
      : threads_(launch), thread_(analysis::ThreadsOf(launch).linear) {
    analyzer_.BindLaunch(launch);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::IssueNode* op) override { return MutateStmt(op->body); }
  Stmt Rewrite(const ir::WaitNode* op) override {
    switch (op->engine()) {
      case ir::Engine::kWgmma:
        return ForWgmma(op);
      case ir::Engine::kTmaStore:
        return ForStores(op);
      default:
        return ForPhase(op);
    }
  }

 private:
  static Stmt ForWgmma(const ir::WaitNode* op) {
    std::vector<Stmt> stmts = {ir::WaitGroup(ir::Engine::kWgmma, op->left, op->span)};
    for (const ir::Buffer& registers : op->completion->registers) {
      stmts.push_back(op::HoldRegisters(registers, op->span));
    }
    return op::Sequence(stmts, op->span);
  }
  Stmt ForStores(const ir::WaitNode* op) {
    const ir::Array<int64_t>& issuer = op->completion->threads;
    Stmt wait = ir::WaitGroup(ir::Engine::kTmaStore, op->left, op->span, op->written);
    if (issuer[1] > 1) {
      return op::ByOneThread(wait, {issuer[0], issuer[1]}, thread_, &analyzer_, op->span);
    }
    ir::Expr alone = analyzer_.Simplify(threads_.Is(issuer[0]));
    return ir::IsTrue(alone) ? wait : ir::If(alone, wait, Stmt(), op->span);
  }
  static Stmt ForPhase(const ir::WaitNode* op) {
    const ir::Completion& completion = op->completion;
    return op::Sequence(op::WaitForPhase({completion->barrier, completion->parity}, op->span),
                        op->span);
  }

  analysis::BlockThreads threads_;
  ir::Expr thread_;
};

}  // namespace

Stmt WriteWaits(const Stmt& s, const ir::KernelLaunchNode* launch) {
  return Writer(launch).MutateStmt(s);
}

}  // namespace tilelang::sync
