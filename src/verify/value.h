// Evaluates integer expressions of the thread IR in one thread, without running the kernel.
#ifndef TILELANG_VERIFY_VALUE_H_
#define TILELANG_VERIFY_VALUE_H_

#include <map>
#include <unordered_map>
#include <utility>

#include "ir/stmt.h"

namespace tilelang::verify {

// A number, the address of an element, or neither.
struct Value {
  enum class Kind : uint8_t { kUnknown, kNumber, kAddress };
  Kind kind = Kind::kUnknown;
  int64_t number = 0;                      // kAddress: the element of the buffer
  const ir::BufferNode* buffer = nullptr;  // kAddress

  static Value Number(int64_t n) { return {Kind::kNumber, n, nullptr}; }
  static Value Address(const ir::BufferNode* b, int64_t n) { return {Kind::kAddress, n, b}; }
  bool IsNumber() const { return kind == Kind::kNumber; }
  bool IsAddress() const { return kind == Kind::kAddress; }
};

// The variables of one thread. Memory that threads share has arbitrary contents, the same for all
// of them: a function of buffer and index.
class Environment {
 public:
  // elected: the thread that elect_one() chooses in its warp.
  explicit Environment(bool elected) : elected_(elected) {}

  void Set(const ir::Var& var, const Value& value) { variables_[var.get()] = value; }
  // Loads from it give 0: the address of tensor memory, relative to which others are.
  void SetBase(const ir::BufferNode* slot) { base_ = slot; }
  // Loads of numbers that a scheduler of tiles has given (ir/next_tile.h) give this one.
  void SetTile(int64_t number) { tile_ = number; }
  // An element of a buffer of the thread; an unknown index forgets the buffer.
  void Store(const ir::Buffer& buffer, const Value& index, const Value& value);
  Value Evaluate(const ir::Expr& e) const;
  // Evaluates in the thread of the warp that is elected, whichever it is.
  Value EvaluateElected(const ir::Expr& e);

 private:
  Value Binary(const ir::BinaryNode* op) const;
  Value Logical(const ir::BinaryNode* op) const;
  Value Unary(const ir::UnaryNode* op) const;
  Value Load(const ir::LoadNode* op) const;
  Value Call(const ir::CallNode* op) const;
  Value LoadShared(const ir::LoadNode* op) const;

  bool elected_;
  int64_t tile_ = 0;
  const ir::BufferNode* base_ = nullptr;
  std::unordered_map<const ir::ffi::Object*, Value> variables_;
  std::map<std::pair<const ir::ffi::Object*, int64_t>, Value> elements_;
};

// A number that looks arbitrary, the same for the same arguments.
uint64_t Arbitrary(uint64_t a, uint64_t b);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_VALUE_H_
