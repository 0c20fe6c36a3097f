// The names that one block of a PTX function declares.
#ifndef TILELANG_EMULATOR_CORE_NAME_SCOPE_H_
#define TILELANG_EMULATOR_CORE_NAME_SCOPE_H_

#include <map>
#include <string>

#include "emulator/base/types.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// `.reg .b32 %r<9>` declares the nine names %r0 to %r8, and not %r. As with ptxas, all digits at
// the end of a name are its number: `a1<3>` declares nothing that could be named.
class NameScope {
 public:
  struct Declaration {
    Type type = Type::kNone;
    int vector = 1;
    bool is_register = false;
    int range = -1;  // registers <name>0 to <name>(range - 1); -1: the name itself
  };

  // Returns a name of `variable` that was declared before, or "".
  std::string Declare(const ptx::Variable& variable);
  // Returns the declaration of `name`, or nullptr if this scope has none.
  const Declaration* Find(const std::string& name) const;

 private:
  const Declaration* FindRange(const std::string& name) const;
  std::string FirstTaken(const std::string& name, int range) const;
  std::map<std::string, Declaration> names_, ranges_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_NAME_SCOPE_H_
