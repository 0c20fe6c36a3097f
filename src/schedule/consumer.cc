#include "schedule/consumer.h"

#include <algorithm>

#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "schedule/overlap.h"

namespace tilelang::schedule {

using ir::Expr;
using ir::Stmt;

namespace {

class ConsumerWriter : public ir::StmtMutator {
 public:
  ConsumerWriter(const std::vector<Ring>& rings, const FreeRunning& free, const Expr& first_warp,
                 const ir::Span& span)
      : free_(free), first_warp_(first_warp), drain_(span) {
    for (const Ring& ring : rings) {
      uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_uses"));
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    Stmt work = MutateStmt(body);
    if (drains_) drain_.Alloc(&stmts);
    stmts.push_back(work);
    return op::Sequence(stmts, body.span());
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Task& task : TasksOf(op)) {
      stmts.insert(stmts.end(), task.stmts.begin(), task.stmts.end());
    }
    return op::Sequence(stmts, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    if (free_.Has(op)) return RunFree(op);
    const auto* body = op->body.as<ir::SeqNode>();
    if (StagesOf(op) < 2 || body == nullptr) return StmtMutator::Rewrite(op);
    return OverlapIterations(op, TasksOf(body));
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
    return ir::Load(buffer, indices, op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
    return ir::Store(buffer, indices, Mutate(op->value), op->span);
  }

 protected:
  ir::Region MutateRegion(const ir::Region& region) override {
    return slots_.InSlot(StmtMutator::MutateRegion(region));
  }

 private:
  Stmt RunFree(const ir::ForNode* op) {
    drains_ = true;
    in_free_ = true;
    Stmt loop = StmtMutator::Rewrite(op);
    in_free_ = false;
    Stmt issue = op::Sequence({loop, drain_.Arrive(op->span)}, op->span);
    std::vector<Stmt> stmts = {op::Effect(op::kBarrierForTcgen05, {}, op->span),
                               ir::If(first_warp_, issue, Stmt(), op->span)};
    drain_.Wait(op->span, &stmts);
    return op::Sequence(stmts, op->span);
  }

  // A statement that uses a slot, the last one of the ring `last` if that is not null.
  Stmt Use(const Stmt& s, const Ring* last, const std::map<const Ring*, Expr>& slot_of) {
    Stmt used = MutateStmt(s);
    const auto* gemm = in_free_ ? used.as<ir::GemmNode>() : nullptr;
    if (gemm == nullptr) return used;
    return FreeRunningGemm(gemm,
                           last == nullptr ? Expr() : ir::Load(last->empty, {slot_of.at(last)}));
  }

  std::vector<Task> TasksOf(const ir::SeqNode* op) {
    std::vector<Task> tasks;
    std::map<const Ring*, Expr> slot_of;
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      const ir::Span& span = op->stmts[i].span();
      bool loads = false;
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr) continue;
        loads |= std::count(handover->loads.begin(), handover->loads.end(), i) != 0;
        if (handover->first_use != i) continue;
        Task acquire{TaskKind::kAcquire, {}, ring->slots};
        Expr slot = uses.BindSlot(span, &acquire.stmts);
        acquire.stmts.push_back(uses.WaitFull(slot, span));
        slots_.Enter(*ring, slot);
        slot_of[ring] = slot;
        tasks.push_back(acquire);
      }
      std::vector<Task> released;
      const Ring* by_commit = nullptr;
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr || handover->last_use != i) continue;
        Task release{TaskKind::kRelease, {uses.Advance(span)}, ring->slots};
        if (free_.Releases(*ring->channel)) {
          by_commit = ring;
        } else {
          Stmt arrive = Arrive(ring->empty, slot_of.at(ring), span);
          release.stmts.insert(release.stmts.begin(), arrive);
        }
        released.push_back(release);
      }
      if (!loads && !IsTileAlloc(op->stmts[i])) {
        tasks.push_back({TaskKind::kWork, {Use(op->stmts[i], by_commit, slot_of)}, {}});
      }
      tasks.insert(tasks.end(), released.begin(), released.end());
    }
    return tasks;
  }

  bool IsTileAlloc(const Stmt& s) const {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return false;
    return std::any_of(uses_.begin(), uses_.end(),
                       [&](const auto& item) { return item.first->channel->Has(alloc->buffer); });
  }

  std::vector<std::pair<const Ring*, UseCounter>> uses_;
  SlotMap slots_;
  const FreeRunning& free_;
  Expr first_warp_;
  Drain drain_;
  bool drains_ = false;
  bool in_free_ = false;
};

}  // namespace

Stmt WriteConsumers(const std::vector<Ring>& rings, const FreeRunning& free, const Expr& first_warp,
                    const Stmt& body) {
  return ConsumerWriter(rings, free, first_warp, body.span()).Write(body);
}

}  // namespace tilelang::schedule
