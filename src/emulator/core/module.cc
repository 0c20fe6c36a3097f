#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/kernel.h"
#include "emulator/memory/global.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {
namespace {

uint64_t VariableAlign(const ptx::Variable& variable) {
  uint64_t natural = std::max(1, TypeBits(variable.type) / 8) * variable.vector;
  return variable.align ? variable.align : natural;
}

class Loader {
 public:
  Loader(const std::string& text, GlobalMemory& memory)
      : program_(ptx::Parse(text)), memory_(memory), module_(std::make_shared<Module>()) {}

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
      throw EmulatorError("syntax", "PTX begins with .version and .target; there is no such line");
    }
    const double number = std::strtod(version.c_str(), nullptr);
    if (!(number >= 1 && number < kVersionEnd)) {
      throw EmulatorError("unsupported", ".version " + version + " is none that is known");
    }
    if (ParseTarget(program_.target).sm == 0) {
      throw EmulatorError("target", "there is no .target " + program_.target);
    }
  }

  void PlaceVariables() {
    for (const ptx::Variable& variable : program_.variables) {
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

  [[noreturn]] void Error(const ptx::Variable& variable, const std::string& message) {
    Where where;
    where.ptx_line = variable.line;
    throw EmulatorError("unsupported", "variable '" + variable.name + "': " + message, where);
  }

  void PlaceConstant(const ptx::Variable& variable) {
    std::vector<uint8_t>& bank = module_->constant_bank;
    uint64_t align = VariableAlign(variable);
    uint64_t address = (kConstBase + bank.size() + align - 1) / align * align;
    bank.resize(address - kConstBase + variable.bytes());
    context_.placements[variable.name] = {Space::kConst, address};
  }

  void PlaceGlobal(const ptx::Variable& variable) {
    if (variable.is_extern) Error(variable, "extern variables have no definition to link with");
    uint64_t address = memory_.Allocate(variable.bytes(), variable.name);
    module_->owned_globals.push_back(address);
    module_->globals[variable.name] = address;
    context_.placements[variable.name] = {Space::kGlobal, address};
  }

  uint8_t* HostOf(const Placement& placement, uint64_t bytes) {
    if (placement.space == Space::kConst) {
      return module_->constant_bank.data() + (placement.address - kConstBase);
    }
    return memory_.Find(placement.address, bytes, true);
  }

  void Initialize(const ptx::Variable& variable) {
    uint8_t* host = HostOf(context_.placements.at(variable.name), variable.bytes());
    uint64_t element = std::max(1, TypeBits(variable.type) / 8);
    if (variable.initializer.size() * element > variable.bytes()) {
      Error(variable, "more initial values than elements");
    }
    for (const ptx::Operand& value : variable.initializer) {
      uint64_t bits = InitialValue(variable, value);
      std::memcpy(host, &bits, element);
      host += element;
    }
  }

  uint64_t InitialValue(const ptx::Variable& variable, const ptx::Operand& value) {
    switch (value.kind) {
      case ptx::Operand::Kind::kInteger:
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
        if (found != context_.placements.end()) return found->second.address + value.offset;
        if (context_.functions.count(value.name)) return 0;  // tables of functions are not called
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
    try {
      FunctionDecoder(context_, *kernel).Run(function);
    } catch (const EmulatorError& error) {
      if (error.kind != "unsupported") throw;
      kernel->code.clear();
      kernel->unsupported = error;  // the module's other kernels can be used
    }
    module_->kernels.push_back(std::move(kernel));
  }

  static constexpr double kVersionEnd = 10;  // later versions may change what instructions mean
  ptx::Program program_;
  GlobalMemory& memory_;
  std::shared_ptr<Module> module_;
  ModuleContext context_;
};

}  // namespace

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

std::shared_ptr<Module> LoadModule(const std::string& text, GlobalMemory& memory) {
  return Loader(text, memory).Run();
}

}  // namespace tilelang::emulator
