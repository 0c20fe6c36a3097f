#ifndef TILELANG_EPILOGUE_DIVIDE_STORES_H_
#define TILELANG_EPILOGUE_DIVIDE_STORES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::epilogue {

// Where each warpgroup fills its own part of a tile from a fragment, and the tile is stored by TMA,
// each warpgroup asks for the boxes of its part: none of them waits for the others to have filled
// theirs, and one may store while another computes. Needs layouts; waits for stores of the threads
// of such a tile become those of each warpgroup, too. On targets with wgmma, whose warpgroups
// compute apart; elsewhere `func`.
ir::Func DivideStores(const ir::Func& func, const Target& target);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_DIVIDE_STORES_H_
