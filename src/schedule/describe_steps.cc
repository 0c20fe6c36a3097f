#include "schedule/describe_steps.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/async.h"
#include "ir/effects.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "layout/layout.h"
#include "op/copy_async.h"
#include "op/instruction.h"
#include "op/issue.h"
#include "schedule/operation_counter.h"

namespace tilelang::schedule {

using ir::Any;
using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::String;

namespace {

using StepPtr = tvm::ffi::ObjectPtr<StepNode>;

StepPtr NewStep(const char* action, const std::string& subject, const ir::Span& span) {
  auto step = tvm::ffi::make_object<StepNode>();
  step->action = action;
  step->subject = subject;
  step->engine = "threads";
  step->span = span;
  return step;
}

std::string Names(const std::vector<Buffer>& buffers) {
  std::string names;
  for (const Buffer& buffer : buffers) {
    names += (names.empty() ? "" : ", ") + std::string(buffer->name);
  }
  return names;
}

void AddNamed(const Buffer& buffer, std::vector<Buffer>* buffers) {
  auto same = [&](const Buffer& known) { return known->name == buffer->name; };
  if (std::none_of(buffers->begin(), buffers->end(), same)) buffers->push_back(buffer);
}

// Elements of a region; 0 when that is not constant.
int64_t Elements(const Region& region) {
  auto extents = ir::AsInts(region->extents);
  return extents ? layout::Product(*extents) : 0;
}

void AddWork(StepNode* step, const char* kind, int64_t amount) {
  if (amount == 0) return;
  step->work.Set(kind, step->work.Get(kind).value_or(0) + amount);
}

void AddBytes(StepNode* step, const Buffer& buffer, int64_t elements) {
  const char* memory = buffer.IsGlobal()   ? "global"
                       : buffer.IsShared() ? "shared"
                       : buffer.IsTmem()   ? "tmem"
                                           : nullptr;
  if (memory != nullptr) AddWork(step, memory, elements * buffer->dtype.bits / 8);
}

const char* EngineName(const ir::TileOpNode* op) {
  const op::TileInstruction* instruction = op::InstructionOf(op);
  if (instruction == nullptr) return "threads";
  switch (instruction->engine()) {
    case op::Engine::kTmaLoad:
    case op::Engine::kTmaStore:
    case op::Engine::kBlockCopy:
      return "TMA";
    case op::Engine::kTcgen05:
    case op::Engine::kWgmma:
      return instruction->Name();
    case op::Engine::kThreads:
    case op::Engine::kTmemLdSt:
    case op::Engine::kCpAsync:
      break;
  }
  return op->kind == ir::StmtKind::kGemm ? instruction->Name() : "threads";
}

// Sets the barrier that an expression names by a load or an address.
void SetBarrier(const Expr& e, StepNode* step) {
  if (!e.defined()) return;
  ir::WalkExprs(e, [&](const Expr& inner) {
    const auto* load = inner.as<ir::LoadNode>();
    if (load == nullptr || !load->buffer.IsBarrier()) return true;
    step->barrier = load->buffer->name;
    if (load->indices.size() == 1) step->index = ir::AsInt(load->indices[0]).value_or(-1);
    return false;
  });
}

class StepFinder : public ir::StmtVisitor {
 public:
  explicit StepFinder(IterationNotes* notes) : notes_(notes) {}
  Array<Any> steps;

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    if (!s.defined()) return;
    std::string outer = iteration_;
    std::string own = notes_->Next(s);
    if (!own.empty()) iteration_ = own;
    StmtVisitor::VisitStmt(s);
    iteration_ = outer;
  }
  void Visit(const ir::CopyNode* op) override {
    bool load = op->src->buffer.IsGlobal();
    const char* action = load ? "load" : op->dst->buffer.IsGlobal() ? "store" : "copy";
    StepPtr step = Operator(action, {op->src->buffer}, {op->dst->buffer}, op);
    SetBarrier(op->mbar, step.get());
    int64_t elements = std::max(Elements(op->src), Elements(op->dst));
    AddBytes(step.get(), op->src->buffer, elements);
    AddBytes(step.get(), op->dst->buffer, elements);
    Add(step);
    if (op->options->arrives) AddSignal("arrive", op->mbar, "threads", op->span);
  }
  void Visit(const ir::GemmNode* op) override {
    std::vector<Buffer> inputs;
    for (const ir::GemmOperandNode* input : op->Inputs()) inputs.push_back(input->buffer());
    StepPtr step = Operator("gemm", inputs, {op->result()->buffer}, op);
    SetBarrier(op->mbar, step.get());
    if (auto depth = ir::AsInt(op->Depth())) {
      AddWork(step.get(), "flops", 2 * Elements(op->result()) * *depth);
      AddWork(step.get(), "bits", inputs.front()->dtype.bits);
    }
    Add(step);
  }
  void Visit(const ir::ReduceNode* op) override {
    StepPtr step = Operator("reduce", {op->src->buffer}, {op->dst->buffer}, op);
    AddWork(step.get(), "fp32", Elements(op->src));
    Add(step);
  }
  void Visit(const ir::FillNode* op) override {
    Add(Named("elementwise", {}, {op->dst->buffer}, op->span));
  }
  void Visit(const ir::ParallelForNode* op) override {
    auto extents = ir::AsInts(op->extents);
    AddElementwise(op, extents ? layout::Product(*extents) : 0);
    if (op::IsCopyAsync(op)) ChangeEngine("cp.async");
  }
  // Counts a store of one element; counters of the compiler are not a step.
  void Visit(const ir::StoreNode* op) override {
    if (!op->buffer.IsLocal()) AddElementwise(op, 1);
  }
  void Visit(const ir::ForNode* op) override {
    StepPtr step = NewStep("loop", std::string(op->var->name), op->span);
    auto stages = op->annotations.Get("num_stages");
    if (stages) step->stages = (*stages).cast<int64_t>();
    step->trips = ir::AsInt(op->extent).value_or(-1);
    AddBody(step, op->body);
  }
  void Visit(const ir::WhileNode* op) override {
    AddBody(NewStep("loop", ir::Print(op->condition), op->span), op->body);
  }
  void Visit(const ir::IfNode* op) override {
    if (ir::IsTrue(op->condition)) return VisitStmt(op->then_case);
    StepPtr step = NewStep("if", ir::Print(op->condition), op->span);
    const auto* test = op->condition.as<ir::BinaryNode>();
    bool one_group = test != nullptr && test->Op() == ir::BinaryOp::kEq;
    if (one_group) step->index = ir::AsInt(test->b).value_or(-1);
    AddBody(step, op->then_case);
    if (op->else_case.defined()) AddBody(NewStep("if", "else", op->span), op->else_case);
  }
  void Visit(const ir::EvaluateNode* op) override {
    const auto* call = op->value.as<ir::CallNode>();
    if (call == nullptr) return;
    if (call->Is(ir::Builtin::kMaxRegisters)) return;
    Add(NewStep("call", std::string(call->name), op->span));
  }
  void Visit(const ir::CommitGroupNode* op) override {
    Add(NewStep("commit", "cp.async", op->span));
  }
  void Visit(const ir::WaitGroupNode* op) override {
    StepPtr step = NewStep("wait", op->by_program ? "wgmma" : "cp.async", op->span);
    step->index = op->left;
    Add(step);
  }
  void Visit(const ir::GridDependencyNode* op) override { AddCall(op); }
  void Visit(const ir::WaitParityNode* op) override {
    AddSignal("wait", op->mbar, "threads", op->span);
  }
  void Visit(const ir::ArriveNode* op) override {
    bool commits = op->Kind() == ir::ArriveKind::kIssuerCommit;
    if (!commits && op->Kind() != ir::ArriveKind::kThread) return AddCall(op);
    AddSignal("arrive", op->mbar, commits ? "tcgen05.mma" : "threads", op->span);
  }
  // Other fences go with other steps.
  void Visit(const ir::FenceNode* op) override {
    if (op->Kind() == ir::FenceKind::kTcgen05Before) AddCall(op);
  }
  void Visit(const ir::BarrierNode* op) override {
    if (op->Kind() != ir::BarrierKind::kRole) return AddCall(op);
    Add(NewStep("sync", "threads", op->span));
  }

