#include "emulator/divergent_program.h"

#include <algorithm>

namespace tilelang::testing {

namespace {

constexpr int kDeepest = 4;
constexpr uint32_t kThreads[] = {1, 7, 32, 32, 33, 64, 95};
constexpr uint32_t kMasks[] = {1, 3, 7, 15, 31};
// Around the number of instructions that a split runs at a time, and far from it.
constexpr uint32_t kChains[] = {1, 3, 40, 250, 255, 256, 257, 510, 512, 513, 600};
constexpr uint32_t kInLoop = 12;  // the longest chain there

}  // namespace

DivergentProgram::DivergentProgram(uint64_t seed) : random_(seed) {
  threads_ = kThreads[Below(std::size(kThreads))];
  constant_ = static_cast<uint32_t>(random_());
  const auto functions = static_cast<int>(Below(3));
  for (int f = 0; f < functions; ++f) functions_.push_back(RandomBody(0, 1, f));
  kernel_ = RandomBody(0, 0, functions);
}

DivergentProgram::Condition DivergentProgram::RandomCondition() {
  const uint32_t mask = kMasks[Below(std::size(kMasks))];
  return {static_cast<int>(Below(kRegisters)), mask, Below(mask + 1),
          static_cast<Comparison>(Below(4))};
}

std::vector<DivergentProgram::Node> DivergentProgram::RandomBody(int depth, int loops,
                                                                 int function) {
  std::vector<Node> body;
  const uint32_t count = 1 + Below(depth == 0 ? 6 : 3);
  for (uint32_t i = 0; i < count; ++i) body.push_back(RandomNode(depth, loops, function));
  return body;
}

DivergentProgram::Node DivergentProgram::RandomNode(int depth, int loops, int function) {
  Node node;
  node.to = static_cast<int>(Below(kRegisters));
  node.from = static_cast<int>(Below(kRegisters));
  node.op = static_cast<BinaryOp>(Below(5));
  node.value = static_cast<uint32_t>(random_());
  const uint32_t roll = Below(100);
  if (depth < kDeepest && roll < 30) {
    node.kind = Kind::kIf;
    node.condition = RandomCondition();
    node.body = RandomBody(depth + 1, loops, function);
    if (OneIn(2)) node.orelse = RandomBody(depth + 1, loops, function);
  } else if (depth < kDeepest && loops < 2 && roll < 42) {
    node.kind = Kind::kLoop;
    node.count = kMasks[Below(3)];
    node.body = RandomBody(depth + 1, loops + 1, function);
  } else if (depth > 0 && roll < 52) {
    node.kind = Kind::kLeave;
    node.count = Below(static_cast<uint32_t>(depth));
    node.condition = RandomCondition();
  } else if (roll < 66) {
    node.kind = Kind::kReturn;
    node.stores = !OneIn(4);
    node.condition = RandomCondition();
    if (OneIn(4)) node.condition.mask = 0;  // the same for all: always or never
  } else if (function > 0 && roll < 74) {
    node.kind = Kind::kCall;
    node.value = Below(static_cast<uint32_t>(function));
  } else if (roll < 80) {
    node.kind = Kind::kShared;
  } else if (roll < 90) {
    node.kind = Kind::kChain;
    node.count = loops == 0 ? kChains[Below(std::size(kChains))] : 1 + Below(kInLoop);
  }
  return node;
}

// ------------------------------------------------------------------------------------- meaning

uint32_t DivergentProgram::Apply(BinaryOp op, uint32_t a, uint32_t b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kXor:
      return a ^ b;
    case BinaryOp::kMin:
      return std::min(a, b);
  }
  return 0;
}

bool DivergentProgram::Holds(const Condition& condition, const State& state) {
  const uint32_t value = state.reg[condition.reg] & condition.mask;
  switch (condition.comparison) {
    case Comparison::kLess:
      return value < condition.constant;
    case Comparison::kEqual:
      return value == condition.constant;
    case Comparison::kNotEqual:
      return value != condition.constant;
    case Comparison::kGreater:
      return value > condition.constant;
  }
  return false;
}

int DivergentProgram::Execute(const std::vector<Node>& body, State* state) const {
  for (const Node& node : body) {
    const int end = Execute(node, state);
    if (end != kOn) return end;
  }
  return kOn;
}

