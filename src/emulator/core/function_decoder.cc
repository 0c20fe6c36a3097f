#include "emulator/core/function_decoder.h"

#include <algorithm>
#include <cctype>

#include "emulator/core/control.h"
#include "emulator/core/forms.h"
#include "emulator/memory/shared.h"

namespace tilelang::emulator {
namespace {

uint32_t AlignUp(uint32_t value, uint32_t align) { return (value + align - 1) / align * align; }

uint32_t NaturalAlign(const ptx::Variable& variable) {
  uint32_t element = std::max(1, TypeBits(variable.type) / 8) * variable.vector;
  return variable.align ? variable.align : element;
}

}  // namespace

FunctionDecoder::FunctionDecoder(ModuleContext& context, Kernel& kernel)
    : context_(context), kernel_(kernel) {}

void FunctionDecoder::Error(const ptx::Instruction& inst, const std::string& kind,
                            const std::string& message) const {
  Where where = context_.module->WhereIs(inst.line, inst.location, inst.exact_location);
  where.kernel = kernel_.name;
  throw EmulatorError(kind, message, where);
}

void FunctionDecoder::ErrorAt(int line, const std::string& kind, const std::string& message) const {
  ptx::Instruction here;
  here.line = line;
  Error(here, kind, message);
}

// --- slots ------------------------------------------------------------------------------------

uint32_t FunctionDecoder::NewSlot(int bits) {
  uint32_t align = bits >= 16 ? 64 : 32;
  uint32_t bytes = bits == 1 ? 4 : static_cast<uint32_t>(bits) / 8 * 32;
  uint32_t slot = AlignUp(kernel_.file_bytes, align);
  kernel_.file_bytes = slot + bytes;
  return slot;
}

uint32_t FunctionDecoder::Constant(int bits, uint64_t value) {
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  auto [entry, inserted] = constant_slots_.try_emplace({bits, value}, 0);
  if (inserted) {
    entry->second = NewSlot(bits);
    SlotInit init{entry->second, static_cast<uint8_t>(bits)};
    init.value = value;
    kernel_.constants.push_back(init);
  }
  return entry->second;
}

uint32_t FunctionDecoder::AddressSlot(const Placement& placement, int64_t offset, int bits) {
  uint64_t address = placement.address + static_cast<uint64_t>(offset);
  if (placement.space != Space::kShared) return Constant(bits, address);
  Special base = placement.dynamic ? Special::kDynamicSharedBase : Special::kSharedBase;
  auto key = std::make_tuple(bits, static_cast<int>(base), address);
  auto [entry, inserted] = special_slots_.try_emplace(key, 0);
  if (inserted) {
    entry->second = NewSlot(bits);
    kernel_.specials.push_back({entry->second, static_cast<uint8_t>(bits), true, base, address});
  }
  return entry->second;
}

uint32_t FunctionDecoder::SpecialSlot(const std::string& name, int bits,
                                      const ptx::Instruction& inst) {
  if (name.empty() || name[0] != '%') return kNoSlot;
  if (IsDynamicSpecial(name)) {
    uint32_t slot = NewSlot(bits);
    EmitDynamicSpecial(*this, name, slot, bits, inst);
    return slot;
  }
  Special special;
  if (!ParseSpecial(name, &special)) return kNoSlot;
  kernel_.uses_grid_workspace |= special == Special::kEnvreg1 || special == Special::kEnvreg2;
  auto key = std::make_tuple(bits, static_cast<int>(special), uint64_t{0});
  auto [entry, inserted] = special_slots_.try_emplace(key, 0);
  if (inserted) {
    entry->second = NewSlot(bits);
    kernel_.specials.push_back({entry->second, static_cast<uint8_t>(bits), true, special, 0});
  }
  return entry->second;
}

// --- names ------------------------------------------------------------------------------------

const FunctionDecoder::Register* FunctionDecoder::FindRegister(const std::string& name) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  std::string prefix = name.substr(0, digits);
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    Scope& scope = scopes_[i];
    auto found = scope.registers.find(name);
    if (found != scope.registers.end()) return &found->second;
    if (digits == name.size()) continue;
    auto range = scope.ranges.find(prefix);
    if (range == scope.ranges.end()) continue;
    if (std::stol(name.substr(digits)) >= range->second.range) continue;
    Type type = range->second.type;
    Register entry{NewSlot(TypeBits(type)), type};
    return &scope.registers.emplace(name, entry).first->second;
  }
  return nullptr;
}

