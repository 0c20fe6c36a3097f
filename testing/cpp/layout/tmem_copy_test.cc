// Fragments and tensor-memory plans under the sanitizers: every form, both directions.
#include "layout/tmem_copy.h"

#include "check.h"
#include "layout/algebra.h"

namespace tilelang::layout {
namespace {

TEST(AFragmentInvertsItself) {
  for (int64_t vector : {1, 2, 4, 3}) {
    Fragment fragment = Fragment::Partition({12, 50}, 96, vector);
    for (int64_t i = 0; i < fragment->Size(); ++i) {
      Coord coord = Delinearize(fragment->Extents(), i);
      auto [thread, reg] = fragment->Forward(coord);
      CHECK_EQ(Linearize(fragment->Extents(), fragment->Inverse(thread, reg)->first), i);
    }
  }
}

// The registers that a plan moves are those of the fragment, each of them once.
int64_t RegistersMoved(const TmemCopyPlan& plan) {
  int64_t moved = 0;
  for (size_t i = 0; i < plan->instructions.size(); ++i) moved += plan->Instruction(i)->num_regs;
  return moved;
}

TEST(NaturalFragmentsHavePlans) {
  for (MmaForm form : {MmaForm{}, MmaForm{1, true, 0}}) {
    for (int64_t m : {64, 128}) {
      for (int64_t bits : {8, 16, 32}) {
        for (int64_t threads : {128, 256}) {
          TmemLayout tile = OperandALayout(m, 80 * 32 / bits, bits, form);
          TmemCopyOptions options;
          options.num_threads = threads;
          TmemFragment natural = NaturalTmemFragment(tile, options);
          CHECK_EQ(natural.reason, "");
          TmemCopyPlans plans =
              PlanTmemCopy(tile, *natural.fragment, TmemDirection::kStore, options);
          CHECK_EQ(plans.plans.empty(), false);
          int64_t words = (*natural.fragment)->RegsPerThread() * bits / 32;
          CHECK_EQ(RegistersMoved(plans.plans[0]), words);
        }
      }
    }
  }
}

TEST(AFragmentThatDoesNotFitHasAReasonAndANeighbour) {
  TmemLayout tile = AccumulatorLayout(64, 64, 32);
  Fragment rows = Fragment::Partition({64, 64}, 128, 4);
  TmemCopyPlans plans = PlanTmemCopy(tile, rows, TmemDirection::kLoad);
  CHECK_EQ(plans.plans.size(), size_t{0});
  CHECK_EQ(plans.reason.empty(), false);
  TmemFragment near = NearestTmemFragment(tile, rows, TmemDirection::kLoad);
  CHECK_EQ(PlanTmemCopy(tile, *near.fragment, TmemDirection::kLoad).plans.empty(), false);
}

TEST(AlgebraOfAPermutedTile) {
  Layout tile(IntTuple({IntTuple(4), IntTuple(6)}), IntTuple({IntTuple(1), IntTuple(4)}));
  Layout inverse = LeftInverse(tile);
  for (int64_t i = 0; i < tile->Size(); ++i) CHECK_EQ(inverse->At(tile->At(i)), i);
  CHECK_EQ(Composition(tile, inverse)->At(17), 17);
  CHECK_EQ(ZippedDivide(tile, {2, 3})->Size(), 24);
}

}  // namespace
}  // namespace tilelang::layout
