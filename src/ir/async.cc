#include "ir/async.h"

#include "ir/make_node.h"
#include "registry/functions.h"

namespace tilelang::ir {

Array<Buffer> CompletionNode::Buffers() const {
  Array<Buffer> buffers = registers;
  if (barrier.defined()) buffers.push_back(barrier);
  if (parity.defined()) buffers.push_back(parity);
  return buffers;
}

Completion Completion::OfPhase(Engine engine, Buffer barrier, Buffer parity) {
  auto node = ffi::make_object<CompletionNode>();
  node->engine = static_cast<int64_t>(engine);
  node->barrier = std::move(barrier);
  node->parity = std::move(parity);
  return Completion(std::move(node));
}

Completion Completion::OfWgmma(Array<Buffer> registers) {
  auto node = ffi::make_object<CompletionNode>();
  node->engine = static_cast<int64_t>(Engine::kWgmma);
  node->registers = std::move(registers);
  return Completion(std::move(node));
}

Completion Completion::OfStores(Array<int64_t> threads) {
  auto node = ffi::make_object<CompletionNode>();
  node->engine = static_cast<int64_t>(Engine::kTmaStore);
  node->threads = std::move(threads);
  return Completion(std::move(node));
}

Issue::Issue(Stmt body, Completion completion, Span span, bool awaited) {
  auto node = MakeNode<IssueNode>(std::move(span));
  node->body = std::move(body);
  node->completion = std::move(completion);
  node->awaited = awaited;
  data_ = std::move(node);
}

Wait::Wait(Completion completion, int64_t left, Span span) {
  auto node = MakeNode<WaitNode>(std::move(span));
  node->completion = std::move(completion);
  node->left = left;
  data_ = std::move(node);
}

Wait Wait::ForStores(Completion completion, bool written, int64_t left, Span span) {
  auto node = MakeNode<WaitNode>(std::move(span));
  node->completion = std::move(completion);
  node->left = left;
  node->written = written;
  return Wait(std::move(node));
}

Arrive::Arrive(ArriveKind kind, Expr mbar, Span span, Options options) {
  auto node = MakeNode<ArriveNode>(std::move(span));
  node->arrive_kind = static_cast<int64_t>(kind);
  node->mbar = std::move(mbar);
  node->bytes = std::move(options.bytes);
  node->block = std::move(options.block);
  node->scope = static_cast<int64_t>(options.scope);
  node->gives = std::move(options.gives);
  node->tensor_memory = std::move(options.tensor_memory);
  data_ = std::move(node);
}

Arrive::Arrive(ArriveKind kind, Expr mbar, Span span)
    : Arrive(kind, std::move(mbar), std::move(span), Options()) {}

WaitParity::WaitParity(Expr mbar, Expr parity, Span span, Scope scope,
                       Array<Buffer> tensor_memory) {
  auto node = MakeNode<WaitParityNode>(std::move(span));
  node->mbar = std::move(mbar);
  node->parity = std::move(parity);
  node->scope = static_cast<int64_t>(scope);
  node->tensor_memory = std::move(tensor_memory);
  data_ = std::move(node);
}

Fence::Fence(FenceKind kind, Span span) {
  auto node = MakeNode<FenceNode>(std::move(span));
  node->fence_kind = static_cast<int64_t>(kind);
  data_ = std::move(node);
}

Barrier::Barrier(BarrierKind kind, Span span, BarrierPart part) {
  auto node = MakeNode<BarrierNode>(std::move(span));
  node->barrier_kind = static_cast<int64_t>(kind);
  node->part = static_cast<int64_t>(part);
  data_ = std::move(node);
}

Barrier Barrier::Named(Expr number, Expr count, Span span, BarrierPart part) {
  auto node = MakeNode<BarrierNode>(std::move(span));
  node->barrier_kind = static_cast<int64_t>(BarrierKind::kNamed);
  node->part = static_cast<int64_t>(part);
  node->number = std::move(number);
  node->count = std::move(count);
  return Barrier(std::move(node));
}

Barrier Barrier::Of(BarrierKind kind, int64_t first, int64_t count, Span span) {
  auto node = MakeNode<BarrierNode>(std::move(span));
  node->barrier_kind = static_cast<int64_t>(kind);
  node->threads = {first, count};
  return Barrier(std::move(node));
}

Barrier Barrier::OfLanes(Expr mask, Span span) {
  auto node = MakeNode<BarrierNode>(std::move(span));
  node->barrier_kind = static_cast<int64_t>(BarrierKind::kWarp);
  node->mask = std::move(mask);
  return Barrier(std::move(node));
}

Barrier Barrier::Giving(Optional<Array<Buffer>> gives) const {
  auto node = ffi::make_object<BarrierNode>(*get());
  node->gives = std::move(gives);
  return Barrier(std::move(node));
}

TmemAlloc::TmemAlloc(bool frees, bool in_pair, Expr address, Expr columns, Span span) {
  auto node = MakeNode<TmemAllocNode>(std::move(span));
  node->frees = frees;
  node->in_pair = in_pair;
  node->address = std::move(address);
  node->columns = std::move(columns);
  data_ = std::move(node);
}

CommitGroup::CommitGroup(Engine engine, Span span) {
  auto node = MakeNode<CommitGroupNode>(std::move(span));
  node->engine = static_cast<int64_t>(engine);
  data_ = std::move(node);
}

WaitGroup::WaitGroup(Engine engine, int64_t left, Span span, bool written) {
  auto node = MakeNode<WaitGroupNode>(std::move(span));
  node->engine = static_cast<int64_t>(engine);
  node->left = left;
  node->written = written;
  data_ = std::move(node);
}

WaitGroup WaitGroup::ForWgmmaOfProgram(int64_t left, Span span) {
  auto node = MakeNode<WaitGroupNode>(std::move(span));
  node->engine = static_cast<int64_t>(Engine::kWgmma);
  node->left = left;
  node->by_program = true;
  return WaitGroup(std::move(node));
}

MbarrierInit::MbarrierInit(Expr mbar, Expr count, Span span) {
  auto node = MakeNode<MbarrierInitNode>(std::move(span));
  node->mbar = std::move(mbar);
  node->count = std::move(count);
  data_ = std::move(node);
}

GridDependency::GridDependency(bool waits, Span span) {
  auto node = MakeNode<GridDependencyNode>(std::move(span));
  node->waits = waits;
  data_ = std::move(node);
}

namespace {

struct Name {
  std::string name;
  const char* header = nullptr;  // of a device function
};

Call Spelled(const Name& name, const Array<Expr>& args, const Span& span) {
  Map<String, Any> attrs;
  if (name.header != nullptr) attrs.Set("header", String(name.header));
  return Call(dtypes::kVoid, name.name, args, attrs, span);
}

constexpr const char* kTcgen05Header = "tcgen_05.h";
constexpr const char* kCpAsyncHeader = "copy_sm80.h";
constexpr const char* kTmaHeader = "copy_sm90.h";
constexpr const char* kWgmmaHeader = "mma_sm90.h";

Name NameOf(const ArriveNode* op) {
  bool pair = op->scope_kind() == Scope::kPair;
  switch (op->Kind()) {
    case ArriveKind::kThread:
      return {"mbarrier_arrive"};
    case ArriveKind::kExpect:
      return {pair ? "mbarrier_expect_tx_pair" : "mbarrier_expect_tx"};
    case ArriveKind::kThreadExpect:
      return {pair ? "mbarrier_arrive_expect_tx_pair" : "mbarrier_arrive_expect_tx"};
    case ArriveKind::kCopies:
      return {"cp_async_arrive"};
    case ArriveKind::kIssuerCommit:
      return {"tcgen05_mma_arrive"};
    default:
      if (op->block.defined()) {
        return {pair ? "tl::tcgen05_commit_multicast<2>" : "tl::tcgen05_commit_multicast",
                kTcgen05Header};
      }
      return {pair ? "tl::tcgen05_commit_pair" : "tl::tcgen05_commit", kTcgen05Header};
  }
}

Name NameOf(const FenceNode* op) {
  switch (op->Kind()) {
    case FenceKind::kAsyncProxy:
      return {"fence_proxy_async"};
    case FenceKind::kTcgen05Before:
      return {"tcgen05_before_thread_sync"};
    case FenceKind::kTcgen05After:
      return {"tcgen05_after_thread_sync"};
    case FenceKind::kMbarrierInit:
      return {"fence_barrier_init"};
    default:
      return {"tl::wgmma_fence", kWgmmaHeader};
  }
}

Name NameOf(const BarrierNode* op) {
  BarrierPart part = op->Part();
  switch (op->Kind()) {
    case BarrierKind::kNamed:
      return {part == BarrierPart::kArrive ? "named_barrier_arrive" : "sync_threads"};
    case BarrierKind::kRange:
      return {"sync_range"};
    case BarrierKind::kWarpgroups:
      return {"sync_warpgroups"};
    case BarrierKind::kWarp:
      return {"sync_warp"};
    case BarrierKind::kRole:
      return {"sync_role"};
    case BarrierKind::kGrid:
      return {"sync_grid"};
    case BarrierKind::kCluster:
      if (part == BarrierPart::kArrive) return {"cluster_arrive"};
      if (part == BarrierPart::kArriveRelaxed) return {"cluster_arrive_relaxed"};
      return {part == BarrierPart::kWait ? "cluster_wait" : "cluster_sync"};
    default:
      return {"sync_threads"};
  }
}

Name NameOf(const TmemAllocNode* op) {
  if (op->frees) {
    return {op->in_pair ? "tl::tcgen05_dealloc<2>" : "tl::tcgen05_dealloc", kTcgen05Header};
  }
  return {op->in_pair ? "tl::tcgen05_alloc<2>" : "tl::tcgen05_alloc", kTcgen05Header};
}

Name NameOf(const CommitGroupNode* op) {
  switch (op->engine_kind()) {
    case Engine::kCpAsync:
      return {"tl::cp_async_commit", kCpAsyncHeader};
    case Engine::kTmaStore:
      return {"tl::tma_store_commit", kTmaHeader};
    default:
      return {"tl::wgmma_commit", kWgmmaHeader};
  }
}

Name NameOf(const WaitGroupNode* op) {
  if (op->by_program) return {"wait_wgmma"};
  std::string left = "<" + std::to_string(op->left) + ">";
  switch (op->engine_kind()) {
    case Engine::kCpAsync:
      return {"tl::cp_async_wait" + left, kCpAsyncHeader};
    case Engine::kTmaStore:
      return {(op->written ? "tl::tma_store_wait" : "tl::tma_store_wait_read") + left, kTmaHeader};
    case Engine::kTmemLdSt:
      return {"tl::tcgen05_wait_st", "tcgen_05_st.h"};
    default:
      return {"tl::wgmma_wait" + left, kWgmmaHeader};
  }
}

}  // namespace

Call CallFor(const Stmt& s) {
  Array<Expr> args;
  auto add = [&](const Expr& arg) {
    if (arg.defined()) args.push_back(arg);
  };
  if (const auto* op = s.as<ArriveNode>()) {
    args = {op->mbar};
    add(op->bytes);
    add(op->block);
    return Spelled(NameOf(op), args, s.span());
  }
  if (const auto* op = s.as<WaitParityNode>()) {
    args = {op->mbar, op->parity};
    return Spelled({"mbarrier_wait_parity"}, args, s.span());
  }
  if (const auto* op = s.as<FenceNode>()) return Spelled(NameOf(op), {}, s.span());
  if (const auto* op = s.as<BarrierNode>()) {
    for (int64_t number : op->threads) args.push_back(Const(dtypes::kInt32, number));
    for (const Expr& operand : {op->number, op->count, op->mask}) add(operand);
    return Spelled(NameOf(op), args, s.span());
  }
  if (const auto* op = s.as<TmemAllocNode>()) {
    return Spelled(NameOf(op), {op->address, op->columns}, s.span());
  }
  if (const auto* op = s.as<CommitGroupNode>()) return Spelled(NameOf(op), {}, s.span());
  if (const auto* op = s.as<WaitGroupNode>()) {
    if (op->by_program) args = {Const(dtypes::kInt32, op->left)};
    return Spelled(NameOf(op), args, s.span());
  }
  if (const auto* op = s.as<MbarrierInitNode>()) {
    const auto* element = op->mbar.as<LoadNode>();
    args = {AddressOf(element->buffer, element->indices), op->count};
    return Spelled({"mbarrier_init"}, args, s.span());
  }
  if (const auto* op = s.as<GridDependencyNode>()) {
    return Spelled({op->waits ? "pdl_sync" : "pdl_trigger"}, {}, s.span());
  }
  return Call();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<CompletionNode>()
      .def_ro("engine", &CompletionNode::engine)
      .def_ro("barrier", &CompletionNode::barrier)
      .def_ro("parity", &CompletionNode::parity)
      .def_ro("registers", &CompletionNode::registers)
      .def_ro("threads", &CompletionNode::threads);
  refl::ObjectDef<IssueNode>()
      .def_ro("body", &IssueNode::body)
      .def_ro("completion", &IssueNode::completion)
      .def_ro("awaited", &IssueNode::awaited);
  refl::ObjectDef<WaitNode>()
      .def_ro("completion", &WaitNode::completion)
      .def_ro("left", &WaitNode::left)
      .def_ro("written", &WaitNode::written);
  refl::ObjectDef<ArriveNode>()
      .def_ro("arrive_kind", &ArriveNode::arrive_kind)
      .def_ro("mbar", &ArriveNode::mbar)
      .def_ro("bytes", &ArriveNode::bytes)
      .def_ro("block", &ArriveNode::block)
      .def_ro("scope", &ArriveNode::scope)
      .def_ro("gives", &ArriveNode::gives)
      .def_ro("tensor_memory", &ArriveNode::tensor_memory);
  refl::ObjectDef<WaitParityNode>()
      .def_ro("mbar", &WaitParityNode::mbar)
      .def_ro("parity", &WaitParityNode::parity)
      .def_ro("scope", &WaitParityNode::scope)
      .def_ro("tensor_memory", &WaitParityNode::tensor_memory);
  refl::ObjectDef<FenceNode>().def_ro("fence_kind", &FenceNode::fence_kind);
  refl::ObjectDef<BarrierNode>()
      .def_ro("barrier_kind", &BarrierNode::barrier_kind)
      .def_ro("part", &BarrierNode::part)
      .def_ro("number", &BarrierNode::number)
      .def_ro("count", &BarrierNode::count)
      .def_ro("threads", &BarrierNode::threads)
      .def_ro("mask", &BarrierNode::mask)
      .def_ro("gives", &BarrierNode::gives);
  refl::ObjectDef<TmemAllocNode>()
      .def_ro("frees", &TmemAllocNode::frees)
      .def_ro("in_pair", &TmemAllocNode::in_pair)
      .def_ro("address", &TmemAllocNode::address)
      .def_ro("columns", &TmemAllocNode::columns);
  refl::ObjectDef<CommitGroupNode>().def_ro("engine", &CommitGroupNode::engine);
  refl::ObjectDef<WaitGroupNode>()
      .def_ro("engine", &WaitGroupNode::engine)
      .def_ro("left", &WaitGroupNode::left)
      .def_ro("written", &WaitGroupNode::written)
      .def_ro("by_program", &WaitGroupNode::by_program);
  refl::ObjectDef<MbarrierInitNode>()
      .def_ro("mbar", &MbarrierInitNode::mbar)
      .def_ro("count", &MbarrierInitNode::count);
  refl::ObjectDef<GridDependencyNode>().def_ro("waits", &GridDependencyNode::waits);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.ir.IssueLoad",
           [](Stmt body, Buffer barrier, Buffer parity, Span s) {
             return Issue(body, Completion::OfPhase(Engine::kTmaLoad, barrier, parity), s);
           })
      .Add("tl.ir.Arrive",
           [](int64_t kind, Expr mbar, Expr bytes, Expr block, Span s) {
             Arrive::Options options;
             options.bytes = bytes;
             options.block = block;
             return Arrive(static_cast<ArriveKind>(kind), mbar, s, options);
           })
      .Add("tl.ir.IssuerCommit",
           [](Expr mbar, bool in_pair, Span s) {
             Arrive::Options options;
             if (in_pair) options.scope = Scope::kPair;
             return Arrive(ArriveKind::kIssuerCommit, mbar, s, options);
           })
      .Add("tl.ir.WaitParity",
           [](Expr mbar, Expr parity, Span s) { return WaitParity(mbar, parity, s); })
      .Add("tl.ir.Fence",
           [](int64_t kind, Span s) { return Fence(static_cast<FenceKind>(kind), s); })
      .Add("tl.ir.Barrier",
           [](int64_t kind, int64_t part, Span s) {
             return Barrier(static_cast<BarrierKind>(kind), s, static_cast<BarrierPart>(part));
           })
      .Add("tl.ir.NamedBarrier",
           [](Expr number, Expr count, int64_t part, Span s) {
             return Barrier::Named(number, count, s, static_cast<BarrierPart>(part));
           })
      .Add("tl.ir.TmemAlloc", [](bool frees, bool in_pair, Expr address, Expr columns,
                                 Span s) { return TmemAlloc(frees, in_pair, address, columns, s); })
      .Add("tl.ir.CommitGroup",
           [](int64_t engine, Span s) { return CommitGroup(static_cast<Engine>(engine), s); })
      .Add("tl.ir.WaitGroup",
           [](int64_t engine, int64_t left, bool written, Span s) {
             return WaitGroup(static_cast<Engine>(engine), left, s, written);
           })
      .Add("tl.ir.WaitWgmmaOfProgram",
           [](int64_t left, Span s) { return WaitGroup::ForWgmmaOfProgram(left, s); })
      .Add("tl.ir.MbarrierInit",
           [](Expr mbar, Expr count, Span s) { return MbarrierInit(mbar, count, s); })
      .Add("tl.ir.GridDependency", [](bool waits, Span s) { return GridDependency(waits, s); })
      .Add("tl.ir.WarpBarrier", [](Expr mask, Span s) { return Barrier::OfLanes(mask, s); });
}

}  // namespace tilelang::ir