bool FunctionDecoder::FindVariable(const std::string& name, Placement* placement) {
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    auto found = scopes_[i].variables.find(name);
    if (found == scopes_[i].variables.end()) continue;
    *placement = found->second;
    return true;
  }
  auto module_variable = context_.placements.find(name);
  if (module_variable != context_.placements.end()) {
    *placement = module_variable->second;
    return true;
  }
  auto shared = context_.shared_variables.find(name);
  if (shared == context_.shared_variables.end()) return false;
  *placement = PlaceShared(*shared->second);
  return true;
}

int FunctionDecoder::FindLabel(const std::string& name) const {
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    auto found = scopes_[i].labels.find(name);
    if (found != scopes_[i].labels.end()) return found->second;
  }
  return -1;
}

const std::vector<std::string>* FunctionDecoder::BranchTargets(const std::string& name) const {
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    auto found = scopes_[i].targets.find(name);
    if (found != scopes_[i].targets.end()) return &found->second;
  }
  return nullptr;
}

void FunctionDecoder::SetTarget(Decoder& decoder, const std::string& label) {
  pending_target_ = FindLabel(label);
  if (pending_target_ < 0) decoder.Illegal("label '" + label + "' is not defined in this scope");
}

void FunctionDecoder::SetReturnTarget(Decoder& decoder) {
  pending_target_ = frames_.back().return_label;
}

void FunctionDecoder::PatchLater(uint32_t* target, const std::string& label,
                                 const ptx::Instruction& inst) {
  int index = FindLabel(label);
  if (index < 0) Error(inst, "syntax", "label '" + label + "' is not defined in this scope");
  fixups_.push_back({target, index});
}

// --- placement --------------------------------------------------------------------------------

Placement FunctionDecoder::PlaceShared(const ptx::Variable& variable) {
  auto [entry, inserted] = shared_placements_.try_emplace(variable.name);
  Placement& placement = entry->second;
  if (!inserted) return placement;
  placement.space = Space::kShared;
  uint32_t align = NaturalAlign(variable);
  if (variable.is_array && variable.count == 0) {
    kernel_.uses_dynamic_shared = true;
    kernel_.dynamic_shared_align = std::max(kernel_.dynamic_shared_align, align);
    placement.dynamic = true;
    return placement;
  }
  uint32_t offset = AlignUp(kernel_.static_shared, align);
  kernel_.static_shared = offset + static_cast<uint32_t>(variable.bytes());
  placement.address = kSharedReserved + offset;
  return placement;
}

Placement FunctionDecoder::PlaceLocal(const ptx::Variable& variable) {
  uint32_t offset = AlignUp(kernel_.local_bytes, std::max(8u, NaturalAlign(variable)));
  kernel_.local_bytes = offset + static_cast<uint32_t>(variable.bytes());
  return {Space::kLocal, kLocalBase + offset};
}

void FunctionDecoder::PlaceParameters(const ptx::Function& entry) {
  uint32_t offset = 0;
  for (const ptx::Variable& variable : entry.parameters) {
    offset = AlignUp(offset, NaturalAlign(variable));
    ParamInfo info;
    info.name = variable.name;
    info.type = variable.type;
    info.offset = offset;
    info.size = static_cast<uint32_t>(variable.bytes());
    info.align = NaturalAlign(variable);
    info.is_array = variable.is_array;
    kernel_.params.push_back(info);
    scopes_.back().variables[variable.name] = {Space::kParam, offset};
    offset += info.size;
  }
  kernel_.param_bytes = offset;
}

