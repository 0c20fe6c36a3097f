// Scale factors from shared to tensor memory by tcgen05.cp.32x128b.warpx4: 128 words at a time,
// each 512 bytes to four columns, words 4 l to 4 l + 3 to lane l of every quarter.
#ifndef TILELANG_OP_COPY_SCALES_H_
#define TILELANG_OP_COPY_SCALES_H_

#include <string>
#include <vector>

#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

inline constexpr int64_t kScaleAtomBytes = 512;
inline constexpr int64_t kScaleAtomColumns = 4;

// Factors lie in shared memory as in global memory, in row-major order. Throws a LayoutError, which
// begins with `what`, where another use of the buffer or the program has fixed another one.
void InferScaleOrder(const Buffer& factors, const std::string& what, const Span& span,
                     Context* ctx);

bool IsScaleCopy(const ir::CopyNode* op);
const TileInstruction* ScaleCopy();

// The instructions for 512 bytes each of a region in shared memory.
class ScaleAtoms {
 public:
  // `part`: elements of equal parts of the buffer of which the region is in one.
  ScaleAtoms(const Region& region, int64_t part, const Buffer& columns, bool in_pairs,
             const Span& span, Lowering* lowering);

  // Binds the descriptor of the region's beginning to a variable of that name.
  void Bind(const char* name, std::vector<Stmt>* stmts);
  // Brings what lies so many bytes after it to the columns from an address on.
  Stmt Copy(int64_t bytes, const Expr& address) const;

 private:
  Expr start_;
  Expr descriptor_;
  std::string function_;
  Map<String, Any> attrs_;
  Span span_;
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_SCALES_H_
