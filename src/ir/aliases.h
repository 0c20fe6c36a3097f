// Tensors that may lie in the same memory: arguments of a call that overlap.
#ifndef TILELANG_IR_ALIASES_H_
#define TILELANG_IR_ALIASES_H_

#include "ir/function.h"

namespace tilelang::ir {

// Returns the function for calls whose arguments overlap: any two of its tensor parameters may lie
// in the same memory. Workspaces that the function allocates lie apart from all of them.
Func WithOverlappingTensors(const Func& func);

// Returns the object that stands for a buffer's memory: the buffer itself, or one object for all
// tensors that may overlap. Analyses that ask who reads what another statement writes compare
// these objects, never the buffers.
const ffi::Object* MemoryOf(const Buffer& buffer);

// Returns whether two buffers are the same, or may overlap.
bool MayOverlap(const Buffer& a, const Buffer& b);

// Returns whether an effect of `s` may write memory in which the buffer lies.
bool MayWrite(const Stmt& s, const Buffer& buffer);

// Returns whether the tensor may overlap others.
bool MayOverlapOthers(const Buffer& tensor);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_ALIASES_H_
