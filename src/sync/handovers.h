// Which accesses of tensor memory those who wait on an mbarrier come after.
#ifndef TILELANG_SYNC_HANDOVERS_H_
#define TILELANG_SYNC_HANDOVERS_H_

#include <vector>

#include "analysis/memory_access.h"
#include "analysis/thread_set.h"

namespace tilelang::sync {

// An arrival tells of what its threads have done, a commit of what the tensor core has done for
// them, and both of what the threads have learned on other barriers.
class Handovers {
 public:
  explicit Handovers(const analysis::BlockThreads& threads) : threads_(threads) {}

  // Those of the body of a launch, which makes these accesses.
  void Find(const ir::Stmt& body, const std::vector<analysis::AccessPtr>& accesses);

  // What these threads come after when they have waited. What comes back to them of their own they
  // knew when they passed it on; but for what the arrivals at this barrier are of their own.
  std::vector<analysis::AccessPtr> To(const ir::Buffer& barrier,
                                      const analysis::ThreadSet& waiting) const;
  // Of tensor memory.
  const std::vector<analysis::AccessPtr>& All() const { return accesses_; }

 private:
  struct Event {
    ir::Buffer barrier;
    analysis::ThreadSet by;
    ir::Proxy proxy = ir::Proxy::kGeneric;  // whose accesses an arrival tells of

    bool operator==(const Event& other) const {
      return barrier.same_as(other.barrier) && by == other.by && proxy == other.proxy;
    }
  };
  static void Add(const Event& event, std::vector<Event>* events);
  // Those of a statement that these threads execute.
  void AddStmt(const ir::Stmt& s, const analysis::ThreadSet& by);
  void AddWait(const ir::Buffer& barrier, const analysis::ThreadSet& by);

  const analysis::BlockThreads& threads_;
  std::vector<analysis::AccessPtr> accesses_;
  std::vector<Event> arrivals_;
  std::vector<Event> waits_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_HANDOVERS_H_
