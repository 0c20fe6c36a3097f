#include "analysis/uniformity.h"

#include <algorithm>
#include <utility>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/next_tile.h"
#include "ir/visitor.h"
#include "ir/warp_values.h"
#include "layout/fragment.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

// Returns whether each thread has its own copy of the buffer; this includes a fragment of one
// value.
static bool IsPrivate(const Buffer& buffer) {
  auto is_one = [](const Expr& extent) { return IsConst(extent, 1); };
  return buffer.IsLocal() ||
         (buffer.IsFragment() && std::all_of(buffer->shape.begin(), buffer->shape.end(), is_one));
}

// Adds what varies under the present assumptions; run until nothing changes.
class VariationFinder : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  explicit VariationFinder(Uniformity* result)
      : result_(result), active_(result->threads_.All()), loop_active_(active_) {}
  bool changed = false;

  void Visit(const BindNode* op) override {
    result_->threads_.Bind(op->var, op->value);
    result_->values_.Set(op->var, op->value);
    if (!IsUniform(op->value)) Mark(&result_->varying_, op->var.get());
  }
  void Visit(const AllocNode* op) override {
    auto init = op->buffer->attrs.find("init");
    bool is_uniform = init == op->buffer->attrs.end() || IsUniform((*init).second.cast<Expr>());
    if (IsPrivate(op->buffer) && !is_uniform) Mark(&result_->varying_, op->buffer.get());
  }
  void Visit(const StoreNode* op) override {
    Write(op->buffer, IsUniform(op->value) && AreUniform(op->indices));
  }
  void Visit(const FillNode* op) override { Write(op->dst->buffer, IsUniform(op->value)); }
  void Visit(const ReduceNode* op) override { Write(op->dst->buffer, false); }
  void Visit(const CopyNode* op) override {
    // Each thread reads all of the source.
    const Buffer& from = op->src->buffer;
    bool uniform = op->dst->buffer.IsLocal() && !from.IsFragment() &&
                   result_->IsShared(from, active_) && AreUniform(op->src->mins) &&
                   AreUniform(op->dst->mins);
    Write(op->dst->buffer, uniform);
  }
  void Visit(const GemmNode* op) override { Write(op->result()->buffer, false); }
  void Visit(const EvaluateNode* op) override {
    WalkExprs(op->value, [&](const Expr& e) {
      if (const auto* call = e.as<CallNode>()) {
        for (const MemoryEffect& effect : CallEffects(call)) {
          if (!effect.write) continue;
          if (effect.buffer.IsGlobal()) Mark(&result_->written_, MemoryOf(effect.buffer));
          if (IsPrivate(effect.buffer)) Mark(&result_->varying_, effect.buffer.get());
        }
      }
      return true;
    });
  }
  void Visit(const IfNode* op) override {
    ThreadSet outer = active_;
    bool outer_divergent = divergent_;
    bool outer_in_loop = divergent_in_loop_;
    ThreadSelection selection = result_->threads_.Select(op->condition, outer);
    const std::vector<Expr>& rest = selection.rest;
    bool uniform = std::all_of(rest.begin(), rest.end(), [&](const Expr& part) {
      return result_->IsUniform(part, selection.threads);
    });
    active_ = selection.threads;
    divergent_ |= !uniform;
    divergent_in_loop_ |= !uniform;
    std::unordered_set<const ffi::Object*> same = same_;
    std::vector<const ffi::Object*> stored = std::exchange(stored_, {});
    VisitStmt(op->then_case);
    same_ = same;
    active_ = rest.empty() ? outer - selection.threads : outer;
    bool known = rest.empty() || (uniform && selection.threads == outer);
    // The threads that the condition selects run the rest all or not at all; the others run it.
    bool agreed = !known && uniform;
    if (agreed) agreed_.push_back(selection.threads);
    divergent_ |= !known && !agreed;
    divergent_in_loop_ |= !known;
    if (op->else_case.defined()) VisitStmt(op->else_case);
    if (agreed) agreed_.pop_back();
    active_ = outer;
    divergent_ = outer_divergent;
    divergent_in_loop_ = outer_in_loop;
    same_ = std::move(same);
    for (const ffi::Object* buffer : stored_) same_.erase(buffer);
    stored_.insert(stored_.end(), stored.begin(), stored.end());
  }
  void Visit(const ForNode* op) override {
    bool uniform = IsUniform(op->min) && IsUniform(op->extent);
    if (!uniform) Mark(&result_->varying_, op->var.get());
    Loop(op, op->body, uniform);
  }
  void Visit(const ParallelForNode* op) override {
    if (RunsInEveryThread(op)) return StmtVisitor::Visit(op);
    for (const Var& var : op->vars) Mark(&result_->varying_, var.get());
    // Each thread runs iterations of its own, or none.
    bool outer = std::exchange(divergent_, true);
    StmtVisitor::Visit(op);
    divergent_ = outer;
  }
  void Visit(const WhileNode* op) override {
    // The condition is also read after stores of the body.
    Loop(op, op->body, result_->IsUniform(op->condition, active_));
  }
  void Visit(const BreakNode* op) override { Leave(); }
  void Visit(const ContinueNode* op) override { Leave(); }

 private:
  void Mark(std::unordered_set<const ffi::Object*>* set, const ffi::Object* object) {
    changed |= set->insert(object).second;
  }
  bool IsUniform(const Expr& e) const { return result_->IsUniform(e, active_, same_); }
  bool AreUniform(const Array<Expr>& all) const {
    return std::all_of(all.begin(), all.end(), [&](const Expr& e) { return IsUniform(e); });
  }
  // Returns whether other conditions than those on the thread index may divide the active threads.
  bool IsDivided() const {
    return divergent_ || std::any_of(agreed_.begin(), agreed_.end(), [&](const ThreadSet& some) {
             return some.Overlaps(active_) && !some.Contains(active_);
           });
  }
  // A value, the same in all threads that get here or not, goes to an element of a buffer.
  void Write(const Buffer& buffer, bool uniform) {
    if (buffer.IsGlobal()) Mark(&result_->written_, MemoryOf(buffer));
    if (!IsPrivate(buffer)) return;
    stored_.push_back(buffer.get());
    bool is_variable = std::all_of(buffer->shape.begin(), buffer->shape.end(),
                                   [](const Expr& extent) { return IsConst(extent, 1); });
    if (IsDivided() || !uniform || !is_variable) {
      same_.erase(buffer.get());
    } else {
      same_.insert(buffer.get());
    }
    if (IsDivided() || !uniform) {
      Mark(&result_->varying_, buffer.get());
    } else if (!active_.IsWholeBlock()) {
      MarkRole(buffer.get());
    }
  }
  void MarkRole(const ffi::Object* buffer) {
    std::vector<ThreadSet>& stores = result_->role_stores_[buffer];
    if (std::find(stores.begin(), stores.end(), active_) != stores.end()) return;
    stores.push_back(active_);
    changed = true;
  }
  void Loop(const StmtNode* loop, const Stmt& body, bool uniform) {
    if (!uniform) Mark(&result_->varying_loops_, loop);
    bool outer = divergent_;
    bool outer_in_loop = divergent_in_loop_;
    const StmtNode* outer_loop = loop_;
    ThreadSet outer_active = loop_active_;
    loop_ = loop;
    loop_active_ = active_;
    divergent_ |= !result_->IsUniformLoop(loop);
    divergent_in_loop_ = false;
    same_.clear();
    VisitStmt(body);
    same_.clear();
    divergent_ = outer;
    divergent_in_loop_ = outer_in_loop;
    loop_ = outer_loop;
    loop_active_ = outer_active;
  }
  void Leave() {
    bool alone = divergent_in_loop_ || active_ != loop_active_;
    if (alone && loop_ != nullptr) Mark(&result_->varying_loops_, loop_);
  }

  Uniformity* result_;
  const StmtNode* loop_ = nullptr;
  ThreadSet active_;       // by the conditions on the thread index around
  ThreadSet loop_active_;  // the same at the loop
  // Variables to which all of them have just given one value, whatever other threads store later;
  // and those stored in the present branch.
  std::unordered_set<const ffi::Object*> same_;
  std::vector<const ffi::Object*> stored_;
  bool divergent_ = false;          // other conditions divide them further
  std::vector<ThreadSet> agreed_;   // of each set all threads get here, or none does
  bool divergent_in_loop_ = false;  // between the loop and here
};

