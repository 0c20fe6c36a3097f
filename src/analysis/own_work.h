// Finds the work on tiles that every thread does for itself.
#ifndef TILELANG_ANALYSIS_OWN_WORK_H_
#define TILELANG_ANALYSIS_OWN_WORK_H_

#include <unordered_set>

#include "analysis/uniformity.h"

namespace tilelang::analysis {

// Threads share the elements of a copy, a fill or a parallel loop. That is right only if all of
// them mean the same elements. In
//
//     i = T.get_thread_binding()
//     T.copy(private, B[i, :])
//
// each thread means a row of its own, and values that no other thread has. Such work is the
// thread's own: every thread that reaches it does all of it.
//
// Own work is:
// * a copy or a fill of an array private to a thread;
// * a copy or a fill whose region of shared or global memory differs between threads;
// * a copy from a private array, or a parallel loop that indexes one, if it writes elements of such
//   memory that differ between threads, adds to elements, or if its threads are not whole warps.
//
// Copies and loops on fragments are never own work: a layout says which thread has which element.
// Neither are copies that the program gives to an asynchronous engine.
class OwnWork {
 public:
  OwnWork(const ir::KernelLaunchNode* launch, const Uniformity& uniformity);

  // op: a Copy, Fill or ParallelFor of the launch.
  bool Has(const ir::StmtNode* op) const { return own_.count(op) != 0; }

 private:
  std::unordered_set<const ir::StmtNode*> own_;
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_OWN_WORK_H_
