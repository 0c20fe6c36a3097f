#include "tiling/fit_rows.h"

#include <tvm/ffi/cast.h>

#include <optional>
#include <string>

#include "ir/remark.h"
#include "ir/visitor.h"
#include "tiling/even_tiles.h"
#include "tiling/loop_stages.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class RowFitter : public ir::StmtMutator {
 public:
  RowFitter(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || !ir::AsInts(op->grid) || !HasNarrowTiles(op, plain)) return self;
    ir::Expr extent = ExtentOfTensor(plain, ir::GemmDim::kM);
    auto rows = extent.defined() ? ir::AsInt(extent) : std::nullopt;
    if (!rows || !LoadsByTma(func_, op, plain, target_)) return self;
    EvenTiles choice = ChooseEvenTiles(func_, op, plain, *rows, target_);
    if (!choice.launch.defined()) return self;
    Say(op, choice, *rows);
    return choice.launch;
  }

 private:
  static void Say(const ir::KernelLaunchNode* op, const EvenTiles& choice, int64_t all) {
    std::string parts = std::to_string(choice.parts);
    std::string text = "T.Kernel: " + std::to_string(choice.tiles * choice.parts) + " blocks of " +
                       std::to_string(choice.Threads()) + " threads compute " + Text(choice.tile) +
                       " elements ";
    if (choice.parts == 1) {
      std::string rows = std::to_string(all) + " rows of tensors";
      text += "each instead of " + Text(kNarrow) +
              (all > choice.tile.rows ? ": they divide the " + rows + " evenly"
                                      : ": each has all " + rows) +
              ", and all of them run at a time. The pass option ";
    } else {
      text +=
          "a cluster of " + parts + " instead of " + Text(kNarrow) +
          " each: clusters share the iterations of the loop, so that more multiprocessors "
          "load, and add up their sums, which have other last bits than those of one block, the "
          "same ones in each call. The pass option tl.disable_split_k leaves each tile to one "
          "block; ";
    }
    Remark(op->span, "tiles", text + "tl.disable_block_fitting turns it off");
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func FitRows(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(RowFitter(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