void FunctionDecoder::DeclareRegisters(const ptx::Variable& variable) {
  Scope& scope = scopes_.back();
  if (variable.vector > 1) {
    for (int i = 0; i < std::max(1, variable.range); ++i) {
      std::string name = variable.name + (variable.range >= 0 ? std::to_string(i) : "");
      scope.vectors[name] = variable.vector;
      for (int k = 0; k < variable.vector; ++k) {  // colours are names of the elements too
        const Register element{NewSlot(TypeBits(variable.type)), variable.type};
        scope.registers[name + '.' + "xyzw"[k]] = element;
        scope.registers[name + '.' + "rgba"[k]] = element;
      }
    }
  } else if (variable.range >= 0) {
    scope.ranges[variable.name] = variable;
  } else {
    scope.registers[variable.name] = {NewSlot(TypeBits(variable.type)), variable.type};
  }
}

void FunctionDecoder::Declare(const ptx::Variable& variable) {
  Scope& scope = scopes_.back();
  const bool range = variable.range >= 0 && scope.ranges.count(variable.name);
  if (range || scope.registers.count(variable.name) || scope.variables.count(variable.name) ||
      scope.vectors.count(variable.name)) {
    ErrorAt(variable.line, "syntax", "'" + variable.name + "' is declared twice");
  }
  if (variable.is_register) return DeclareRegisters(variable);
  switch (variable.space) {
    case Space::kShared:
      scope.variables[variable.name] = PlaceShared(variable);
      return;
    case Space::kLocal:
    case Space::kParam:
      scope.variables[variable.name] = PlaceLocal(variable);
      return;
    default:
      ErrorAt(variable.line, "unsupported",
              "variable '" + variable.name +
                  "' in this state space must be declared outside of functions");
  }
}

// --- bodies -----------------------------------------------------------------------------------

void FunctionDecoder::Run(const ptx::Function& entry) {
  scopes_.emplace_back();
  frames_.push_back({&entry, 0, -1});
  PlaceParameters(entry);
  Body(entry);
  kernel_.dynamic_shared_offset =
      AlignUp(kSharedReserved + kernel_.static_shared, kernel_.dynamic_shared_align);
  Op exit;
  exit.handler = ExitHandler();
  exit.source = static_cast<uint32_t>(kernel_.sources.size());
  SourceLine end;
  end.ptx_line = entry.line;
  end.spelling = "ret";
  kernel_.sources.push_back(std::move(end));
  kernel_.code.push_back(exit);
  pool_offsets_.push_back(kernel_.slot_pool.size());
  PatchAll();
}

void FunctionDecoder::CollectLabels(const ptx::Function& function, size_t first, Scope* scope) {
  int depth = 0;
  for (size_t i = first; i < function.body.size() && depth >= 0; ++i) {
    const ptx::Statement& statement = function.body[i];
    if (statement.kind == ptx::Statement::Kind::kScopeBegin) ++depth;
    if (statement.kind == ptx::Statement::Kind::kScopeEnd) --depth;
    if (depth != 0) continue;
    const bool label = statement.kind == ptx::Statement::Kind::kLabel;
    if (label || statement.kind == ptx::Statement::Kind::kTargets) {
      if (scope->labels.count(statement.label) || scope->targets.count(statement.label)) {
        ErrorAt(statement.line, "syntax", "label '" + statement.label + "' is defined twice");
      }
    }
    if (label) {
      scope->labels[statement.label] = static_cast<int>(label_pcs_.size());
      label_pcs_.push_back(-1);
    } else if (statement.kind == ptx::Statement::Kind::kTargets) {
      scope->targets[statement.label] = statement.targets;
    }
  }
}

