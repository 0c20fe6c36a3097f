#include "emulator/async/families.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {

void RegisterAsync() {
  RegisterMbarrier();
  RegisterCpAsync();
  RegisterBulkCopy();
  RegisterTensorCopy();
  RegisterAsyncStores();
  RegisterTensorMapEdits();
  RegisterLaunchControl();
  RegisterTcgen05Access();
  RegisterTcgen05Mma();
  RegisterWgmma();
}

}  // namespace tilelang::emulator
