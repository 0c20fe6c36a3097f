// Finds the elements of a buffer in shared memory that each thread touches in a statement, by
// enumerating the values of thread and loop variables. The verifier reads statements by itself: the
// passes that place barriers read them in analysis/memory_access.h.
#ifndef TILELANG_VERIFY_ELEMENTS_H_
#define TILELANG_VERIFY_ELEMENTS_H_

#include <optional>
#include <vector>

#include "analysis/owner_map.h"
#include "verify/operands.h"

namespace tilelang::verify {

// A variable of threads or of a loop, from 0 or `min` on.
struct VariableRange {
  ir::Var var;
  int64_t min = 0;
  int64_t extent = 0;
};

struct ElementAccess {
  bool reads = false;
  bool writes = false;
  int64_t begin = 0;  // in shared memory: the bytes that it may touch
  int64_t end = 0;
  int64_t base = 0;  // where element 0 lies
  int64_t element_bytes = 0;
  // The thread that touches each element, or nothing if any thread may touch any byte. The elected
  // thread of a warp counts as kElected plus the number of the warp.
  std::optional<analysis::OwnerMap> owners;

  static constexpr int32_t kElected = 1 << 20;
};

// The surroundings of a statement.
struct Surroundings {
  std::vector<VariableRange> threads;  // x first
  std::vector<ir::Expr> guards;        // conditions that hold
};

// The accesses of `s` to the buffer, whose element 0 lies at the byte `base` of shared memory.
std::vector<ElementAccess> ElementsOf(const ir::Stmt& s, const Surroundings& around,
                                      const ir::Buffer& buffer, int64_t base,
                                      const OperandReader& operands);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_ELEMENTS_H_
