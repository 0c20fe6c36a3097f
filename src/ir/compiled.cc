#include "ir/compiled.h"

#include <utility>

#include "registry/functions.h"

namespace tilelang {

TensorMapInfo::TensorMapInfo(ir::Var var, ir::Buffer buffer, Array<Expr> dims, Array<Expr> strides,
                             Array<int64_t> box, Array<int64_t> element_strides, int64_t swizzle,
                             int64_t swizzle_atomicity, ir::DType dtype, bool oob_nan) {
  auto node = ffi::make_object<TensorMapInfoNode>();
  node->var = std::move(var);
  node->buffer = std::move(buffer);
  node->dims = std::move(dims);
  node->strides = std::move(strides);
  node->box = std::move(box);
  node->element_strides = std::move(element_strides);
  node->swizzle = swizzle;
  node->swizzle_atomicity = swizzle_atomicity;
  node->dtype = dtype;
  node->oob_nan = oob_nan;
  data_ = std::move(node);
}

CompiledFunc CompiledFunc::WithNotes(Array<Any> remarks, Array<Any> schedule,
                                     Array<ir::Map<String, Any>> choices,
                                     bool registers_scarce) const {
  auto node = ffi::make_object<CompiledFuncNode>(*get());
  node->remarks = std::move(remarks);
  node->schedule = std::move(schedule);
  node->choices = std::move(choices);
  node->registers_scarce = registers_scarce;
  return CompiledFunc(std::move(node));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<TensorMapInfoNode>()
      .def_ro("var", &TensorMapInfoNode::var)
      .def_ro("buffer", &TensorMapInfoNode::buffer)
      .def_ro("dims", &TensorMapInfoNode::dims)
      .def_ro("strides", &TensorMapInfoNode::strides)
      .def_ro("box", &TensorMapInfoNode::box)
      .def_ro("element_strides", &TensorMapInfoNode::element_strides)
      .def_ro("swizzle", &TensorMapInfoNode::swizzle)
      .def_ro("swizzle_atomicity", &TensorMapInfoNode::swizzle_atomicity)
      .def_ro("dtype", &TensorMapInfoNode::dtype)
      .def_ro("oob_nan", &TensorMapInfoNode::oob_nan);
  refl::ObjectDef<NamedTileNode>()
      .def_ro("name", &NamedTileNode::name)
      .def_ro("in_registers", &NamedTileNode::in_registers)
      .def_ro("offset", &NamedTileNode::offset)
      .def_ro("bytes", &NamedTileNode::bytes)
      .def_ro("span", &NamedTileNode::span)
      .def_ro("uses", &NamedTileNode::uses);
  refl::ObjectDef<KernelInfoNode>()
      .def_ro("name", &KernelInfoNode::name)
      .def_ro("grid", &KernelInfoNode::grid)
      .def_ro("block", &KernelInfoNode::block)
      .def_ro("cluster", &KernelInfoNode::cluster)
      .def_ro("dyn_smem_bytes", &KernelInfoNode::dyn_smem_bytes)
      .def_ro("smem_at_call", &KernelInfoNode::smem_at_call)
      .def_ro("cooperative", &KernelInfoNode::cooperative)
      .def_ro("dependent", &KernelInfoNode::dependent)
      .def_ro("params", &KernelInfoNode::params)
      .def_ro("tiles", &KernelInfoNode::tiles)
      .def_ro("alignment", &KernelInfoNode::alignment);
  refl::ObjectDef<CompiledFuncNode>()
      .def_ro("source", &CompiledFuncNode::source)
      .def_ro("lined_source", &CompiledFuncNode::lined_source)
      .def_ro("options", &CompiledFuncNode::options)
      .def_ro("kernels", &CompiledFuncNode::kernels)
      .def_ro("func", &CompiledFuncNode::func)
      .def_ro("remarks", &CompiledFuncNode::remarks)
      .def_ro("schedule", &CompiledFuncNode::schedule)
      .def_ro("choices", &CompiledFuncNode::choices)
      .def_ro("registers_scarce", &CompiledFuncNode::registers_scarce);
  registry::Functions().Add(
      "tl.codegen.TensorMapInfo",
      [](ir::Var var, ir::Buffer buffer, Array<Expr> dims, Array<Expr> strides, Array<int64_t> box,
         Array<int64_t> element_strides, int64_t swizzle, int64_t atomicity, ir::DType dtype,
         bool oob_nan) {
        return TensorMapInfo(var, buffer, dims, strides, box, element_strides, swizzle, atomicity,
                             dtype, oob_nan);
      });
}

}  // namespace tilelang
