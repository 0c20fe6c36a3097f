// From logical buffers to physical ones: one dimension, layouts applied.
#ifndef TILELANG_OP_ACCESS_H_
#define TILELANG_OP_ACCESS_H_

#include "ir/visitor.h"
#include "op/context.h"

namespace tilelang::op {

// The physical twin of every buffer of a kernel, made on first use:
//   fragment -> "local" array of the thread's registers; shared -> its layout's cosize;
//   global, local -> one dimension. Barriers and tensor memory stay as they are.
class PhysicalBuffers {
 public:
  // `globals`: twins shared by all launches of a function (see FlatGlobal).
  PhysicalBuffers(const LayoutMap* layouts, Map<Buffer, Buffer> globals)
      : layouts_(layouts), twins_(std::move(globals)) {}
  // The one-dimensional twin of a global buffer; attrs["logical"] is the buffer itself.
  static Buffer FlatGlobal(const Buffer& buffer);

  Buffer Get(const Buffer& buffer);
  // Element offset of buffer[indices] in its physical twin; not for fragments.
  Expr Offset(const Buffer& buffer, const Array<Expr>& indices, arith::Analyzer* analyzer);

 private:
  Buffer Make(const Buffer& buffer);

  const LayoutMap* layouts_;
  Map<Buffer, Buffer> twins_;
};

// Rewrites every access of a statement to physical buffers.
class AccessLowerer : public ir::StmtMutator {
 public:
  AccessLowerer(PhysicalBuffers* buffers, Context* ctx) : buffers_(buffers), ctx_(ctx) {}

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override;
  Stmt Rewrite(const ir::StoreNode* op) override;
  Stmt Rewrite(const ir::ForNode* op) override;
  Stmt Rewrite(const ir::AllocNode* op) override;

 protected:
  // Index of fragment element `indices` in the thread's registers. `node` is the Load or Store.
  // The default serves scalar code: every thread must hold the element.
  virtual Expr FragmentIndex(const ffi::Object* node, const Buffer& buffer,
                             const Array<Expr>& indices, const Span& span);

  // Offset of any other element; `original` are the indices before they were rewritten.
  virtual Expr MemoryIndex(const Buffer& buffer, const Array<Expr>& original,
                           const Array<Expr>& indices);

  PhysicalBuffers* buffers_;
  Context* ctx_;

 private:
  Expr Index(const ffi::Object* node, const Buffer& buffer, const Array<Expr>& original,
             const Span& span);
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_ACCESS_H_
