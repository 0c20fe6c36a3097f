#include "schedule/role_slice.h"

#include <tvm/ffi/cast.h>

#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/next_tile.h"
#include "ir/printer.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::StmtNode;
using ir::Var;

// Fills the tables of a RoleSlice.
class PlaceFinder : public ir::StmtVisitor {
 public:
  explicit PlaceFinder(RoleSlice* slice) : slice_(slice) {}

  using StmtVisitor::Visit;
  void Visit(const ir::CopyNode* op) override { slice_->places_[op] = Here(op); }
  void Visit(const ir::GemmNode* op) override { slice_->places_[op] = Here(op); }
  void Visit(const ir::BindNode* op) override {
    if (ir::AsNextTile(tvm::ffi::GetRef<Stmt>(op))) slice_->places_[op] = Here(op);
    slice_->setters_[op->var.get()].push_back(Here(op));
  }
  void Visit(const ir::StoreNode* op) override {
    slice_->setters_[op->buffer.get()].push_back(Here(op));
  }
  void Visit(const ir::AllocNode* op) override {
    slice_->setters_[op->buffer.get()].push_back(Here(op));
  }
  void Visit(const ir::GridDependencyNode* op) override {
    if (op->waits) slice_->grid_waits_.push_back(Here(op));
  }
  void Visit(const ir::IfNode* op) override {
    Inside(op, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::ParallelForNode* op) override {
    Inside(op, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::ForNode* op) override { Loop(op); }
  void Visit(const ir::WhileNode* op) override { Loop(op); }
  void Visit(const ir::BreakNode* op) override { Leave(op); }
  void Visit(const ir::ContinueNode* op) override { Leave(op); }

 private:
  RoleSlice::Place Here(const StmtNode* s) const { return {s, around_}; }
  template <typename Fn>
  void Inside(const StmtNode* s, const Fn& visit) {
    around_.push_back(s);
    visit();
    around_.pop_back();
  }
  template <typename Node>
  void Loop(const Node* op) {
    loops_.push_back(op);
    Inside(op, [&] { StmtVisitor::Visit(op); });
    loops_.pop_back();
  }
  void Leave(const StmtNode* s) { slice_->leaves_[loops_.back()].push_back(Here(s)); }

  RoleSlice* slice_;
  std::vector<const StmtNode*> around_;
  std::vector<const StmtNode*> loops_;
};

RoleSlice::RoleSlice(const ir::KernelLaunchNode* launch) : launch_(launch) {
  PlaceFinder(this).VisitStmt(launch->body);
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    if (!effect.Writes()) return;
    if (effect.buffer.IsGlobal()) written_.insert(ir::MemoryOf(effect.buffer));
    bool stored = effect.By<ir::StoreNode>() != nullptr || effect.By<ir::AllocNode>() != nullptr;
    if (effect.buffer.IsLocal() && !stored) elsewhere_.insert(effect.buffer.get());
  });
}

std::string RoleSlice::Add(const ir::TileOpNode* op) {
  reason_.clear();
  Keep(places_.at(op));
  // A copy may load data that the previous grid writes.
  if (op->kind == ir::StmtKind::kCopy) {
    for (const Place& wait : grid_waits_) Keep(wait);
  }
  return reason_;
}

std::string RoleSlice::Add(const ir::BindNode* next_tile) {
  reason_.clear();
  ir::NextTile call = *ir::AsNextTile(ffi::GetRef<Stmt>(next_tile));
  for (const Expr& e : {call.first, call.stride, call.places, call.tiles}) Need(e);
  if (call.table.defined()) NeedBuffer(call.table);
  Keep(places_.at(next_tile));
  return reason_;
}

void RoleSlice::Refuse(const std::string& reason) {
  if (reason_.empty()) reason_ = reason;
}

