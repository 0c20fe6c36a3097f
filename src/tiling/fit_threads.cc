#include "tiling/fit_threads.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/gemm.h"
#include "ir/min_blocks.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/plain_gemm.h"
#include "tiling/residency.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

// Returns whether the program gives a fragment its layout, which states a number of threads.
bool HasGivenFragments(const ir::KernelLaunchNode* op) {
  auto given = op->attrs.Get("layout_map");
  if (!given) return false;
  auto layouts = (*given).cast<ir::Map<ir::Buffer, ir::Any>>();
  return std::any_of(layouts.begin(), layouts.end(),
                     [](const auto& layout) { return layout.first.IsFragment(); });
}

bool UsesTensorMemory(const ir::KernelLaunchNode* op) {
  bool uses = false;
  ir::WalkEffects(op->body,
                  [&](const ir::Effect& effect) { uses = uses || effect.buffer.IsTmem(); });
  return uses;
}

class ThreadFitter : public ir::StmtMutator {
 public:
  ThreadFitter(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t given = analysis::ThreadsOf(op).count;
    if (op->threads.size() == 1 && LoadsBesideSums(op, given)) return Widen(op);
    bool possible =
        op->threads.size() == 1 && given % kWarp == 0 && Lack(op, given) > 1 && HasOpenThreads(op);
    if (!possible) return self;
    int64_t best = given;
    for (int64_t threads = 2 * given; threads <= kMostThreads && Lack(op, best) > 1; threads *= 2) {
      if (Lack(op, threads) < Lack(op, best) && GemmsAllow(op, given, threads)) best = threads;
    }
    if (best == given) return self;
    Remark(op->span, "threads",
           "T.Kernel: " + std::to_string(best) + " threads instead of " + std::to_string(given) +
               " compute a block: its fragments take about " +
               std::to_string(FragmentRegisters(op)) + " registers of each of " +
               std::to_string(given) +
               " threads, and what a thread cannot hold is spilled. The "
               "pass option tl.disable_block_fitting turns this off");
    return WithThreads(op, best);
  }

 private:
  static constexpr int64_t kMostThreads = 512;

  // Returns the registers that each of so many threads needs, relative to the ones that it can
  // have.
  double Lack(const ir::KernelLaunchNode* op, int64_t threads) const {
    int64_t given = analysis::ThreadsOf(op).count;
    int64_t needs = FragmentRegisters(op) * given / threads + kOtherRegisters;
    int64_t has =
        std::min<int64_t>(target_->max_registers_per_thread, target_->registers_per_sm / threads);
    return static_cast<double>(needs) / static_cast<double>(has);
  }

  // Returns whether one warpgroup holds the sums of a plain GEMM in half of its registers, and what
  // it loads in the others.
  bool LoadsBesideSums(const ir::KernelLaunchNode* op, int64_t given) const {
    if (!target_->has_wgmma || given != kWarpgroup) return false;
    PlainGemm plain = FindPlainGemm(op);
    return plain.loop != nullptr && Lack(op, given) <= 1 &&
           2 * FragmentRegisters(op) > target_->max_registers_per_thread &&
           GemmsAllow(op, given, 2 * given) && !LoadsByTma(func_, op, plain, target_);
  }

  static Stmt Widen(const ir::KernelLaunchNode* op) {
    Remark(op->span, "threads",
           "T.Kernel: 256 threads instead of 128 compute a block: threads load its tiles, and its "
           "sums leave 128 of them too few registers for what they load. The pass option "
           "tl.disable_block_fitting turns this off");
    return WithThreads(op, 2 * kWarpgroup);
  }

  // Returns whether all GEMMs that wgmma multiplies in the given threads have rows for so many.
  bool GemmsAllow(const ir::KernelLaunchNode* op, int64_t given, int64_t threads) const {
    bool allow = true;
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* gemm = s.as<ir::GemmNode>();
      bool by_wgmma = gemm != nullptr && target_->has_wgmma && op::MultipliesByWgmma(gemm, given);
      allow = allow && (!by_wgmma || (op::MultipliesByWgmma(gemm, threads) &&
                                      op::DividesRows(gemm, threads / kWarpgroup)));
      return allow;
    });
    return allow;
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

bool HasOpenThreads(const ir::KernelLaunchNode* op) {
  return !ir::StatesMinBlocks(op) && op->attrs.count("set_max_nreg") == 0 &&
         !HasGivenFragments(op) && !UsesTensorMemory(op) && LeavesThreadsOpen(op);
}

ir::Func FitThreads(const ir::Func& func, const Target& target) {
  return func.WithBody(ThreadFitter(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
