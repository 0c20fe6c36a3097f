// For each mbarrier: the accesses of tensor memory that happen before a thread once it has waited.
#ifndef TILELANG_SYNC_HANDOVERS_H_
#define TILELANG_SYNC_HANDOVERS_H_

#include <vector>

#include "analysis/memory_access.h"
#include "analysis/thread_set.h"

namespace tilelang::sync {

// An arrival releases the accesses of its threads, a commit the accesses that the tensor core makes
// for them. Both also release everything that the threads have acquired on other barriers.
class Handovers {
 public:
  explicit Handovers(const analysis::BlockThreads& threads) : threads_(threads) {}

  // Collects the handovers in the body of a launch that makes these accesses.
  void Find(const ir::Stmt& body, const std::vector<analysis::AccessPtr>& accesses);

  // Returns the accesses that happen before these threads once they have waited on the barrier.
  // Their own accesses are left out, except for the accesses that their arrivals at this barrier
  // release.
  std::vector<analysis::AccessPtr> To(const ir::Buffer& barrier,
                                      const analysis::ThreadSet& waiting) const;
  // Returns all accesses of tensor memory.
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
  // Adds the arrivals and waits in a statement that these threads execute.
  void AddStmt(const ir::Stmt& s, const analysis::ThreadSet& by);
  void AddWait(const ir::Buffer& barrier, const analysis::ThreadSet& by);

  const analysis::BlockThreads& threads_;
  std::vector<analysis::AccessPtr> accesses_;
  std::vector<Event> arrivals_;
  std::vector<Event> waits_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_HANDOVERS_H_
