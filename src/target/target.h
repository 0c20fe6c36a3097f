#ifndef TILELANG_TARGET_TARGET_H_
#define TILELANG_TARGET_TARGET_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

namespace tilelang {

// What the compiler may use and must respect on one architecture. Sizes are bytes unless the name
// says otherwise; the numbers come from the CUDA C++ Programming Guide, "Compute Capabilities".
class TargetObj : public tvm::ffi::Object {
 public:
  tvm::ffi::String arch;      // as ptxas spells it: "sm_90a"
  tvm::ffi::String gpu_name;  // the data-centre part whose sm_count is given
  int major = 0;              // compute capability
  int minor = 0;

  int sm_count = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int registers_per_sm = 65536;
  int max_registers_per_thread = 255;
  int shared_memory_per_block = 0;  // with the opt-in attribute
  int shared_memory_per_sm = 0;
  int max_cluster_size = 1;  // blocks; the portable limit

  int tmem_lanes = 0;
  int tmem_columns = 0;  // of 32 bits

  int max_vector_bits = 128;  // widest global load or store of one thread
  bool has_stmatrix = false;
  bool has_tma = false;  // bulk and tensor copies with mbarrier transactions, clusters, setmaxnreg
  bool has_wgmma = false;
  bool has_tcgen05 = false;
  bool has_tcgen05_integers = false;   // tcgen05.mma of int8
  bool has_long_fp4 = false;           // tcgen05.mma of 96 elements of float4 along K
  bool has_swizzle_atomicity = false;  // tensor maps with swizzles of 32-byte chunks
  bool has_tma_gather = false;         // bulk tensor copies of four rows (tile::gather4)
  bool has_packed_f32x2 = false;       // add, mul and fma on f32x2

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.Target", TargetObj, tvm::ffi::Object);
};

class Target : public tvm::ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Target, tvm::ffi::ObjectRef, TargetObj);
};

// Every architecture, oldest first.
tvm::ffi::Array<Target> AllTargets();

// The architecture of that exact name ("sm_100a"); an InternalError for any other.
Target GetTarget(const tvm::ffi::String& arch);

}  // namespace tilelang

#endif  // TILELANG_TARGET_TARGET_H_
