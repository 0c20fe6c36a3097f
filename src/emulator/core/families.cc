#include "emulator/core/families.h"

#include <initializer_list>

namespace tilelang::emulator {

void RegisterFamilies() {
  static const bool once = [] {
    for (auto add :
         {RegisterControl,        RegisterInteger,       RegisterBitField,      RegisterFloat,
          RegisterTranscendental, RegisterConvert,       RegisterCompare,       RegisterMove,
          RegisterMemory,         RegisterMatrixMove,    RegisterMma,           RegisterWmma,
          RegisterVideo,          RegisterAtomics,       RegisterWarpOps,       RegisterBarriers,
          RegisterMisc,           RegisterCalls,         RegisterStack,         RegisterMbarrier,
          RegisterCpAsync,        RegisterBulkCopy,      RegisterTensorCopy,    RegisterAsyncStores,
          RegisterTensorMapEdits, RegisterLaunchControl, RegisterTcgen05Access, RegisterTcgen05Mma,
          RegisterWgmma}) {
      add();
    }
    return true;
  }();
  (void)once;
}

}  // namespace tilelang::emulator
