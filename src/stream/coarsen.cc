#include "stream/coarsen.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace tilelang::stream {

/*!
 * The rows of windows: coarse elements that follow each other along the last axis, and for each of
 * them the rows of the array that their windows reach over.
 */
class WindowRows {
 public:
  struct Row {
    int64_t place;  // of its first element
    int64_t count;  // elements that there are
  };

  explicit WindowRows(const Windows& windows)
      : axes_(windows.axes_), columns_(windows.columns_), coarse_row_(CoarseExtent(axes_.back())) {}

  int64_t coarse_row() const { return coarse_row_; }
  int64_t factor() const { return axes_.back().factor; }
  const std::vector<int64_t>& columns() const { return columns_; }

  /*! Returns the rows of the windows of the coarse row `number`, before position `end`. */
  const std::vector<Row>& Rows(int64_t number, int64_t end) {
    rows_.assign(1, {0, end});  // `count` is what is left of the positions, for the time being
    std::vector<int64_t> begin(axes_.size() - 1);
    for (size_t d = begin.size(); d-- > 0;) {
      const int64_t coarse = d ? CoarseExtent(axes_[d]) : number + 1;
      begin[d] = number % coarse * axes_[d].factor;
      number /= coarse;
    }
    for (size_t d = 0; d < begin.size(); ++d) Spread(axes_[d], begin[d], d > 0);
    for (Row& row : rows_) row.count = std::clamp<int64_t>(row.count, 0, axes_.back().extent);
    return rows_;
  }

 private:
  static int64_t CoarseExtent(const WindowAxis& axis) {
    return (axis.extent + axis.factor - 1) / axis.factor;
  }

  void Spread(const WindowAxis& axis, int64_t begin, bool bounded) {
    const int64_t stop = begin + axis.factor;
    const int64_t finish = bounded ? std::min(stop, axis.extent) : stop;
    next_.clear();
    for (const Row& row : rows_) {
      for (int64_t i = begin; i < finish; ++i) {
        const int64_t place = i / axis.tile * axis.tile_stride + i % axis.tile * axis.weight;
        next_.push_back({row.place + place, row.count - i * axis.stride});
      }
    }
    rows_.swap(next_);
  }

  const std::vector<WindowAxis>& axes_;
  const std::vector<int64_t>& columns_;
  const int64_t coarse_row_;
  std::vector<Row> rows_, next_;
};

namespace {

/*! The type of sums of elements; it holds twice the sum of a window. */
template <typename T>
using Sum =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>,
                       std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

template <typename T>
struct Mean {
  Sum<T> sum = 0;
  Sum<T> count = 0;
  void Add(T value) {
    sum += static_cast<Sum<T>>(value);
    count += 1;
  }
  T Result() {
    if constexpr (kIsInteger<T>) {
      // The nearest integer, of two the larger: the quotient is rounded down.
      const Sum<T> dividend = 2 * sum + count, divisor = 2 * count;
      const Sum<T> quotient = dividend / divisor;
      return static_cast<T>(quotient - (dividend % divisor < 0));
    } else {
      return static_cast<T>(sum / count);
    }
  }
};

template <typename T>
bool IsNan(T value) {
  if constexpr (kIsInteger<T>) {
    return false;
  } else {
    return value != value;
  }
}

/*! The smallest or the largest element; not a NaN where there are numbers. */
template <typename T, bool kLargest>
struct Extreme {
  T found{};
  bool any = false;
  void Add(T value) {
    const bool better = kLargest ? value > found : value < found;
    if (!any || better || IsNan(found)) found = value;
    any = true;
  }
  T Result() { return found; }
};

template <typename T>
struct Smallest : Extreme<T, false> {};
template <typename T>
struct Largest : Extreme<T, true> {};

/*! The middle element, or the mean of the two in the middle; NaN counts as the largest. */
template <typename T>
struct Median {
  std::vector<T> values;
  void Add(T value) { values.push_back(value); }
  T Result() {
    auto less = [](T a, T b) { return a < b || (!IsNan(a) && IsNan(b)); };
    const auto upper = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), upper, values.end(), less);
    if (values.size() % 2) return *upper;
    const T above = *upper, below = *std::max_element(values.begin(), upper, less);
    if constexpr (kIsInteger<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      const Unsigned apart = static_cast<Unsigned>(above) - static_cast<Unsigned>(below);
      return static_cast<T>(static_cast<Unsigned>(below) + apart / 2 + apart % 2);
    } else {
      return static_cast<T>((static_cast<Sum<T>>(below) + static_cast<Sum<T>>(above)) / 2);
    }
  }
};

