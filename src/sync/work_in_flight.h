// Operations issued to engines, up to the first statement that depends on them.
#ifndef TILELANG_SYNC_WORK_IN_FLIGHT_H_
#define TILELANG_SYNC_WORK_IN_FLIGHT_H_

#include <functional>
#include <vector>

#include "analysis/memory_access.h"
#include "ir/async.h"

namespace tilelang::sync {

// The operations of one sequence whose Wait is not placed yet. The wait stands before the first
// statement of the sequence that touches the same memory or registers, hands them over, or has an
// effect that only the program knows. Groups of wgmma complete in order, so a wait for one leaves
// later groups in flight.
class WorkInFlight {
 public:
  bool IsEmpty() const { return work_.empty(); }
  // Work that makes these accesses has been issued. False: nothing is known of it, so that it must
  // be waited for at once.
  bool Add(const ir::IssueNode* issue, const std::vector<analysis::AccessPtr>& accesses);
  // The waits that must stand before a statement that makes these accesses, tiles that it hands
  // over among them, in the order of the work.
  std::vector<ir::Stmt> TakeBefore(const ir::Stmt& s,
                                   const std::vector<analysis::AccessPtr>& accesses);
  // Returns the waits for work on registers that the sequence allocates, because the registers have
  // no name after the sequence.
  std::vector<ir::Stmt> TakeAllocatedIn(const ir::SeqNode* seq);
  std::vector<ir::Stmt> TakeAll();
  // Returns whether all waits must stand before a statement that makes no accesses.
  static bool IsEndedBy(const ir::Stmt& s);

 private:
  struct Work {
    ir::Completion completion;
    ir::Span span;
    std::vector<analysis::AccessPtr> accesses;  // of the engine
    int group = 0;                              // of wgmma: its number

    bool IsOfWgmma() const { return completion->engine_kind() == ir::Engine::kWgmma; }
  };

  std::vector<ir::Stmt> TakeIf(const std::function<bool(const Work&)>& due);
  // One wait for all of these groups of wgmma.
  ir::Stmt Together(const std::vector<Work>& groups) const;

  std::vector<Work> work_;
  int groups_ = 0;  // of wgmma in the sequence so far
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_WORK_IN_FLIGHT_H_
