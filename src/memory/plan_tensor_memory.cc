#include "memory/plan_tensor_memory.h"

#include <algorithm>
#include <map>

#include "analysis/uniformity.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/column_owner.h"
#include "op/gemm_tcgen05.h"
#include "op/tmem.h"
#include "op/tmem_lanes.h"

namespace tilelang::memory {

using ir::Buffer;
using ir::Map;
using ir::Stmt;

namespace {

struct Usage {
  // Branches of threads are numbered; all threads are the first.
  static constexpr int64_t kNobody = -1;
  static constexpr int64_t kSeveral = -2;

  Buffer buffer;
  int64_t columns = 0;
  op::TmemHalf half = op::TmemHalf::kBoth;
  // The branch that uses the buffer. Different branches run at the same time, whatever their order
  // in the program.
  int64_t branch = kNobody;
  // Some instruction may still be at work when the next statement runs.
  bool outlives = false;
  // Positions of the first and the last statement that uses the buffer.
  int64_t first = -1;
  int64_t last = -1;
  int64_t column = 0;
};

// Numbers statements in program order; a use inside a loop lasts for the whole loop, unless each
// iteration overwrites the buffer first and nothing outside the loop uses it.
class UsageFinder : public ir::StmtVisitor {
 public:
  explicit UsageFinder(const ir::KernelLaunchNode* launch) : launch_(launch), uniformity_(launch) {
    VisitStmt(launch->body);
    FindStoresLeft();
  }
  std::vector<Usage> usages;

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    ++position_;
    StmtVisitor::VisitStmt(s);
  }
  void Visit(const ir::AllocNode* op) override {
    if (!op->buffer.IsTmem()) return;
    loops_of_[op->buffer.get()] = loops_.size();
    usages.push_back({op->buffer});
    usages.back().outlives = op->buffer->attrs.count(op::kOfRoles) != 0;
  }
  void Visit(const ir::IfNode* op) override {
    if (uniformity_.IsUniform(op->condition)) return StmtVisitor::Visit(op);
    VisitExpr(op->condition);
    Branch(op->then_case);
    if (op->else_case.defined()) Branch(op->else_case);
  }
  void Visit(const ir::GemmNode* op) override {
    // The threads that wait for it say what it uses.
    if (op::IsByMmaWarp(op)) return;
    issue_only_ = !op::WaitsItself(op);
    StmtVisitor::Visit(op);
    issue_only_ = false;
  }
  void Visit(const ir::ArriveNode* op) override {
    for (const Buffer& buffer : op->tensor_memory) VisitBuffer(buffer);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::WaitParityNode* op) override {
    for (const Buffer& buffer : op->tensor_memory) VisitBuffer(buffer);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::ForNode* op) override { Loop(op); }
  void Visit(const ir::WhileNode* op) override { Loop(op); }
  void VisitBuffer(const Buffer& buffer) override {
    if (!buffer.IsTmem()) return;
    for (Usage& usage : usages) {
      if (!usage.buffer.same_as(buffer)) continue;
      usage.outlives |= issue_only_;
      bool known = usage.branch == Usage::kNobody || usage.branch == branch_;
      usage.branch = known ? branch_ : Usage::kSeveral;
      // The outermost loop that does not contain the allocation.
      size_t depth = loops_of_[buffer.get()];
      int64_t begin = depth < loops_.size() ? loops_[depth] : position_;
      if (usage.first < 0) usage.first = begin;
      usage.last = position_;
      if (depth < loops_.size()) open_.push_back({depth, &usage - usages.data()});
    }
  }

 private:
  // Nobody waits for a store that nothing reads later.
  void FindStoresLeft() {
    std::map<const void*, bool> left;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      left[effect.buffer.get()] = effect.Writes() && effect.By<ir::GemmNode>() == nullptr;
    });
    for (Usage& usage : usages) usage.outlives |= left[usage.buffer.get()];
  }
  void Branch(const Stmt& body) {
    int64_t outer = branch_;
    branch_ = ++branches_;
    VisitStmt(body);
    branch_ = outer;
  }

  template <typename LoopNode>
  void Loop(const LoopNode* op) {
    loops_.push_back(position_);
    for (const Usage& usage : usages) {
      bool fresh =
          ir::OverwritesFirst(op->body, usage.buffer) &&
          ir::CountEffects(op->body, usage.buffer) == ir::CountEffects(launch_->body, usage.buffer);
      if (fresh) loops_of_[usage.buffer.get()] = loops_.size();
    }
    StmtVisitor::Visit(op);
    loops_.pop_back();
    for (const auto& [depth, index] : open_) {
      if (depth == loops_.size()) usages[index].last = std::max(usages[index].last, position_);
    }
  }

  const ir::KernelLaunchNode* launch_;
  analysis::Uniformity uniformity_;
  int64_t branch_ = 0;
  int64_t branches_ = 0;
  bool issue_only_ = false;
  int64_t position_ = 0;
  std::vector<int64_t> loops_;              // where the enclosing loops begin
  std::map<const void*, size_t> loops_of_;  // the loops around the life of a buffer
  std::vector<std::pair<size_t, int64_t>> open_;
};

