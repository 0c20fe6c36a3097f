#include "ir/remark.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "ir/spelled_copies.h"
#include "registry/functions.h"

namespace tilelang {

namespace {

thread_local RemarkCollector* current = nullptr;

bool SameRemark(const RemarkRef& a, const RemarkRef& b) {
  bool same_place =
      a->span.defined() == b->span.defined() &&
      (!a->span.defined() || (a->span->file == b->span->file && a->span->line == b->span->line &&
                              a->span->column == b->span->column));
  return same_place && a->topic == b->topic && a->message == b->message;
}

void PrintRemark(const RemarkNode* remark) {
  if (remark->span.defined()) {
    std::cerr << std::string(remark->span->file) << ":" << remark->span->line << ":"
              << remark->span->column << ": ";
  }
  std::cerr << "remark: [" << std::string(remark->topic) << "] " << std::string(remark->message)
            << std::endl;
}

}  // namespace

RemarkRef::RemarkRef(ir::Span span, ir::String topic, ir::String message) {
  auto node = tvm::ffi::make_object<RemarkNode>();
  node->span = std::move(span);
  node->topic = std::move(topic);
  node->message = std::move(message);
  data_ = std::move(node);
}

RemarkCollector::RemarkCollector() : outer_(current) { current = this; }
RemarkCollector::~RemarkCollector() { current = outer_; }

void Remark(const ir::Span& span, const std::string& topic, const std::string& message) {
  if (current == nullptr) return;
  RemarkRef remark(span, topic, message);
  for (const RemarkRef& earlier : current->remarks_) {
    if (SameRemark(earlier, remark)) return;
  }
  current->remarks_.push_back(remark);
  const char* print = std::getenv("TILELANG_REMARKS");
  if (print != nullptr && std::string(print) == "1") PrintRemark(remark.get());
}

std::string TextOfCopy(const ir::CopyNode* op) { return ir::SpelledCopies::TextOf(op); }

void RemarkCopy(const ir::CopyNode* op, const std::string& text) {
  std::string whole(op->options->part_of);
  Remark(op->span, "copy", (whole.empty() ? TextOfCopy(op) : whole) + " " + text);
}

void RemarkGemm(const ir::GemmNode* op, const std::string& text) {
  Remark(op->span, "gemm", "T.gemm " + text);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::ObjectDef<RemarkNode>()
      .def_ro("span", &RemarkNode::span)
      .def_ro("topic", &RemarkNode::topic)
      .def_ro("message", &RemarkNode::message);
  registry::Functions().Add(
      "tl.ir.Remark", [](ir::Span span, ir::String topic, ir::String message) {
        return RemarkRef(std::move(span), std::move(topic), std::move(message));
      });
}

}  // namespace tilelang
