// Decodes the body of one kernel, device functions inlined: names, scopes, slots, labels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/core/decoder.h"
#include "emulator/core/kernel.h"
#include "emulator/core/target_notes.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// Where a variable lives.
struct Placement {
  Space space = Space::kGlobal;
  uint64_t address = 0;  // shared: offset in the window; others: address in their space
  bool dynamic = false;  // dynamic shared memory: `address` counts from its start
};

// Everything that a module's kernels share while they are decoded.
struct ModuleContext {
  const ptx::Program* program = nullptr;
  Module* module = nullptr;
  Target target;
  std::unordered_map<std::string, const ptx::Function*> functions;
  std::unordered_map<std::string, const ptx::Variable*> shared_variables;  // module scope
  std::unordered_map<std::string, Placement> placements;  // global and const variables
};

class FunctionDecoder {
 public:
  FunctionDecoder(ModuleContext& context, Kernel& kernel);

  void Run(const ptx::Function& entry);

  // --- services for Decoder and the families ---
  struct Register {
    uint32_t slot = kNoSlot;
    Type type = Type::kNone;
  };
  // nullptr when `name` is no register in scope.
  const Register* FindRegister(const std::string& name);
  // Slot of a special register of `bits`, or kNoSlot when `name` is none.
  uint32_t SpecialSlot(const std::string& name, int bits, const ptx::Instruction& inst);
  bool FindVariable(const std::string& name, Placement* placement);
  uint32_t AddressSlot(const Placement& placement, int64_t offset, int bits);
  uint32_t Constant(int bits, uint64_t value);
  uint32_t NewSlot(int bits);
  // The op under construction jumps to the label.
  void SetTarget(Decoder& decoder, const std::string& label);
  // `*target` becomes the label's program counter.
  void PatchLater(uint32_t* target, const std::string& label, const ptx::Instruction& inst);
  const std::vector<std::string>* BranchTargets(const std::string& name) const;
  // Inlines a call of a device function.
  void InlineCall(Decoder& decoder, const std::string& name,
                  const std::vector<ptx::Operand>& results,
                  const std::vector<ptx::Operand>& arguments);
  bool IsInlined() const { return frames_.size() > 1; }
  void SetReturnTarget(Decoder& decoder);
  Kernel& kernel() { return kernel_; }
  ModuleContext& context() { return context_; }
  // Appends the op under construction to the code.
  void Finish(Decoder& decoder);
  [[noreturn]] void Error(const ptx::Instruction& inst, const std::string& kind,
                          const std::string& message) const;
  [[noreturn]] void ErrorAt(int line, const std::string& kind, const std::string& message) const;

 private:
  struct Scope {
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, ptx::Variable> ranges;  // prefix -> declaration
    std::unordered_map<std::string, int> vectors;           // name -> elements, name.x and so on
    std::unordered_map<std::string, Placement> variables;
    std::unordered_map<std::string, int> labels;
    std::unordered_map<std::string, std::vector<std::string>> targets;
  };
  struct Frame {  // a function being decoded
    const ptx::Function* function = nullptr;
    size_t first_scope = 0;
    int return_label = 0;
  };

  void Body(const ptx::Function& function);
  void CollectLabels(const ptx::Function& function, size_t first, Scope* scope);
  void Declare(const ptx::Variable& variable);
  void DecodeInstruction(const ptx::Instruction& instruction);
  // The instruction with names of vectors as lists of their elements.
  ptx::Instruction WithVectorsExpanded(const ptx::Instruction& instruction);
  void DeclareRegisters(const ptx::Variable& variable);
  void EmitSkip(Decoder& call, int label);
  int FindLabel(const std::string& name) const;
  Placement PlaceShared(const ptx::Variable& variable);
  Placement PlaceLocal(const ptx::Variable& variable);
  void PlaceParameters(const ptx::Function& entry);
  void PatchAll();

  ModuleContext& context_;
  Kernel& kernel_;
  std::vector<Scope> scopes_;
  std::vector<Frame> frames_;
  std::map<std::pair<int, uint64_t>, uint32_t> constant_slots_;
  std::map<std::tuple<int, int, uint64_t>, uint32_t> special_slots_;
  std::map<std::string, Placement> shared_placements_;
  std::vector<int64_t> label_pcs_;
  std::vector<std::pair<size_t, int>> op_fixups_;  // code index, label
  std::vector<std::pair<uint32_t*, int>> fixups_;
  std::vector<size_t> pool_offsets_;  // of each op's slots
  int pending_target_ = -1;
};

}  // namespace tilelang::emulator