Uniformity::Uniformity(const KernelLaunchNode* launch) : threads_(launch) {
  for (const Var& var : launch->thread_vars) varying_.insert(var.get());
  bool changed = true;
  while (changed) {
    VariationFinder finder(this);
    finder.VisitStmt(launch->body);
    changed = finder.changed;
  }
}

bool Uniformity::IsShared(const Buffer& buffer, const ThreadSet& active) const {
  if (varying_.count(buffer.get())) return false;
  if (buffer.IsShared()) return true;
  if (buffer.IsGlobal()) return !written_.count(MemoryOf(buffer));
  if (!IsPrivate(buffer)) return false;
  auto stores = role_stores_.find(buffer.get());
  if (stores == role_stores_.end()) return true;
  // The threads have seen the same stores.
  return std::all_of(stores->second.begin(), stores->second.end(), [&](const ThreadSet& by) {
    return by.Contains(active) || !by.Overlaps(active);
  });
}

bool Uniformity::IsUniform(const Expr& e, const ThreadSet& active) const {
  return IsUniform(e, active, {});
}

bool Uniformity::IsUniform(const Expr& e, const ThreadSet& active,
                           const std::unordered_set<const ffi::Object*>& same) const {
  Expr folded = active.IsWholeBlock() ? e : threads_.Fold(e, active);
  bool uniform = true;
  WalkExprs(folded, [&](const Expr& part) {
    if (part->kind == ExprKind::kVar) {
      uniform &= !varying_.count(part.get());
    } else if (const auto* load = part.as<LoadNode>()) {
      uniform &= same.count(load->buffer.get()) != 0 || IsShared(load->buffer, active);
    } else if (const auto* call = part.as<CallNode>()) {
      if (call->Is(Builtin::kBlockVote) || call->Is(Builtin::kNextTile)) return false;
      bool pure = call->intrinsic != nullptr && call->intrinsic->pure;
      uniform &= pure || ListedTable(call).defined();
    }
    return uniform;
  });
  return uniform;
}