int DivergentProgram::Execute(const Node& node, State* state) const {
  // Leaving a construct leaves one less of those around it.
  const auto around = [](int end) {
    return end == kOn || end == kReturned ? end : end == 0 ? kOn : end - 1;
  };
  uint32_t& to = state->reg[node.to];
  switch (node.kind) {
    case Kind::kBinary:
      to = Apply(node.op, state->reg[node.from], node.value);
      return kOn;
    case Kind::kChain:
      for (uint32_t i = 0; i < node.count; ++i) to = Apply(node.op, to, node.value);
      return kOn;
    case Kind::kIf:
      return around(Execute(Holds(node.condition, *state) ? node.body : node.orelse, state));
    case Kind::kLoop:
      for (uint32_t trips = state->reg[node.from] & node.count; trips > 0; --trips) {
        const int end = Execute(node.body, state);
        if (end != kOn) return around(end);
      }
      return kOn;
    case Kind::kLeave:
      return Holds(node.condition, *state) ? static_cast<int>(node.count) : kOn;
    case Kind::kReturn:
      if (!Holds(node.condition, *state)) return kOn;
      state->stored = node.stores;
      state->result = state->reg[node.from];
      return kReturned;
    case Kind::kCall: {
      State inner;
      inner.reg[0] = state->reg[node.from];
      for (int r = 1; r < kRegisters; ++r) inner.reg[r] = inner.reg[0] + static_cast<uint32_t>(r);
      const bool returned = Execute(functions_[node.value], &inner) == kReturned;
      to = returned && inner.stored ? inner.result : inner.reg[0];
      return kOn;
    }
    case Kind::kShared:
      to += state->reg[node.from];
      return kOn;
  }
  return kOn;
}

uint32_t DivergentProgram::ResultOf(uint32_t cta, uint32_t threads, uint32_t thread,
                                    uint32_t untouched) const {
  State state;
  state.reg[0] = thread;
  state.reg[1] = thread * 2654435761u;
  state.reg[2] = cta;
  state.reg[3] = constant_;
  state.reg[4] = threads - thread;
  if (Execute(kernel_, &state) != kReturned) return state.reg[0];
  return state.stored ? state.result : untouched;
}

// ---------------------------------------------------------------------------------------- text

// Writes one function.
struct DivergentProgram::Writer {
  explicit Writer(bool is_kernel) : is_kernel(is_kernel) {}

  bool is_kernel;
  std::string text;
  std::vector<int> ends;  // labels behind the constructs around
  int labels = 0;
  int loops = 0;

  static std::string R(int reg) { return "%r" + std::to_string(reg); }
  static std::string L(int label) { return "L" + std::to_string(label); }
  void Line(const std::string& line) { text += line + ";\n"; }
  void Label(int label) { text += L(label) + ":\n"; }

  // %p0 holds where the condition does.
  void Test(const Condition& condition) {
    static constexpr const char* kNames[] = {"lt", "eq", "ne", "gt"};
    Line("and.b32 %t, " + R(condition.reg) + ", " + std::to_string(condition.mask));
    Line(std::string("setp.") + kNames[static_cast<int>(condition.comparison)] + ".u32 %p0, %t, " +
         std::to_string(condition.constant));
  }
  void Store(const std::string& value) {
    Line((is_kernel ? "st.global.u32 [%out], " : "st.param.b32 [result], ") + value);
  }
  void Apply(BinaryOp op, int to, int from, uint32_t value) {
    static constexpr const char* kNames[] = {"add.u32", "sub.u32", "mul.lo.u32", "xor.b32",
                                             "min.u32"};
    Line(std::string(kNames[static_cast<int>(op)]) + " " + R(to) + ", " + R(from) + ", " +
         std::to_string(value));
  }
  void Write(const std::vector<Node>& body) {
    for (const Node& node : body) Write(node);
  }
  void Write(const Node& node);
  void WriteIf(const Node& node);
  void WriteLoop(const Node& node);
  void WriteReturn(const Node& node);
  void WriteCall(const Node& node);
};

void DivergentProgram::Writer::WriteIf(const Node& node) {
  const int other = labels++, end = labels++;
  ends.push_back(end);
  Test(node.condition);
  Line("@!%p0 bra " + L(other));
  Write(node.body);
  Line("bra " + L(end));
  Label(other);
  Write(node.orelse);
  Label(end);
  ends.pop_back();
}

