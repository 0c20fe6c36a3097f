// Scale factors of mma.sync with .block_scale (sm_120a): the words that a warp's threads hold.
//
// A word has the factors of a row of A, or column of B, and four blocks of K. With g = lane / 4 and
// i = lane % 4 a register of words serves two atoms of 16 rows, of which the thread holds row
// g + 8 (i % 2) of atom i / 2, or four atoms of 8 columns: column g of atom i (PTX ISA 9.0,
// "mma: block scaling"). The instruction says which atom, and which bytes, it asks for.
#ifndef TILELANG_OP_GEMM_MMA_SCALES_H_
#define TILELANG_OP_GEMM_MMA_SCALES_H_

#include <string>
#include <vector>

#include "layout/mma_layout.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

bool HasScaledMma(const Target& target);
// The function of mma_sm120.h for the types of a gemm with factors.
std::string ScaledMmaFunction(const ir::GemmNode* op);
// Instructions along K that find their factors in one word.
int64_t StepsOfScaleWord(const ir::GemmNode* op);

// The factors of one matrix for a warp's atoms, so many lines each.
class ScaleWords {
 public:
  ScaleWords(const ir::GemmNode* op, ir::GemmOperandKind kind, int64_t atoms, int64_t lines,
             Lowering* lowering);

  const Buffer& registers() const { return registers_; }
  // Loads the words number `word` along K of the lines from `first` on.
  void Load(const Expr& first, const Expr& word, std::vector<Stmt>* stmts) const;
  // The address of the register for an atom, and which of its atoms it is.
  Expr RegisterOf(const Expr& atom) const;
  Expr AtomInRegister(const Expr& atom) const;

 private:
  const ir::GemmNode* op_;
  Region region_;
  int64_t atoms_;
  int64_t lines_;
  int64_t together_;  // atoms of a register
  Lowering* lowering_;
  Buffer registers_;
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_MMA_SCALES_H_
