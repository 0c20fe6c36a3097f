#include "sync/order_pairs.h"

#include <tvm/ffi/cast.h>

#include <unordered_set>

#include "ir/async.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::sync {

namespace ffi = tvm::ffi;

using ir::Stmt;

namespace {

using Buffers = std::unordered_set<const ffi::Object*>;

// The tiles in shared memory that the program has the tensor core read in both blocks.
Buffers OperandsOfPairs(const Stmt& body) {
  Buffers operands;
  ir::WalkEffects(body, [&](const ir::Effect& effect) {
    const auto* gemm = effect.By<ir::GemmNode>();
    const auto* copy = effect.By<ir::CopyNode>();
    bool by_gemm = gemm != nullptr && op::IsInPairs(gemm) && !op::WaitsItself(gemm);
    bool by_copy = copy != nullptr && copy->options->in_pairs;
    if ((by_gemm || by_copy) && effect.Reads() && effect.buffer.IsShared())
      operands.insert(effect.buffer.get());
  });
  return operands;
}

// Returns whether anything except loads that complete at the leader writes one of the operands.
bool AreWritten(const Buffers& operands, const Stmt& body) {
  bool written = false;
  ir::WalkEffects(body, [&](const ir::Effect& effect) {
    const auto* copy = effect.By<ir::CopyNode>();
    bool at_leader = copy != nullptr && op::CompletesAtLeader(copy, /*in_pairs=*/true);
    written |= effect.Writes() && !at_leader && operands.count(effect.buffer.get()) != 0;
  });
  return written;
}

// Returns the barriers at which threads of other blocks arrive.
Buffers BarriersWithRemoteArrivals(const Stmt& body) {
  Buffers barriers;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* arrive = s.as<ir::ArriveNode>();
    if (arrive != nullptr && arrive->IsByThread() && arrive->block.defined())
      barriers.insert(arrive->barrier().get());
    return true;
  });
  return barriers;
}

class PairOrderer : public ir::StmtMutator {
 public:
  explicit PairOrderer(Buffers barriers) : barriers_(std::move(barriers)) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::ArriveNode* op) override {
    if (!op->IsByThread() || barriers_.count(op->barrier().get()) == 0)
      return ffi::GetRef<Stmt>(op);
    ir::Arrive::Options options{op->bytes, op->block, ir::Scope::kPair, op->gives,
                                op->tensor_memory};
    return ir::Arrive(op->Kind(), op->mbar, op->span, options);
  }
  Stmt Rewrite(const ir::WaitParityNode* op) override {
    if (barriers_.count(op->barrier().get()) == 0) return ffi::GetRef<Stmt>(op);
    return ir::WaitParity(op->mbar, op->parity, op->span, ir::Scope::kPair, op->tensor_memory);
  }

 private:
  Buffers barriers_;
};

}  // namespace

ir::Func OrderPairs(const ir::Func& func) {
  Buffers operands = OperandsOfPairs(func->body);
  if (operands.empty() || !AreWritten(operands, func->body)) return func;
  return func.WithBody(PairOrderer(BarriersWithRemoteArrivals(func->body)).MutateStmt(func->body));
}

}  // namespace tilelang::sync
