#include "verify/trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include "arith/analyzer.h"
#include "ir/async.h"
#include "ir/launch_extent.h"
#include "ir/next_tile.h"
#include "ir/padded.h"
#include "ir/visitor.h"
#include "layout/tcgen05_layout.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr size_t kMostEvents = 200000;
// Values of Scenario::decisions: up to 1 all branches go the same way, taken if 1. Larger values
// are seeds of decisions that all agents in the same iteration share.
constexpr uint64_t kAllTaken = 1;

struct Obstacle {
  std::string why;
};

class Tracer {
 public:
  Tracer(const Program& program, const Agent& agent, const Scenario& scenario, Instances* instances,
         LeftOut* left_out)
      : program_(program),
        scenario_(scenario),
        instances_(instances),
        left_out_(left_out),
        env_(agent.elected) {
    env_.SetBase(program.tmem_slot());
    SetLaunch(agent.thread);
    ir::WalkStmts(program.launch()->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      // The number of tiles is not known either.
      if (alloc != nullptr && alloc->buffer->attrs.count(ir::kTileNumbers)) trace_.decided = true;
      const auto* loop = s.as<ir::ForNode>();
      auto split = loop != nullptr ? loop->annotations.Get(ir::kSplitLoop) : std::nullopt;
      if (!split) return true;
      auto numbers = (*split).cast<ir::Array<int64_t>>();
      if (numbers[1] == 1) rests_[numbers[0]] = loop;
      return true;
    });
  }

  Trace Run() {
    Visit(program_.root());
    return std::move(trace_);
  }

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  void SetLaunch(int64_t thread);
  Flow Visit(const Step& step);
  Flow VisitIf(const Step& step);
  Flow VisitElse(const Step& step);
  Flow VisitFor(const Step& step);
  Flow VisitWhile(const Step& step);
  Flow VisitParts(const Step& step);
  void Set(const Step& step);
  void Own(const Step& step);
  void Operate(const Step& step);
  void Barrier(const Step& step, const Operation& operation);
  void SetBarrier(const Expr& address, Event* event);
  void AddTouches(const Step& step, const ir::CallNode* call, Event* event);
  // Returns the bytes that a TMA load brings to its mbarrier.
  int64_t BytesOf(const ir::Call& load, const Event& event) const;
  Touch TouchOf(int id, const ir::CallNode* call, int instance);
  void Add(const Event& event) {
    if (trace_.events.size() >= kMostEvents) throw Obstacle{"it does too much"};
    trace_.events.push_back(event);
  }
  int64_t Number(const Expr& e, const char* what) {
    Value value = env_.Evaluate(e);
    if (!value.IsNumber()) throw Obstacle{std::string(what) + " is not known"};
    return value.number;
  }
  bool Decide(const Step& step) {
    trace_.decided = true;
    if (scenario_.decisions <= kAllTaken) return scenario_.decisions == kAllTaken;
    return (Arbitrary(scenario_.decisions + static_cast<uint64_t>(step.id), iteration_) & 1) != 0;
  }
  // Returns the tile that a scheduler gives in this iteration, the same to all agents: the first
  // tile, or none.
  int64_t NextTile() const {
    constexpr int64_t kNone = -1;
    if (scenario_.decisions <= kAllTaken) return scenario_.decisions == kAllTaken ? 0 : kNone;
    return Arbitrary(scenario_.decisions, iteration_) % 4 == 0 ? kNone : 0;
  }
  int64_t ExtentOf(const ir::ForNode* loop);
  // Returns the number of iterations before a loop that was split from another one, and the number
  // of iterations of both loops.
  std::pair<int64_t, int64_t> PlaceInWhole(const ir::ForNode* loop, int64_t extent);
  // Runs one iteration of a loop.
  template <typename Fn>
  bool Iterate(int64_t number, const Fn& body);

  const Program& program_;
  const Scenario& scenario_;
  Instances* instances_;
  LeftOut* left_out_;
  Environment env_;
  uint64_t iteration_ = 0;  // combines the iterations of all loops around
  // The second loops of pairs, and the number of iterations of the first ones.
  std::map<int64_t, const ir::ForNode*> rests_;
  std::map<int64_t, int64_t> before_rest_;
  Trace trace_;
};

