#include "emulator/core/families.h"
namespace tilelang::emulator {
void RegisterBitField() {}
void RegisterTranscendental() {}
void RegisterConvert() {}
void RegisterAtomics() {}
void RegisterWarpOps() {}
void RegisterBarriers() {}
void RegisterMisc() {}
void RegisterCalls() {}
}
