#include "op/scan_layout.h"

#include <algorithm>
#include <bit>

#include "target/warp.h"

namespace tilelang::op {

namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the smallest power of two that is at least `n`.
int64_t PowerFrom(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// Returns the elements of 16 bytes, or as many as divide rows of `extent`.
int64_t VectorOf(int64_t extent, int64_t bits) {
  int64_t vector = std::max<int64_t>(1, 128 / bits);
  while (extent % vector != 0) vector /= 2;
  return vector;
}

// Deals out threads and registers, dimension by dimension.
class Dealer {
 public:
  Dealer(const Coord& extents, int64_t threads)
      : extents_(extents),
        thread_(extents.size()),
        reg_(extents.size()),
        free_(threads),
        threads_(threads) {}

  // Deals out a dimension that is not scanned: first the elements of a vector, then at most `most`
  // threads, then registers.
  void Across(size_t d, int64_t vector, int64_t most) {
    int64_t on = std::min({PowerFrom(CeilDiv(extents_[d], vector)), free_, most});
    int64_t steps = CeilDiv(extents_[d], vector * on);
    thread_[d] = {{vector, 0}, {on, stride_}, {steps, 0}};
    reg_[d] = {{vector, next_}, {on, 0}, {steps, next_ * vector}};
    AddRows(vector, next_);
    AddRows(steps, next_ * vector);
    next_ *= vector * steps;
    TakeThreads(on);
  }

  // Deals out the row itself. Without a vector, a thread has all its elements next to each other.
  void Along(size_t d, int64_t vector) {
    int64_t count = extents_[d];
    int64_t in_warp = std::max<int64_t>(1, kWarp / stride_);
    int64_t of_vectors = CeilDiv(count, std::max<int64_t>(1, vector));
    lane_stride_ = stride_;
    lanes_ = std::min({in_warp, free_, PowerFrom(of_vectors)});
    TakeThreads(lanes_);
    warps_ = std::min(free_, PowerFrom(CeilDiv(of_vectors, lanes_)));
    vector_ = vector != 0 ? vector : CeilDiv(count, lanes_ * warps_);
    turns_ = CeilDiv(count, vector_ * lanes_ * warps_);
    thread_[d] = {{vector_, 0}, {lanes_, lane_stride_}, {turns_, 0}, {warps_, stride_}};
    reg_[d] = {{vector_, next_}, {lanes_, 0}, {turns_, next_ * vector_}, {warps_, 0}};
    vector_step_ = next_;
    next_ *= vector_ * turns_;
    TakeThreads(warps_);
  }

  ScanLayout Result(int64_t begin) const {
    Fragment fragment =
        Fragment(Layout::FromForms(extents_, thread_), Layout::FromForms(extents_, reg_))
            .BindThreads(begin);
    return {fragment, vector_, lanes_,       lane_stride_,
            turns_,   warps_,  vector_step_, vector_step_ * vector_,
            rows_,    threads_};
  }

 private:
  void TakeThreads(int64_t count) {
    stride_ *= count;
    free_ /= count;
  }
  void AddRows(int64_t count, int64_t step) {
    std::vector<int64_t> all;
    for (int64_t row : rows_) {
      for (int64_t i = 0; i < count; ++i) all.push_back(row + i * step);
    }
    rows_ = std::move(all);
  }

  const Coord& extents_;
  std::vector<layout::Digits> thread_;
  std::vector<layout::Digits> reg_;
  int64_t free_;  // threads
  int64_t threads_;
  int64_t stride_ = 1;
  int64_t next_ = 1;  // register
  int64_t vector_ = 1;
  int64_t lanes_ = 1;
  int64_t lane_stride_ = 1;
  int64_t turns_ = 1;
  int64_t warps_ = 1;
  int64_t vector_step_ = 1;
  std::vector<int64_t> rows_ = {0};
};

}  // namespace

ScanLayout ScanLayoutOf(const Coord& extents, int64_t dim, int64_t bits,
                        const ThreadRange& threads) {
  Dealer dealer(extents,
                static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(threads.count))));
  auto last = static_cast<int64_t>(extents.size()) - 1;
  if (dim != last) {
    auto d = static_cast<size_t>(last);
    dealer.Across(d, VectorOf(extents[d], bits), kWarp);
  }
  auto scanned = static_cast<size_t>(dim);
  dealer.Along(scanned, dim == last ? VectorOf(extents[scanned], bits) : 0);
  for (int64_t d = last - 1; d >= 0; --d) {
    if (d != dim) dealer.Across(static_cast<size_t>(d), 1, threads.count);
  }
  return dealer.Result(threads.begin);
}

}  // namespace tilelang::op
