// Operands of mma.sync in shared memory: how a warp loads what one step of K needs.
#ifndef TILELANG_OP_MMA_OPERAND_H_
#define TILELANG_OP_MMA_OPERAND_H_

#include "layout/mma_layout.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// A matrix of lines (rows of A, columns of B) by K. ldmatrix loads it where the layout keeps
// together the 16 bytes that it takes of a row; else it is loaded element by element.
class MmaOperand {
 public:
  struct Shape {
    bool lines_first;   // the region is (lines, K), else (K, lines)
    int64_t halves;     // groups of 8 lines that are loaded together, 1 or 2
    bool halves_inner;  // in registers: of all k halves the first lines, then the next (A); else
                        // of the first lines all k halves (B)
  };
  // `span`: of the gemm.
  MmaOperand(const Region& region, const Shape& shape, const layout::MmaAtom& atom,
             const ir::Span& span, Lowering* lowering);

  // Elements that one load gives a thread.
  int64_t Size() const { return atom_.packed * shape_.halves * atom_.k_halves; }
  // Loads the 8 * halves lines from `line` on, and K from `k` on, to regs[at..].
  Stmt Load(const Expr& line, const Expr& k, const Buffer& regs, const Expr& at) const;

 private:
  bool HasChunks() const;
  Expr Address(const Expr& line, const Expr& k) const;
  Stmt LoadMatrices(const Expr& line, const Expr& k, const Buffer& regs, const Expr& at) const;
  Stmt LoadElements(const Expr& line, const Expr& k, const Buffer& regs, const Expr& at) const;
  // Returns the register of the load that holds half `half` of the lines and `k_half` of K.
  Expr RegisterOf(const Expr& half, const Expr& k_half) const;

  Region region_;
  Shape shape_;
  layout::MmaAtom atom_;
  ir::Span span_;
  Lowering* lowering_;
  Expr lane_;
  bool by_matrix_;
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_MMA_OPERAND_H_
