// The instructions that carry out tile operators. Each is one object with one interface; a table
// for each architecture lists them in order of preference. An operator's instruction is chosen
// once, its plan is made once, with the layouts, and both are stored on the operator.
#ifndef TILELANG_OP_INSTRUCTION_H_
#define TILELANG_OP_INSTRUCTION_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/async.h"
#include "ir/copy_operator.h"
#include "ir/gemm.h"
#include "op/context.h"

namespace tilelang::op {

class AccessLowerer;
class PhysicalBuffers;
class TensorMaps;
class TileInstruction;

using ir::Engine;

// Says how an operator is carried out. Instructions derive their own plans.
class TilePlanNode : public ffi::Object {
 public:
  const TileInstruction* instruction = nullptr;
  ThreadRange threads;  // that execute the operator

  TilePlanNode(const TileInstruction* instruction, ThreadRange threads)
      : instruction(instruction), threads(threads) {}
  static constexpr uint32_t _type_child_slots = 8;
  TVM_FFI_DECLARE_OBJECT_INFO("tl.op.TilePlan", TilePlanNode, ffi::Object);
};
class TilePlan : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TilePlan, ffi::ObjectRef, TilePlanNode);
};

// A plan, or why there is none.
struct PlanResult {
  TilePlan plan;
  std::string reason;
};

// Takes the place of an operator that has no plan.
struct Alternative {
  Stmt stmt;
  std::string remark;         // to which the reason is added; empty: not worth one
  bool needs_layouts = true;  // of statements that have not been asked for theirs
};

// Holds the tools that instructions are written with.
struct Lowering {
  Context* ctx;
  PhysicalBuffers* buffers;
  AccessLowerer* scalar;
  TensorMaps* tensor_maps;
  Expr barrier;           // the address of the mbarrier on which TMA loads complete
  int64_t multicast = 0;  // the blocks for which TMA loads, a mask; 0: for its own
  // Gemms by wgmma that the program leaves in flight somewhere, whose fragments exist here.
  std::vector<const ir::GemmNode*> in_flight = {};
  // Statements of threads before the fence in front of the wgmma of a group.
  std::vector<Stmt> setup = {};
};

class TileInstruction {
 public:
  virtual ~TileInstruction() = default;

  virtual const char* Name() const = 0;  // "tcgen05.cp"
  virtual Engine engine() const = 0;

  // Returns whether the instruction is made for these operands at all, as far as their memories
  // tell.
  virtual bool IsFor(const ir::TileOpNode* op) const = 0;
  // Returns why it cannot, or should not, carry out the operator, as far as the program tells.
  // Returns an empty string if it can when the layouts fit. For GEMMs the context has the layouts
  // that the program gives.
  virtual std::string Obstacle(const ir::TileOpNode* op, Context* ctx) const { return ""; }

  // Gives the operands the layouts that it reads or writes. Raises LayoutError where another
  // operator dictates one that it cannot.
  virtual void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const {}
  // Returns whether it could work if `buffer` had this layout. Operators that may choose the layout
  // ask this.
  virtual bool Accepts(const ir::TileOpNode* op, const Buffer& buffer, const Layout& layout,
                       Context* ctx) const {
    return true;
  }
  // Plans how it carries out the operator in the layouts that the operands got.
  virtual PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const = 0;
  // For an operator without one. By default there is none: the reason is an error.
  virtual Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const { return {}; }

  // The instructions of an operator with a plan, for the thread that asks the engine, or for all of
  // the operator's threads where they do the work. They are not waited for, but as Engine says.
  virtual void Issue(const ir::TileOpNode* op, Lowering* lowering,
                     std::vector<Stmt>* stmts) const = 0;
};

// The instructions of an architecture, best first.
std::span<const TileInstruction* const> InstructionsOf(const Target& target);

// The plan of an operator; null before its instruction is chosen.
const TilePlanNode* TilePlanOf(const ir::TileOpNode* op);
const TileInstruction* InstructionOf(const ir::TileOpNode* op);
// The operator with a plan of this instruction, which must be able to carry it out.
Stmt WithPlanOf(const TileInstruction* instruction, const Stmt& op, Context* ctx);

// An operator of a kind that is known.
inline const ir::CopyNode* AsCopy(const ir::TileOpNode* op) {
  return static_cast<const ir::CopyNode*>(op);
}
inline const ir::GemmNode* AsGemm(const ir::TileOpNode* op) {
  return static_cast<const ir::GemmNode*>(op);
}
inline const ir::ReduceNode* AsReduce(const ir::TileOpNode* op) {
  return static_cast<const ir::ReduceNode*>(op);
}

}  // namespace tilelang::op

#endif  // TILELANG_OP_INSTRUCTION_H_
