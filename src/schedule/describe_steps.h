// The steps of a role, read from its program.
#ifndef TILELANG_SCHEDULE_DESCRIBE_STEPS_H_
#define TILELANG_SCHEDULE_DESCRIBE_STEPS_H_

#include "schedule/description.h"

namespace tilelang::schedule {

// Operators, waits, arrivals, loops and branches, in order. Variables, counters and fences are
// left out, and so are loops and branches in which nothing else is.
ir::Array<ir::Any> DescribeSteps(const ir::Stmt& program, IterationNotes* notes);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_DESCRIBE_STEPS_H_
