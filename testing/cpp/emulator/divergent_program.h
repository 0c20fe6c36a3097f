// Random PTX programs whose lanes part, and what each lane computes alone.
#ifndef TILELANG_TESTING_CPP_EMULATOR_DIVERGENT_PROGRAM_H_
#define TILELANG_TESTING_CPP_EMULATOR_DIVERGENT_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tilelang::testing {

// A kernel `k(out)` and the functions that it calls. Branches and trip counts depend on the lane;
// loops and branches are left by jumps out of several of them and by `ret`, with and without a
// store before it. The thread with index i of all writes to out[i], or nothing.
class DivergentProgram {
 public:
  explicit DivergentProgram(uint64_t seed);

  std::string Ptx() const;
  // What thread `thread` of CTA `cta`, of `threads` threads, writes; `untouched` if it does not.
  uint32_t ResultOf(uint32_t cta, uint32_t threads, uint32_t thread, uint32_t untouched) const;
  uint32_t threads() const { return threads_; }

 private:
  static constexpr int kRegisters = 5;

  enum class Kind : uint8_t { kBinary, kChain, kIf, kLoop, kLeave, kReturn, kCall, kShared };
  enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kXor, kMin };
  enum class Comparison : uint8_t { kLess, kEqual, kNotEqual, kGreater };
  // (register & mask) compared with a constant.
  struct Condition {
    int reg = 0;
    uint32_t mask = 1, constant = 0;
    Comparison comparison = Comparison::kLess;
  };
  struct Node {
    Kind kind = Kind::kBinary;
    BinaryOp op = BinaryOp::kAdd;
    int to = 0, from = 0;
    uint32_t value = 0;  // kBinary, kChain: an operand; kCall: the function
    uint32_t count = 0;  // kChain: instructions; kLoop: most trips; kLeave: constructs left
    bool stores = true;  // kReturn
    Condition condition;
    std::vector<Node> body, orelse;
  };
  struct State {
    uint32_t reg[kRegisters] = {};
    bool stored = false;
    uint32_t result = 0;
  };

  // How a list of statements ends: kOn, kReturned, or how many constructs more are left.
  static constexpr int kOn = -1;
  static constexpr int kReturned = 1 << 20;

  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  Condition RandomCondition();
  std::vector<Node> RandomBody(int depth, int loops, int function);
  Node RandomNode(int depth, int loops, int function);

  static uint32_t Apply(BinaryOp op, uint32_t a, uint32_t b);
  static bool Holds(const Condition& condition, const State& state);
  int Execute(const std::vector<Node>& body, State* state) const;
  int Execute(const Node& node, State* state) const;

  struct Writer;

  std::mt19937_64 random_;
  uint32_t threads_ = 32;
  uint32_t constant_ = 0;
  std::vector<std::vector<Node>> functions_;  // each calls those before it
  std::vector<Node> kernel_;
};

}  // namespace tilelang::testing

#endif  // TILELANG_TESTING_CPP_EMULATOR_DIVERGENT_PROGRAM_H_
