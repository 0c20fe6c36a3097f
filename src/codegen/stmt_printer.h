// Statements of the thread IR in CUDA C++.
#ifndef TILELANG_CODEGEN_STMT_PRINTER_H_
#define TILELANG_CODEGEN_STMT_PRINTER_H_

#include "codegen/expr_printer.h"
#include "codegen/source_writer.h"
#include "ir/stmt.h"

namespace tilelang {

class StmtPrinter {
 public:
  // smem_offsets: bytes from the start of shared memory, of every shared buffer; offsets_at_call:
  // of the buffers for which the call decides.
  StmtPrinter(SourceWriter* out, ExprPrinter* exprs, Names* names,
              ir::Map<ir::Buffer, int64_t> smem_offsets,
              ir::Map<ir::Buffer, ir::Expr> offsets_at_call)
      : out_(out),
        exprs_(exprs),
        names_(names),
        smem_offsets_(std::move(smem_offsets)),
        offsets_at_call_(std::move(offsets_at_call)) {}

  void Print(const ir::Stmt& s);

 private:
  // A statement that orders: one call of a device function.
  std::string Ordering(const ir::Stmt& s);
  // `body` runs where the condition holds.
  void PrintUnder(const ir::Expr& condition, const ir::Stmt& body);
  void Print(const ir::IfNode* op, const std::string& opening);
  void Print(const ir::ForNode* op);
  void Print(const ir::AllocNode* op);
  void PrintLoop(const ir::ForNode* op, bool unroll);
  // Prints a loop that makes numbers of 8 bits in registers; returns false for others.
  bool PrintNarrowed(const ir::ForNode* loop);
  // A kVectorized loop, one Store at a time; `body` is a part of its body.
  void PrintVectorized(const ir::ForNode* loop, const ir::Stmt& body);
  void PrintVectorStore(const ir::ForNode* loop, const ir::StoreNode* store);
  void PrintGuardedLoad(const ir::ForNode* loop, const ir::LoadNode* load, const std::string& name,
                        const std::string& guard, const std::string& at,
                        const std::string& otherwise);

  SourceWriter* out_;
  ExprPrinter* exprs_;
  Names* names_;
  ir::Map<ir::Buffer, int64_t> smem_offsets_;
  ir::Map<ir::Buffer, ir::Expr> offsets_at_call_;
};

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_STMT_PRINTER_H_
