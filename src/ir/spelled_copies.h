// The copies of a program as it was given, for remarks.
//
// Passes change tiles, names and indices, and they add copies. A remark about a copy should quote
// what the user wrote: `T.copy(A[by * 128:by * 128 + 128, k * 64:k * 64 + 64], a)`, and not the
// tile that the compiler chose. Copies keep the span of the statement that they come from, so the
// span finds the text.
#ifndef TILELANG_IR_SPELLED_COPIES_H_
#define TILELANG_IR_SPELLED_COPIES_H_

#include <map>
#include <string>
#include <tuple>

#include "ir/function.h"
#include "ir/visitor.h"

namespace tilelang::ir {

// Keeps the texts of the copies of a program while it lives. The latest one on this thread counts.
class SpelledCopies : private StmtVisitor {
 public:
  explicit SpelledCopies(const Func& program);
  ~SpelledCopies() override;
  SpelledCopies(const SpelledCopies&) = delete;
  SpelledCopies& operator=(const SpelledCopies&) = delete;

  // Returns the text of the program's copy that `op` comes from, or of `op` itself if there is
  // none. Python may run one line several times, for other copies: these have no common text.
  static std::string TextOf(const CopyNode* op);

 private:
  using Place = std::tuple<std::string, int64_t, int64_t>;
  using StmtVisitor::Visit;

  static Place PlaceOf(const Span& span);
  void Visit(const CopyNode* op) override;

  std::map<Place, std::string> texts_;  // empty where copies differ
  SpelledCopies* outer_;
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_SPELLED_COPIES_H_
