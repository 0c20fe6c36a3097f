// The threads of a block that a condition on the thread index selects.
#ifndef TILELANG_ANALYSIS_THREAD_SET_H_
#define TILELANG_ANALYSIS_THREAD_SET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "op/context.h"

namespace tilelang::analysis {

// Threads of a block by their linear index, x fastest.
class ThreadSet {
 public:
  ThreadSet() = default;
  explicit ThreadSet(const std::vector<bool>& members);

  bool operator==(const ThreadSet&) const = default;
  bool Has(int64_t thread) const { return (words_[thread / kWord] >> (thread % kWord) & 1) != 0; }
  int64_t Count() const;
  bool IsEmpty() const { return Count() == 0; }
  bool IsWholeBlock() const { return Count() == BlockSize(); }
  bool Contains(const ThreadSet& other) const { return (other - *this).IsEmpty(); }
  bool Overlaps(const ThreadSet& other) const { return !(*this & other).IsEmpty(); }
  ThreadSet operator&(const ThreadSet& other) const;
  ThreadSet operator|(const ThreadSet& other) const;
  ThreadSet operator-(const ThreadSet& other) const;

  // The set when its threads are consecutive; nullopt for others and for the empty set.
  std::optional<op::ThreadRange> AsRange() const;
  // The set when it is a range that divides no warp: a group that can run tile operators.
  std::optional<op::ThreadRange> AsWarps() const;
  // "threads 0 to 127 and 256 to 383"
  std::string ToString() const;

 private:
  static constexpr int64_t kWord = 64;

  int64_t BlockSize() const { return block_size_; }
  // Maximal ranges, ascending.
  std::vector<op::ThreadRange> Ranges() const;
  // The first thread from `begin` on that is a member, or is none; the block's size if there is
  // none.
  int64_t Find(int64_t begin, bool member) const;
  template <typename Combine>
  ThreadSet CombinedWith(const ThreadSet& other, Combine combine) const;

  std::vector<uint64_t> words_;  // a bit for each thread; none beyond the block
  int64_t block_size_ = 0;
};

// A condition split into what depends on the thread index alone, and the rest.
struct ThreadSelection {
  ThreadSet threads;           // for which the former holds
  std::vector<ir::Expr> rest;  // conditions joined by `and`
};

// The threads of a launch, for which expressions are evaluated one by one.
class BlockThreads {
 public:
  explicit BlockThreads(const ir::KernelLaunchNode* launch);

  int64_t count() const { return count_; }
  const ThreadSet& All() const { return all_; }
  ThreadSet Of(const op::ThreadRange& range) const;
  // The condition that the thread has this linear index.
  ir::Expr Is(int64_t thread) const;
  // Replaces the variable by its value from here on.
  void Bind(const ir::Var& var, const ir::Expr& value);

  bool UsesThread(const ir::Expr& e) const;
  // The value of an integer expression in each thread; nullopt when it depends on anything but
  // the thread index and constants. (A shuffle from a fixed lane gives the value itself where
  // that is the same in all lanes of each warp.)
  std::optional<std::vector<int64_t>> ValuesOf(const ir::Expr& e) const;
  // Returns whether an expression of that kind has one value in each warp.
  bool IsOfWarp(const ir::Expr& e) const;
  // The threads in which a condition of that kind holds.
  std::optional<ThreadSet> Where(const ir::Expr& condition) const;
  // The condition as `active` decide it.
  ThreadSelection Select(const ir::Expr& condition, const ThreadSet& active) const;
  // e with parts that have one value in all of `active` replaced by it.
  ir::Expr Fold(const ir::Expr& e, const ThreadSet& active) const;

 private:
  friend class ThreadFolder;
  ir::Expr Resolve(const ir::Expr& e) const;
  std::optional<std::vector<int64_t>> Evaluate(const ir::Expr& resolved) const;

  ir::Array<ir::Var> vars_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> indices_;  // of each thread, by dimension
  int64_t count_ = 1;
  ThreadSet all_;
  ir::Map<ir::Var, ir::Expr> values_;
};

// Appends the operands of nested `and`s.
void Conjuncts(const ir::Expr& e, std::vector<ir::Expr>* out);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_THREAD_SET_H_
