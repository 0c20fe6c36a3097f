#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/kernel.h"
#include "emulator/core/sm_count.h"
#include "emulator/memory/global.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {
namespace {

uint64_t VariableAlign(const ptx::Variable& variable) {
  uint64_t natural = std::max(1, TypeBits(variable.type) / 8) * variable.vector;
  return variable.align ? variable.align : natural;
}

std::string Times(const UnsupportedUse& use) {
  return use.count > 1 ? " (" + std::to_string(use.count) + " times)" : "";
}

// One error for all uses, at the place of the first.
std::optional<EmulatorError> UnsupportedError(const std::vector<UnsupportedUse>& uses) {
  if (uses.empty()) return std::nullopt;
  std::string text = uses[0].what + Times(uses[0]);
  for (size_t i = 1; i < uses.size(); ++i) {
    text +=
        "\n  line " + std::to_string(uses[i].where.ptx_line) + ": " + uses[i].what + Times(uses[i]);
  }
  return EmulatorError("unsupported", text, uses[0].where);
}

class Loader {
 public:
  Loader(const std::string& text, const std::string& device, GlobalMemory& memory,
         const std::map<std::string, uint64_t>& places)
      : program_(ptx::Parse(text)),
        memory_(memory),
        places_(places),
        module_(std::make_shared<Module>(memory)) {
    context_.device = ParseTarget(device);
    module_->sms = SmCountOf(device);
  }

  std::shared_ptr<Module> Run() {
    RegisterFamilies();
    CheckHeader();
    module_->target = program_.target;
    context_.target = ParseTarget(program_.target);
    module_->lines = program_.lines;
    for (const ptx::SourceFile& file : program_.files) module_->files[file.index] = file.path;
    context_.program = &program_;
    context_.module = module_.get();
    for (const ptx::Function& function : program_.functions) {
      if (!function.is_entry && (function.has_body || !context_.functions.count(function.name))) {
        context_.functions[function.name] = &function;
      }
    }
    context_.calls.Build(program_, context_.functions);
    PlaceFunctions();
    PlaceVariables();
    for (const ptx::Function& function : program_.functions) {
      if (function.is_entry && function.has_body) DecodeKernel(function);
    }
    return module_;
  }

 private:
  void CheckHeader() {
    const std::string& version = program_.version;
    if (version.empty() || program_.target.empty()) {
      throw EmulatorError("syntax", "PTX must begin with .version and .target");
    }
    const double number = std::strtod(version.c_str(), nullptr);
    if (!(number >= 1 && number < kVersionEnd)) {
      throw EmulatorError("unsupported", "unknown PTX version .version " + version);
    }
    if (ParseTarget(program_.target).sm == 0) {
      throw EmulatorError("target", "there is no .target " + program_.target);
    }
  }

  // Each device function has an address.
  void PlaceFunctions() {
    for (const ptx::Function& function : program_.functions) {
      if (function.is_entry || context_.function_addresses.count(function.name)) continue;
      module_->functions.push_back(function.name);
      context_.function_addresses[function.name] =
          kCodeWindow + kFunctionBytes * module_->functions.size();
    }
  }

  void PlaceVariables() {
    for (const ptx::Variable& variable : program_.variables) {
      CheckNew(variable);
      if (variable.space == Space::kShared) {
        context_.shared_variables[variable.name] = &variable;
      } else if (variable.space == Space::kConst) {
        PlaceConstant(variable);
      } else if (variable.space == Space::kGlobal) {
        PlaceGlobal(variable);
      } else {
        Error(variable, "a variable in this state space cannot be declared at module scope");
      }
    }
    for (const ptx::Variable& variable : program_.variables) {
      if (!variable.initializer.empty()) Initialize(variable);
    }
  }

  // Refuses a variable that is declared twice; external declarations may repeat.
  void CheckNew(const ptx::Variable& variable) {
    const auto [entry, inserted] = variables_.try_emplace(variable.name, &variable);
    if (inserted || (entry->second->is_extern && variable.is_extern)) return;
    Error(variable, "syntax", "it is declared twice");
  }

  [[noreturn]] void Error(const ptx::Variable& variable, const std::string& message) {
    Error(variable, "unsupported", message);
  }
  [[noreturn]] void Error(const ptx::Variable& variable, const std::string& kind,
                          const std::string& message) {
    throw EmulatorError(kind, "variable '" + variable.name + "': " + message,
                        module_->WhereIs(variable.line, {}, {}));
  }

  void PlaceConstant(const ptx::Variable& variable) {
    std::vector<uint8_t>& bank = module_->constant_bank;
    uint64_t align = VariableAlign(variable);
    uint64_t address = (kConstBase + bank.size() + align - 1) / align * align;
    if (address - kConstBase + variable.bytes() > kMaxConstants) {
      Error(variable, "too-large",
            "the module's constants exceed " + std::to_string(kMaxConstants) + " bytes");
    }
    bank.resize(address - kConstBase + variable.bytes());
    context_.placements[variable.name] = {Space::kConst, address};
  }

  void PlaceGlobal(const ptx::Variable& variable) {
    if (variable.is_extern) Error(variable, "extern variables have no definition to link with");
    uint64_t address = Allocate(variable);
    module_->owned_globals.push_back(address);
    module_->globals[variable.name] = address;
    context_.placements[variable.name] = {Space::kGlobal, address};
  }

  uint64_t Allocate(const ptx::Variable& variable) {
    try {
      const auto place = places_.find(variable.name);
      return memory_.Allocate(variable.bytes(), variable.name,
                              place == places_.end() ? 0 : place->second);
    } catch (EmulatorError& error) {
      error.where = module_->WhereIs(variable.line, {}, {});
      throw;
    }
  }

