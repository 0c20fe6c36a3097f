// Places the scale factors of block-scaled GEMMs, and brings them to tensor memory.
//
// In shared memory a tile of factors is a matrix of atoms of 512 bytes. An atom has the factors of
// 128 rows of A (or columns of B) and four blocks of K; the factor of row r and block j is in byte
// 16 (r mod 32) + 4 (r / 32) + j. The region of the tile ends with the 512 bytes of an atom, in one
// dimension or several. Dimensions before them count atoms along the rows, and dimensions before
// these count atoms along K, if there are several. Source: cuBLAS 13.0, "Layout of scaling factors
// for block-scaled formats".
//
// tcgen05.cp.32x128b.warpx4 brings an atom to four columns of tensor memory: row r to lane r mod 32
// of each quarter and column r / 32, its four blocks to the bytes of the cell. tcgen05.mma reads
// this layout (PTX ISA 9.0, "tcgen05.mma: scale factors"). The atoms of the same blocks lie side by
// side, so that an instruction of 256 columns finds its rows in eight columns.
#ifndef TILELANG_OP_GEMM_SCALE_FACTORS_H_
#define TILELANG_OP_GEMM_SCALE_FACTORS_H_

#include <optional>
#include <vector>

#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// Rows, or columns of B, whose factors are in one atom.
constexpr int64_t kScaleAtomRows = 128;
// Rows whose factors are in one column: an instruction begins at a multiple of them.
constexpr int64_t kScaleRowsOfColumn = 32;

// The blocks of K that have a scale factor each.
struct ScaleBlocks {
  int64_t bytes = 0;  // of a row of A, in one block
  int64_t per_k = 0;  // blocks in the K of one instruction, which is 32 bytes
};
ScaleBlocks ScaleBlocksOf(const ir::GemmNode* op);
// The dimension of a tile of atoms that counts them along the rows; nothing: the tile has one row
// of atoms.
std::optional<size_t> DimOfAtomRows(const Region& atoms);
// The factors of A and B lie in row-major order, in atoms or in rows.
void InferScaleAtoms(const ir::GemmNode* op, Context* ctx);

// The indices of the factor of a row of A, or column of B, and a block of K.
Array<Expr> IndicesOfScale(const Region& atoms, const Expr& row, const Expr& block);

// A gemm where the tensor core takes no factors, or no padded tiles: parallel loops that multiply A
// and B by theirs, if they have some, and a gemm of the products in bfloat16.
void MultiplyByScaleFactors(const ir::GemmNode* op, std::vector<Stmt>* stmts);

// The tensor memory that holds both tiles of factors.
Buffer MakeScaleColumns(const ir::GemmNode* op);

// Annotations of gemms whose factors the program brings to tensor memory (ir/gemm.h).
inline constexpr const char* kScaleGranularityA = "sf_a_granularity_k";
inline constexpr const char* kScaleGranularityB = "sf_b_granularity_k";

// Both tiles of factors, as instructions of a gemm are issued.
class ScaleFactors {
 public:
  // `step`: bytes of K of an instruction.
  ScaleFactors(const ir::GemmNode* op, int64_t step, Lowering* lowering);

  // Brings them to tensor memory, unless the program has.
  void Copy(std::vector<Stmt>* stmts) const;
  // Return the addresses of the factors of rows of A, and of columns of B, from there on, for the
  // instruction at `k` (in elements of the buffers).
  Expr OfA(int64_t m, int64_t k) const { return AddressOf(a_, m, k); }
  Expr OfB(int64_t n, int64_t k) const { return AddressOf(b_, n, k); }
  // Returns which bytes of the cells have the factors, as bits of the instruction descriptor.
  Expr Selection(int64_t k) const;
  // Returns what the instruction at `k` reads of tensor memory for this many rows and columns. Its
  // arguments `a` and `b` are the addresses.
  std::vector<Array<int64_t>> Reads(int64_t a, int64_t b, int64_t rows, int64_t columns,
                                    int64_t k) const;

 private:
  struct Tile {
    Region region;
    int64_t rows = 0;         // atoms
    int64_t groups = 0;       // likewise, along K
    Expr column;              // the address of the first one
    int64_t granularity = 0;  // of factors that the program brings: elements that share one
  };

  Tile TileOf(ir::GemmOperandKind kind) const;
  Expr AddressOf(const Tile& tile, int64_t row, int64_t k) const;
  void Copy(const Tile& tile, const char* name, std::vector<Stmt>* stmts) const;
  int64_t BlockAt(int64_t k) const { return k / blocks_.bytes; }
  // Columns from the first group of blocks to the last that the instruction at `k` reads.
  int64_t Beyond(const Tile& tile, int64_t k) const;

  const ir::GemmNode* op_;
  int64_t step_;
  Lowering* lowering_;
  ScaleBlocks blocks_;
  bool in_tmem_;
  Tile a_;
  Tile b_;
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_SCALE_FACTORS_H_
