// Asynchronous engines: one thread issues, the others wait on an mbarrier.
#ifndef TILELANG_OP_ISSUE_H_
#define TILELANG_OP_ISSUE_H_

#include <vector>

#include "ir/async.h"
#include "op/phase.h"

namespace tilelang::op {

// A barrier of each slot of a ring through which the compiler's roles hand over tiles. `arrivals`
// complete a phase.
Buffer MakeRingBarrier(const std::string& name, int64_t slots, const Expr& arrivals,
                       const Span& span);
// An attribute (true) of barriers on which what other blocks send arrives once, behind all loops.
inline constexpr const char* kOfExchange = "of_exchange";
// Returns whether the program allocated the barrier, and orders with it operations that the
// compiler does not know of.
bool IsProgramBarrier(const Buffer& barrier);

// `body` executed by one elected thread of a warp, which is whole.
Stmt ByElected(Stmt body, const ThreadRange& warp, const Span& span);
// `body` executed by one elected thread of the operator's threads, which are whole warps or that
// one thread.
Stmt ByOneThread(Stmt body, const ThreadRange& threads, const Expr& thread,
                 arith::Analyzer* analyzer, const Span& span);
Stmt ByOneThread(Stmt body, const Context& ctx, const Span& span);
// Returns whether a condition chooses one thread of each warp, the same one each time.
bool IsElection(const Expr& condition);
// Returns whether a branch is part of an operator of these threads: one of them issues, or some of
// them copy.
bool IsOperatorOf(const Stmt& s, const ThreadRange& threads);
// An attribute of calls that tell so: first thread, number of threads.
inline constexpr const char* kOperatorThreads = "operator_threads";

// The address of the element that an operator's mbar= names, as an argument of device functions.
Expr BarrierAddress(const Expr& mbar);
// The element that such an address is of.
Expr ElementAt(const Expr& address);
// Asks an engine for work that completes on `phase`, for which its threads wait.
Stmt IssueFor(const Phase& phase, ir::Engine engine, Stmt body, const Span& span);

// Arrives at a barrier's address when the operations that the thread has issued are complete. In
// kernels of pairs it arrives at the barriers of both CTAs, and with a mask at the barriers of its
// blocks.
Stmt CommitTcgen05(const Expr& barrier, const Context& ctx, const Span& span,
                   const Expr& blocks = Expr());
// Instructions of the tcgen05 pipe, issued by one thread, and their arrival at a barrier's address
// when they are complete (none: they are committed elsewhere).
Stmt IssueTcgen05(std::vector<Stmt> instructions, const Expr& barrier, const Context& ctx,
                  const Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_ISSUE_H_
