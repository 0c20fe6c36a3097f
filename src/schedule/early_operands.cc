#include "schedule/early_operands.h"

#include <algorithm>
#include <vector>

#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/effect.h"
#include "schedule/channel.h"
#include "schedule/task.h"
#include "schedule/turn_loop.h"

namespace tilelang::schedule {

using ir::Stmt;

namespace {

// A copy of a whole fragment to an operand of one of the gemms.
bool StoresOperand(const Stmt& s, const std::vector<Stmt>& body) {
  const auto* copy = s.as<ir::CopyNode>();
  if (copy == nullptr || !op::IsTmemCopy(copy) || !copy->dst->buffer.IsTmem()) return false;
  return std::any_of(body.begin(), body.end(), [&](const Stmt& other) {
    const ir::GemmNode* gemm = AsTurnGemm(other);
    return gemm != nullptr && gemm->HasInput(copy->dst->buffer) &&
           !gemm->result()->buffer.same_as(copy->dst->buffer);
  });
}

class OperandMover : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    const auto* body = loop->body.as<ir::SeqNode>();
    if (body == nullptr || StagesOf(loop) < 2) return inner;
    std::vector<Stmt> allocs;
    std::vector<Stmt> stmts;
    for (const Stmt& s : body->stmts) {
      if (!CanMove({TaskKind::kWork, {s}, {}})) return inner;
      (s->kind == ir::StmtKind::kAlloc ? allocs : stmts).push_back(s);
    }
    if (!MoveUp(&stmts)) return inner;
    allocs.insert(allocs.end(), stmts.begin(), stmts.end());
    return ir::For(loop->var, loop->min, loop->extent, loop->Kind(),
                   op::Sequence(allocs, body->span), loop->annotations, loop->span);
  }

 private:
  static bool MoveUp(std::vector<Stmt>* stmts) {
    bool moved = false;
    for (size_t i = 0; i < stmts->size(); ++i) {
      if (!StoresOperand((*stmts)[i], *stmts)) continue;
      Task store{TaskKind::kWork, {(*stmts)[i]}, {}};
      TaskNode node(store);
      size_t to = i;
      while (to > 0) {
        Task before{TaskKind::kWork, {(*stmts)[to - 1]}, {}};
        if (AsTurnGemm((*stmts)[to - 1]) != nullptr || TaskNode(before).ConflictsWith(node)) break;
        --to;
      }
      moved |= to != i;
      std::rotate(stmts->begin() + static_cast<ptrdiff_t>(to),
                  stmts->begin() + static_cast<ptrdiff_t>(i),
                  stmts->begin() + static_cast<ptrdiff_t>(i) + 1);
    }
    return moved;
  }
};

}  // namespace

Stmt StoreOperandsEarly(const Stmt& launch) { return OperandMover().MutateStmt(launch); }

}  // namespace tilelang::schedule
