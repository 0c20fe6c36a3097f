// Expressions of the thread IR in CUDA C++.
#ifndef TILELANG_CODEGEN_EXPR_PRINTER_H_
#define TILELANG_CODEGEN_EXPR_PRINTER_H_

#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "arith/analyzer.h"
#include "codegen/names.h"
#include "ir/intrinsics.h"

namespace tilelang {

// The precedence of an operator in C++.
enum Precedence : int {
  kPrecTernary = 1,
  kPrecOr,
  kPrecAnd,
  kPrecBitOr,
  kPrecBitXor,
  kPrecBitAnd,
  kPrecEquality,
  kPrecRelation,
  kPrecShift,
  kPrecAdd,
  kPrecMul,
  kPrecUnary,
  kPrecPrimary,
};

struct ExprText {
  std::string text;
  int precedence = kPrecPrimary;
};

class ExprPrinter {
 public:
  explicit ExprPrinter(Names* names) : names_(names) {}

  // The expression by itself: an argument, a right-hand side, an index.
  std::string Print(const ir::Expr& e) { return Text(e).text; }
  // The expression as an operand of something that binds as tightly as `precedence`.
  std::string Operand(const ir::Expr& e, int precedence);
  // The address of an element, from which on so many are accessed: "A + i", or "A" for element 0.
  std::string Pointer(const ir::Buffer& buffer, const ir::Array<ir::Expr>& indices,
                      int64_t elements = 1);
  std::string Element(const ir::Buffer& buffer, const ir::Array<ir::Expr>& indices);

  // `text` stands for this load or select from now on (a vector's element), until Forget.
  void Replace(const ir::ExprNode* e, const std::string& text) { replaced_[e] = text; }
  void Forget() { replaced_.clear(); }
  // Variables that stand for a tensor map: their value is its address.
  void AddTensorMap(const ir::Var& var) { tensor_maps_.insert(var.get()); }
  // Tensors that nobody writes while the kernel runs.
  void AddConstant(const ir::Buffer& buffer) { constants_.insert(buffer.get()); }
  bool IsConstant(const ir::Buffer& buffer) const { return constants_.count(buffer.get()) != 0; }
  // Notes that vectors of the tensor, of as many bytes, begin at multiples of their length if the
  // tensor does.
  void RequireAligned(const ir::Buffer& tensor, int64_t bytes) {
    auto known = alignment_.Get(tensor);
    if (!known || *known < bytes) alignment_.Set(tensor, bytes);
  }
  // Returns the bytes at whose multiples tensors must begin for such vectors.
  const ir::Map<ir::Buffer, int64_t>& alignment() const { return alignment_; }
  // Makes arrivals publish the stores before them to threads of other blocks that wait on the
  // mbarrier.
  void PublishToBlocks() { publishes_ = true; }
  bool publishes() const { return publishes_; }
  // Returns the facts about the variables in scope.
  arith::Analyzer* analyzer() { return &analyzer_; }

  // Device headers that the printed code needs.
  const std::set<std::string>& headers() const { return headers_; }
  void UseHeader(std::string_view header) {
    if (!header.empty()) headers_.emplace(header);
  }
  // Definitions of device functions that it calls and no header has.
  const std::set<std::string>& definitions() const { return definitions_; }
  // The name of a type; remembers the header that defines it.
  std::string Type(ir::DType dtype);

 private:
  ExprText Text(const ir::Expr& e);
  // `e` where the condition holds.
  ExprText TextUnder(const ir::Expr& condition, const ir::Expr& e);
  // The index of the first of so many elements; of shared memory by way of a function that reports
  // indices outside of the buffer, unless the index is proven to lie inside (tile_index.cc).
  ExprText Index(const ir::Buffer& buffer, const ir::Expr& index, int64_t elements);
  ExprText Text(const ir::BinaryNode* op);
  ExprText Text(const ir::UnaryNode* op);
  ExprText Text(const ir::SelectNode* op);
  ExprText Text(const ir::CastNode* op);
  ExprText Text(const ir::CallNode* op);
  ExprText Infix(const char* symbol, int precedence, const ir::BinaryNode* op);
  ExprText Division(const ir::BinaryNode* op);
  ExprText MathCall(const ir::Intrinsic& intrinsic, const ir::CallNode* op);
  ExprText SpecialCall(const ir::CallNode* op);
  std::string PrintfCall(const ir::CallNode* op);
  ExprText Function(const std::string& name, const ir::Array<ir::Expr>& args, size_t first = 0);
  std::string Argument(const ir::Expr& arg);
  // `text` of a type that C++ computes in int, brought back to `dtype`.
  ExprText Narrowed(ir::DType dtype, ExprText text);
  std::string AsFloat(const ir::Expr& e);
  // A 16-bit float whose bits are a half of a word; nothing for other bits.
  std::optional<ExprText> HalfOfWord(const ir::CallNode* op);
  // A word of two 16-bit numbers.
  std::string Word(const ir::Expr& e);

  Names* names_;
  std::unordered_map<const ir::ExprNode*, std::string> replaced_;
  std::set<const ffi::Object*> tensor_maps_;
  std::set<const ffi::Object*> constants_;
  ir::Map<ir::Buffer, int64_t> alignment_;
  bool publishes_ = false;  // to other blocks
  arith::Analyzer analyzer_;
  std::set<std::string> headers_;
  std::set<std::string> definitions_;
};

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_EXPR_PRINTER_H_
