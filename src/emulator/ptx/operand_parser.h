// Operands of PTX instructions, and initial values.
#ifndef TILELANG_EMULATOR_PTX_OPERAND_PARSER_H_
#define TILELANG_EMULATOR_PTX_OPERAND_PARSER_H_

#include "emulator/ptx/ast.h"
#include "emulator/ptx/token_stream.h"

namespace tilelang::emulator::ptx {

// One operand, which may be a pair a|b.
Operand ParseOperandOrPair(TokenStream& tokens);
Operand ParseOperand(TokenStream& tokens);
// A constant, or the address of a variable: name + offset, or generic(name) + offset.
Operand ParseInitialValue(TokenStream& tokens);

}  // namespace tilelang::emulator::ptx

#endif  // TILELANG_EMULATOR_PTX_OPERAND_PARSER_H_
