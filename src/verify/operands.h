// Describes what a call of the thread IR does to memory through each of its arguments.
//
// The passes place waits by the attributes that lowering gives to a call, and by the table of
// intrinsics (ir/intrinsics.h). The verifier uses neither of them: it has its own table of the
// device functions, and finds the buffers in the arguments. If lowering, the table or the analysis
// of the passes forgets an access, the access is unordered here, and is reported.
#ifndef TILELANG_VERIFY_OPERANDS_H_
#define TILELANG_VERIFY_OPERANDS_H_

#include <unordered_map>
#include <vector>

#include "ir/stmt.h"

namespace tilelang::verify {

struct Operand {
  int argument = 0;
  ir::Buffer buffer;  // null: tensor memory
  // The element whose address the argument is; null for a descriptor, which names a part of the
  // buffer.
  ir::Expr index;
  bool reads = false;
  bool writes = false;
  bool atomic = false;
  int64_t elements = 0;   // from the address on; 0: any element of the buffer
  bool for_warp = false;  // lanes get what the addresses of other lanes name
  int64_t lanes = 0;      // of each warp whose address counts, from the first on; 0: all
};

class OperandReader {
 public:
  explicit OperandReader(const ir::KernelLaunchNode* launch);

  // The operands in memory, in the order of the arguments. A function that the table does not know
  // reads and writes whatever its arguments are addresses of.
  std::vector<Operand> Of(const ir::CallNode* call) const;

 private:
  // The address in an expression, or in the value of a variable of it; null: there is none.
  const ir::LoadNode* AddressIn(const ir::Expr& e) const;

  std::unordered_map<const ir::ffi::Object*, ir::Expr> values_;  // of variables
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_OPERANDS_H_
