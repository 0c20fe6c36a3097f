// Remarks on kernels whose fragments do not fit into registers.
#ifndef TILELANG_CHECK_REMARK_REGISTERS_H_
#define TILELANG_CHECK_REMARK_REGISTERS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::check {

// Thread IR, unchanged. For each launch whose private arrays (fragments among them) need more
// registers at one time than a thread may have, a remark names them and what to do.
ir::Func RemarkRegisters(const ir::Func& func, const Target& target);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_REMARK_REGISTERS_H_