void FunctionDecoder::Body(const ptx::Function& function) {
  CollectLabels(function, 0, &scopes_.back());
  for (size_t i = 0; i < function.body.size(); ++i) {
    const ptx::Statement& statement = function.body[i];
    switch (statement.kind) {
      case ptx::Statement::Kind::kScopeBegin:
        scopes_.emplace_back();
        CollectLabels(function, i + 1, &scopes_.back());
        break;
      case ptx::Statement::Kind::kScopeEnd:
        scopes_.pop_back();
        break;
      case ptx::Statement::Kind::kLabel:
        label_pcs_[scopes_.back().labels.at(statement.label)] =
            static_cast<int64_t>(kernel_.code.size());
        break;
      case ptx::Statement::Kind::kVariable:
        Declare(statement.variable);
        break;
      case ptx::Statement::Kind::kInstruction:
        DecodeInstruction(statement.instruction);
        break;
      case ptx::Statement::Kind::kTargets:
        break;
    }
  }
}

ptx::Instruction FunctionDecoder::WithVectorsExpanded(const ptx::Instruction& instruction) {
  ptx::Instruction expanded = instruction;
  for (ptx::Operand& operand : expanded.operands) {
    if (operand.kind != ptx::Operand::Kind::kName) continue;
    int count = 0;
    Special special;
    if (operand.name[0] == '%' && ParseSpecial(operand.name + ".w", &special)) count = 4;
    for (size_t i = scopes_.size(); i-- > frames_.back().first_scope && !count;) {
      auto found = scopes_[i].vectors.find(operand.name);
      if (found != scopes_[i].vectors.end()) count = found->second;
    }
    if (!count) continue;
    ptx::Operand element = operand;
    operand.kind = ptx::Operand::Kind::kVector;
    for (int k = 0; k < count; ++k) {
      element.name = operand.name + '.' + "xyzw"[k];
      operand.elements.push_back(element);
    }
  }
  return expanded;
}

void FunctionDecoder::DecodeInstruction(const ptx::Instruction& source) {
  const ptx::Instruction instruction = WithVectorsExpanded(source);
  size_t consumed = 0;
  DecodeFunction decode = FamilyRegistry::Find(instruction, &consumed);
  if (!decode) {
    Error(instruction, "unsupported",
          "instruction '" + instruction.Spelling() + "' is not implemented");
  }
  const std::string missing = MissingTarget(instruction, context_.target);
  if (!missing.empty()) {
    Error(instruction, "target",
          "'" + instruction.Spelling() + "' needs .target " + missing +
              " or higher, the module has " + context_.module->target);
  }
  Op op;
  Decoder decoder(
      *this, instruction,
      Modifiers({instruction.modifiers.begin() + consumed, instruction.modifiers.end()}), op);
  if (!instruction.guard.empty()) {
    const Register* guard = FindRegister(instruction.guard);
    if (!guard || guard->type != Type::kPred) {
      decoder.Illegal("guard '" + instruction.guard + "' is not a predicate register");
    }
    op.guard = guard->slot | (instruction.guard_negated ? 1u : 0u);
  }
  pending_target_ = -1;
  if (const std::string problem = FormMismatch(instruction, consumed); !problem.empty()) {
    decoder.Illegal(problem);
  }
  decode(decoder);
  decoder.CheckComplete();
  if (op.handler) Finish(decoder);
}

namespace {

OperandUse::Kind UseKind(const ptx::Instruction& inst) {
  if (inst.opcode == "mov") return OperandUse::Kind::kMove;
  if (inst.opcode != "tcgen05" || inst.modifiers.empty()) return OperandUse::Kind::kOther;
  if (inst.modifiers[0] == "ld") return OperandUse::Kind::kTensorLoad;
  return inst.modifiers[0] == "wait::ld" ? OperandUse::Kind::kTensorWait : OperandUse::Kind::kOther;
}

}  // namespace