  uint8_t* HostOf(const Placement& placement, uint64_t bytes) {
    if (placement.space == Space::kConst) {
      return module_->constant_bank.data() + (placement.address - kConstBase);
    }
    return memory_.Find(placement.address, bytes, true);
  }

  void Initialize(const ptx::Variable& variable) {
    const auto placed = context_.placements.find(variable.name);
    if (placed == context_.placements.end()) {
      Error(variable, "syntax", "a variable in this state space has no initial value");
    }
    uint8_t* host = HostOf(placed->second, variable.bytes());
    uint64_t element = std::max(1, TypeBits(variable.type) / 8);
    if (variable.initializer.size() * element > variable.bytes()) {
      Error(variable, "more initial values than elements");
    }
    for (const ptx::Operand& value : variable.initializer) {
      uint64_t bits = InitialValue(variable, value);
      std::memcpy(host, &bits, std::min<uint64_t>(element, sizeof bits));
      host += element;
    }
  }

  uint64_t InitialValue(const ptx::Variable& variable, const ptx::Operand& value) {
    switch (value.kind) {
      case ptx::Operand::Kind::kInteger:
        if (IsFloat(variable.type))
          Error(variable, "syntax", "its initial value must not be an integer");
        return value.bits;
      case ptx::Operand::Kind::kFloat: {
        if (value.float_bits) return value.bits;
        uint64_t bits = 0;
        float single = static_cast<float>(value.real);
        if (variable.type == Type::kF64) {
          std::memcpy(&bits, &value.real, 8);
        } else {
          std::memcpy(&bits, &single, 4);
        }
        return bits;
      }
      case ptx::Operand::Kind::kName: {
        auto found = context_.placements.find(value.name);
        if (found != context_.placements.end()) {
          // Generic addresses of global memory are equal to the addresses of its own state space.
          const bool window = value.generic && found->second.space == Space::kConst;
          return (window ? kConstWindow : 0) + found->second.address +
                 static_cast<uint64_t>(value.offset);
        }
        const uint64_t address = context_.FunctionAddress(value.name);
        if (address && !value.offset) return address;
        break;
      }
      default:
        break;
    }
    Error(variable, "this form of initial value is not supported");
  }

  void DecodeKernel(const ptx::Function& function) {
    auto kernel = std::make_unique<Kernel>();
    kernel->name = function.name;
    kernel->module = module_.get();
    kernel->reqntid = function.reqntid;
    kernel->maxntid = function.maxntid;
    kernel->reqnctapercluster = function.reqnctapercluster;
    kernel->minnctapersm = function.minnctapersm;
    kernel->maxnreg = function.maxnreg;
    if (module_->Find(function.name)) {
      throw EmulatorError("syntax", "kernel '" + function.name + "' is defined twice",
                          module_->WhereIs(function.line, {}, {}));
    }
    try {
      FunctionDecoder(context_, *kernel).Run(function);
      kernel->unsupported = UnsupportedError(kernel->unsupported_uses);
    } catch (const EmulatorError& error) {
      if (error.kind != "unsupported") throw;
      kernel->unsupported = error;
    }
    if (kernel->unsupported) kernel->code.clear();  // the module's other kernels can be used
    module_->kernels.push_back(std::move(kernel));
  }

  static constexpr uint64_t kMaxConstants = 65536;  // of the bank (PTX ISA, .const)
  static constexpr double kVersionEnd = 10;  // later versions may change what instructions mean
  ptx::Program program_;
  GlobalMemory& memory_;
  const std::map<std::string, uint64_t>& places_;
  std::shared_ptr<Module> module_;
  ModuleContext context_;
  std::unordered_map<std::string, const ptx::Variable*> variables_;
};

}  // namespace

Module::~Module() {
  for (uint64_t address : owned_globals) memory_.Unmap(address);
}

const Kernel* Module::Find(const std::string& name) const {
  for (const auto& kernel : kernels) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

Where Module::WhereIs(int ptx_line, const ptx::SourceLocation& location,
                      const ptx::SourceLocation& exact) const {
  Where where;
  where.ptx_line = ptx_line;
  if (ptx_line >= 1 && ptx_line <= static_cast<int>(lines.size())) {
    where.ptx_text = lines[ptx_line - 1];
  }
  const auto file = files.find(location.file);
  if (file == files.end() || location.line <= 0) return where;
  where.source_file = file->second;
  where.source_line = location.line;
  const auto inner = files.find(exact.file);
  if (inner == files.end() || exact.line <= 0 || exact == location) return where;
  where.inlined_file = inner->second;
  where.inlined_line = exact.line;
  return where;
}

std::shared_ptr<Module> LoadModule(const std::string& text, const std::string& device,
                                   GlobalMemory& memory,
                                   const std::map<std::string, uint64_t>& places) {
  return Loader(text, device, memory, places).Run();
}

void CheckRunsOn(const Module& module, const std::string& device) {
  if (RunsOn(ParseTarget(module.target), ParseTarget(device))) return;
  const auto line = std::find_if(
      module.lines.begin(), module.lines.end(),
      [](const std::string& text) { return text.find(".target") != std::string::npos; });
  const int number = line == module.lines.end() ? 0 : static_cast<int>(line - module.lines.begin());
  throw EmulatorError("target",
                      "a module for " + module.target + " does not run on the device, " + device,
                      module.WhereIs(number + 1, {}, {}));
}

}  // namespace tilelang::emulator
