// Gemms whose results become operands of others in registers.
#ifndef TILELANG_ANALYSIS_CHAINED_GEMMS_H_
#define TILELANG_ANALYSIS_CHAINED_GEMMS_H_

#include <unordered_set>

#include "ir/gemm.h"

namespace tilelang::analysis {

// A gemm is chained if its A is a fragment, or if an A that is one is computed from its C, as the
// weights of attention from the scores: rows stay with their threads where warps share both results
// by rows. So is one that adds to the C of a gemm whose A is a fragment.
class ChainedGemms {
 public:
  explicit ChainedGemms(const ir::KernelLaunchNode* launch);
  bool Has(const ir::GemmNode* gemm) const;

 private:
  std::unordered_set<const ir::ffi::Object*> sources_;  // fragments that an A is computed from
  std::unordered_set<const ir::ffi::Object*> results_;  // of gemms whose A is a fragment
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_CHAINED_GEMMS_H_
