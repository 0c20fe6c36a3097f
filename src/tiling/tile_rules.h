// The rules of a target for the tiles of a straightforward GEMM: candidates, their times, and how
// to rewrite a program to one of them.
#ifndef TILELANG_TILING_TILE_RULES_H_
#define TILELANG_TILING_TILE_RULES_H_

#include <memory>
#include <string>
#include <vector>

#include "ir/function.h"
#include "target/target.h"
#include "tiling/candidate.h"
#include "tiling/gemm_problem.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// A launch with the tiles of a candidate.
struct TiledLaunch {
  ir::Stmt launch;           // null: the program cannot be rewritten to it
  ir::Array<ir::Expr> grid;  // of its tiles
};

class TileRules {
 public:
  virtual ~TileRules() = default;

  // Returns the candidates for a GEMM of these sizes, in the order in which to compare them.
  virtual std::vector<Candidate> Propose(const GemmProblem& problem) const = 0;

  // Returns the candidate for a GEMM of other sizes. `in_one_wave`: for calls of which a wave
  // computes all tiles. Such a candidate may have more.
  virtual Candidate Predict(const GemmProblem& problem, const Candidate& candidate,
                            bool in_one_wave) const = 0;

  // Returns whether `other` should replace `best`.
  virtual bool IsBetter(const Candidate& other, const Candidate& best) const = 0;

  // Returns the launch with a candidate's tiles. `in_one_wave`: calls of which a wave does not
  // compute all tiles run another launch. Otherwise sets the reason of `excluded` if there is one
  // that a user can act on, and its span.
  virtual TiledLaunch Apply(const Candidate& candidate, bool in_one_wave,
                            Exclusion* excluded) const = 0;

  // Returns a remark on the choice of a candidate for all calls; empty if the program's own tiles
  // need none.
  virtual std::string Remark(const Candidate& chosen, const TiledLaunch& launch) const = 0;
};

// The rules for a launch of a plain GEMM; null where its tiles stay as they are. A program is
// rewritten if TMA loads its tiles, and if the target's matrix instruction is wgmma or tcgen05.
std::unique_ptr<TileRules> WgmmaRules(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                      const GemmProblem& problem, const PlainGemm& plain,
                                      const Target& target);
std::unique_ptr<TileRules> Tcgen05Rules(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                        const GemmProblem& problem, const PlainGemm& plain,
                                        const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_RULES_H_
