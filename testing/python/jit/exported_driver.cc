// A CUDA driver that launches nothing: it prints what an exported library asks of it.
#include <cstdint>
#include <cstdio>
#include <cstring>

struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned count;
};

extern "C" {
int cuInit(unsigned) { return 0; }
int cuGetErrorName(int, const char** name) { return *name = "error", 0; }
int cuGetErrorString(int, const char** text) { return *text = "text", 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? CAPABILITY / 10 : CAPABILITY % 10, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = (void*)1, 0; }
int cuCtxGetCurrent(void** context) { return *context = nullptr, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuLibraryLoadData(void** library, const void* image, void*, void*, unsigned, void*, void*,
                      unsigned) {
  std::printf("image %d\n", std::memcmp(image, "\177ELF", 4) == 0);
  return *library = (void*)2, 0;
}
int cuLibraryGetKernel(void** kernel, void*, const char* name) {
  std::printf("kernel %s\n", name);
  return *kernel = (void*)3, 0;
}
int cuKernelSetAttribute(int attribute, int value, void*, int) {
  std::printf("attribute %d %d\n", attribute, value);
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  std::printf("allocate %zu\n", bytes);
  return *address = 0x70000, 0;
}
int cuMemFree_v2(uint64_t) { return std::printf("free\n"), 0; }
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void*) { return 1; }
int cuStreamIsCapturing(void*, int*) { return 1; }
int cuTensorMapEncodeTiled(void* map, int dtype, unsigned rank, void* address, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box, const uint32_t*, int,
                           int swizzle, int, int) {
  std::memset(map, 0x5A, 128);
  std::printf("map %d %p dims", dtype, address);
  for (unsigned i = 0; i < rank; ++i) std::printf(" %d", static_cast<int>(dims[i]));
  std::printf(" strides");
  for (unsigned i = 0; i + 1 < rank; ++i) std::printf(" %d", static_cast<int>(strides[i]));
  std::printf(" box");
  for (unsigned i = 0; i < rank; ++i) std::printf(" %d", static_cast<int>(box[i]));
  std::printf(" swizzle %d\n", swizzle);
  return 0;
}
int cuLaunchKernelEx(const Config* config, void*, void** arguments, void**) {
  std::printf("launch grid %u %u %u block %u %u %u shared %u attributes %u", config->grid[0],
              config->grid[1], config->grid[2], config->block[0], config->block[1],
              config->block[2], config->shared, config->count);
  for (int i = 0; i < ARGUMENTS; ++i) {
    uint64_t bits;
    std::memcpy(&bits, arguments[i], sizeof bits);
    std::printf(" %llx", static_cast<unsigned long long>(bits));
  }
  std::printf("\n");
  return 0;
}
}
