#include "runtime/spec_of.h"

#include <algorithm>
#include <unordered_set>

#include "ir/intrinsics.h"
#include "ir/stand_in.h"
#include "ir/unaligned_vectors.h"
#include "ir/visitor.h"
#include "op/copy_tma.h"
#include "registry/functions.h"
#include "runtime/assumptions.h"

namespace tilelang::runtime {

namespace {

constexpr int64_t kTensorMapAlignment = 16;

// The tensor that the user declared, for the one-dimensional buffer of the code.
ir::Buffer Logical(const ir::Buffer& buffer) {
  auto it = buffer->attrs.find("logical");
  return it == buffer->attrs.end() ? buffer : (*it).second.cast<ir::Buffer>();
}

// Bytes of the widest vector access to each global buffer.
class VectorAccesses : public ir::StmtVisitor {
 public:
  ffi::Map<ir::Buffer, int64_t> alignment;

  using StmtVisitor::Visit;
  void Visit(const ir::ForNode* op) override {
    if (op->Kind() == ir::ForKind::kVectorized) {
      int64_t lanes = *ir::AsInt(op->extent);
      for (const ir::Buffer& buffer : ir::VectorsOf(op)) {
        if (!buffer.IsGlobal()) continue;
        int64_t bytes = ir::Bytes(buffer->dtype) * (ir::IsUnaligned(op, buffer) ? 1 : lanes);
        Require(buffer, std::min<int64_t>(16, bytes & -bytes));
      }
    }
    StmtVisitor::Visit(op);
  }
  void Require(const ir::Buffer& buffer, int64_t bytes) {
    ir::Buffer logical = Logical(buffer);
    auto it = alignment.find(logical);
    int64_t before = it == alignment.end() ? 1 : (*it).second;
    alignment.Set(logical, std::max(before, bytes));
  }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (buffer.IsGlobal()) Require(buffer, ir::Bytes(buffer->dtype));
  }
};

// The global buffers that a kernel may write to.
class GlobalWrites : public ir::StmtVisitor {
 public:
  bool Contains(const ir::Buffer& logical) const { return written_.count(logical.get()) > 0; }

  using StmtVisitor::Visit;
  void Visit(const ir::StoreNode* op) override {
    Add(op->buffer);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    for (const ir::MemoryEffect& effect : ir::CallEffects(op)) {
      if (effect.write) Add(effect.buffer);
    }
    // This attribute names the tensor of a TMA store. Other calls with a tensor map load, or fetch
    // the map.
    if (auto stored = op->attrs.Get(op::kStoredTensor)) Add((*stored).cast<ir::Buffer>());
    StmtVisitor::Visit(op);
  }

 private:
  void Add(const ir::Buffer& buffer) { written_.insert(Logical(buffer).get()); }

  std::unordered_set<const ffi::Object*> written_;
};

// CUtensorMapSwizzle.
int64_t SwizzleCode(const TensorMapInfoNode& info) {
  if (info.swizzle_atomicity == 32) return 4;
  return info.swizzle == 128 ? 3 : info.swizzle / 32;
}

TensorMapSpec SpecOfMap(const TensorMapInfo& info) {
  auto node = ffi::make_object<TensorMapSpecNode>();
  node->buffer = Logical(info->buffer);
  node->dtype = info->dtype;
  node->dims = info->dims;
  node->strides = info->strides;
  node->box = info->box;
  node->element_strides = info->element_strides;
  node->swizzle = SwizzleCode(*info.get());
  node->oob_fill = info->oob_nan ? 1 : 0;
  return TensorMapSpec(std::move(node));
}

LaunchSpec SpecOfKernel(const KernelInfo& kernel, VectorAccesses* accesses) {
  auto node = ffi::make_object<LaunchSpecNode>();
  node->kernel_name = kernel->name;
  node->grid = kernel->grid;
  for (int64_t extent : kernel->block) {
    node->block.push_back(ir::Const(ir::dtypes::kInt32, extent));
  }
  node->cluster = kernel->cluster;
  node->cooperative = kernel->cooperative;
  node->dependent = kernel->dependent;
  node->shared_memory = kernel->smem_at_call.has_value()
                            ? kernel->smem_at_call.value()
                            : ir::Const(ir::dtypes::kInt32, kernel->dyn_smem_bytes);
  for (const auto& [buffer, bytes] : kernel->alignment) accesses->Require(buffer, bytes);
  for (const ffi::Any& param : kernel->params) {
    if (auto buffer = param.as<ir::Buffer>()) {
      node->args.push_back(Logical(*buffer));
    } else if (auto info = param.as<TensorMapInfo>()) {
      accesses->Require((*info)->buffer, kTensorMapAlignment);
      node->args.push_back(SpecOfMap(*info));
    } else {
      node->args.push_back(param);
    }
  }
  return LaunchSpec(std::move(node));
}

}  // namespace

KernelSpec SpecOf(const CompiledFunc& compiled, const ir::Func& program) {
  auto node = ffi::make_object<KernelSpecNode>();
  VectorAccesses accesses;
  accesses.VisitStmt(compiled->func->body);
  for (const KernelInfo& kernel : compiled->kernels) {
    node->launches.push_back(SpecOfKernel(kernel, &accesses));
  }
  node->name = compiled->func->name;
  GlobalWrites writes;
  writes.VisitStmt(compiled->func->body);
  for (const ffi::Any& param : compiled->func->params) {
    auto buffer = param.as<ir::Buffer>();
    node->params.push_back(buffer ? ffi::Any(Logical(*buffer)) : param);
    if (buffer && writes.Contains(Logical(*buffer))) node->written.push_back(Logical(*buffer));
  }
  ir::WalkStmts(compiled->func->body, [&](const ir::Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr || !alloc->buffer.IsGlobal()) return true;
    ir::Buffer workspace = Logical(alloc->buffer);
    node->workspaces.push_back(workspace);
    if (auto stand_in = ir::StandInOf(workspace)) {
      accesses.Require(stand_in->tensor, accesses.alignment.Get(workspace).value_or(1));
    }
    return true;
  });
  node->alignment = accesses.alignment;
  node->assumptions = AssumptionsOf(program);
  return KernelSpec(std::move(node));
}

TVM_FFI_STATIC_INIT_BLOCK() { registry::Functions().Add("tl.runtime.SpecOf", SpecOf); }

}  // namespace tilelang::runtime