void RoleSlice::Keep(const Place& place) {
  if (!kept_.insert(place.stmt).second) return;
  for (const StmtNode* s : place.around) {
    if (!kept_.insert(s).second) continue;
    if (const auto* branch =
            s->IsInstance<ir::IfNode>() ? static_cast<const ir::IfNode*>(s) : nullptr) {
      Need(branch->condition);
    } else if (s->IsInstance<ir::ForNode>()) {
      Need(static_cast<const ir::ForNode*>(s)->min);
      Need(static_cast<const ir::ForNode*>(s)->extent);
    } else if (s->IsInstance<ir::WhileNode>()) {
      Need(static_cast<const ir::WhileNode*>(s)->condition);
    } else {
      Refuse("it depends on what T.Parallel computes");
    }
    for (const Place& leave : leaves_[s]) Keep(leave);
  }
  switch (place.stmt->kind) {
    case ir::StmtKind::kCopy:
      NeedAll(ir::EffectsOf(ffi::GetRef<Stmt>(place.stmt)));
      break;
    case ir::StmtKind::kGemm:
      NeedAll(ir::EffectsOf(ffi::GetRef<Stmt>(place.stmt)));
      Need(static_cast<const ir::GemmNode*>(place.stmt)->clear_accum);
      break;
    case ir::StmtKind::kBind:
      Need(static_cast<const ir::BindNode*>(place.stmt)->value);
      break;
    case ir::StmtKind::kStore:
      for (const Expr& index : static_cast<const ir::StoreNode*>(place.stmt)->indices) Need(index);
      Need(static_cast<const ir::StoreNode*>(place.stmt)->value);
      break;
    case ir::StmtKind::kAlloc: {
      const auto& attrs = static_cast<const ir::AllocNode*>(place.stmt)->buffer->attrs;
      if (auto init = attrs.Get("init")) Need((*init).cast<Expr>());
      break;
    }
    default:
      break;
  }
}

void RoleSlice::NeedAll(const std::vector<ir::Effect>& effects) {
  for (const ir::Effect& effect : effects) {
    if (!effect.region.defined()) continue;
    for (const Expr& min : effect.region->mins) Need(min);
  }
}

void RoleSlice::NeedBuffer(const Buffer& buffer) {
  std::string name(buffer->name);
  if (buffer.IsGlobal()) {
    if (written_.count(ir::MemoryOf(buffer)))
      Refuse("it depends on " + name + ", which the kernel writes");
    return;
  }
  if (!buffer.IsLocal()) return Refuse("it depends on values of " + name);
  if (elsewhere_.count(buffer.get())) return Refuse("it depends on values copied to " + name);
  if (!needed_.insert(buffer.get()).second) return;
  for (const Place& setter : setters_[buffer.get()]) Keep(setter);
}

void RoleSlice::Need(const Expr& e) {
  ir::WalkExprs(e, [&](const Expr& part) {
    if (const auto* load = part.as<ir::LoadNode>()) NeedBuffer(load->buffer);
    if (const auto* call = part.as<ir::CallNode>()) {
      if (call->Is(ir::Builtin::kNextTile)) return false;
      if (Buffer table = ir::ListedTable(call); table.defined()) {
        NeedBuffer(table);
        for (size_t i = 1; i < call->args.size(); ++i) Need(call->args[i]);
        return false;
      }
      bool pure = arith::IsPureCall(call) && !call->Is(ir::Builtin::kAddressOf);
      if (!pure) Refuse("it depends on a call of " + std::string(call->name));
    }
    if (part->kind != ir::ExprKind::kVar || !needed_.insert(part.get()).second) return true;
    for (const Var& thread : launch_->thread_vars) {
      if (thread.same_as(part)) Refuse("it depends on the thread index");
    }
    for (const Place& setter : setters_[part.get()]) Keep(setter);
    return true;
  });
}

Stmt SliceCopier::MutateStmt(const Stmt& s) {
  if (s->kind == ir::StmtKind::kSeq || slice_.Has(s.get())) return StmtMutator::MutateStmt(s);
  return ir::Seq(ir::Array<Stmt>(), s.span());
}

void SliceCopier::Append(const ir::SeqNode* seq, size_t i, std::vector<Stmt>* stmts) {
  Stmt copied = MutateStmt(seq->stmts[i]);
  const auto* inner = copied.as<ir::SeqNode>();
  if (inner == nullptr || !inner->stmts.empty()) stmts->push_back(copied);
}

Stmt SliceCopier::Rewrite(const ir::SeqNode* op) {
  std::vector<Stmt> stmts;
  for (size_t i = 0; i < op->stmts.size(); ++i) Append(op, i, &stmts);
  return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

}  // namespace tilelang::schedule
