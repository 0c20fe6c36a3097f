#include "lower/stage_tensor_memory.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "analysis/gemm_in_flight.h"
#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/changed_launch.h"
#include "ir/error.h"
#include "ir/padded.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "lower/stage_accumulators.h"
#include "op/by_tensor_memory.h"
#include "op/copy_scales.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/cta_pair.h"
#include "op/gemm_metadata.h"
#include "op/gemm_scale_factors.h"
#include "op/gemm_tcgen05.h"
#include "op/scratch.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;
using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

Buffer Twin(const Region& region, ir::DType dtype, const char* suffix, const char* scope) {
  const Buffer& b = region->buffer;
  bool shared = std::string_view(scope) == "shared.dyn";
  return Buffer(ir::String(std::string(b->name) + suffix), dtype, region->extents, {}, scope,
                shared ? op::ScratchAttrs() : ir::Map<ir::String, ir::Any>(), b->span);
}

// Several statements with allocations of their own: a scope.
Stmt Scope(std::vector<Stmt> stmts, const ir::Span& span) {
  return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), span);
}

class TensorMemoryStager : public ir::StmtMutator {
 public:
  // `in_registers`: why accumulators stay there.
  TensorMemoryStager(ir::Map<Buffer, ir::String> in_registers, bool in_pairs)
      : in_registers_(std::move(in_registers)), in_pairs_(in_pairs) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::GemmNode* op) override {
    std::vector<Stmt> stmts;
    if (auto reason = in_registers_.Get(op->result()->buffer)) {
      if (op::IsInPairs(op)) {
        TL_USER_ERROR(kLayout, op->span,
                      "T.gemm with use_2cta=True: pairs of blocks need tcgen05.mma, which does not "
                      "fit this gemm: "
                          << std::string(*reason) << "; leave use_2cta out");
      }
      RemarkGemm(op, "is done by mma.sync: " + std::string(*reason));
    }
    auto operands = op->WithRegions(
        [&](const ir::GemmOperandNode* operand) { return Reachable(op, operand, &stmts); });
    if (!stmts.empty() && !op::WaitsItself(op)) CheckReuse(op);
    bool in_tmem = op->result()->buffer.IsTmem();
    bool stages_scales = in_tmem && op->IsScaled() && !op->HasScalesInTmem();
    if (stages_scales) {
      Buffer columns = op::MakeScaleColumns(op);
      scale_columns_.push_back(ir::Alloc(columns, op->span));
      operands.push_back({ir::GemmOperandKind::kScaleColumns, Region::Whole(columns)});
    }
    if (in_tmem && op->IsSparse()) {
      operands = WithMetadata(operands, op::MetadataToTmem(op, &stmts));
    }
    if (stmts.empty() && !stages_scales) return ffi::GetRef<Stmt>(op);
    stmts.push_back(ir::Gemm(op, operands));
    return stmts.size() == 1 ? stmts.front() : Scope(std::move(stmts), op->span);
  }

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt launch = StmtMutator::Rewrite(op);
    const auto* rewritten = launch.as<ir::KernelLaunchNode>();
    std::vector<Stmt> stmts = std::exchange(scale_columns_, {});
    if (stmts.empty()) return launch;
    stmts.push_back(rewritten->body);
    return ir::WithBody(op, ir::MakeSeq(stmts, op->span));
  }

  Stmt Rewrite(const ir::CopyNode* op) override {
    bool from = op->src->buffer.IsTmem();
    bool to = op->dst->buffer.IsTmem();
    if ((!from && !to) || op::IsScaleCopy(op)) return ffi::GetRef<Stmt>(op);
    const Region& tmem = from ? op->src : op->dst;
    const Region& other = from ? op->dst : op->src;
    if (other->buffer.IsFragment() && other->buffer->dtype == tmem->buffer->dtype) {
      return ffi::GetRef<Stmt>(op);
    }
    if (op::MovesSharedToTmem(op)) {
      std::string obstacle =
          in_pairs_ ? "tcgen05.cp would copy in both blocks of a pair" : op::TmemCpObstacle(op);
      if (obstacle.empty()) return ffi::GetRef<Stmt>(op);
      RemarkCopy(op, "goes through registers: " + obstacle);
    }
    return op::ThroughFragment(op);
  }

  Stmt Rewrite(const ir::FillNode* op) override {
    if (!op->dst->buffer.IsTmem()) return ffi::GetRef<Stmt>(op);
    Buffer staged = Twin(op->dst, op->dst->buffer->dtype, "_frag", "local.fragment");
    Region whole = Region::Whole(staged);
    return Scope({ir::Alloc(staged, op->span), ir::Fill(whole, op->value, op->span),
                  ir::Copy(whole, op->dst, op->span)},
                 op->span);
  }

  Stmt Rewrite(const ir::ReduceNode* op) override {
    if (!op->src->buffer.IsTmem()) return ffi::GetRef<Stmt>(op);
    std::vector<Stmt> stmts;
    Buffer staged = Twin(op->src, op->src->buffer->dtype, "_frag", "local.fragment");
    return Scope({ir::Alloc(staged, op->span), ir::Copy(op->src, Region::Whole(staged), op->span),
                  ir::Reduce(op, Region::Whole(staged), op->dst)},
                 op->span);
  }

  // Tensor memory that a parallel loop reads is loaded as a whole before it.
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    std::vector<Stmt> stmts;
    ir::Map<Buffer, Buffer> staged;
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* store = s.as<ir::StoreNode>();
      if (store != nullptr && store->buffer.IsTmem()) {
        TL_USER_ERROR(kSemantics, store->span,
                      "elements of tensor memory " << std::string(store->buffer->name)
                                                   << " cannot be written one by one; fill a "
                                                      "fragment and T.copy it to "
                                                   << std::string(store->buffer->name));
      }
      return true;
    });
    ir::WalkExprs(op->body, [&](const Expr& e) {
      const auto* load = e.as<ir::LoadNode>();
      if (load == nullptr || !load->buffer.IsTmem() || staged.count(load->buffer) != 0) return true;
      Region whole = Region::Whole(load->buffer);
      Buffer twin = Twin(whole, load->buffer->dtype, "_frag", "local.fragment");
      staged.Set(load->buffer, twin);
      stmts.push_back(ir::Alloc(twin, op->span));
      stmts.push_back(ir::Copy(whole, Region::Whole(twin), op->span));
      return true;
    });
    if (stmts.empty()) return ffi::GetRef<Stmt>(op);
    stmts.push_back(ir::ReplaceBuffers(ffi::GetRef<Stmt>(op), staged));
    return Scope(std::move(stmts), op->span);
  }

  Stmt Rewrite(const ir::ForNode* op) override { return Loop(op, op->body); }
  Stmt Rewrite(const ir::WhileNode* op) override { return Loop(op, op->body); }

 private:
  template <typename LoopNode>
  Stmt Loop(const LoopNode* op, const Stmt& body) {
    Stmt outer = loop_body_;
    loop_body_ = body;
    Stmt result = StmtMutator::Rewrite(op);
    loop_body_ = outer;
    return result;
  }

  // The next iteration writes the compiler's copy of an operand again: the gemm that reads it
  // is complete by then.
  void CheckReuse(const ir::GemmNode* op) const {
    if (!loop_body_.defined()) return;
    analysis::GemmInFlight gemms([op](const ir::GemmNode* gemm) { return gemm == op; });
    gemms.VisitStmt(loop_body_);
    if (!gemms.InFlight()) return;
    std::vector<const ir::GemmOperandNode*> inputs = op->Inputs();
    auto copied = std::find_if(inputs.begin(), inputs.end(),
                               [](const auto* input) { return input->buffer().IsFragment(); });
    const Buffer& operand = (*copied)->buffer();
    TL_USER_ERROR(kSemantics, op->span,
                  "fragment " << std::string(operand->name)
                              << " is copied to where the tensor core reads it, in each iteration "
                                 "anew; the gemm reads it until a wait for its mbarrier, which "
                                 "must stand after the gemm in the same iteration. Without mbar= "
                                 "T.gemm waits itself; or copy the operand to T.alloc_tmem or "
                                 "T.alloc_shared with as many stages as gemms are in flight");
  }

  static Array<ir::GemmOperand> WithMetadata(const Array<ir::GemmOperand>& operands,
                                             const ir::GemmOperand& metadata) {
    Array<ir::GemmOperand> others;
    for (const ir::GemmOperand& operand : operands) {
      others.push_back(operand->kind == metadata->kind ? metadata : operand);
    }
    return others;
  }

  // The operand where the instruction reads it.
  Region Reachable(const ir::GemmNode* op, const ir::GemmOperandNode* operand,
                   std::vector<Stmt>* stmts) {
    const Region& region = operand->region;
    bool is_a = operand->operand_kind() == ir::GemmOperandKind::kA;
    if (is_a && op->annotations.count(op::kByTensorMemory) != 0 && region->buffer.IsShared() &&
        op->result()->buffer.IsTmem()) {
      return ByTensorMemory(region, stmts, op->span);
    }
    if (operand->IsResult() || !region->buffer.IsFragment()) return region;
    auto scope = op::ScopeOfCopy(operand, op->result()->buffer.IsFragment());
    if (!scope) return region;
    bool in_tmem = *scope == "shared.tmem";
    return Staged(region, in_tmem ? "_tmem" : "_shared", scope->c_str(), stmts, op->span);
  }

  // A shared tile in tensor memory, where copies through registers bring it.
  static Region ByTensorMemory(const Region& region, std::vector<Stmt>* stmts,
                               const ir::Span& span) {
    Buffer twin = Twin(region, region->buffer->dtype, "_tmem", "shared.tmem");
    stmts->push_back(ir::Alloc(twin, span));
    ir::Copy copy(region, Region::Whole(twin), span);
    stmts->push_back(op::ThroughFragment(copy.operator->()));
    return Region::Whole(twin);
  }

  Region Staged(const Region& region, const char* suffix, const char* scope,
                std::vector<Stmt>* stmts, const ir::Span& span) {
    Buffer twin = Twin(region, region->buffer->dtype, suffix, scope);
    stmts->push_back(ir::Alloc(twin, span));
    stmts->push_back(ir::Copy(region, Region::Whole(twin), span));
    return Region::Whole(twin);
  }

  ir::Map<Buffer, ir::String> in_registers_;
  bool in_pairs_;
  Stmt loop_body_;                   // of the innermost loop
  std::vector<Stmt> scale_columns_;  // allocations
};

