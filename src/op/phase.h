// Phases of an mbarrier: where they are waited for, and how a thread knows which one comes next.
#ifndef TILELANG_OP_PHASE_H_
#define TILELANG_OP_PHASE_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/async.h"
#include "op/context.h"

namespace tilelang::op {

// The phases of one mbarrier, which a thread waits for in turn: the parity of the next one is a
// variable of its own, which it advances with each wait.
struct Phase {
  Buffer barrier;  // "shared.barrier"
  Buffer parity;   // "local.var"
  Expr slot = 0;   // the element of the barrier
};
// On which an engine's operations complete: an mbarrier of this name, for which all of its issuing
// threads wait. `arrivals` complete a phase.
Phase MakePhase(const std::string& engine, const ThreadRange& threads, const Span& span,
                int64_t arrivals = 1);
// The threads that wait on the barrier of such a phase; none: it is no phase's.
std::optional<ThreadRange> ThreadsWaitingOn(const Buffer& barrier);
// Returns the phase of an element of a ring's barrier.
Phase PhaseOf(const Buffer& barrier, const Expr& slot);

// The barrier's address as an argument of device functions.
Expr AddressOf(const Phase& phase);
// The element of the barrier.
Expr ElementOf(const Phase& phase);
// The parity of the phase that comes next.
Expr ParityOf(const Phase& phase);
Stmt AllocParity(const Phase& phase);
// The calling thread waits for the phase and goes to the next one.
std::vector<Stmt> WaitForPhase(const Phase& phase, const Span& span,
                               ir::Scope scope = ir::Scope::kCta,
                               const Array<Buffer>& tensor_memory = {});
// The second half of it, for threads that know otherwise that the phase is over.
Stmt NextPhase(const Phase& phase, const Span& span);
}  // namespace tilelang::op

#endif  // TILELANG_OP_PHASE_H_
