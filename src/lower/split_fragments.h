#ifndef TILELANG_LOWER_SPLIT_FRAGMENTS_H_
#define TILELANG_LOWER_SPLIT_FRAGMENTS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Gives each role a fragment of its own. A fragment is spread over the registers of the threads
// that use it: tile operators of different groups of threads cannot share one layout, and no value
// goes from the registers of one group to the registers of another. Raises SemanticsError where the
// program needs that: a group reads a fragment that only others write, or two groups overlap
// without being the same. Runs after ResolveRoles.
ir::Func SplitFragments(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_SPLIT_FRAGMENTS_H_
