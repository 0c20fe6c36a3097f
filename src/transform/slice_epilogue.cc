#include "transform/slice_epilogue.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "op/gemm_mma.h"
#include "op/gemm_tcgen05.h"
#include "op/wgmma.h"
#include "transform/epilogue_loads.h"
#include "transform/epilogue_region.h"
#include "transform/epilogue_slices.h"
#include "transform/fixed_rounding.h"
#include "transform/remove_unused.h"
#include "transform/scoped_mutator.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;
using ir::Buffer;
using ir::Stmt;

namespace {

constexpr int64_t kAuto = -1;
constexpr int64_t kSlots = 2;

// Columns of a slice of a tile of `width`: at most `most`, in equal slices of units that every
// instruction moves; 0 where there is only one slice.
int64_t ChooseColumns(int64_t width, int64_t most) {
  if (width <= most) return 0;
  for (int64_t unit : {32, 16, 8}) {
    for (int64_t columns = most / unit * unit; columns > 0; columns -= unit) {
      if (width % columns == 0) return columns;
    }
  }
  return 0;
}

// The gemms of a sequence that write the tile.
std::vector<const ir::GemmNode*> GemmsInto(const ir::SeqNode* seq, const Buffer& c) {
  std::vector<const ir::GemmNode*> gemms;
  for (const Stmt& s : seq->stmts) {
    ir::WalkStmts(s, [&](const Stmt& inner) {
      const auto* gemm = inner.as<ir::GemmNode>();
      if (gemm != nullptr && gemm->c->buffer.same_as(c)) gemms.push_back(gemm);
      return true;
    });
  }
  return gemms;
}

class EpilogueSlicer : public ScopedMutator {
 public:
  EpilogueSlicer(const Target& target, int64_t columns) : target_(target), columns_(columns) {}

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    threads_ = analysis::ThreadsOf(op);
    return ScopedMutator::Rewrite(op);
  }

  Stmt Rewrite(const ir::SeqNode* op) override {
    EpilogueCandidate candidate = FindEpilogue(op);
    if (candidate.accumulators.empty()) return ScopedMutator::Rewrite(op);
    const Buffer& c = candidate.accumulators.front();
    int64_t width = *ir::AsInt(c->shape[1]);
    if (columns_ == kAuto) return ScopedMutator::Rewrite(op);
    int64_t columns = ChooseColumns(width, columns_);
    if (columns == 0) return Whole(op, candidate);
    EpilogueObstacle obstacle{DividedColumns(op, candidate), c->span};
    EpilogueRegion region;
    if (obstacle.text.empty()) {
      region = CollectEpilogue(launch_, op, candidate, width / columns, &obstacle);
    }
    if (obstacle.text.empty()) return Slices(op, std::move(region));
    Remark(obstacle.span, "epilogue",
           "the epilogue of " + std::string(c->name) + " is not divided into slices of " +
               std::to_string(columns) + " columns: " + obstacle.text);
    return Whole(op, candidate);
  }

 private:
  // The whole tile, whose bits are those of slices.
  Stmt Whole(const ir::SeqNode* op, const EpilogueCandidate& candidate) {
    EpilogueObstacle obstacle;
    EpilogueRegion region = CollectEpilogue(launch_, op, candidate, 1, &obstacle);
    if (!obstacle.text.empty()) return ScopedMutator::Rewrite(op);
    std::vector<Stmt> stmts(op->stmts.begin(), op->stmts.end());
    for (size_t i = region.begin; i < region.end; ++i) stmts[i] = WithFixedRounding(stmts[i]);
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

  Stmt Slices(const ir::SeqNode* op, EpilogueRegion region) {
    for (EpilogueStep& step : region.steps) step.stmt = WithFixedRounding(step.stmt);
    if (!NamesValues(region)) {
      HoistLoads(&region, [this](const Buffer& buffer) { return IsConstant(buffer); });
    }
    bool shared_columns = target_->has_tcgen05 && Threads().count > kWarpgroup;
    SlicedEpilogue slices = WriteSlices(region, {kSlots, shared_columns});
    auto last_gemm = op->stmts.begin() + region.begin - 1;
    std::vector<Stmt> stmts(op->stmts.begin(), last_gemm);
    stmts.insert(stmts.end(), slices.hoisted.begin(), slices.hoisted.end());
    stmts.push_back(*last_gemm);
    stmts.insert(stmts.end(), slices.stmts.begin(), slices.stmts.end());
    stmts.insert(stmts.end(), op->stmts.begin() + region.end, op->stmts.end());
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

  // Why a range of columns is not the same registers of all threads.
  std::string DividedColumns(const ir::SeqNode* seq, const EpilogueCandidate& candidate) {
    op::ThreadRange threads = Threads();
    for (const Buffer& c : candidate.accumulators) {
      for (const ir::GemmNode* gemm : GemmsInto(seq, c)) {
        if (target_->has_tcgen05) {
          if (!c.IsFragment()) continue;
          auto annotated = op::LayoutMap::Annotated(launch_);
          std::string lacks = op::Tcgen05Lacks(gemm, threads, annotated);
          if (!lacks.empty()) return lacks;
          continue;
        }
        int64_t rows = op::kWgmmaRows * (threads.count / kWarpgroup);
        bool by_rows =
            op::AreWarpgroups(threads) && *ir::AsInt(c->shape[0]) % rows == 0 &&
            op::PolicyOf(gemm) != op::WarpPolicy::kFullCol &&
            op::ChooseWgmmaKind(gemm->a->buffer->dtype, gemm->b->buffer->dtype, c->dtype);
        if (!by_rows) return "warps share the columns of " + std::string(c->name);
      }
    }
    return "";
  }

  op::ThreadRange Threads() { return analysis::ActiveThreads(threads_, &analyzer_); }

  // Nothing stores to the tensor in this launch.
  bool IsConstant(const Buffer& buffer) const {
    bool constant = true;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      constant = constant && !(effect.Writes() && effect.buffer.same_as(buffer));
    });
    return constant;
  }

  // Its statements use what is named only after the gemms.
  static bool NamesValues(const EpilogueRegion& region) {
    return std::any_of(region.steps.begin(), region.steps.end(), [](const EpilogueStep& step) {
      return step.stmt->kind == ir::StmtKind::kBind;
    });
  }

  Target target_;
  int64_t columns_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  analysis::LaunchThreads threads_;
};

}  // namespace

ir::Func SliceEpilogue(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma && !target->has_tcgen05) return func;
  auto given = func->attrs.Get(kEpilogueColumns);
  int64_t columns = given ? (*given).cast<int64_t>() : kAuto;
  Stmt body = EpilogueSlicer(target, columns).MutateStmt(func->body);
  return body.same_as(func->body) ? func : func.WithBody(RemoveUnused(body));
}

}  // namespace tilelang::transform
