#include "emulator/core/function_decoder.h"

#include <algorithm>
#include <cctype>

#include "emulator/core/control_handlers.h"
#include "emulator/core/unwritten_registers.h"
#include "emulator/isa/forms.h"
#include "emulator/isa/target_notes.h"
#include "emulator/isa/work.h"
#include "emulator/memory/shared.h"

namespace tilelang::emulator {
namespace {

constexpr const char* kTooLarge = "too-large";
// Limits in bytes: the parameters of a kernel (PTX ISA, .param); a thread's local memory, which has
// separate parameters for each call; the size of a shared window.
constexpr uint32_t kMaxParameters = 32764;
constexpr uint32_t kMaxLocal = 16 << 20;
constexpr uint32_t kMaxShared = (1 << 24) - kSharedReserved;
// Limits that no compiler comes near and that hosts can still hold.
constexpr uint32_t kMaxFileBytes = 256 << 20;
constexpr size_t kMaxInstructions = 1 << 20;

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
  if (slot + bytes > kMaxFileBytes) {
    ErrorAt(frames_.front().function->line, kTooLarge,
            "the registers and constants of this kernel take more than " +
                std::to_string(kMaxFileBytes >> 20) + " MiB for each warp");
  }
  kernel_.file_bytes = slot + bytes;
  kernel_.slot_bits.resize(slot / 32 + 1);
  kernel_.slot_bits.back() = static_cast<uint8_t>(bits);
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
  if (placement.in_frame) return FrameAddressSlot(address, bits);
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

namespace {

// `v.r` is another name of `v.x`, and so on.
std::string ElementName(std::string name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot + 2 != name.size()) return name;
  const size_t colour = std::string_view("rgba").find(name.back());
  if (colour != std::string_view::npos) name.back() = "xyzw"[colour];
  return name;
}

// Returns whether `name` is a register of the declaration that covers `base`, the name before its
// dot.
bool IsElement(const NameScope::Declaration& declaration, const std::string& name,
               const std::string& base) {
  if (!declaration.is_register) return false;
  if (name.size() == base.size()) return declaration.vector == 1;
  return name.size() == base.size() + 2 &&
         std::string_view("xyzw").find(name.back()) < static_cast<size_t>(declaration.vector);
}

}  // namespace

const FunctionDecoder::Register* FunctionDecoder::FindRegister(const std::string& spelling) {
  const std::string name = ElementName(spelling);
  const std::string base = name.substr(0, name.find('.'));
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    Scope& scope = scopes_[i];
    auto found = scope.registers.find(name);
    if (found != scope.registers.end()) return &found->second;
    const NameScope::Declaration* declaration = scope.names.Find(base);
    if (!declaration) continue;
    if (!IsElement(*declaration, name, base)) return nullptr;
    const int bits = TypeBits(declaration->type);
    const Register entry{NewRegister(bits), declaration->type};
    if (entry.type != Type::kPred) declared_.push_back({entry.slot, bits, spelling});
    return &scope.registers.emplace(name, entry).first->second;
  }
  return nullptr;
}

int FunctionDecoder::VectorElements(const std::string& name) const {
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    const NameScope::Declaration* declaration = scopes_[i].names.Find(name);
    if (!declaration) continue;
    return declaration->is_register && declaration->vector > 1 ? declaration->vector : 0;
  }
  return 0;
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
    const auto& labels = scopes_[i].labels.labels;
    auto found = labels.find(name);
    if (found != labels.end()) return found->second;
  }
  return -1;
}