 private:
  void AddCall(const ir::StmtNode* op) {
    ir::Call call = ir::CallFor(tvm::ffi::GetRef<Stmt>(op));
    Add(NewStep("call", std::string(call.as<ir::CallNode>()->name), op->span));
  }
  void Add(const StepPtr& step) {
    if (step->iteration.empty()) step->iteration = iteration_;
    steps.push_back(tvm::ffi::ObjectRef(step));
  }
  void AddBody(const StepPtr& step, const Stmt& body) {
    StepFinder inner(notes_);
    inner.iteration_ = step->action == "loop" ? "" : iteration_;
    inner.VisitStmt(body);
    if (inner.steps.empty()) return;
    step->body = inner.steps;
    Add(step);
  }
  void AddSignal(const char* action, const Expr& barrier, const char* engine,
                 const ir::Span& span) {
    StepPtr step = NewStep(action, "", span);
    SetBarrier(barrier, step.get());
    step->subject = step->barrier;
    step->engine = engine;
    Add(step);
  }
  // Changes the engine of the last step.
  void ChangeEngine(const char* engine) {
    if (steps.empty()) return;
    auto step =
        tvm::ffi::make_object<StepNode>(*steps.back().cast<tvm::ffi::ObjectRef>().as<StepNode>());
    step->engine = engine;
    steps.Set(static_cast<int64_t>(steps.size()) - 1, tvm::ffi::ObjectRef(step));
  }
  static StepPtr Named(const char* action, const std::vector<Buffer>& reads,
                       const std::vector<Buffer>& writes, const ir::Span& span) {
    std::string arrow = reads.empty() ? "" : Names(reads) + " -> ";
    return NewStep(action, arrow + Names(writes), span);
  }
  static StepPtr Operator(const char* action, const std::vector<Buffer>& reads,
                          const std::vector<Buffer>& writes, const ir::TileOpNode* op) {
    StepPtr step = Named(action, reads, writes, op->span);
    step->engine = EngineName(op);
    return step;
  }
  void AddElementwise(const ir::StmtNode* op, int64_t elements) {
    std::vector<Buffer> reads;
    std::vector<Buffer> writes;
    std::vector<Buffer> memory;
    ir::WalkEffects(tvm::ffi::GetRef<Stmt>(op), [&](const ir::Effect& effect) {
      if (effect.buffer.IsLocal()) return;
      AddNamed(effect.buffer, effect.Writes() ? &writes : &reads);
      if (!effect.buffer.IsFragment()) AddNamed(effect.buffer, &memory);
    });
    if (writes.empty()) return;
    bool copies = reads.size() == 1 && writes.size() == 1;
    bool load = copies && reads[0].IsGlobal();
    bool store = copies && writes[0].IsGlobal();
    const char* action = load ? "load" : store ? "store" : "elementwise";
    StepPtr step = Named(action, reads, writes, op->span);
    OperationCounter operations;
    operations.Count(tvm::ffi::GetRef<Stmt>(op), elements);
    AddWork(step.get(), "mufu", operations.mufu);
    AddWork(step.get(), "fp32", operations.fp32);
    for (const Buffer& buffer : memory) AddBytes(step.get(), buffer, elements);
    Add(step);
  }

  IterationNotes* notes_;
  std::string iteration_;
};

}  // namespace

Array<Any> DescribeSteps(const Stmt& program, IterationNotes* notes) {
  StepFinder finder(notes);
  finder.VisitStmt(program);
  return finder.steps;
}

}  // namespace tilelang::schedule
