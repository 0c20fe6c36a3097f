// The lifetimes of buffers.
#ifndef TILELANG_ANALYSIS_LIFETIMES_H_
#define TILELANG_ANALYSIS_LIFETIMES_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/visitor.h"

namespace tilelang::analysis {

// First and last access of each buffer that `counts`, in the order of the program; a loop is one
// moment for what is allocated outside of it. An upper bound is not needed: whatever a planner
// assumes beyond this only forbids more.
class Lifetimes : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;
  struct Life {
    int64_t first = std::numeric_limits<int64_t>::max();
    int64_t last = -1;
    bool Overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
  };
  std::vector<std::pair<ir::Buffer, Life>> lives;

  explicit Lifetimes(std::function<bool(const ir::Buffer&)> counts) : counts_(std::move(counts)) {}

  void VisitStmt(const ir::Stmt& s) override {
    ++time_;
    StmtVisitor::VisitStmt(s);
  }
  void Visit(const ir::ForNode* op) override {
    Loop([&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    Loop([&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::AllocNode* op) override { depth_of_[op->buffer.get()] = starts_.size(); }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (!counts_(buffer)) return;
    Life& life = LifeOf(buffer);
    size_t depth = depth_of_[buffer.get()];
    int64_t from = depth < starts_.size() ? starts_[depth] : time_;
    life.first = std::min(life.first, from);
    life.last = std::max(life.last, time_);
    if (depth < starts_.size()) carried_[depth].push_back(buffer);
  }

 private:
  void Loop(const std::function<void()>& visit) {
    starts_.push_back(time_);
    carried_.emplace_back();
    visit();
    for (const ir::Buffer& buffer : carried_.back()) LifeOf(buffer).last = time_;
    carried_.pop_back();
    starts_.pop_back();
  }

  Life& LifeOf(const ir::Buffer& buffer) {
    for (auto& [known, life] : lives) {
      if (known.same_as(buffer)) return life;
    }
    lives.emplace_back(buffer, Life());
    return lives.back().second;
  }

  std::function<bool(const ir::Buffer&)> counts_;
  int64_t time_ = 0;
  std::vector<int64_t> starts_;                   // of the loops around, outermost first
  std::vector<std::vector<ir::Buffer>> carried_;  // buffers that live through each of them
  std::unordered_map<const tvm::ffi::Object*, size_t> depth_of_;
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_LIFETIMES_H_
