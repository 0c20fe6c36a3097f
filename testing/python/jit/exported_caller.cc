// A C++ program that calls a function of an exported library with tensors of float32 on a GPU:
// caller LIBRARY FUNCTION ROWS COLUMNS [DEPTH]. With a depth, of A (ROWS, DEPTH), B (COLUMNS,
// DEPTH) and C (1, ROWS, COLUMNS). The addresses of the tensors are 0x10000, 0x20000, 0x300000; if
// IN_PLACE is set, the last one lies where the first one does.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstdio>
#include <cstdlib>

namespace ffi = tvm::ffi;

int main(int count, char** arguments) {
  int64_t rows = std::atoll(arguments[3]), columns = std::atoll(arguments[4]);
  int64_t matrix[] = {rows, columns}, vector[] = {columns};
  int64_t matrix_strides[] = {columns, 1}, vector_strides[] = {1};
  auto tensor = [](uintptr_t address, int rank, int64_t* shape, int64_t* strides) {
    return DLTensor{
        reinterpret_cast<void*>(address), {kDLCUDA, 0}, rank, {kDLFloat, 32, 1}, shape, strides, 0};
  };
  DLTensor x = tensor(0x10000, 2, matrix, matrix_strides);
  DLTensor y = tensor(0x20000, 1, vector, vector_strides);
  const uintptr_t last = std::getenv("IN_PLACE") != nullptr ? 0x10000 : 0x300000;
  DLTensor z = tensor(last, 2, matrix, matrix_strides);
  try {
    ffi::Module module = ffi::Module::LoadFromFile(arguments[1]);
    ffi::Function function = module->GetFunction(arguments[2]).value();
    if (count == 5) {
      function(&x, &y, 3.5, &z);
      return 0;
    }
    int64_t depth = std::atoll(arguments[5]);
    int64_t of_a[] = {rows, depth}, of_b[] = {columns, depth}, of_c[] = {1, rows, columns};
    int64_t apart[] = {depth, 1}, apart_c[] = {rows * columns, columns, 1};
    DLTensor a = tensor(0x10000, 2, of_a, apart), b = tensor(0x20000, 2, of_b, apart);
    DLTensor c = tensor(last, 3, of_c, apart_c);
    function(&a, &b, &c);
  } catch (const ffi::Error& error) {
    std::printf("%s: %s\n", error.kind().c_str(), error.message().c_str());
    return 1;
  }
  return 0;
}