void DivergentProgram::Writer::WriteLoop(const Node& node) {
  const int begin = labels++, end = labels++;
  const std::string counter = "%c" + std::to_string(loops);
  ends.push_back(end);
  ++loops;
  Line("and.b32 " + counter + ", " + R(node.from) + ", " + std::to_string(node.count));
  Label(begin);
  Line("setp.eq.u32 %p0, " + counter + ", 0");
  Line("@%p0 bra " + L(end));
  Write(node.body);
  Line("sub.u32 " + counter + ", " + counter + ", 1");
  Line("bra " + L(begin));
  Label(end);
  --loops;
  ends.pop_back();
}

void DivergentProgram::Writer::WriteReturn(const Node& node) {
  Test(node.condition);
  // A function gives its result whether it was stored before or not.
  const std::string value = R(node.stores || is_kernel ? node.from : 0);
  const bool stores = node.stores || !is_kernel;
  if (node.value % 2 == 0) {
    text += "@%p0 ";
    if (stores) Store(value);
    if (stores) text += "@%p0 ";
    Line("ret");
    return;
  }
  const int on = labels++;
  Line("@!%p0 bra " + L(on));
  if (stores) Store(value);
  Line("ret");
  Label(on);
}

void DivergentProgram::Writer::WriteCall(const Node& node) {
  text += "{ .param .b32 given; .param .b32 got;\n";
  Line("st.param.b32 [given], " + R(node.from));
  Line("call (got), f" + std::to_string(node.value) + ", (given)");
  Line("ld.param.b32 " + R(node.to) + ", [got]");
  text += "}\n";
}

void DivergentProgram::Writer::Write(const Node& node) {
  switch (node.kind) {
    case Kind::kBinary:
      return Apply(node.op, node.to, node.from, node.value);
    case Kind::kChain:
      for (uint32_t i = 0; i < node.count; ++i) Apply(node.op, node.to, node.to, node.value);
      return;
    case Kind::kIf:
      return WriteIf(node);
    case Kind::kLoop:
      return WriteLoop(node);
    case Kind::kLeave:
      Test(node.condition);
      return Line("@%p0 bra " + L(ends[ends.size() - 1 - node.count]));
    case Kind::kReturn:
      return WriteReturn(node);
    case Kind::kCall:
      return WriteCall(node);
    case Kind::kShared:
      Line("st.shared.u32 [%own], " + R(node.from));
      Line("ld.shared.u32 %t, [%own]");
      return Line("add.u32 " + R(node.to) + ", " + R(node.to) + ", %t");
  }
}

std::string DivergentProgram::Ptx() const {
  const std::string registers =
      ".reg .b32 %r<8>, %c<4>, %t, %own, %base; .reg .b64 %out, %at; .reg .pred %p<2>;\n"
      "mov.u32 %t, %tid.x; shl.b32 %own, %t, 2; mov.u32 %base, words;"
      " add.u32 %own, %own, %base;\n";
  std::string text = ".version 8.7\n.target sm_100a\n.address_size 64\n.shared .b32 words[128];\n";
  for (size_t f = 0; f < functions_.size(); ++f) {
    Writer writer(false);
    writer.Write(functions_[f]);
    text += ".func (.param .b32 result) f" + std::to_string(f) + "(.param .b32 value) {\n" +
            registers + "ld.param.b32 %r0, [value];\n";
    for (int r = 1; r < kRegisters; ++r) {
      text += "add.u32 " + Writer::R(r) + ", %r0, " + std::to_string(r) + ";\n";
    }
    text += writer.text + "st.param.b32 [result], %r0;\nret;\n}\n";
  }
  Writer writer(true);
  writer.Write(kernel_);
  return text + ".visible .entry k(.param .u64 k_out) {\n" + registers +
         "ld.param.u64 %out, [k_out]; mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, 2654435761;\n"
         "mov.u32 %r2, %ctaid.x; mov.u32 %r3, " +
         std::to_string(constant_) +
         "; mov.u32 %t, %ntid.x; sub.u32 %r4, %t, %r0;\n"
         "mad.lo.u32 %t, %r2, %t, %r0; mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at;\n" +
         writer.text + "st.global.u32 [%out], %r0;\nret;\n}\n";
}

}  // namespace tilelang::testing
