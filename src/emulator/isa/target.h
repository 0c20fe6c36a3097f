// Compute capabilities that PTX is made for, and GPUs that run it.
#ifndef TILELANG_EMULATOR_ISA_TARGET_H_
#define TILELANG_EMULATOR_ISA_TARGET_H_

#include <string>

namespace tilelang::emulator {

// A compute capability as in sm_90, sm_100f and sm_100a. What only `a` has is in no other target;
// what `f` has is in `a` as well.
struct Target {
  enum Feature { kBase, kFamily, kArchitecture };
  int sm = 0;
  Feature feature = kBase;

  // Later architectures keep what earlier ones have, but for what belongs to one alone.
  constexpr bool Has(const Target& needed) const {
    return (needed.feature == kArchitecture ? sm == needed.sm : sm >= needed.sm) &&
           feature >= needed.feature;
  }
};

// sm is 0 if the name is none of a target.
Target ParseTarget(const std::string& name);
std::string TargetName(const Target& target);  // "sm_100a"
// Returns whether a module for `target` runs on the device: on equal capabilities for `a`, on the
// same family for `f`, else on all later ones.
bool RunsOn(const Target& target, const Target& device);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_TARGET_H_
