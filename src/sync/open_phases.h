// Phases of the compiler's mbarriers that threads have waited for, and the statements that begin
// the next phase.
#ifndef TILELANG_SYNC_OPEN_PHASES_H_
#define TILELANG_SYNC_OPEN_PHASES_H_

#include <optional>
#include <vector>

#include "ir/async.h"
#include "op/context.h"

namespace tilelang::sync {

using BarrierList = std::vector<ir::Buffer>;  // in the order of the program, none twice

// The barriers of op::Phases that a statement uses, if several threads wait on them.
struct PhaseUses {
  BarrierList waited;
  BarrierList begun;  // a phase is made to complete: an arrival, a copy, a commit

  // Returns the begun barriers on which no thread waits inside of the statement.
  BarrierList BegunAlone() const;
};
PhaseUses PhasesUsedIn(const ir::Stmt& s);

// The barriers whose phase threads have waited for since they last synchronized, on any path to one
// point of the program. Threads wait for one phase after the other, told apart by parity alone: one
// that looks only after the next phase has completed, too, waits for ever. So all threads that wait
// on a barrier synchronize before it completes again. One of the program may complete as soon as
// one of the threads that wait together issues what others learn of.
class OpenPhases {
 public:
  bool Has(const ir::Buffer& barrier) const;
  // The program's barriers on which these threads wait together.
  BarrierList OfProgram(const op::ThreadRange& group) const;
  // Returns the threads that wait on an open barrier.
  op::ThreadRange WaitingOn(const ir::Buffer& barrier) const;
  bool Covers(const OpenPhases& other) const;
  void Merge(const OpenPhases& other);

  // Updates the phases for a statement without control flow in a block of `block_threads` threads.
  // `group`: the threads that execute the statement, if they can wait for each other.
  void Pass(const ir::Stmt& leaf, const PhaseUses& uses, int64_t block_threads,
            const std::optional<op::ThreadRange>& group);
  void Pass(const ir::BarrierNode* barrier, int64_t block_threads);
  // These threads synchronize.
  void PassBarrier(const op::ThreadRange& threads);
  // Each thread took one side of a branch: a phase stays open unless one side closed it.
  static OpenPhases AfterSides(const ir::Stmt& first, const OpenPhases& after_first,
                               const ir::Stmt& second, const OpenPhases& after_second);

 private:
  struct Phase {
    ir::Buffer barrier;
    op::ThreadRange waiting;
  };
  const Phase* Find(const ir::Buffer& barrier) const;
  void Open(const Phase& phase);

  std::vector<Phase> open_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_OPEN_PHASES_H_
