// Decodes the body of one kernel, device functions inlined: names, scopes, slots, labels.
#ifndef TILELANG_EMULATOR_CORE_FUNCTION_DECODER_H_
#define TILELANG_EMULATOR_CORE_FUNCTION_DECODER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/core/call_graph.h"
#include "emulator/core/decoder.h"
#include "emulator/core/kernel.h"
#include "emulator/core/name_scope.h"
#include "emulator/isa/target.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// The place of a variable.
struct Placement {
  Space space = Space::kGlobal;
  uint64_t address = 0;   // shared: offset in the window; others: address in their space
  bool dynamic = false;   // dynamic shared memory: `address` counts from its start
  bool in_frame = false;  // of a function that is called: `address` counts from its frame
  uint64_t bytes = 0;     // of local variables
};

// Everything that a module's kernels share while they are decoded.
struct ModuleContext {
  const ptx::Program* program = nullptr;
  Module* module = nullptr;
  Target target;
  Target device;
  FunctionsByName functions;
  CallGraph calls;
  std::unordered_map<std::string, uint64_t> function_addresses;
  std::unordered_map<std::string, const ptx::Variable*> shared_variables;  // module scope
  std::unordered_map<std::string, Placement> placements;  // global and const variables

  bool Defines(const std::string& name) const {
    const auto found = functions.find(name);
    return found != functions.end() && found->second->has_body;
  }
  // 0 when `name` is no device function.
  uint64_t FunctionAddress(const std::string& name) const {
    const auto found = function_addresses.find(name);
    return found == function_addresses.end() ? 0 : found->second;
  }
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
  // A call of a device function: inlines it, if it can be.
  void Call(Decoder& decoder, const std::string& name, const std::vector<ptx::Operand>& results,
            const std::vector<ptx::Operand>& arguments);
  // A call of the function whose address a register holds.
  void CallByAddress(Decoder& decoder, const ptx::Operand& address,
                     const std::vector<ptx::Operand>& results,
                     const std::vector<ptx::Operand>& arguments);
  // Returns whether the function being decoded names the register of a result in another operand,
  // too.
  bool IsResultRead(const ptx::Operand& result);
  bool IsInlined() const { return frames_.size() > 1; }
  // Returns whether the decoder is in the body of a function that calls jump to.
  bool IsCalled() const { return called_ != nullptr; }
  void SetReturnTarget(Decoder& decoder);
  Kernel& kernel() { return kernel_; }
  ModuleContext& context() { return context_; }
  // Appends the op under construction to the code.
  void Finish(Decoder& decoder);
  [[noreturn]] void Error(const ptx::Instruction& inst, const std::string& kind,
                          const std::string& message) const;
  [[noreturn]] void ErrorAt(int line, const std::string& kind, const std::string& message) const;

 private:
  struct Labels {
    std::unordered_map<std::string, int> labels;
    std::unordered_map<std::string, std::vector<std::string>> targets;
  };
  struct Scope {
    NameScope names;
    // Registers that were used. A range may declare any number of registers.
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, Placement> variables;
    Labels labels;
  };
  struct Frame {  // a function being decoded
    const ptx::Function* function = nullptr;
    size_t first_scope = 0;
    int return_label = 0;
  };

  void Body(const ptx::Function& function);
  // The labels of each block by the index of the statement that opens it. The labels of the
  // function itself are at kWholeBody.
  static constexpr size_t kWholeBody = ~size_t{0};
  using BlockLabels = std::unordered_map<size_t, Labels>;
  BlockLabels CollectLabels(const ptx::Function& function);
  void AddLabel(const ptx::Statement& statement, Labels* labels);
  // Elements of the vector register `name`; 0 if it is none.
  int VectorElements(const std::string& name) const;
  // `offset` aligned for `variable`, and what comes after it; an error if that exceeds `limit`.
  uint32_t PlaceAfter(uint32_t* end, const ptx::Variable& variable, uint32_t align, uint32_t limit,
                      const char* space);
  void DeclareName(const ptx::Variable& variable);
  void Declare(const ptx::Variable& variable);
  void DecodeInstruction(const ptx::Instruction& instruction);
  // Decoding goes on: a report names all that a kernel needs.
  void NoteUnsupported(const EmulatorError& error);
  // The instruction with names of vectors as lists of their elements.
  ptx::Instruction WithVectorsExpanded(const ptx::Instruction& instruction);
  void Inline(Decoder& decoder, const ptx::Function& callee,
              const std::vector<ptx::Operand>& results, const std::vector<ptx::Operand>& arguments);
  void Bind(Decoder& decoder, const std::vector<ptx::Variable>& formals,
            const std::vector<ptx::Operand>& actuals, Scope* scope);
  void EmitSkip(Decoder& call, int label);
  DeviceFunction& CalledFunction(const ptx::Function& function);
  CallSite& MakeCall(Decoder& decoder, const std::vector<ptx::Operand>& results,
                     const std::vector<ptx::Operand>& arguments);
  ValuePlace Actual(Decoder& decoder, const ptx::Operand& operand);
  std::vector<ValuePlace> Formals(const std::vector<ptx::Variable>& variables);
  void DecodeCalled();
  void DecodeBody(const ptx::Function& function, DeviceFunction* called);
  void Close(const ptx::Function& function, Handler handler);
  uint32_t NewRegister(int bits);
  uint32_t FrameAddressSlot(uint64_t offset, int bits);
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
  std::unordered_map<const ptx::Variable*, Placement> shared_placements_;
  std::vector<UnwrittenRegister> declared_;  // every register that was used
  std::vector<int64_t> label_pcs_;
  std::vector<std::pair<size_t, int>> op_fixups_;  // code index, label
  std::vector<std::pair<uint32_t*, int>> fixups_;
  std::vector<size_t> pool_offsets_;  // of each op's slots
  int pending_target_ = -1;
  // Functions that are called, functions that are still to be decoded, and the function being
  // decoded.
  std::unordered_map<const ptx::Function*, DeviceFunction*> called_functions_;
  std::deque<const ptx::Function*> undecoded_;
  DeviceFunction* called_ = nullptr;
  // How often the operands of a function name each register.
  std::unordered_map<const ptx::Function*, std::unordered_map<std::string, int>> mentions_;
  std::map<std::pair<uint64_t, int>, uint32_t> frame_slots_;  // of it, by offset and width
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_FUNCTION_DECODER_H_
