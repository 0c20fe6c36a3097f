// Finds which parts of a tile in tensor memory tcgen05.mma can take.
#ifndef TILELANG_OP_TMEM_OPERAND_H_
#define TILELANG_OP_TMEM_OPERAND_H_

#include <string>

#include "op/tmem.h"

namespace tilelang::op {

// Returns why instructions of `rows` rows and at most `columns` columns (of N in an accumulator, of
// K in an A operand) cannot take `tile` piece by piece, or an empty string. `form`: of the
// instruction.
std::string TmemOperandProblem(const TmemLayout& tile, TmemRole role, int64_t rows, int64_t columns,
                               const layout::MmaForm& form);

}  // namespace tilelang::op

#endif  // TILELANG_OP_TMEM_OPERAND_H_
