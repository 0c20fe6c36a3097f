#ifndef TILELANG_LOWER_PERMUTE_TENSORS_H_
#define TILELANG_LOWER_PERMUTE_TENSORS_H_

#include "ir/function.h"

namespace tilelang::lower {

// The attribute of a launch that says where the elements of tensors lie in their memory
// (T.annotate_layout of a tensor): Map<Buffer, layout::Formula>. Threads carry out tile operators
// on such tensors.
inline constexpr const char* kTensorLayouts = "tensor_layouts";

// Accesses elements of tensors with a layout in the places that it gives. Needs accesses that are
// guarded: afterwards an index does not tell which element of the tensor it is of. What is left of
// the tensors in tile operators is a LayoutError.
ir::Func PermuteTensors(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_PERMUTE_TENSORS_H_
