// The parts of check_program.
#ifndef TILELANG_CHECK_CHECK_PARTS_H_
#define TILELANG_CHECK_CHECK_PARTS_H_

#include <functional>
#include <string>

#include "arith/analyzer.h"
#include "ir/error.h"
#include "ir/function.h"
#include "target/target.h"

namespace tilelang::check {

// "A_shared (128, 64) float16 in shared.dyn"
std::string Describe(const ir::Buffer& buffer);

// Returns the name of a tile operator for users, or null for other statements.
const char* TileOpName(const ir::Stmt& s);

// Throws: a user error where a program is checked, an internal one where a pass is.
using Raise = std::function<void(ir::ErrorClass, const ir::Span&, const std::string&)>;

// Every variable and buffer is used where it exists.
void CheckScopes(const ir::Func& func, const Raise& raise);
// Launch sizes and the sizes of fragments.
void CheckResources(const ir::Func& func, const Target& target);
// The author of the program, which decides what may lie wholly outside of a tensor.
enum class Written {
  kByUser,      // nothing: it does nothing there
  kByPasses,    // what tile operators touch: a part of a ragged tile
  kWithGuards,  // regions, likewise: since GuardAccesses T.Parallel has conditions
};
// Accesses and regions inside their buffers.
void CheckBounds(const ir::Func& func, Written written, const Raise& raise);
// Clusters divide the grid; masks and ranks name blocks that they have.
void CheckClusters(const ir::Func& func);
// The tiles of each operator fit together.
void CheckTileOps(const ir::Func& func);
// Checks the statements in T.Parallel and vectorised loops.
void CheckLoops(const ir::Func& func);
// No element is updated by several iterations of T.Parallel, as a sum would be.
void CheckUpdates(const ir::Func& func);
// A barrier that every thread of the block must reach; s: one or more of them inside.
bool HasBlockBarrier(const ir::Stmt& s);
// Every thread reaches the barriers of the whole block.
void CheckBarriers(const ir::Func& func);
// Checks in thread IR that all threads arrive at barriers of the whole block, and all threads of a
// warp at elections of a thread.
void CheckThreadsArrive(const ir::Func& func, const Raise& raise);
// The target has the hardware that each call needs.
void CheckTarget(const ir::Func& func, const Target& target);
// Remarks on tiles that are read before anything is written to them. The topic is "uninitialized"
// if that is certain, "check" if a condition stands before the read.
void RemarkUninitialized(const ir::Func& func);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CHECK_PARTS_H_
