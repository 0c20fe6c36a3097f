// The asynchronous instruction families; RegisterAsync lists them.
#ifndef TILELANG_EMULATOR_ASYNC_FAMILIES_H_
#define TILELANG_EMULATOR_ASYNC_FAMILIES_H_

namespace tilelang::emulator {

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

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_FAMILIES_H_