// Finds the fragments that are the C of GEMMs: the fragments for tcgen05.mma, each once, and the
// others with the reason. One instruction does all GEMMs into a fragment.
class Accumulators : public analysis::ScopedMutator {
 public:
  // `kept`: how many, the widest first, stay in registers because tensor memory is full.
  Accumulators(const Stmt& body, Target target, int64_t kept) : target_(std::move(target)) {
    MutateStmt(body);
    std::vector<Buffer> widest = staged;
    std::stable_sort(widest.begin(), widest.end(), [](const Buffer& a, const Buffer& b) {
      return *ir::AsInt(a->shape.back()) > *ir::AsInt(b->shape.back());
    });
    widest.resize(std::min(widest.size(), static_cast<size_t>(kept)));
    for (const Buffer& c : widest) {
      in_registers.Set(c, "the tiles of the kernel do not fit tensor memory together");
    }
    std::erase_if(staged, [&](const Buffer& c) { return in_registers.count(c) != 0; });
  }

  std::vector<Buffer> staged;
  ir::Map<Buffer, ir::String> in_registers;

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = analysis::ThreadsOf(op);
    annotated_ = op::LayoutMap::Annotated(op);
    return ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    const Buffer& c = op->result()->buffer;
    if (!c.IsFragment() || in_registers.count(c) != 0) return self;
    std::string lacks =
        op::Tcgen05Lacks(op, analysis::ActiveThreads(launch_, &analyzer_), annotated_, target_);
    const char* only = op->IsScaled()           ? "T.gemm with scale factors: "
                       : ir::HasPaddedInput(op) ? "T.gemm of padded tiles: "
                                                : nullptr;
    if (!lacks.empty() && only != nullptr) TL_USER_ERROR(kShape, op->span, only << lacks);
    bool chosen = lacks.empty() && only == nullptr && op::WaitsItself(op);
    if (chosen) lacks = op::SliceLacks(op, annotated_, &analyzer_);
    if (!lacks.empty()) {
      in_registers.Set(c, lacks);
    } else if (std::find_if(staged.begin(), staged.end(), [&](const Buffer& known) {
                 return known.same_as(c);
               }) == staged.end()) {
      staged.push_back(c);
    }
    return self;
  }

 private:
  Target target_;
  analysis::LaunchThreads launch_;
  op::LayoutMap annotated_;
};

}  // namespace

ir::Func StageTensorMemory(const ir::Func& func, const Target& target) {
  Stmt body = func->body;
  ir::Map<Buffer, ir::String> in_registers;
  if (target->has_tcgen05) {
    auto kept = func->attrs.Get(kAccumulatorsInRegisters);
    Accumulators accumulators(body, target, kept ? (*kept).cast<int64_t>() : 0);
    for (const Buffer& c : accumulators.staged) body = StageAccumulator(body, c, target);
    in_registers = accumulators.in_registers;
  }
  return func.WithBody(
      TensorMemoryStager(in_registers, op::HasGemmsInPairs(body)).MutateStmt(body));
}

}  // namespace tilelang::lower