template <typename T, template <typename> class Method>
void Reduce(const Windows& windows, const std::byte* origin, int64_t first, int64_t count,
            int64_t end, std::byte* coarse) {
  WindowRows walk(windows);
  const auto elements = reinterpret_cast<const T*>(origin);
  const int64_t width = walk.coarse_row(), factor = walk.factor();
  const int64_t* columns = walk.columns().data();
  for (int64_t done = 0; done < count;) {
    const int64_t window = first + done, begin = window % width;
    const std::vector<WindowRows::Row>& rows = walk.Rows(window / width, end);
    const int64_t stop = std::min(width, begin + count - done);
    for (int64_t x = begin; x < stop; ++x, ++done) {
      Method<T> result;
      for (const WindowRows::Row& row : rows) {
        const int64_t limit = std::min((x + 1) * factor, row.count);
        for (int64_t i = x * factor; i < limit; ++i) result.Add(elements[row.place + columns[i]]);
      }
      const T value = result.Result();
      std::memcpy(coarse + done * sizeof(T), &value, sizeof(T));
    }
  }
}

template <typename T>
auto KernelOf(const std::string& method) -> decltype(&Reduce<T, Mean>) {
  if (method == "mean") return sizeof(T) == 8 && kIsInteger<T> ? nullptr : &Reduce<T, Mean>;
  if (method == "min") return &Reduce<T, Smallest>;
  if (method == "max") return &Reduce<T, Largest>;
  if (method == "median") return &Reduce<T, Median>;
  return nullptr;
}

struct Choice {
  const char* dtype;
  int64_t itemsize;
  decltype(&KernelOf<int8_t>) kernel;
};

constexpr Choice kChoices[] = {
    {"int8", 1, KernelOf<int8_t>},      {"uint8", 1, KernelOf<uint8_t>},
    {"int16", 2, KernelOf<int16_t>},    {"uint16", 2, KernelOf<uint16_t>},
    {"int32", 4, KernelOf<int32_t>},    {"uint32", 4, KernelOf<uint32_t>},
    {"int64", 8, KernelOf<int64_t>},    {"uint64", 8, KernelOf<uint64_t>},
    {"float16", 2, KernelOf<_Float16>}, {"float32", 4, KernelOf<float>},
    {"float64", 8, KernelOf<double>},
};

}  // namespace

Windows::Windows(std::vector<WindowAxis> axes, const std::string& method, const std::string& dtype)
    : axes_(std::move(axes)) {
  for (const Choice& choice : kChoices) {
    if (dtype == choice.dtype) {
      itemsize_ = choice.itemsize;
      kernel_ = choice.kernel(method);
    }
  }
  if (!kernel_) throw std::invalid_argument("elements of " + dtype + " have no " + method);
  const WindowAxis& row = axes_.back();
  columns_.resize(row.extent);
  for (int64_t i = 0; i < row.extent; ++i) {
    columns_[i] = i / row.tile * row.tile_stride + i % row.tile * row.weight;
  }
}

void Windows::Run(const std::byte* origin, int64_t first, int64_t count, int64_t end,
                  std::byte* coarse, Threads& threads) const {
  const int64_t size = std::max<int64_t>(4096, count / (4 * threads.count()) + 1);
  threads.Run((count + size - 1) / size, [&](int64_t i) {
    const int64_t begin = i * size;
    kernel_(*this, origin, first + begin, std::min(size, count - begin), end,
            coarse + begin * itemsize_);
  });
}

}  // namespace tilelang::stream
