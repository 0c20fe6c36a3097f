// Decides once for each pair of accesses whether they may conflict.
#ifndef TILELANG_ANALYSIS_CONFLICT_TABLE_H_
#define TILELANG_ANALYSIS_CONFLICT_TABLE_H_

#include <map>
#include <tuple>

#include "analysis/conflicts.h"

namespace tilelang::analysis {

class ConflictTable {
 public:
  // See MayConflict of conflicts.h.
  bool MayConflict(const AccessPtr& earlier, const AccessPtr& later, bool carried) {
    auto [it, is_new] = known_.try_emplace({earlier, later, carried});
    if (is_new) it->second = analysis::MayConflict(*earlier, *later, carried);
    return it->second;
  }
  bool WarpgroupsMayConflict(const AccessPtr& earlier, const AccessPtr& later, bool carried) {
    auto [it, is_new] = of_warpgroups_.try_emplace({earlier, later, carried});
    if (is_new) it->second = analysis::WarpgroupsMayConflict(*earlier, *later, carried);
    return it->second;
  }

 private:
  // Looked up, never walked: no order of pointers is seen. They keep the accesses alive.
  std::map<std::tuple<AccessPtr, AccessPtr, bool>, bool> known_, of_warpgroups_;
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_CONFLICT_TABLE_H_
