// Tells how much of the work of others is known at a point of a run.
#ifndef TILELANG_VERIFY_CLOCK_H_
#define TILELANG_VERIFY_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tilelang::verify {

// A vector clock: the number of steps of each line that are known to be over. A line is an agent,
// or a pipe of an engine that works for an agent. The entry of an agent's own line counts the known
// steps of the other threads that the agent stands for.
class Clock {
 public:
  Clock() = default;
  explicit Clock(size_t lines) : at_(lines, 0) {}

  uint32_t operator[](size_t line) const { return at_[line]; }
  void Set(size_t line, uint32_t step) { at_[line] = std::max(at_[line], step); }
  void Join(const Clock& other) {
    for (size_t i = 0; i < at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }
  // Joins all lines except one.
  void JoinExcept(const Clock& other, size_t line) {
    uint32_t own = at_[line];
    Join(other);
    at_[line] = own;
  }

 private:
  std::vector<uint32_t> at_;
};

// The knowledge that arriving threads pass to waiting threads.
struct Knowledge {
  explicit Knowledge(size_t lines)
      : reached(lines), happened(lines), fenced(lines), published(lines) {}

  Clock reached;    // where agents have come to; of their memory it says nothing
  Clock happened;   // before
  Clock fenced;     // of it, what the async proxy sees, too
  Clock published;  // work on tensor memory that was fenced before its agent synchronized

  void Join(const Knowledge& other) {
    reached.Join(other.reached);
    happened.Join(other.happened);
    fenced.Join(other.fenced);
    published.Join(other.published);
  }
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_CLOCK_H_