// The usage of the tile whose columns another one takes; null for most.
Usage* Below(const Usage& usage, std::vector<Usage>* usages) {
  auto owner = op::OwnerOfColumns(usage.buffer);
  if (!owner) return nullptr;
  auto it = std::find_if(usages->begin(), usages->end(),
                         [&](const Usage& u) { return u.buffer.same_as(*owner); });
  return &*it;
}

// The columns are in use as long as either is.
void Join(const Usage& above, Usage* below) {
  if (above.first < 0) return;
  if (below->first < 0) {
    below->branch = above.branch;
    below->first = above.first;
  }
  if (above.branch != below->branch) below->branch = Usage::kSeveral;
  below->outlives |= above.outlives;
  below->first = std::min(below->first, above.first);
  below->last = std::max(below->last, above.last);
}

// Returns whether the two buffers may have a cell in common, and be live at the same time.
bool Overlap(const Usage& a, const Usage& b) {
  bool apart = a.half != b.half && a.half != op::TmemHalf::kBoth && b.half != op::TmemHalf::kBoth;
  if (apart) return false;
  bool in_order = a.branch == b.branch && a.branch != Usage::kSeveral;
  if (!in_order || a.outlives || b.outlives) return true;
  return a.first <= b.last && b.first <= a.last;
}

// First fit, widest buffers first. Returns the columns used.
int64_t Place(std::vector<Usage>* usages) {
  std::vector<Usage*> order;
  for (Usage& u : *usages) {
    if (Usage* below = Below(u, usages)) {
      Join(u, below);
    } else {
      order.push_back(&u);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Usage* a, const Usage* b) { return a->columns > b->columns; });
  int64_t used = 0;
  std::vector<Usage*> placed;
  for (Usage* u : order) {
    int64_t column = 0;
    bool moved = true;
    while (moved) {
      moved = false;
      for (const Usage* p : placed) {
        bool apart = column + u->columns <= p->column || p->column + p->columns <= column;
        if (apart || !Overlap(*u, *p)) continue;
        column = p->column + p->columns;
        moved = true;
      }
    }
    u->column = column;
    used = std::max(used, column + u->columns);
    placed.push_back(u);
  }
  for (Usage& u : *usages) {
    if (const Usage* below = Below(u, usages)) u.column = below->column;
  }
  return used;
}

[[noreturn]] void TooMuch(const std::vector<Usage>& usages, int64_t used, int64_t limit,
                          const ir::Span& span) {
  ir::ErrorStream text;
  text << "the kernel needs " << used << " columns of tensor memory, but a CTA has " << limit
       << ":";
  for (const Usage& u : usages) {
    text << "\n  " << std::string(u.buffer->name) << " "
         << layout::CoordToString(op::StaticShape(u.buffer)) << " " << ir::ToString(u.buffer->dtype)
         << ": " << u.columns << " columns";
    if (u.buffer->span.defined()) text << " (line " << u.buffer->span->line << ")";
  }
  text << "\nuse smaller tiles or fewer stages";
  ir::ThrowUserError(ir::ErrorClass::kResource, span, text.str());
}

class TensorMemoryPlanner : public ir::StmtMutator {
 public:
  explicit TensorMemoryPlanner(const Target& target) : target_(target) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    UsageFinder finder(op);
    std::vector<Usage>& usages = finder.usages;
    if (usages.empty()) return StmtMutator::Rewrite(op);
    if (target_->tmem_columns == 0) {
      TL_USER_ERROR(kTarget, usages[0].buffer->span,
                    "T.alloc_tmem: " << std::string(target_->arch)
                                     << " has no tensor memory; compile with target=\"sm_100a\" "
                                        "(CPU tensors then run on the emulator)");
    }
    op::LayoutMap layouts(op->attrs["layout_map"].cast<Map<Buffer, ir::Any>>());
    for (Usage& u : usages) {
      auto layout = layouts.GetTmem(u.buffer);
      // Never read nor written: whatever the layout, the columns of an accumulator suffice.
      if (!layout) layout = op::LayoutForRole(u.buffer, op::TmemRole::kAccumulator);
      u.columns = op::ColumnsOf(u.buffer, *layout);
      u.half = op::HalfOf(*layout);
    }
    int64_t used = Place(&usages);
    if (used > target_->tmem_columns) TooMuch(usages, used, target_->tmem_columns, op->span);
    int64_t allocation = 32;
    while (allocation < used) allocation *= 2;
    Map<Buffer, int64_t> columns;
    for (const Usage& u : usages) columns.Set(u.buffer, u.column);
    Map<ir::String, ir::Any> attrs = op->attrs;
    attrs.Set("tmem_columns", columns);
    attrs.Set("tmem_allocation", allocation);
    return ir::WithAttrs(op, attrs);
  }

 private:
  Target target_;
};

}  // namespace

ir::Func PlanTensorMemory(const ir::Func& func, const Target& target) {
  return func.WithBody(TensorMemoryPlanner(target).MutateStmt(func->body));
}

}  // namespace tilelang::memory
