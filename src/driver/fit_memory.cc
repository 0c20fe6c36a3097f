#include "driver/fit_memory.h"

#include <algorithm>
#include <string>

#include "epilogue/slice_epilogue.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "lower/stage_tensor_memory.h"
#include "memory/plan_shared_memory.h"
#include "schedule/channel.h"

namespace tilelang::driver {

namespace {

// An attribute of changed loops (int): the stages that the program asks for.
constexpr const char* kStagesAsked = "stages_asked";
// An attribute of functions (bool): no pass gives blocks larger or more shared tiles.
constexpr const char* kOwnTiles = "own_tiles";

class StageReducer : public ir::StmtMutator {
 public:
  explicit StageReducer(int64_t most) : most_(most) {}

  using StmtMutator::Rewrite;
  ir::Stmt Rewrite(const ir::ForNode* op) override {
    ir::Stmt inner = StmtMutator::Rewrite(op);
    if (schedule::StagesOf(op) != most_) return inner;
    return schedule::WithStages(inner.as<ir::ForNode>(), most_ - 1, kStagesAsked);
  }

 private:
  int64_t most_;
};

}  // namespace

std::optional<ir::Func> WithFewerStages(const ir::Func& func) {
  int64_t most = 0;
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    if (const auto* loop = s.as<ir::ForNode>()) most = std::max(most, schedule::StagesOf(loop));
    return true;
  });
  if (most < 2) return std::nullopt;
  auto attrs = func->attrs;
  attrs.erase(memory::kRolesShare);
  return ir::Func(func->name, func->params, StageReducer(most).MutateStmt(func->body), attrs,
                  func->span);
}

void RemarkFewerStages(const ir::Func& func) {
  ir::WalkStmts(func->body, [](const ir::Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    auto asked = loop->annotations.Get(kStagesAsked);
    if (!asked) return true;
    Remark(s.span(), "pipeline",
           "T.Pipelined: num_stages=" + std::to_string((*asked).cast<int64_t>()) + " becomes " +
               std::to_string(schedule::StagesOf(loop)) +
               ": more stages do not fit shared memory; \"tl.keep_stages\" refuses them instead");
    return true;
  });
}

namespace {

ir::Func WithAttr(const ir::Func& func, const char* name, ir::Any value) {
  auto attrs = func->attrs;
  attrs.Set(name, std::move(value));
  return ir::Func(func->name, func->params, func->body, attrs, func->span);
}

}  // namespace

ir::Func WithOwnTiles(const ir::Func& func) { return WithAttr(func, kOwnTiles, true); }

bool HasOwnTiles(const ir::Func& func) { return func->attrs.count(kOwnTiles) != 0; }

void RemarkOwnTiles(const ir::Func& func) {
  if (!HasOwnTiles(func)) return;
  ir::WalkStmts(func->body, [](const ir::Stmt& s) {
    if (s->kind != ir::StmtKind::kKernelLaunch) return true;
    Remark(s.span(), "tiles",
           "T.Kernel: blocks compute the tiles of the program: with the tiles and stages that the "
           "compiler prefers, its other shared tiles do not fit shared memory");
    return false;
  });
}

std::optional<ir::Func> WithRolesSharing(const ir::Func& func) {
  if (func->attrs.count(memory::kRolesShare) != 0) return std::nullopt;
  bool has_barriers = ir::HasStmt(func->body, [](const ir::Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    return alloc != nullptr && alloc->buffer.IsBarrier();
  });
  if (!has_barriers) return std::nullopt;
  return WithAttr(func, memory::kRolesShare, true);
}

bool HasRolesSharing(const ir::Func& func) {
  auto shares = func->attrs.Get(memory::kRolesShare);
  return shares && (*shares).cast<bool>();
}

ir::Func WithoutRolesSharing(const ir::Func& func) {
  return WithAttr(func, memory::kRolesShare, false);
}

std::optional<ir::Func> WithSlicedResults(const ir::Func& func) {
  if (func->attrs.count(epilogue::kSlicesOwnWaits) != 0) return std::nullopt;
  bool waits = ir::HasStmt(func->body, [](const ir::Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    return gemm != nullptr && gemm->mbar.defined();
  });
  if (!waits) return std::nullopt;
  return WithAttr(func, epilogue::kSlicesOwnWaits, true);
}

std::optional<ir::Func> WithAccumulatorInRegisters(const ir::Func& func) {
  std::vector<ir::Buffer> accumulators;
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    bool fits = gemm != nullptr && gemm->result()->buffer.IsFragment();
    if (fits) ir::AddOnce(gemm->result()->buffer, &accumulators);
    return true;
  });
  auto given = func->attrs.Get(lower::kAccumulatorsInRegisters);
  int64_t count = given ? (*given).cast<int64_t>() : 0;
  if (count >= static_cast<int64_t>(accumulators.size())) return std::nullopt;
  return WithAttr(func, lower::kAccumulatorsInRegisters, count + 1);
}

}  // namespace tilelang::driver
