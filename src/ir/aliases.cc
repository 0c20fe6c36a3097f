#include "ir/aliases.h"

#include <tvm/ffi/cast.h>

#include "ir/effects.h"
#include "ir/tmem_views.h"
#include "ir/visitor.h"

namespace tilelang::ir {

namespace {

// An attribute (Var) of tensors that may overlap: tensors with the same Var share their memory.
constexpr const char* kMemory = "memory";

// Replaces tensors everywhere, also as keys of the attributes of launches.
class TensorReplacer : public StmtMutator {
 public:
  explicit TensorReplacer(const Map<Buffer, Buffer>& tensors) : tensors_(tensors) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const KernelLaunchNode* op) override {
    Map<String, Any> attrs;
    for (const auto& [key, value] : op->attrs) {
      auto by_buffer = value.try_cast<Map<Buffer, Any>>();
      attrs.Set(key, by_buffer ? Any(Replaced(*by_buffer)) : value);
    }
    return KernelLaunch(op->block_vars, MutateExprs(op->grid), op->thread_vars, op->threads, attrs,
                        MutateStmt(op->body), op->span);
  }

 protected:
  Buffer MutateBuffer(const Buffer& buffer) override {
    return tensors_.Get(buffer).value_or(buffer);
  }

 private:
  Map<Buffer, Any> Replaced(const Map<Buffer, Any>& by_buffer) {
    Map<Buffer, Any> replaced;
    for (const auto& [buffer, value] : by_buffer) replaced.Set(MutateBuffer(buffer), value);
    return replaced;
  }

  const Map<Buffer, Buffer>& tensors_;
};

}  // namespace

Func WithOverlappingTensors(const Func& func) {
  Var memory("memory", dtypes::kUInt64, func->span);
  Map<Buffer, Buffer> tensors;
  Array<Any> params;
  for (const Any& param : func->params) {
    auto tensor = param.as<Buffer>();
    if (!tensor) {
      params.push_back(param);
      continue;
    }
    const Buffer& old = *tensor;
    Map<String, Any> attrs = old->attrs;
    attrs.Set(kMemory, memory);
    Buffer marked(old->name, old->dtype, old->shape, old->strides, old->scope, attrs, old->span);
    tensors.Set(old, marked);
    params.push_back(marked);
  }
  return Func(func->name, params, TensorReplacer(tensors).MutateStmt(func->body), func->attrs,
              func->span);
}

const ffi::Object* MemoryOf(const Buffer& buffer) {
  if (auto viewed = buffer->attrs.Get(kViewOf)) return (*viewed).cast<Buffer>().get();
  auto memory = buffer->attrs.Get(kMemory);
  return memory ? static_cast<const ffi::Object*>((*memory).cast<Var>().get()) : buffer.get();
}

bool MayOverlap(const Buffer& a, const Buffer& b) { return MemoryOf(a) == MemoryOf(b); }

bool MayWrite(const Stmt& s, const Buffer& buffer) {
  bool writes = false;
  WalkEffects(s, [&](const Effect& effect) {
    writes = writes || (effect.Writes() && MayOverlap(effect.buffer, buffer));
  });
  return writes;
}

bool MayOverlapOthers(const Buffer& tensor) { return tensor->attrs.count(kMemory) != 0; }

}  // namespace tilelang::ir
