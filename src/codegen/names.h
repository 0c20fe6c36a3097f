// Names of the generated source: unique, and no word that C++, CUDA or the device headers own.
#ifndef TILELANG_CODEGEN_NAMES_H_
#define TILELANG_CODEGEN_NAMES_H_

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/expr.h"

namespace tilelang {

namespace ffi = tvm::ffi;

// Any UTF-8 text as an identifier of ASCII letters, different for different identifiers of Python
// but where one of them spells the code of a letter (u03b1). It may still be a word of C++.
std::string Identifier(const std::string& text);

class Names {
 public:
  // The name of a variable or buffer: its own, with a number where that is taken.
  const std::string& Of(const ffi::Object* node, const ffi::String& wanted);
  const std::string& Of(const ir::Var& var) { return Of(var.get(), var->name); }
  const std::string& Of(const ir::Buffer& buffer) { return Of(buffer.get(), buffer->name); }
  // A new name like `wanted`.
  std::string Fresh(const std::string& wanted);
  // Keeps a name of the surrounding code from being given to anything.
  void Reserve(const std::string& name) { used_.insert(name); }

 private:
  std::unordered_map<const ffi::Object*, std::string> names_;
  std::unordered_set<std::string> used_;
};

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_NAMES_H_
