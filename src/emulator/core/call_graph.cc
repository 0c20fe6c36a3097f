#include "emulator/core/call_graph.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

// The operand that tells what a call calls.
const ptx::Operand* CalleeOf(const ptx::Instruction& call) {
  for (const ptx::Operand& operand : call.operands) {
    if (operand.kind != ptx::Operand::Kind::kTuple) return &operand;
  }
  return nullptr;
}

template <typename F>
void ForEachInstruction(const ptx::Function& function, F&& body) {
  for (const ptx::Statement& statement : function.body) {
    if (statement.kind == ptx::Statement::Kind::kInstruction) body(statement.instruction);
  }
}

}  // namespace

void CallGraph::Build(const ptx::Program& program, const FunctionsByName& functions) {
  FindAddressed(program, functions);
  Peel(CalleesOf(functions));
}

void CallGraph::FindAddressed(const ptx::Program& program, const FunctionsByName& functions) {
  FunctionSet named;
  const auto add = [&](const ptx::Operand& operand) {
    const auto found = functions.find(operand.name);
    if (found != functions.end()) named.insert(found->second);
  };
  for (const ptx::Variable& variable : program.variables) {
    for (const ptx::Operand& value : variable.initializer) add(value);
  }
  for (const ptx::Function& function : program.functions) {
    ForEachInstruction(function, [&](const ptx::Instruction& instruction) {
      if (instruction.opcode == "call") return;
      for (const ptx::Operand& operand : instruction.operands) add(operand);
    });
  }
  for (const ptx::Function& function : program.functions) {
    if (function.has_body && named.count(&function)) by_address_.push_back(&function);
  }
}

CallGraph::Edges CallGraph::CalleesOf(const FunctionsByName& functions) {
  Edges callees;
  for (const auto& [name, function] : functions) {
    FunctionSet& edges = callees[function];
    ForEachInstruction(*function, [&](const ptx::Instruction& instruction) {
      if (instruction.opcode == "alloca") allocates_.insert(function);
      const ptx::Operand* callee = instruction.opcode == "call" ? CalleeOf(instruction) : nullptr;
      if (!callee) return;
      const auto found = functions.find(callee->name);
      if (found != functions.end()) {
        edges.insert(found->second);
      } else {
        edges.insert(by_address_.begin(), by_address_.end());
      }
    });
  }
  return callees;
}

// Finds the functions on circles, or between two circles: removes functions that call no others
// again and again, and then functions that no others call.
void CallGraph::Peel(const Edges& callees) {
  Edges callers;
  for (const auto& [function, edges] : callees) {
    reentrant_.insert(function);
    for (const ptx::Function* callee : edges) callers[callee].insert(function);
  }
  const auto peel = [&](const Edges& forth, const Edges& back) {
    std::unordered_map<const ptx::Function*, size_t> left;
    std::vector<const ptx::Function*> ends;
    const auto remains = [&](const ptx::Function* f) { return reentrant_.count(f) != 0; };
    for (const ptx::Function* function : reentrant_) {
      const auto edges = forth.find(function);
      const size_t count = edges == forth.end()
                               ? 0
                               : static_cast<size_t>(std::count_if(edges->second.begin(),
                                                                   edges->second.end(), remains));
      left[function] = count;
      if (count == 0) ends.push_back(function);
    }
    while (!ends.empty()) {
      const ptx::Function* end = ends.back();
      ends.pop_back();
      reentrant_.erase(end);
      const auto edges = back.find(end);
      if (edges == back.end()) continue;
      for (const ptx::Function* other : edges->second) {
        if (remains(other) && --left[other] == 0) ends.push_back(other);
      }
    }
  };
  peel(callees, callers);
  peel(callers, callees);
}

}  // namespace tilelang::emulator
