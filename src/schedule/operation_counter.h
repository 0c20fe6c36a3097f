// Counts the arithmetic operations of a statement.
#ifndef TILELANG_SCHEDULE_OPERATION_COUNTER_H_
#define TILELANG_SCHEDULE_OPERATION_COUNTER_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// Operations of an expression's evaluation, in the units of an SM that are narrower than its
// threads.
class OperationCounter {
 public:
  int64_t mufu = 0;
  int64_t fp32 = 0;

  void Count(const ir::Stmt& s, int64_t times);

 private:
  void Count(const ir::ExprNode* e, int64_t times);
};

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OPERATION_COUNTER_H_
