#include "verify/verify_synchronization.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/visitor.h"
#include "registry/functions.h"
#include "verify/machine.h"

namespace tilelang::verify {

namespace {

std::string Line(const ir::Span& span) {
  return span.defined() ? "line " + std::to_string(span->line) : "a statement of the compiler";
}

std::string Place(const ir::Span& span) {
  return std::string(span->file) + ":" + std::to_string(span->line) + ":" +
         std::to_string(span->column) + ":" + std::to_string(span->end_line) + ":" +
         std::to_string(span->end_column);
}

const char* What(Missing missing) {
  switch (missing) {
    case Missing::kCompletion:
      return "nothing waits for it to complete";
    case Missing::kProxyFence:
      return "no fence.proxy.async is in between";
    case Missing::kTensorFence:
      return "no tcgen05.fence orders it before what comes after the synchronization";
    case Missing::kRegisterFence:
      return "no wgmma.fence is in between";
    default:
      return "the threads do not synchronize in between";
  }
}

std::string NameOf(const Site& site) {
  return site.buffer.defined() ? std::string(site.buffer->name) : "tensor memory";
}

class Reporter {
 public:
  explicit Reporter(const Program& program) : program_(program) {}

  [[noreturn]] void Raise(const Finding& finding) const {
    switch (finding.missing) {
      case Missing::kInit:
        Throw(SpanOf(finding.later), SpanOf(finding.earlier),
              "an mbarrier is used before its initialization is certain to be seen");
      case Missing::kCount:
        Throw(SpanOf(finding.later), ir::Span(),
              "more threads arrive at the mbarrier than one of its phases expects: they run ahead "
              "of the threads that wait for them");
      case Missing::kFirstFence:
        Throw(SpanOf(finding.later), ir::Span(),
              "no wgmma.fence comes before the first wgmma: it need not see its registers");
      case Missing::kPhase:
        Throw(SpanOf(finding.later), SpanOf(finding.earlier),
              "the phase after the one that " + Line(SpanOf(finding.earlier)) +
                  " waits for may complete before all threads have seen that phase: the others "
                  "would wait forever");
      case Missing::kProgress:
        Throw(SpanOf(finding.later), ir::Span(),
              "threads wait here forever for an event that never happens");
      case Missing::kDrain:
        Throw(SpanOf(finding.later), ir::Span(),
              "the block may end before this is complete: nothing waits for it");
      default:
        RaisePair(finding);
    }
  }

 private:
  ir::Span SpanOf(int step) const {
    const ir::Stmt& s = program_.step(step).stmt;
    return s.defined() ? s.span() : ir::Span();
  }

  [[noreturn]] static void Throw(const ir::Span& span, const ir::Span& other,
                                 const std::string& message) {
    std::string text = message;
    if (other.defined()) text += "\n@note[" + Place(other) + "] this comes before";
    ir::ThrowUserError(ir::ErrorClass::kSynchronization, span, text);
  }

  [[noreturn]] void RaisePair(const Finding& finding) const {
    const auto& sites = program_.sites();
    const Site& earlier = sites[static_cast<size_t>(finding.earlier)];
    const Site& later = sites[static_cast<size_t>(finding.later)];
    std::string first = std::string(earlier.writes ? "writes " : "reads ") + NameOf(earlier);
    std::string second = std::string(later.writes ? "writes " : "reads ") + NameOf(later);
    if (finding.missing == Missing::kProgramOrder) {
      Throw(later.span, earlier.span,
            Line(later.span) + " reads " + NameOf(later) + ", which " + Line(earlier.span) +
                " has not loaded for it, or has loaded again already: the program says otherwise");
    }
    Throw(later.span, earlier.span,
          Line(later.span) + " (" + Describe(later.by) + ") " + second + ", after " +
              Line(earlier.span) + " (" + Describe(earlier.by) + ") " + first + ": " +
              What(finding.missing));
  }

  const Program& program_;
};

// Runs all agents, once for each scenario.
class Runner {
 public:
  Runner(const Program& program, std::vector<Requirement> requirements)
      : program_(program), requirements_(std::move(requirements)), agents_(FindAgents(program)) {}

  // Returns why the launch could not be followed, or an empty string.
  std::string Run() {
    constexpr size_t kMostAgents = 64;
    if (agents_.size() > kMostAgents) return "its threads do too many different things";
    constexpr int64_t kBlock = 7;
    constexpr int64_t kSize = 12352;  // neither small nor a power of two, nor too large to square
    std::string obstacle = RunAs({kBlock, kSize, 1});
    std::vector<Scenario> others = {{0, kSize, 1}};
    if (!program_.parameters().empty()) others.insert(others.end(), {{0, 0, 1}, {0, 1, 1}});
    if (decided_) others.insert(others.end(), {{kBlock, kSize, 0}, {kBlock, kSize, 2}});
    for (const Scenario& other : others) {
      if (obstacle.empty()) obstacle = RunAs(other);
    }
    return obstacle;
  }

 private:
  std::string RunAs(const Scenario& scenario) {
    Instances instances;
    LeftOut left_out;
    std::vector<Trace> traces;
    for (const Agent& agent : agents_.all) {
      TraceResult result = MakeTrace(program_, agent, scenario, &instances, &left_out);
      if (!result.obstacle.empty()) return result.obstacle;
      decided_ |= result.trace.decided;
      traces.push_back(std::move(result.trace));
    }
    if (std::find(known_.begin(), known_.end(), traces) != known_.end()) return "";
    ConflictQuery conflict_test(program_, agents_, instances, scenario);
    Machine machine(program_, agents_, traces, requirements_, &conflict_test);
    if (auto finding = machine.Run()) Reporter(program_).Raise(*finding);
    known_.push_back(std::move(traces));
    return machine.obstacle();
  }

  const Program& program_;
  std::vector<Requirement> requirements_;
  Agents agents_;
  bool decided_ = false;
  std::vector<std::vector<Trace>> known_;
};

std::string VerifyLaunch(const ir::KernelLaunchNode* launch, const ir::KernelLaunchNode* original) {
  Program program(launch);
  if (!program.needs_order()) return "";
  if (!program.unsupported().empty()) return "it calls " + program.unsupported();
  std::vector<Requirement> requirements;
  if (original != nullptr) requirements = RequirementsOf(Graph(original));
  return Runner(program, std::move(requirements)).Run();
}

std::vector<const ir::KernelLaunchNode*> LaunchesOf(const ir::Func& func) {
  std::vector<const ir::KernelLaunchNode*> launches;
  if (!func.defined()) return launches;
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch != nullptr) launches.push_back(launch);
    return launch == nullptr;
  });
  return launches;
}

}  // namespace

std::vector<std::string> VerifySynchronization(const ir::Func& func, const ir::Func& original) {
  std::vector<std::string> obstacles;
  std::vector<const ir::KernelLaunchNode*> launches = LaunchesOf(func);
  std::vector<const ir::KernelLaunchNode*> originals = LaunchesOf(original);
  for (size_t i = 0; i < launches.size(); ++i) {
    bool known = originals.size() == launches.size();
    obstacles.push_back(VerifyLaunch(launches[i], known ? originals[i] : nullptr));
  }
  return obstacles;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  using Optional = ir::Optional<ir::Func>;
  registry::Functions().Add("tl.order.VerifySynchronization", [](ir::Func func, Optional original) {
    ir::Array<ir::String> obstacles;
    for (const std::string& obstacle : VerifySynchronization(func, original.value_or(ir::Func()))) {
      obstacles.push_back(obstacle);
    }
    return obstacles;
  });
}

}  // namespace tilelang::verify
