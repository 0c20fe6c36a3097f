#include "schedule/consumer.h"

#include <algorithm>

#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/overlap.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

class ConsumerWriter : public ir::StmtMutator {
 public:
  explicit ConsumerWriter(const std::vector<Ring>& rings) {
    for (const Ring& ring : rings) {
      uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_uses"));
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    stmts.push_back(MutateStmt(body));
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
      if (!loads && !IsTileAlloc(op->stmts[i])) {
        tasks.push_back({TaskKind::kWork, {MutateStmt(op->stmts[i])}, {}});
      }
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr || handover->last_use != i) continue;
        Stmt arrive = Arrive(ring->empty, slot_of.at(ring), span);
        tasks.push_back({TaskKind::kRelease, {arrive, uses.Advance(span)}, ring->slots});
      }
    }
    return tasks;
  }

  bool IsTileAlloc(const Stmt& s) const {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return false;
    return std::any_of(uses_.begin(), uses_.end(), [&](const auto& item) {
      const auto& tiles = item.first->channel->tiles;
      return std::any_of(tiles.begin(), tiles.end(),
                         [&](const Buffer& tile) { return tile.same_as(alloc->buffer); });
    });
  }

  std::vector<std::pair<const Ring*, UseCounter>> uses_;
  SlotMap slots_;
};

}  // namespace

Stmt WriteConsumers(const std::vector<Ring>& rings, const Stmt& body) {
  return ConsumerWriter(rings).Write(body);
}

}  // namespace tilelang::schedule