bool Uniformity::IsUniformInWarps(const Expr& e, const ThreadSet& active) const {
  bool uniform = true;
  WalkExprs(e, [&](const Expr& part) {
    const auto* call = part.as<CallNode>();
    if ((call != nullptr && IsVoteOfWarp(call)) || threads_.IsOfWarp(part)) return false;
    if (auto var = part.as<Var>()) {
      auto value = values_.Get(*var);
      uniform &= IsUniform(*var, active) || (value && IsUniformInWarps(*value, active));
    } else if (call != nullptr || part->kind == ExprKind::kLoad) {
      uniform &= IsUniform(part, active);
      return false;
    }
    return uniform;
  });
  return uniform;
}

bool RunsInEveryThread(const ParallelForNode* op) {
  if (auto layout = op->annotations.Get("loop_layout")) {
    auto fragment = (*layout).cast<layout::Fragment>();
    if (fragment->thread->Cosize() - fragment->thread->offset != 1) return false;
  }
  bool indexes_array = false;
  bool has_fragment = false;
  WalkEffects(op->body, [&](const Effect& e) {
    has_fragment |= e.buffer.IsFragment();
    if (e.buffer->scope != "local") return;
    for (const Expr& index : e.indices) {
      for (const Var& var : op->vars) indexes_array |= UsesVar(index, var);
    }
  });
  return indexes_array && !has_fragment;
}

}  // namespace tilelang::analysis
