#include "op/reduce_layout.h"

#include <algorithm>
#include <bit>

namespace tilelang::op {

namespace {

// Returns the source's threads along one row, counted from the lowest one.
std::vector<int64_t> ThreadsOfRow(const Fragment& source, int64_t dim) {
  Coord begin(source->Rank(), 0);
  Coord row(source->Rank(), 1);
  row[dim] = source->Extents()[dim];
  std::vector<int64_t> threads = source.Slice(begin, row)->thread->Tabulate();
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  int64_t lowest = threads.front();
  for (int64_t& t : threads) t -= lowest;
  return threads;
}

// Returns the threads that hold the first element of a row, for every row and copy.
std::vector<int64_t> FirstThreads(const Fragment& source, int64_t dim, int64_t begin_thread) {
  std::vector<int64_t> threads;
  Coord begin(source->Rank(), 0);
  Coord extents = source->Extents();
  extents[dim] = 1;
  std::vector<int64_t> copies = source->replica->Tabulate();
  for (int64_t t : source.Slice(begin, extents)->thread->Tabulate()) {
    for (int64_t copy : copies) threads.push_back(t + copy - begin_thread);
  }
  return threads;
}

// Finds the digits of the thread index along which rows run, each widened to a power of two. A row
// of 24 threads in 32 has 8 threads that hold nothing, and take part with the identity. Rows must
// begin at multiples of the widened digit. Replicas of the source hold equal values and take no
// part.
std::string FindDigits(const Fragment& source, int64_t dim, int64_t begin_thread,
                       std::vector<ThreadDigit>* digits) {
  auto found = layout::RecoverDigits(ThreadsOfRow(source, dim));
  if (!found) return "the threads that hold a row are not evenly spaced";
  std::vector<int64_t> first = FirstThreads(source, dim, begin_thread);
  for (const layout::Digit& digit : *found) {
    if (digit.extent == 1 || digit.stride == 0) continue;
    auto extent = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(digit.extent)));
    bool regular = std::has_single_bit(static_cast<uint64_t>(digit.stride));
    for (int64_t t : first) regular = regular && (t & ((extent - 1) * digit.stride)) == 0;
    if (!regular) {
      return "rows are spread over " + std::to_string(digit.extent) + " threads at distance " +
             std::to_string(digit.stride) + ", which no exchange between threads follows";
    }
    digits->push_back({extent, digit.stride});
  }
  return "";
}

std::string MapRegisters(const Fragment& source, int64_t dim, const Fragment& result,
                         std::map<int64_t, int64_t>* result_of) {
  const Coord extents = source->Extents();
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < extents.size(); ++d) inner *= extents[d];
  std::vector<int64_t> to_of(static_cast<size_t>(source->RegsPerThread()), -1);
  for (int64_t i = 0; i < source->Size(); ++i) {
    int64_t row = i / (inner * extents[dim]) * inner + i % inner;
    int64_t reg = source->reg->At(i);
    int64_t to = result->reg->At(row);
    int64_t& known = to_of[static_cast<size_t>(reg)];
    if (known >= 0 && known != to) {
      return "register " + std::to_string(reg) + " holds different rows in different threads";
    }
    known = to;
  }
  for (size_t reg = 0; reg < to_of.size(); ++reg) {
    if (to_of[reg] >= 0) result_of->emplace(static_cast<int64_t>(reg), to_of[reg]);
  }
  return "";
}

}  // namespace

RowExchange FindRowExchange(const Fragment& source, int64_t dim, const Fragment& result,
                            const ThreadRange& threads) {
  RowExchange exchange;
  exchange.obstacle = MapRegisters(source, dim, result, &exchange.result_of);
  if (exchange.obstacle.empty()) {
    exchange.obstacle = FindDigits(source, dim, threads.begin, &exchange.digits);
  }
  return exchange;
}

std::string ReductionObstacle(const Fragment& source, int64_t dim, const ThreadRange& threads) {
  bool splits = layout::SeparableForms(source->thread.get()) && layout::InverseDigits(source);
  if (!splits) return "its map to threads and registers does not split into dimensions";
  return FindRowExchange(source, dim, source.ReduceDim(dim, /*keep_dim=*/true), threads).obstacle;
}

Fragment ExchangeableLayout(const Coord& extents, int64_t dim, const ThreadRange& threads) {
  // Rows run over a power of two of threads, and one more dimension over the other threads.
  int64_t along = 1;
  while (along < extents[dim] && along < 32 && threads.count % (2 * along) == 0) along *= 2;
  std::vector<layout::Digits> thread(extents.size());
  std::vector<layout::Digits> reg(extents.size());
  int64_t next = 1;  // register
  auto spread = [&](size_t d, int64_t on_threads, int64_t stride) {
    int64_t steps = (extents[d] + on_threads - 1) / on_threads;
    thread[d] = {{on_threads, stride}, {steps, 0}};
    reg[d] = {{on_threads, 0}, {steps, next}};
    next *= steps;
  };
  int64_t widest = -1;
  for (int64_t d = 0; d < static_cast<int64_t>(extents.size()); ++d) {
    if (d != dim && (widest < 0 || extents[d] > extents[widest])) widest = d;
  }
  for (int64_t d = 0; d < static_cast<int64_t>(extents.size()); ++d) {
    if (d == dim) {
      spread(d, along, 1);
    } else {
      spread(d, d == widest ? threads.count / along : 1, along);
    }
  }
  return Fragment(Layout::FromForms(extents, thread), Layout::FromForms(extents, reg))
      .BindThreads(threads.begin);
}

}  // namespace tilelang::op
