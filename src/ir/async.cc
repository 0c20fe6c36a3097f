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
  registry::Functions().Add(
      "tl.ir.IssueLoad", [](Stmt body, Buffer barrier, Buffer parity, Span s) {
        return Issue(body, Completion::OfPhase(Engine::kTmaLoad, barrier, parity), s);
      });
}

}  // namespace tilelang::ir
