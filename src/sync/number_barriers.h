// Assigns hardware numbers to barriers of groups of threads.
#ifndef TILELANG_SYNC_NUMBER_BARRIERS_H_
#define TILELANG_SYNC_NUMBER_BARRIERS_H_

#include "ir/function.h"

namespace tilelang::sync {

// A Barrier of a range of threads becomes a named one: each range has a number of its own, which no
// barrier of the program has. Numbers are 0 to 15; 0 belongs to all threads (PTX ISA, "bar,
// barrier"). ResourceError when they do not suffice. A Barrier of warpgroups takes a number for
// each, and where there are not enough all its threads wait together.
ir::Func NumberBarriers(const ir::Func& func);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_NUMBER_BARRIERS_H_
