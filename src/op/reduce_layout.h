// Finds how the threads that hold a row exchange partial results of a reduction over it.
#ifndef TILELANG_OP_REDUCE_LAYOUT_H_
#define TILELANG_OP_REDUCE_LAYOUT_H_

#include <map>
#include <string>
#include <vector>

#include "op/context.h"

namespace tilelang::op {

// Threads that hold parts of one row differ in digits of their index: index / stride % extent, the
// extent a power of two.
struct ThreadDigit {
  int64_t extent;
  int64_t stride;
};

// A reduction of a fragment over one dimension, carried out where the elements are.
struct RowExchange {
  std::string obstacle;                  // why there is none; empty when there is one
  std::vector<ThreadDigit> digits;       // over which a row is spread
  std::map<int64_t, int64_t> result_of;  // source register -> result register
};

// `result`: the source with dimension `dim` reduced away, or kept with extent 1.
RowExchange FindRowExchange(const Fragment& source, int64_t dim, const Fragment& result,
                            const ThreadRange& threads);

// A layout whose rows along `dim` the threads can exchange.
Fragment ExchangeableLayout(const Coord& extents, int64_t dim, const ThreadRange& threads);

// Returns why rows along `dim` cannot be reduced in this layout, or an empty string.
std::string ReductionObstacle(const Fragment& source, int64_t dim, const ThreadRange& threads);

}  // namespace tilelang::op

#endif  // TILELANG_OP_REDUCE_LAYOUT_H_
