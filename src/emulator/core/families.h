// The instruction families, each registered by the file that implements it.
#ifndef TILELANG_EMULATOR_CORE_FAMILIES_H_
#define TILELANG_EMULATOR_CORE_FAMILIES_H_

namespace tilelang::emulator {

void RegisterControl();
void RegisterInteger();
void RegisterBitField();
void RegisterFloat();
void RegisterTranscendental();
void RegisterConvert();
void RegisterCompare();
void RegisterMove();
void RegisterMemory();
void RegisterMatrixMove();
void RegisterMma();
void RegisterWmma();
void RegisterVideo();
void RegisterAtomics();
void RegisterWarpOps();
void RegisterBarriers();
void RegisterMisc();
void RegisterCalls();
void RegisterStack();
// In src/emulator/async:
void RegisterMbarrier();
void RegisterCpAsync();
void RegisterBulkCopy();
void RegisterTensorCopy();
void RegisterAsyncStores();
void RegisterTensorMapEdits();
void RegisterLaunchControl();
void RegisterTcgen05Access();
void RegisterTcgen05Mma();
void RegisterWgmma();

// Registers all of them, once.
void RegisterFamilies();

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_FAMILIES_H_
