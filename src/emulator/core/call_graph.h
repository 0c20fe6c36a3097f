// Finds which device functions of a module cannot be inlined, and which are called by their
// address.
#ifndef TILELANG_EMULATOR_CORE_CALL_GRAPH_H_
#define TILELANG_EMULATOR_CORE_CALL_GRAPH_H_

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

using FunctionsByName = std::unordered_map<std::string, const ptx::Function*>;

class CallGraph {
 public:
  // `functions` holds the device functions of `program`, also functions without a body.
  void Build(const ptx::Program& program, const FunctionsByName& functions);

  // Returns whether a thread may call the function while it executes it. In doubt it returns true.
  bool IsReentrant(const ptx::Function& function) const { return reentrant_.count(&function) != 0; }
  // Returns whether each call needs a frame, for memory of its own or for registers.
  bool NeedsFrame(const ptx::Function& function) const {
    return IsReentrant(function) || allocates_.count(&function) != 0;
  }
  // Functions with a body that the program takes the address of, in its order.
  const std::vector<const ptx::Function*>& by_address() const { return by_address_; }

 private:
  using FunctionSet = std::unordered_set<const ptx::Function*>;
  using Edges = std::unordered_map<const ptx::Function*, FunctionSet>;

  void FindAddressed(const ptx::Program& program, const FunctionsByName& functions);
  Edges CalleesOf(const FunctionsByName& functions);
  void Peel(const Edges& callees);

  FunctionSet reentrant_, allocates_;
  std::vector<const ptx::Function*> by_address_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_CALL_GRAPH_H_
