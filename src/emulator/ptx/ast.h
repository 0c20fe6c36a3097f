// Declares what the PTX parser produces: declarations and instructions, with names that are not yet
// resolved.
#ifndef TILELANG_EMULATOR_PTX_AST_H_
#define TILELANG_EMULATOR_PTX_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/base/types.h"
#include "emulator/ptx/source_location.h"

namespace tilelang::emulator::ptx {

struct Operand {
  enum class Kind : uint8_t {
    kName,     // register, predicate, special register, variable, label or function: `name`
    kInteger,  // `bits`
    kFloat,    // `real`, or exact `bits` for 0f/0d spellings (float_bits = 32 or 64)
    kAddress,  // [elements[0] + offset]; further elements: coordinates, e.g. [map, {x, y}]
    kVector,   // {elements...}
    kPair,     // elements[0] | elements[1]
    kSink,     // _
    kString,   // a quoted string (only in directives)
    kTuple,    // (elements...), arguments of a call
  };
  Kind kind = Kind::kSink;
  bool negated = false;  // !p
  std::string name;
  int64_t offset = 0;    // of kAddress, or `name + offset` in mov and initial values
  bool generic = false;  // generic(name), an initial value
  uint64_t bits = 0;
  double real = 0;
  int float_bits = 0;
  std::vector<Operand> elements;
};

// One instruction: `opcode` is the first component, `modifiers` all others in source order.
struct Instruction {
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
  std::string guard;  // predicate name; empty when unconditional
  bool guard_negated = false;
  // The bytes of a load that the program uses, by .pragma "used_bytes_mask": bit i stands for byte
  // i; 0 means all.
  uint64_t used_bytes = 0;
  int line = 0;
  SourceLocation location;        // the user's line
  SourceLocation exact_location;  // may lie in an inlined function of a header

  std::string Spelling() const;
};

struct Variable {
  Space space = Space::kGlobal;
  Type type = Type::kB32;
  int vector = 1;  // .v2, .v4
  std::string name;
  uint32_t align = 0;  // 0: natural
  bool is_array = false;
  uint64_t count = 1;  // elements (product of dimensions); 0: extern [] array
  bool is_extern = false;
  int range = -1;  // .reg .b32 %r<range>
  bool is_register = false;
  int line = 0;
  std::vector<Operand> initializer;  // flattened
  uint64_t bytes() const { return count * vector * ((TypeBits(type) + 7) / 8); }
};

struct Statement {
  enum class Kind : uint8_t { kInstruction, kLabel, kScopeBegin, kScopeEnd, kVariable, kTargets };
  Kind kind = Kind::kInstruction;
  Instruction instruction;
  Variable variable;
  std::string label;                 // kLabel, kTargets
  std::vector<std::string> targets;  // .branchtargets
  int line = 0;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Variable> results, parameters;
  std::vector<Statement> body;
  std::vector<int> reqntid, maxntid, reqnctapercluster;
  int minnctapersm = 0, maxnreg = 0;
  bool explicit_cluster = false;
  int line = 0;
};

struct SourceFile {
  int index = 0;
  std::string path;
};

struct Program {
  std::string target, version;
  int address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<SourceFile> files;
  std::vector<std::string> lines;  // the text, for error messages
};

// Throws EmulatorError("syntax") that names the line.
Program Parse(const std::string& text);

}  // namespace tilelang::emulator::ptx

#endif  // TILELANG_EMULATOR_PTX_AST_H_
