// Remarks: what the compiler did, or did not do, because of what, at which line of the kernel.
#ifndef TILELANG_IR_REMARK_H_
#define TILELANG_IR_REMARK_H_

#include <string>

#include "ir/copy_operator.h"
#include "ir/gemm.h"

namespace tilelang {

class RemarkNode : public tvm::ffi::Object {
 public:
  ir::Span span;
  ir::String topic;  // "copy", "layout", "check", ...
  ir::String message;

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.transform.Remark", RemarkNode, tvm::ffi::Object);
};
class RemarkRef : public tvm::ffi::ObjectRef {
 public:
  RemarkRef(ir::Span span, ir::String topic, ir::String message);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(RemarkRef, tvm::ffi::ObjectRef, RemarkNode);
};

// Adds a remark to the compilation that runs on this thread, once however often it is said;
// without one it is dropped. With TILELANG_REMARKS=1 it is printed to stderr as
// "file:line:column: remark: [topic] message".
void Remark(const ir::Span& span, const std::string& topic, const std::string& message);

// "T.copy(<source>, <destination>)".
std::string TextOfCopy(const ir::CopyNode* op);

// A remark on a copy, once on all parts of one: "T.copy(<source>, <destination>) <text>".
void RemarkCopy(const ir::CopyNode* op, const std::string& text);

// "T.gemm <text>".
void RemarkGemm(const ir::GemmNode* op, const std::string& text);

// Collects the remarks made on this thread during its life.
class RemarkCollector {
 public:
  RemarkCollector();
  ~RemarkCollector();
  RemarkCollector(const RemarkCollector&) = delete;
  RemarkCollector& operator=(const RemarkCollector&) = delete;

  const ir::Array<RemarkRef>& remarks() const { return remarks_; }

 private:
  friend void Remark(const ir::Span&, const std::string&, const std::string&);
  ir::Array<RemarkRef> remarks_;
  RemarkCollector* outer_;
};

}  // namespace tilelang

#endif  // TILELANG_IR_REMARK_H_
