// Calls of device functions: inlined where they can be, or with frames.
#include "emulator/base/demangle.h"
#include "emulator/core/control_handlers.h"
#include "emulator/core/function_decoder.h"

namespace tilelang::emulator {
namespace {

constexpr size_t kMaxCalls = 256;

uint64_t BitsOf(const ptx::Variable& variable) {
  return variable.is_register ? static_cast<uint64_t>(TypeBits(variable.type))
                              : 8 * variable.bytes();
}

bool Passes(const std::vector<ValuePlace>& actuals, const std::vector<ptx::Variable>& formals) {
  bool same = actuals.size() == formals.size();
  for (size_t i = 0; same && i < actuals.size(); ++i) {
    same = actuals[i].bits == BitsOf(formals[i]);
  }
  return same;
}

}  // namespace

void FunctionDecoder::Call(Decoder& decoder, const std::string& name,
                           const std::vector<ptx::Operand>& results,
                           const std::vector<ptx::Operand>& arguments) {
  if (name.starts_with("cuda")) {
    decoder.Unsupported("'" + name + "' of the device runtime (dynamic parallelism)");
  }
  if (!context_.Defines(name)) {
    decoder.Unsupported("call of '" + ShortName(name) + "', which this module does not define");
  }
  const ptx::Function& callee = *context_.functions.at(name);
  if (callee.parameters.size() != arguments.size() || callee.results.size() != results.size()) {
    decoder.Illegal("call of '" + name + "' with a different number of arguments or results");
  }
  if (!context_.calls.NeedsFrame(callee)) return Inline(decoder, callee, results, arguments);
  CallSite& site = MakeCall(decoder, results, arguments);
  site.function = &CalledFunction(callee);
  if (!Passes(site.arguments, callee.parameters) || !Passes(site.results, callee.results)) {
    decoder.Illegal("call of '" + name + "' with arguments or results of other sizes");
  }
}

void FunctionDecoder::CallByAddress(Decoder& decoder, const ptx::Operand& address,
                                    const std::vector<ptx::Operand>& results,
                                    const std::vector<ptx::Operand>& arguments) {
  const uint32_t slot = decoder.Source(address, Type::kB64);
  CallSite& site = MakeCall(decoder, results, arguments);
  site.address = slot;
  kernel_.uses_stack = true;
  for (const ptx::Function* function : context_.calls.by_address()) {
    if (!Passes(site.arguments, function->parameters)) continue;
    if (!Passes(site.results, function->results)) continue;
    kernel_.by_address[context_.FunctionAddress(function->name)] = &CalledFunction(*function);
  }
}

// --- inlined ----------------------------------------------------------------------------------

// A branch over an inlined body, for lanes where the guard of the call is false.
void FunctionDecoder::EmitSkip(Decoder& call, int label) {
  Op op;
  Decoder skip(*this, call.inst, call.family, op);
  op.handler = BranchHandler();
  op.guard = call.op.guard ^ 1u;
  pending_target_ = label;
  Finish(skip);
  pending_target_ = -1;
}

// Parameters or results are other names of what the call passes.
void FunctionDecoder::Bind(Decoder& decoder, const std::vector<ptx::Variable>& formals,
                           const std::vector<ptx::Operand>& actuals, Scope* scope) {
  for (size_t i = 0; i < formals.size(); ++i) {
    const std::string& actual = actuals[i].name;
    scope->names.Declare(formals[i]);
    if (formals[i].is_register) {
      const Register* reg = FindRegister(actual);
      if (!reg) decoder.Unsupported("argument '" + actual + "' of a register parameter");
      scope->registers[formals[i].name] = *reg;
      continue;
    }
    Placement placement;
    if (!FindVariable(actual, &placement)) {
      decoder.Unsupported("argument '" + actual + "' is not a .param variable");
    }
    scope->variables[formals[i].name] = placement;
  }
}

void FunctionDecoder::Inline(Decoder& decoder, const ptx::Function& callee,
                             const std::vector<ptx::Operand>& results,
                             const std::vector<ptx::Operand>& arguments) {
  if (frames_.size() > kMaxCalls) {
    Error(decoder.inst, "too-large",
          "calls nest deeper than " + std::to_string(kMaxCalls) + " levels");
  }
  Scope scope;
  Bind(decoder, callee.parameters, arguments, &scope);
  Bind(decoder, callee.results, results, &scope);
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

// --- with frames ------------------------------------------------------------------------------

uint32_t FunctionDecoder::NewRegister(int bits) {
  const uint32_t slot = NewSlot(bits);
  if (called_) called_->registers.push_back({slot, static_cast<uint32_t>(bits)});
  return slot;
}

uint32_t FunctionDecoder::FrameAddressSlot(uint64_t offset, int bits) {
  auto [entry, inserted] = frame_slots_.try_emplace({offset, bits}, 0);
  if (inserted) {
    entry->second = NewRegister(bits);
    called_->addresses.push_back({called_->registers.back(), static_cast<uint32_t>(offset)});
  }
  return entry->second;
}

ValuePlace FunctionDecoder::Actual(Decoder& decoder, const ptx::Operand& operand) {
  ValuePlace place;
  if (const Register* reg = FindRegister(operand.name)) {
    place.in_register = true;
    place.slot = reg->slot;
    place.bits = static_cast<uint64_t>(TypeBits(reg->type));
    return place;
  }
  Placement placement;
  if (!FindVariable(operand.name, &placement) || placement.space != Space::kLocal) {
    decoder.Unsupported("argument '" + operand.name + "' is not a .param variable");
  }
  place.slot = AddressSlot(placement, 0, 64);
  place.bits = 8 * placement.bytes;
  return place;
}

CallSite& FunctionDecoder::MakeCall(Decoder& decoder, const std::vector<ptx::Operand>& results,
                                    const std::vector<ptx::Operand>& arguments) {
  CallSite& site = decoder.MakeExtra<CallSite>();
  for (const ptx::Operand& operand : arguments) site.arguments.push_back(Actual(decoder, operand));
  for (const ptx::Operand& operand : results) site.results.push_back(Actual(decoder, operand));
  for (const auto* values : {&site.arguments, &site.results}) {
    for (const ValuePlace& value : *values) {
      if (!value.in_register || value.bits == 1) continue;
      auto& uses = values == &site.results ? decoder.use.writes : decoder.use.reads;
      uses.push_back(value.slot);
    }
  }
  decoder.op.handler = CallHandler();
  return site;
}

DeviceFunction& FunctionDecoder::CalledFunction(const ptx::Function& function) {
  auto [entry, inserted] = called_functions_.try_emplace(&function, nullptr);
  if (inserted) {
    kernel_.uses_stack = true;
    entry->second = &kernel_.functions.emplace_back();
    entry->second->name = function.name;
    entry->second->reentrant = context_.calls.IsReentrant(function);
    undecoded_.push_back(&function);
  }
  return *entry->second;
}

std::vector<ValuePlace> FunctionDecoder::Formals(const std::vector<ptx::Variable>& variables) {
  std::vector<ValuePlace> places;
  for (const ptx::Variable& variable : variables) {
    DeclareName(variable);
    ValuePlace& place = places.emplace_back();
    place.in_register = variable.is_register;
    place.bits = BitsOf(variable);
    if (variable.is_register) {
      place.slot = FindRegister(variable.name)->slot;
      continue;
    }
    const Placement placement = PlaceLocal(variable);
    place.offset = static_cast<uint32_t>(placement.address);
    scopes_.back().variables[variable.name] = placement;
  }
  return places;
}

void FunctionDecoder::DecodeBody(const ptx::Function& function, DeviceFunction* called) {
  const size_t first_source = kernel_.sources.size();
  called_ = called;
  frame_slots_.clear();
  scopes_.assign(1, Scope{});
  frames_.assign(1, Frame{&function, 0, -1});
  called->entry = static_cast<uint32_t>(kernel_.code.size());
  called->parameters = Formals(function.parameters);
  called->results = Formals(function.results);
  Body(function);
  Close(function, ReturnHandler());
  called_ = nullptr;
  if (!called->reentrant) return;
  // Returns restore registers.
  for (size_t i = first_source; i < kernel_.sources.size(); ++i) {
    SourceLine& source = kernel_.sources[i];
    if (!source.spelling.starts_with("ret")) continue;
    for (const FunctionRegister reg : called->registers) {
      auto& writes = reg.bits == 1 ? source.use.predicate_writes : source.use.writes;
      writes.push_back(reg.slot);
    }
  }
}

void FunctionDecoder::DecodeCalled() {
  while (!undecoded_.empty()) {
    const ptx::Function& function = *undecoded_.front();
    undecoded_.pop_front();
    DecodeBody(function, called_functions_.at(&function));
  }
}

}  // namespace tilelang::emulator