void Tracer::SetLaunch(int64_t thread) {
  const ir::KernelLaunchNode* launch = program_.launch();
  for (size_t i = 0; i < launch->thread_vars.size(); ++i) {
    int64_t extent = *ir::AsInt(launch->threads[i]);
    env_.Set(launch->thread_vars[i], Value::Number(thread % extent));
    thread /= extent;
  }
  for (const auto& [var, value] : ConstantsOf(program_, scenario_)) {
    env_.Set(var, Value::Number(value));
  }
}

Tracer::Flow Tracer::VisitParts(const Step& step) {
  for (const auto& part : step.parts) {
    Flow flow = Visit(*part);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Tracer::Flow Tracer::Visit(const Step& step) {
  switch (step.kind) {
    case StepKind::kSeq:
      return VisitParts(step);
    case StepKind::kIf:
      return VisitIf(step);
    case StepKind::kFor:
      return VisitFor(step);
    case StepKind::kWhile:
      return VisitWhile(step);
    case StepKind::kLeave:
      return step.stmt->kind == ir::StmtKind::kBreak ? Flow::kBreak : Flow::kContinue;
    case StepKind::kSet:
      Own(step);
      Set(step);
      return Flow::kOn;
    case StepKind::kAccess:
      Own(step);
      return Flow::kOn;
    case StepKind::kOperation:
      Operate(step);
      return Flow::kOn;
  }
  return Flow::kOn;
}

Tracer::Flow Tracer::VisitIf(const Step& step) {
  const Expr& e = step.stmt.as<ir::IfNode>()->condition;
  // An agent that fails the condition before the election takes no part in the election.
  Value whoever = env_.EvaluateElected(e);
  if (whoever.IsNumber() && whoever.number == 0) return VisitElse(step);
  Own(step);
  Value condition = env_.Evaluate(e);
  bool taken = condition.IsNumber() ? condition.number != 0 : Decide(step);
  return taken ? Visit(*step.parts[0]) : VisitElse(step);
}

Tracer::Flow Tracer::VisitElse(const Step& step) {
  return step.has_else ? Visit(*step.parts[1]) : Flow::kOn;
}

template <typename Fn>
bool Tracer::Iterate(int64_t number, const Fn& body) {
  uint64_t outer = iteration_;
  iteration_ = Arbitrary(outer, static_cast<uint64_t>(number));
  env_.SetTile(NextTile());
  Flow flow = body();
  iteration_ = outer;
  env_.SetTile(NextTile());
  return flow != Flow::kBreak;
}

Tracer::Flow Tracer::VisitFor(const Step& step) {
  const auto* op = step.stmt.as<ir::ForNode>();
  Own(step);
  int64_t min = Number(op->min, "the range of a loop");
  int64_t extent = ExtentOf(op);
  auto [before, whole] = PlaceInWhole(op, extent);
  constexpr int64_t kLast = 3;
  int64_t first = program_.period() + 2;
  int64_t left_out = left_out_->Of(op->span, iteration_, whole, first + kLast, program_.period());
  for (int64_t i = 0; i < extent; ++i) {
    if (before + i >= first) i = std::max(i, std::min(extent, first + left_out - before));
    if (i == extent) break;
    env_.Set(op->var, Value::Number(min + i));
    if (!Iterate(i, [&] { return VisitParts(step); })) break;
  }
  return Flow::kOn;
}

int64_t Tracer::ExtentOf(const ir::ForNode* loop) {
  constexpr int64_t kUnknownExtent = 3;
  Value known = env_.Evaluate(loop->extent);
  return known.IsNumber() ? known.number : kUnknownExtent;
}

std::pair<int64_t, int64_t> Tracer::PlaceInWhole(const ir::ForNode* loop, int64_t extent) {
  auto split = loop->annotations.Get(ir::kSplitLoop);
  if (!split) return {0, extent};
  int64_t pair = (*split).cast<ir::Array<int64_t>>()[0];
  bool is_rest = (*split).cast<ir::Array<int64_t>>()[1] == 1;
  if (is_rest) return {before_rest_[pair], before_rest_[pair] + extent};
  before_rest_[pair] = extent;
  auto rest = rests_.find(pair);
  return {0, extent + (rest == rests_.end() ? 0 : ExtentOf(rest->second))};
}

Tracer::Flow Tracer::VisitWhile(const Step& step) {
  const Expr& condition = step.stmt.as<ir::WhileNode>()->condition;
  for (int64_t i = 0; i < program_.period() + 2; ++i) {
    Own(step);
    Value holds = env_.Evaluate(condition);
    if (holds.IsNumber() ? holds.number == 0 : i == 2) break;
    if (!Iterate(i, [&] { return VisitParts(step); })) break;
  }
  return Flow::kOn;
}

void Tracer::Set(const Step& step) {
  if (const auto* op = step.stmt.as<ir::BindNode>()) {
    env_.Set(op->var, env_.Evaluate(op->value));
  } else if (const auto* op = step.stmt.as<ir::StoreNode>()) {
    env_.Store(op->buffer, env_.Evaluate(op->indices[0]), env_.Evaluate(op->value));
  } else if (const auto* op = step.stmt.as<ir::AllocNode>()) {
    Value value = env_.Evaluate(op->buffer->attrs["init"].cast<Expr>());
    env_.Store(op->buffer, Value::Number(0), value);
  }
}

// Adds the accesses and barriers of a statement that is not an operation.
void Tracer::Own(const Step& step) {
  for (const Expr& e : step.barriers) Barrier(step, OperationOf(e.as<ir::CallNode>()));
  if (step.sites.empty()) return;
  Event event{step.id};
  AddTouches(step, nullptr, &event);
  Add(event);
}

void Tracer::Barrier(const Step& step, const Operation& operation) {
  Event event{step.id, operation.kind};
  constexpr int64_t kOfRanges = 16;  // beyond the numbers that barriers have
  if (operation.barrier.defined()) {
    int64_t number = Number(operation.barrier, "the number of a barrier");
    event.element = number + (operation.of_range ? kOfRanges : 0);
    event.number = Number(operation.number, "the threads of a barrier");
  }
  Add(event);
}

void Tracer::SetBarrier(const Expr& address, Event* event) {
  // Programs name the element of the barrier, and not its address.
  const auto* load = address.as<ir::LoadNode>();
  Value value =
      env_.Evaluate(load == nullptr ? address : ir::AddressOf(load->buffer, load->indices));
  if (!value.IsAddress()) throw Obstacle{"which mbarrier is used is not known"};
  event->barrier = value.buffer;
  event->element = value.number;
}

void Tracer::Operate(const Step& step) {
  const Operation& operation = step.operation;
  Event event{step.id, operation.kind};
  switch (event.kind) {
    case OperationKind::kBarrier:
      return Barrier(step, operation);
    case OperationKind::kHold:
      return;
    case OperationKind::kArrive:
    case OperationKind::kCommitTensorCore:
    case OperationKind::kTmaLoad:
      SetBarrier(operation.barrier, &event);
      break;
    case OperationKind::kInit:
    case OperationKind::kExpect:
    case OperationKind::kArriveExpect:
    case OperationKind::kWaitPhase:
      SetBarrier(operation.barrier, &event);
      event.number = Number(operation.number, "an argument of an mbarrier");
      break;
    case OperationKind::kWaitStores:
    case OperationKind::kWaitCopies:
    case OperationKind::kWaitWgmma:
      event.number = operation.left;
      break;
    default:
      break;
  }
  ir::Call call = CallOf(step.stmt);
  AddTouches(step, call.get(), &event);
  if (event.kind == OperationKind::kTmaLoad) event.number = BytesOf(call, event);
  Add(event);
}

int64_t Tracer::BytesOf(const ir::Call& load, const Event& event) const {
  if (auto packed = load->attrs.Get(ir::kPackedBytes)) return (*packed).cast<int64_t>();
  int64_t bytes = 0;
  for (size_t i = 0; i < event.num_touches; ++i) {
    const Touch& touch = trace_.touches[event.first_touch + i];
    bytes += touch.end - touch.begin;
  }
  return bytes;
}

Touch Tracer::TouchOf(int id, const ir::CallNode* call, int instance) {
  const Site& site = program_.sites()[static_cast<size_t>(id)];
  Touch touch{id, site.begin, site.end, 0, 0, instance, iteration_};
  Value at = site.argument >= 0 && call != nullptr
                 ? env_.Evaluate(call->args[static_cast<size_t>(site.argument)])
                 : Value();
  if (site.space == Space::kTmem) {
    touch.end = layout::kTmemColumns;
    touch.end_lane = layout::kTmemLanes;
    if (!at.IsNumber()) return touch;
    touch.begin = at.number & 0xFFFF;
    touch.end = touch.begin + site.extent;
    touch.first_lane = at.number >> 16;
    touch.end_lane = std::min(layout::kTmemLanes, touch.first_lane + site.lanes);
    return touch;
  }
  bool part = site.by != OperationKind::kNone && site.extent > 0 && at.IsAddress();
  if (!part) return touch;
  bool exact = site.by == OperationKind::kTmaLoad || site.by == OperationKind::kTmaStore;
  int64_t first = exact ? at.number : at.number / site.extent * site.extent;
  int64_t bits = site.buffer->dtype.bits;
  touch.begin = site.begin + first * bits / 8;
  touch.end = touch.begin + site.extent * bits / 8;
  return touch;
}

void Tracer::AddTouches(const Step& step, const ir::CallNode* call, Event* event) {
  event->first_touch = trace_.touches.size();
  event->num_touches = step.sites.size();
  int instance = 0;
  if (!step.free.empty()) {
    std::vector<Value> values;
    for (const ir::ffi::ObjectRef& object : step.free) {
      auto buffer = object.as<ir::Buffer>();
      values.push_back(buffer ? env_.Evaluate(ir::Load(*buffer, {ir::Expr(0)}))
                              : env_.Evaluate(object.as<Expr>().value()));
    }
    instance = instances_->NumberOf(values);
  }
  for (int id : step.sites) trace_.touches.push_back(TouchOf(id, call, instance));
}

// The extents of a grid where all parameters have this size; none for one that other values decide.
std::vector<std::optional<int64_t>> GridFor(const Program& program, int64_t size) {
  ir::Map<ir::Var, Expr> sizes;
  for (const ir::Var& var : program.parameters()) sizes.Set(var, ir::Const(var.dtype(), size));
  arith::Analyzer analyzer;
  std::vector<std::optional<int64_t>> grid;
  for (const Expr& extent : program.launch()->grid) {
    grid.push_back(ir::AsInt(analyzer.Simplify(ir::Substitute(extent, sizes))));
  }
  return grid;
}

// Returns whether the host leaves a launch out by its condition, if all parameters have this size.
bool IsLeftOut(const Program& program, int64_t size) {
  ir::Map<ir::Var, Expr> sizes;
  for (const ir::Var& var : program.parameters()) sizes.Set(var, ir::Const(var.dtype(), size));
  arith::Analyzer analyzer;
  const auto& grid = program.launch()->grid;
  return std::any_of(grid.begin(), grid.end(), [&](const Expr& extent) {
    Expr one = ir::Const(extent.dtype(), 1);
    Expr exists = ir::Substitute(ir::EmptyLike(extent, one), sizes);
    return ir::IsConst(analyzer.Simplify(exists), 0);
  });
}

bool IsEmpty(const std::vector<std::optional<int64_t>>& grid) {
  return std::any_of(grid.begin(), grid.end(), [](auto extent) { return extent && *extent <= 0; });
}

// Returns the size of a call that has blocks of the launch, next to the wanted one: a launch that
// the host leaves out in calls of that size is for smaller or larger ones, or for multiples of a
// number and a rest.
int64_t SizeFor(const Program& program, int64_t wanted) {
  constexpr int64_t kLargest = 1 << 16;
  constexpr int64_t kRests = 16;
  bool exists = !IsEmpty(GridFor(program, wanted));
  if (exists || (wanted <= 1 && !IsLeftOut(program, wanted))) return wanted;
  auto near = [&](int64_t size) {
    int64_t rest = 0;
    while (rest < kRests && IsEmpty(GridFor(program, size + rest))) ++rest;
    return rest < kRests ? std::optional(size + rest) : std::nullopt;
  };
  for (int64_t size = wanted; size > 1; size /= 2) {
    if (auto found = near(size)) return *found;
  }
  for (int64_t size = std::max<int64_t>(wanted, 1) * 2; size <= kLargest; size *= 2) {
    if (auto found = near(size)) return *found;
  }
  return std::min<int64_t>(wanted, 1);
}

}  // namespace

int Instances::NumberOf(const std::vector<Value>& values) {
  Key key;
  for (const Value& value : values) {
    key.emplace_back(static_cast<int>(value.kind), value.IsNumber() ? value.number : 0);
  }
  auto [it, is_new] = numbers_.try_emplace(key, static_cast<int>(values_.size()) + 1);
  if (is_new) values_.push_back(values);
  return it->second;
}

int64_t LeftOut::Of(const ir::Span& loop, uint64_t around, int64_t extent, int64_t least,
                    int64_t period) {
  constexpr int64_t kNear = 2;  // iterations that another role runs before or after its loop
  auto same_loop = [&](const ir::Span& other) {
    return loop.defined() && other.defined() && loop->line == other->line &&
           loop->column == other->column && loop->file == other->file;
  };
  auto belongs = [&](const Execution& other) {
    bool near = extent - other.extent <= kNear && other.extent - extent <= kNear;
    return near && other.left_out % period == 0;
  };
  auto found = std::find_if(known_.begin(), known_.end(), [&](const Execution& other) {
    return belongs(other) && other.around == around && same_loop(other.loop);
  });
  if (found != known_.end()) return found->left_out;
  found = std::find_if(known_.begin(), known_.end(),
                       [&](const Execution& other) { return belongs(other) && !other.as_another; });
  int64_t most = std::max<int64_t>(0, extent - least - kNear);
  bool as_another = found != known_.end();
  int64_t left_out = as_another ? found->left_out : most / period * period;
  known_.push_back({loop, around, extent, left_out, as_another});
  return left_out;
}

std::vector<std::pair<ir::Var, int64_t>> ConstantsOf(const Program& program,
                                                     const Scenario& scenario) {
  int64_t size = SizeFor(program, scenario.size);
  std::vector<std::optional<int64_t>> grid = GridFor(program, size);
  std::vector<std::pair<ir::Var, int64_t>> constants;
  const ir::KernelLaunchNode* launch = program.launch();
  for (size_t i = 0; i < launch->block_vars.size(); ++i) {
    int64_t last = grid[i] ? std::max<int64_t>(*grid[i], 1) - 1 : scenario.block;
    constants.emplace_back(launch->block_vars[i], std::min(scenario.block, last));
  }
  for (const ir::Var& var : program.parameters()) constants.emplace_back(var, size);
  return constants;
}

TraceResult MakeTrace(const Program& program, const Agent& agent, const Scenario& scenario,
                      Instances* instances, LeftOut* left_out) {
  try {
    return {Tracer(program, agent, scenario, instances, left_out).Run(), ""};
  } catch (const Obstacle& obstacle) {
    return {{}, obstacle.why};
  }
}

}  // namespace tilelang::verify
