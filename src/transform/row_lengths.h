// Rows of tensors whose length is known only at run time.
#ifndef TILELANG_TRANSFORM_ROW_LENGTHS_H_
#define TILELANG_TRANSFORM_ROW_LENGTHS_H_

#include <optional>
#include <string>

#include "arith/analyzer.h"
#include "ir/stmt.h"

namespace tilelang::transform {

struct RowTest {
  ir::Expr whole;       // whether every row is as long as whole vectors of 16 bytes
  std::string text;     // the same in words
  ir::Expr apart;       // whether rows that are a stride of the call apart lie one behind the other
  std::string tensors;  // their names
};

// The test of a launch whose copies or loops go along rows of which that is not known; none where
// it is, or where not all can be. Adds what the launch assumes to the analyzer.
std::optional<RowTest> RowsOfUnknownLength(const ir::KernelLaunchNode* launch,
                                           arith::Analyzer* analyzer);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_ROW_LENGTHS_H_
