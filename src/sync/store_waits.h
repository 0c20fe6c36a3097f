// Where stores to tensor memory are waited for.
#ifndef TILELANG_SYNC_STORE_WAITS_H_
#define TILELANG_SYNC_STORE_WAITS_H_

#include <vector>

#include "op/instruction.h"

namespace tilelang::sync {

// For each statement of a sequence: whether tcgen05.wait::st stands after it, if it is a store. One
// wait serves all stores before it. It stands after the last of a run of copies between registers
// and tensor memory with nothing between them but work on registers, before a load that may read
// what they wrote and a store of other warps that may overwrite it, and before a load that needs
// the registers which they may still read.
std::vector<bool> FindStoreWaits(const ir::Array<ir::Stmt>& stmts);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_STORE_WAITS_H_