const std::vector<std::string>* FunctionDecoder::BranchTargets(const std::string& name) const {
  for (size_t i = scopes_.size(); i-- > frames_.back().first_scope;) {
    const auto& targets = scopes_[i].labels.targets;
    auto found = targets.find(name);
    if (found != targets.end()) return &found->second;
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

uint32_t FunctionDecoder::PlaceAfter(uint32_t* end, const ptx::Variable& variable, uint32_t align,
                                     uint32_t limit, const char* space) {
  const uint32_t offset = AlignUp(*end, align);
  if (variable.bytes() > limit || offset + variable.bytes() > limit) {
    ErrorAt(variable.line, kTooLarge,
            "'" + variable.name + "' of " + std::to_string(variable.bytes()) + " bytes: " + space +
                " of this kernel would exceed " + std::to_string(limit) + " bytes");
  }
  *end = offset + static_cast<uint32_t>(variable.bytes());
  return offset;
}

Placement FunctionDecoder::PlaceShared(const ptx::Variable& variable) {
  auto [entry, inserted] = shared_placements_.try_emplace(&variable);
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
  placement.address = kSharedReserved + PlaceAfter(&kernel_.static_shared, variable, align,
                                                   kMaxShared, "the shared memory");
  kernel_.shared_variables.push_back({variable.name, static_cast<uint32_t>(placement.address),
                                      static_cast<uint32_t>(variable.bytes())});
  return placement;
}

Placement FunctionDecoder::PlaceLocal(const ptx::Variable& variable) {
  const uint32_t align = std::max(8u, NaturalAlign(variable));
  const char* const space = "the local memory of a thread";
  Placement placement{Space::kLocal};
  placement.bytes = variable.bytes();
  placement.in_frame = called_ != nullptr;
  placement.address =
      called_ ? PlaceAfter(&called_->frame_bytes, variable, align, kStackBytes, space)
              : kLocalBase + PlaceAfter(&kernel_.local_bytes, variable, align, kMaxLocal, space);
  return placement;
}

void FunctionDecoder::PlaceParameters(const ptx::Function& entry) {
  for (const ptx::Variable& variable : entry.parameters) {
    DeclareName(variable);
    ParamInfo info;
    info.name = variable.name;
    info.type = variable.type;
    info.align = NaturalAlign(variable);
    info.offset =
        PlaceAfter(&kernel_.param_bytes, variable, info.align, kMaxParameters, "the parameters");
    info.size = static_cast<uint32_t>(variable.bytes());
    info.is_array = variable.is_array;
    kernel_.params.push_back(info);
    scopes_.back().variables[variable.name] = {Space::kParam, info.offset};
  }
}

void FunctionDecoder::DeclareName(const ptx::Variable& variable) {
  const std::string taken = scopes_.back().names.Declare(variable);
  if (!taken.empty()) ErrorAt(variable.line, "syntax", "'" + taken + "' is declared twice");
}

void FunctionDecoder::Declare(const ptx::Variable& variable) {
  DeclareName(variable);
  if (!variable.initializer.empty()) {
    ErrorAt(variable.line, "syntax",
            "'" + variable.name + "': only global and constant variables have initial values");
  }
  if (variable.is_register) return;
  Scope& scope = scopes_.back();
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
  Close(entry, ExitHandler());
  DecodeCalled();
  PatchAll();
  FindUnwrittenRegisters(&kernel_, declared_);
}

// The return at the end of a body.
void FunctionDecoder::Close(const ptx::Function& function, Handler handler) {
  Op end;
  end.handler = handler;
  end.source = static_cast<uint32_t>(kernel_.sources.size());
  SourceLine source;
  source.ptx_line = function.line;
  source.spelling = "ret";
  source.row = isa::FindFamily("ret")->row;
  kernel_.sources.push_back(std::move(source));
  kernel_.code.push_back(end);
  pool_offsets_.push_back(kernel_.slot_pool.size());
}

void FunctionDecoder::AddLabel(const ptx::Statement& statement, Labels* labels) {
  if (labels->labels.count(statement.label) || labels->targets.count(statement.label)) {
    ErrorAt(statement.line, "syntax", "label '" + statement.label + "' is defined twice");
  }
  if (statement.kind == ptx::Statement::Kind::kTargets) {
    labels->targets[statement.label] = statement.targets;
  } else {
    labels->labels[statement.label] = static_cast<int>(label_pcs_.size());
    label_pcs_.push_back(-1);
  }
}

FunctionDecoder::BlockLabels FunctionDecoder::CollectLabels(const ptx::Function& function) {
  BlockLabels blocks;
  std::vector<size_t> open{kWholeBody};
  for (size_t i = 0; i < function.body.size(); ++i) {
    switch (function.body[i].kind) {
      case ptx::Statement::Kind::kScopeBegin:
        open.push_back(i);
        break;
      case ptx::Statement::Kind::kScopeEnd:
        open.pop_back();
        break;
      case ptx::Statement::Kind::kLabel:
      case ptx::Statement::Kind::kTargets:
        AddLabel(function.body[i], &blocks[open.back()]);
        break;
      default:
        break;
    }
  }
  return blocks;
}

namespace {

void CountMentions(const ptx::Operand& operand, std::unordered_map<std::string, int>* mentions) {
  if (!operand.name.empty()) ++(*mentions)[operand.name];
  for (const ptx::Operand& element : operand.elements) CountMentions(element, mentions);
}

}  // namespace

bool FunctionDecoder::IsResultRead(const ptx::Operand& result) {
  if (result.kind == ptx::Operand::Kind::kSink) return false;
  if (result.kind != ptx::Operand::Kind::kName) return true;
  const ptx::Function* function = frames_.back().function;
  const auto [mentions, is_new] = mentions_.try_emplace(function);
  for (size_t i = 0; is_new && i < function->body.size(); ++i) {
    for (const ptx::Operand& operand : function->body[i].instruction.operands) {
      CountMentions(operand, &mentions->second);
    }
  }
  return mentions->second[result.name] > 1;
}

void FunctionDecoder::Body(const ptx::Function& function) {
  BlockLabels blocks = CollectLabels(function);
  scopes_.back().labels = std::move(blocks[kWholeBody]);
  for (size_t i = 0; i < function.body.size(); ++i) {
    const ptx::Statement& statement = function.body[i];
    switch (statement.kind) {
      case ptx::Statement::Kind::kScopeBegin:
        scopes_.emplace_back();
        scopes_.back().labels = std::move(blocks[i]);
        break;
      case ptx::Statement::Kind::kScopeEnd:
        scopes_.pop_back();
        break;
      case ptx::Statement::Kind::kLabel:
        label_pcs_[scopes_.back().labels.labels.at(statement.label)] =
            static_cast<int64_t>(kernel_.code.size());
        break;
      case ptx::Statement::Kind::kVariable:
        Declare(statement.variable);
        break;
      case ptx::Statement::Kind::kInstruction:
        try {
          DecodeInstruction(statement.instruction);
        } catch (const EmulatorError& error) {
          if (error.kind != "unsupported") throw;
          NoteUnsupported(error);
        }
        break;
      case ptx::Statement::Kind::kTargets:
        break;
    }
  }
}

void FunctionDecoder::NoteUnsupported(const EmulatorError& error) {
  auto& uses = kernel_.unsupported_uses;
  auto use = std::find_if(uses.begin(), uses.end(),
                          [&](const UnsupportedUse& other) { return other.what == error.what(); });
  if (use == uses.end()) use = uses.insert(use, {error.what(), error.where, 0});
  ++use->count;
}

ptx::Instruction FunctionDecoder::WithVectorsExpanded(const ptx::Instruction& instruction) {
  ptx::Instruction expanded = instruction;
  for (ptx::Operand& operand : expanded.operands) {
    if (operand.kind != ptx::Operand::Kind::kName) continue;
    int count = 0;
    Special special;
    if (operand.name[0] == '%' && ParseSpecial(operand.name + ".w", &special)) count = 4;
    if (!count) count = VectorElements(operand.name);
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
  if (kernel_.code.size() >= kMaxInstructions) {
    Error(source, kTooLarge,
          "the kernel has more than " + std::to_string(kMaxInstructions) +
              " instructions, those of the functions that it calls included");
  }
  const ptx::Instruction instruction = WithVectorsExpanded(source);
  const isa::Family* family = isa::FamilyOf(instruction);
  const DecodeFunction decode = family ? FamilyRegistry::Find(*family) : nullptr;
  if (!decode) {
    Error(instruction, "unsupported",
          "instruction '" + instruction.Spelling() + "' is not implemented");
  }
  const std::string missing = MissingTarget(instruction, *family->row, context_.target);
  if (!missing.empty()) {
    Error(instruction, "target",
          "'" + instruction.Spelling() + "' needs .target " + missing + ", the module has " +
              context_.module->target);
  }
  if (const std::string lacks = MissingOnDevice(instruction, context_.device); !lacks.empty()) {
    Error(instruction, "unsupported",
          "'" + instruction.Spelling() + "': GPUs of sm_" + std::to_string(context_.device.sm) +
              " have no " + lacks);
  }
  Op op;
  Decoder decoder(*this, instruction, *family, op);
  if (!instruction.guard.empty()) {
    const Register* guard = FindRegister(instruction.guard);
    if (!guard || guard->type != Type::kPred) {
      decoder.Illegal("guard '" + instruction.guard + "' is not a predicate register");
    }
    op.guard = guard->slot | (instruction.guard_negated ? 1u : 0u);
  }
  pending_target_ = -1;
  if (const std::string problem = FormMismatch(instruction, *family); !problem.empty()) {
    decoder.Illegal(problem);
  }
  decode(decoder);
  decoder.CheckComplete();
  if (op.handler) Finish(decoder);
}

void FunctionDecoder::Finish(Decoder& decoder) {
  Op& op = decoder.op;
  if (pending_target_ >= 0) op_fixups_.push_back({kernel_.code.size(), pending_target_});
  pool_offsets_.push_back(kernel_.slot_pool.size());
  op.slot_count = static_cast<uint16_t>(decoder.slots.size());
  kernel_.slot_pool.insert(kernel_.slot_pool.end(), decoder.slots.begin(), decoder.slots.end());
  std::copy_n(decoder.slots.begin(), std::min<size_t>(5, decoder.slots.size()), op.a);
  op.source = static_cast<uint32_t>(kernel_.sources.size());
  const ptx::Instruction& inst = decoder.inst;
  const isa::Row& row = *decoder.family.row;
  kernel_.loads_tensor_memory |= row.operands == isa::Operands::kTensorLoad;
  kernel_.sources.push_back({inst.line, inst.Spelling(), inst.location, inst.exact_location, &row,
                             ClassOf(inst, row), std::move(decoder.use)});
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

}  // namespace tilelang::emulator
