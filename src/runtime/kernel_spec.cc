#include "runtime/kernel_spec.h"

#include "registry/functions.h"

namespace tilelang::runtime {

namespace {

TensorMapSpec MakeTensorMapSpec(ir::Buffer buffer, ffi::Array<ir::Expr> dims,
                                ffi::Array<ir::Expr> strides, ffi::Array<int64_t> box,
                                int64_t swizzle) {
  auto node = ffi::make_object<TensorMapSpecNode>();
  node->dtype = buffer->dtype;
  node->buffer = std::move(buffer);
  node->dims = std::move(dims);
  node->strides = std::move(strides);
  node->box = std::move(box);
  node->swizzle = swizzle;
  return TensorMapSpec(std::move(node));
}

LaunchSpec MakeLaunchSpec(ffi::String kernel_name, ffi::Array<ir::Expr> grid,
                          ffi::Array<ir::Expr> block, ffi::Array<int64_t> cluster,
                          ir::Expr shared_memory, ffi::Array<ffi::Any> args) {
  auto node = ffi::make_object<LaunchSpecNode>();
  node->kernel_name = std::move(kernel_name);
  node->grid = std::move(grid);
  node->block = std::move(block);
  node->cluster = std::move(cluster);
  node->shared_memory = std::move(shared_memory);
  node->args = std::move(args);
  return LaunchSpec(std::move(node));
}

KernelSpec MakeKernelSpec(ffi::String name, ffi::Array<ffi::Any> params,
                          ffi::Map<ir::Buffer, int64_t> alignment,
                          ffi::Array<ir::Buffer> workspaces, ffi::Array<LaunchSpec> launches,
                          ffi::Array<ir::Buffer> written) {
  auto node = ffi::make_object<KernelSpecNode>();
  node->name = std::move(name);
  node->params = std::move(params);
  node->alignment = std::move(alignment);
  node->workspaces = std::move(workspaces);
  node->launches = std::move(launches);
  node->written = std::move(written);
  return KernelSpec(std::move(node));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<TensorMapSpecNode>()
      .def_ro("buffer", &TensorMapSpecNode::buffer)
      .def_ro("dtype", &TensorMapSpecNode::dtype)
      .def_ro("dims", &TensorMapSpecNode::dims)
      .def_ro("strides", &TensorMapSpecNode::strides)
      .def_ro("box", &TensorMapSpecNode::box)
      .def_ro("element_strides", &TensorMapSpecNode::element_strides)
      .def_ro("swizzle", &TensorMapSpecNode::swizzle)
      .def_ro("interleave", &TensorMapSpecNode::interleave)
      .def_ro("l2_promotion", &TensorMapSpecNode::l2_promotion)
      .def_ro("oob_fill", &TensorMapSpecNode::oob_fill);
  refl::ObjectDef<LaunchSpecNode>()
      .def_ro("kernel_name", &LaunchSpecNode::kernel_name)
      .def_ro("grid", &LaunchSpecNode::grid)
      .def_ro("block", &LaunchSpecNode::block)
      .def_ro("cluster", &LaunchSpecNode::cluster)
      .def_ro("shared_memory", &LaunchSpecNode::shared_memory)
      .def_ro("args", &LaunchSpecNode::args)
      .def_ro("cooperative", &LaunchSpecNode::cooperative)
      .def_ro("dependent", &LaunchSpecNode::dependent);
  refl::ObjectDef<KernelSpecNode>()
      .def_ro("name", &KernelSpecNode::name)
      .def_ro("params", &KernelSpecNode::params)
      .def_ro("alignment", &KernelSpecNode::alignment)
      .def_ro("written", &KernelSpecNode::written)
      .def_ro("workspaces", &KernelSpecNode::workspaces)
      .def_ro("launches", &KernelSpecNode::launches)
      .def_ro("assumptions", &KernelSpecNode::assumptions);
  registry::Functions()
      .Add("tl.runtime.TensorMapSpec", MakeTensorMapSpec)
      .Add("tl.runtime.LaunchSpec", MakeLaunchSpec)
      .Add("tl.runtime.KernelSpec", MakeKernelSpec);
}

}  // namespace tilelang::runtime
