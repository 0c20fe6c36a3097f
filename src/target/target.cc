#include "target/target.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include "registry/functions.h"

namespace tilelang {

namespace refl = tvm::ffi::reflection;
using tvm::ffi::Array;
using tvm::ffi::make_object;
using tvm::ffi::String;

namespace {

constexpr int kKiB = 1024;

Target Ampere() {
  auto t = make_object<TargetObj>();
  t->arch = "sm_80";
  t->gpu_name = "A100";
  t->major = 8;
  t->sm_count = 108;
  t->shared_memory_per_block = 163 * kKiB;
  t->shared_memory_per_sm = 164 * kKiB;
  return Target(t);
}

Target Hopper() {
  auto t = make_object<TargetObj>();
  t->arch = "sm_90a";
  t->gpu_name = "H200";
  t->major = 9;
  t->sm_count = 132;
  t->shared_memory_per_block = 227 * kKiB;
  t->shared_memory_per_sm = 228 * kKiB;
  t->max_cluster_size = 16;
  t->has_stmatrix = true;
  t->has_tma = true;
  t->has_wgmma = true;
  return Target(t);
}

tvm::ffi::ObjectPtr<TargetObj> DataCenterBlackwell() {
  auto t = make_object<TargetObj>();
  t->major = 10;
  t->sm_count = 148;
  t->shared_memory_per_block = 227 * kKiB;
  t->shared_memory_per_sm = 228 * kKiB;
  t->max_cluster_size = 16;
  t->tmem_lanes = 128;
  t->tmem_columns = 512;
  t->max_vector_bits = 256;
  t->has_stmatrix = true;
  t->has_tma = true;
  t->has_tcgen05 = true;
  t->has_swizzle_atomicity = true;
  t->has_tma_gather = true;
  t->has_packed_f32x2 = true;
  return t;
}

Target Blackwell() {
  auto t = DataCenterBlackwell();
  t->arch = "sm_100a";
  t->gpu_name = "B200";
  t->has_tcgen05_integers = true;
  return Target(t);
}

// No publication has the number of SMs, so it is that of a B200.
Target BlackwellUltra() {
  auto t = DataCenterBlackwell();
  t->arch = "sm_103a";
  t->gpu_name = "B300";
  t->minor = 3;
  t->has_long_fp4 = true;
  return Target(t);
}

// The tensor cores of mma.sync, with copies by TMA. Loads for several blocks of a cluster, which
// the cards do not have, are left out with clusters.
Target ConsumerBlackwell() {
  auto t = make_object<TargetObj>();
  t->arch = "sm_120a";
  t->gpu_name = "RTX 5090";
  t->major = 12;
  t->sm_count = 170;
  t->max_threads_per_sm = 1536;
  t->max_blocks_per_sm = 24;
  t->shared_memory_per_block = 99 * kKiB;
  t->shared_memory_per_sm = 100 * kKiB;
  t->max_vector_bits = 256;
  t->has_stmatrix = true;
  t->has_tma = true;
  t->has_swizzle_atomicity = true;
  t->has_tma_gather = true;
  t->has_packed_f32x2 = true;
  return Target(t);
}

// Returns the architecture with another number of multiprocessors.
Target WithSmCount(const Target& target, int sm_count) {
  auto counted = make_object<TargetObj>(*target.get());
  counted->sm_count = sm_count;
  return Target(counted);
}

void RegisterTarget() {
  refl::ObjectDef<TargetObj>(refl::init(false))
      .def_ro("arch", &TargetObj::arch)
      .def_ro("gpu_name", &TargetObj::gpu_name)
      .def_ro("major", &TargetObj::major)
      .def_ro("minor", &TargetObj::minor)
      .def_ro("sm_count", &TargetObj::sm_count)
      .def_ro("max_threads_per_block", &TargetObj::max_threads_per_block)
      .def_ro("max_threads_per_sm", &TargetObj::max_threads_per_sm)
      .def_ro("max_blocks_per_sm", &TargetObj::max_blocks_per_sm)
      .def_ro("registers_per_sm", &TargetObj::registers_per_sm)
      .def_ro("max_registers_per_thread", &TargetObj::max_registers_per_thread)
      .def_ro("shared_memory_per_block", &TargetObj::shared_memory_per_block)
      .def_ro("shared_memory_per_sm", &TargetObj::shared_memory_per_sm)
      .def_ro("max_cluster_size", &TargetObj::max_cluster_size)
      .def_ro("tmem_lanes", &TargetObj::tmem_lanes)
      .def_ro("tmem_columns", &TargetObj::tmem_columns)
      .def_ro("max_vector_bits", &TargetObj::max_vector_bits)
      .def_ro("has_stmatrix", &TargetObj::has_stmatrix)
      .def_ro("has_tma", &TargetObj::has_tma)
      .def_ro("has_wgmma", &TargetObj::has_wgmma)
      .def_ro("has_tcgen05", &TargetObj::has_tcgen05)
      .def_ro("has_tcgen05_integers", &TargetObj::has_tcgen05_integers)
      .def_ro("has_long_fp4", &TargetObj::has_long_fp4)
      .def_ro("has_swizzle_atomicity", &TargetObj::has_swizzle_atomicity)
      .def_ro("has_tma_gather", &TargetObj::has_tma_gather)
      .def_ro("has_packed_f32x2", &TargetObj::has_packed_f32x2);
  registry::Functions()
      .Add("tl.target.All", &AllTargets)
      .Add("tl.target.Get", &GetTarget)
      .Add("tl.target.WithSmCount", &WithSmCount);
}

}  // namespace

Array<Target> AllTargets() {
  static const Array<Target> table{Ampere(), Hopper(), Blackwell(), BlackwellUltra(),
                                   ConsumerBlackwell()};
  return table;
}

Target GetTarget(const String& arch) {
  for (const Target& target : AllTargets()) {
    if (target->arch == arch) return target;
  }
  TVM_FFI_THROW(InternalError) << "no such architecture: " << arch;
  TVM_FFI_UNREACHABLE();
}

TVM_FFI_STATIC_INIT_BLOCK() { RegisterTarget(); }

}  // namespace tilelang
