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
  RegisterTcgen05Access();
  RegisterTcgen05Mma();
}

}  // namespace tilelang::emulator