void FunctionDecoder::Finish(Decoder& decoder) {
  Op& op = decoder.op;
  if (pending_target_ >= 0) op_fixups_.push_back({kernel_.code.size(), pending_target_});
  pool_offsets_.push_back(kernel_.slot_pool.size());
  op.slot_count = static_cast<uint16_t>(decoder.slots.size());
  kernel_.slot_pool.insert(kernel_.slot_pool.end(), decoder.slots.begin(), decoder.slots.end());
  std::copy_n(decoder.slots.begin(), std::min<size_t>(5, decoder.slots.size()), op.a);
  op.source = static_cast<uint32_t>(kernel_.sources.size());
  const ptx::Instruction& inst = decoder.inst;
  decoder.use.kind = UseKind(inst);
  kernel_.sources.push_back({inst.line, inst.Spelling(), inst.location, inst.exact_location,
                             ClassOf(inst), std::move(decoder.use)});
  kernel_.code.push_back(op);
}

void FunctionDecoder::PatchAll() {
  for (size_t i = 0; i < kernel_.code.size(); ++i) {
    kernel_.code[i].slots = kernel_.slot_pool.data() + pool_offsets_[i];
  }
  for (auto [index, label] : op_fixups_) {
    kernel_.code[index].target = static_cast<uint32_t>(label_pcs_[label]);
  }
  for (auto [target, label] : fixups_) *target = static_cast<uint32_t>(label_pcs_[label]);
}

// A branch over an inlined body, for lanes where the guard of the call is false.
void FunctionDecoder::EmitSkip(Decoder& call, int label) {
  Op op;
  Decoder skip(*this, call.inst, Modifiers({}), op);
  op.handler = BranchHandler();
  op.guard = call.op.guard ^ 1u;
  pending_target_ = label;
  Finish(skip);
  pending_target_ = -1;
}

void FunctionDecoder::InlineCall(Decoder& decoder, const std::string& name,
                                 const std::vector<ptx::Operand>& results,
                                 const std::vector<ptx::Operand>& arguments) {
  auto found = context_.functions.find(name);
  if (found == context_.functions.end() || !found->second->has_body) {
    decoder.Unsupported("call of '" + name + "', which this module does not define");
  }
  const ptx::Function& callee = *found->second;
  for (const Frame& frame : frames_) {
    if (frame.function == &callee) decoder.Unsupported("recursive call of '" + name + "'");
  }
  if (callee.parameters.size() != arguments.size() || callee.results.size() != results.size()) {
    decoder.Illegal("call of '" + name + "' with a different number of arguments or results");
  }
  Scope scope;
  auto bind = [&](const std::vector<ptx::Variable>& formals,
                  const std::vector<ptx::Operand>& actuals) {
    for (size_t i = 0; i < formals.size(); ++i) {
      const std::string& actual = actuals[i].name;
      if (formals[i].is_register) {
        const Register* reg = FindRegister(actual);
        if (!reg) decoder.Unsupported("argument '" + actual + "' of a register parameter");
        scope.registers[formals[i].name] = *reg;
        continue;
      }
      Placement placement;
      if (!FindVariable(actual, &placement)) {
        decoder.Unsupported("argument '" + actual + "' that is no .param variable");
      }
      scope.variables[formals[i].name] = placement;
    }
  };
  bind(callee.parameters, arguments);
  bind(callee.results, results);
  int return_label = static_cast<int>(label_pcs_.size());
  label_pcs_.push_back(-1);
  if (decoder.op.guard != kNoSlot) EmitSkip(decoder, return_label);
  frames_.push_back({&callee, scopes_.size(), return_label});
  scopes_.push_back(std::move(scope));
  Body(callee);
  scopes_.pop_back();
  frames_.pop_back();
  label_pcs_[return_label] = static_cast<int64_t>(kernel_.code.size());
}

}  // namespace tilelang::emulator
