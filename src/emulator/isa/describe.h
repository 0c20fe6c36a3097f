// Describes the instruction families for Python: the fidelity of each.
#ifndef TILELANG_EMULATOR_ISA_DESCRIBE_H_
#define TILELANG_EMULATOR_ISA_DESCRIBE_H_

#include <string>

namespace tilelang::emulator::isa {

// A JSON array of objects: name, class, targets, fidelity ("exact", "approximate", "no effect"),
// the modifiers for which this holds ("approx/full"; "" for all forms), and the reason.
std::string DescribeInstructions();

}  // namespace tilelang::emulator::isa

#endif  // TILELANG_EMULATOR_ISA_DESCRIBE_H_
