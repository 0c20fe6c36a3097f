#include "emulator/core/families.h"

#include <initializer_list>

namespace tilelang::emulator {

void RegisterFamilies() {
  static const bool once = [] {
    for (auto add : {RegisterControl,        RegisterInteger,    RegisterBitField, RegisterFloat,
                     RegisterTranscendental, RegisterConvert,    RegisterCompare,  RegisterMove,
                     RegisterMemory,         RegisterMatrixMove, RegisterMma,      RegisterWmma,
                     RegisterVideo,          RegisterAtomics,    RegisterWarpOps,  RegisterBarriers,
                     RegisterMisc,           RegisterCalls,      RegisterStack,    RegisterAsync}) {
      add();
    }
    return true;
  }();
  (void)once;
}

}  // namespace tilelang::emulator
