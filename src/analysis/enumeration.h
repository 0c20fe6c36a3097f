// Runs through the values of the variables around an access.
#ifndef TILELANG_ANALYSIS_ENUMERATION_H_
#define TILELANG_ANALYSIS_ENUMERATION_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/memory_access.h"
#include "arith/host_eval.h"

namespace tilelang::analysis {

// Sums and products alone, as far as the variables of `ranges` are concerned.
bool IsPolynomial(const ir::Expr& e, const std::vector<AccessContext::Range>& ranges);
bool UsesAny(const ir::Expr& e, const std::vector<AccessContext::Range>& ranges);

// All values for which guards hold, loops outside, threads inside; of iterations that give the same
// at every thread one is enough.
class Enumeration {
 public:
  Enumeration(const AccessContext& context, const std::vector<ir::Expr>& guards,
              const ir::Expr& value);

  bool TooLarge() const {
    return iterations_ * static_cast<int64_t>(std::max<size_t>(active_.size(), 1)) > most_points_;
  }
  int64_t threads() const { return num_threads_; }
  // The numbers of the threads for which the guards that ask for no more hold.
  const std::vector<int64_t>& active() const { return active_; }

  // visit(iteration, thread, value)
  template <typename Visit>
  void Run(const Visit& visit) const {
    if (active_.empty()) return;
    // Several iterations at a time, as many as stay in the cache.
    constexpr int64_t kPoints = 2048;
    auto count = static_cast<int64_t>(active_.size());
    int64_t step = std::max<int64_t>(kPoints / count, 1);
    Columns inputs;
    Columns outputs;
    for (int64_t first = 0; first < iterations_; first += step) {
      int64_t iterations = std::min(step, iterations_ - first);
      FillInputs(first, iterations, &inputs);
      auto points = static_cast<size_t>(iterations * count);
      program_.RunMany(inputs, points, &outputs);
      for (size_t p = 0; p < points; ++p) {
        if (!AllHold(outputs, outputs.size() - 1, p)) continue;
        visit(first + static_cast<int64_t>(p) / count,
              static_cast<int32_t>(active_[p % active_.size()]), outputs.back()[p]);
      }
    }
  }

 private:
  using Columns = arith::HostProgram::Columns;
  struct Loop {
    ir::Var var;
    std::vector<int64_t> values;
  };

  // Moves the guards that depend only on this loop's variable out of `guards`: they select its
  // values. If several values access the same places, one of them stays.
  void AddLoop(const AccessContext& context, const AccessContext::Range& range,
               const ir::Expr& value, std::vector<ir::Expr>* guards);
  // Returns the values for which the guards hold, one for each remainder modulo the period unless
  // the period is 0.
  static std::vector<int64_t> ValuesOf(const AccessContext::Range& range,
                                       const ir::Array<ir::Expr>& guards, int64_t period);
  // The variables of loops and threads at each active thread of some iterations.
  void FillInputs(int64_t first, int64_t iterations, Columns* inputs) const;
  // The variables of every thread, by its number.
  Columns Threads() const;
  // Returns the numbers of the threads for which a filter holds, and removes the other threads from
  // the columns.
  std::vector<int64_t> Active(const arith::HostProgram& filter, Columns* threads) const;
  static bool AllHold(const Columns& guards, size_t count, size_t point);

  int64_t most_points_;
  std::vector<Loop> loops_;
  std::vector<AccessContext::Range> threads_;  // x last
  int64_t iterations_ = 1;
  int64_t num_threads_ = 1;
  std::vector<int64_t> active_;
  Columns columns_;             // the thread variables of these
  arith::HostProgram program_;  // guards, of an iteration and a thread; then the value
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_ENUMERATION_H_
