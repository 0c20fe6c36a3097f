// An independent check of what a compiled kernel waits for.
#ifndef TILELANG_VERIFY_VERIFY_SYNCHRONIZATION_H_
#define TILELANG_VERIFY_VERIFY_SYNCHRONIZATION_H_

#include <string>
#include <vector>

#include "ir/function.h"

namespace tilelang::verify {

// Raises SynchronizationError for the first pair of accesses that nothing orders, a wait that comes
// too late for its phase or never ends, and work of an engine that may outlive its block. The
// function is thread IR with planned shared memory. See docs/ordering.md for what is followed and
// what is not; the result says for each launch why it was not followed: empty where it was.
//
// original: the program that it was compiled from, tile IR with planned operators; with it, that
// reads get what the program says, too. Null: not known.
std::vector<std::string> VerifySynchronization(const ir::Func& func, const ir::Func& original);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_VERIFY_SYNCHRONIZATION_H_
