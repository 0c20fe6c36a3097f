#include "ir/padded.h"

#include "ir/error.h"

namespace tilelang::ir {

namespace {

constexpr SmallFloat kPaddedTypes[] = {
    kE2M1,
    {"float6_e2m3fn", "e2m3", 6, 3, 1},
    {"float6_e3m2fn", "e3m2", 6, 2, 3},
};

}  // namespace

const SmallFloat* PaddedType(const Buffer& buffer) {
  auto name = buffer->attrs.Get(kPaddedType);
  if (!name) return nullptr;
  for (const SmallFloat& type : kPaddedTypes) {
    if ((*name).cast<String>() == type.name) return &type;
  }
  TVM_FFI_ICHECK(false) << "no padded type of " << buffer->name;
  return nullptr;
}

bool HasPaddedInput(const GemmNode* op) {
  for (const GemmOperandNode* input : op->Inputs()) {
    if (PaddedType(input->buffer()) != nullptr) return true;
  }
  return false;
}

const SmallFloat* PaddedType(const CopyNode* op) {
  const SmallFloat* src = PaddedType(op->src->buffer);
  const SmallFloat* dst = PaddedType(op->dst->buffer);
  if (src != nullptr && dst != nullptr) return nullptr;
  return src != nullptr ? src : dst;
}

}  // namespace tilelang::ir
