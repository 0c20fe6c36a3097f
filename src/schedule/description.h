// The decisions about the loops of a launch, as data. Python renders them (tilelang/schedule).
#ifndef TILELANG_SCHEDULE_DESCRIPTION_H_
#define TILELANG_SCHEDULE_DESCRIPTION_H_

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "op/context.h"
#include "schedule/ring.h"

namespace tilelang::schedule {

// One thing that a role does, in its place: an operator, a wait, an arrival; or a loop or a branch
// with a body of its own.
class StepNode : public tvm::ffi::Object {
 public:
  // "loop", "if", "wait", "arrive", "sync", "load", "store", "copy", "gemm", "reduce",
  // "elementwise", "commit" or "call".
  ir::String action;
  ir::String subject;    // "a, b -> c" of operators; the barrier; the loop's variable; a condition
  ir::String iteration;  // "" is that of the loop around; else "i+1", "i-1", "first", "last"
  ir::String engine;     // "threads", "TMA", "tcgen05", "wgmma", "mma.sync", ...
  ir::String barrier;    // on which it completes, or that it waits for or arrives on
  // The work of one execution: "global", "shared" or "tmem" bytes, "flops" of a gemm and the "bits"
  // of its operands, "mufu" and "fp32" operations. Work that does not follow from constants is left
  // out.
  ir::Map<ir::String, int64_t> work;
  // The number of a barrier among several; the groups of wgmma or cp.async that a wait leaves in
  // flight; the number of a branch among groups of threads. -1: the threads' own, or all.
  int64_t index = -1;
  int64_t stages = 0;  // of a loop: num_stages; 0: it is not pipelined
  int64_t trips = -1;  // of a loop; -1: not constant
  ir::Array<ir::Any> body;
  ir::Span span;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.Step", StepNode, tvm::ffi::Object);
};

// Threads with a program of their own.
class RoleNode : public tvm::ffi::Object {
 public:
  ir::String name;  // "load", "mma", "threads"
  int64_t first = 0;
  int64_t threads = 0;
  int64_t registers = 0;  // of a thread; 0: as launched
  ir::Array<ir::Any> steps;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.Role", RoleNode, tvm::ffi::Object);
};

// A channel by which tiles or turns cross from one role to another.
class ChannelNode : public tvm::ffi::Object {
 public:
  ir::String name;
  ir::Array<ir::String> tiles;
  ir::String memory;  // "shared", "tensor memory"; "" of turns
  int64_t slots = 0;
  int64_t slot_bytes = 0;
  ir::String full;      // the barrier on which a slot is filled, or a turn begins
  ir::String empty;     // on which it is given back, or the turn ends
  ir::String producer;  // roles
  ir::String consumer;
  ir::String release;  // "tcgen05.commit", or how many threads arrive

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.Channel", ChannelNode, tvm::ffi::Object);
};

class LaunchScheduleNode : public tvm::ffi::Object {
 public:
  ir::Array<ir::Any> roles;
  ir::Array<ir::Any> channels;
  ir::Array<ir::Any> epilogues;  // in slices
  ir::Array<ir::Any> tiles;      // candidates for the tiles of the GEMM
  ir::Span span;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.LaunchSchedule", LaunchScheduleNode,
                                    tvm::ffi::Object);
};

// The iterations to which statements of a role belong, if it is not the iteration around them. The
// code that writes the role adds the notes. A statement at several places has one note for each, in
// program order.
class IterationNotes {
 public:
  void Note(const ir::Stmt& s, const std::string& iteration) {
    Places& places = notes_[s.get()];
    places.stmt = s;
    places.iterations.push_back(iteration);
  }
  // Returns the note of the next place.
  std::string Next(const ir::Stmt& s) {
    auto it = notes_.find(s.get());
    if (it == notes_.end() || it->second.next == it->second.iterations.size()) return "";
    return it->second.iterations[it->second.next++];
  }

 private:
  struct Places {
    ir::Stmt stmt;
    std::vector<std::string> iterations;
    size_t next = 0;
  };
  std::unordered_map<const tvm::ffi::Object*, Places> notes_;
};

// The name of the iteration `distance` after that of the loop.
std::string IterationName(const ir::ForNode* loop, int64_t distance);

// The description of a launch, put together while it is divided into roles.
class Description {
 public:
  explicit Description(const ir::KernelLaunchNode* launch);

  void AddRole(const std::string& name, const op::ThreadRange& threads, int64_t registers,
               const ir::Stmt& program);
  // `release`: what gives a slot back.
  void AddRing(const Ring& ring, const std::string& producer, const std::string& consumer,
               const std::string& release);
  // Turns of the role `mma` for each of some blocks of rows.
  void AddTurns(const std::string& name, const ir::Buffer& ready, const ir::Buffer& done,
                int64_t blocks, const std::string& threads, const std::string& mma);
  // Hands it to the collector of this thread, if there is one.
  void Record() const;

  IterationNotes notes;

 private:
  tvm::ffi::ObjectPtr<LaunchScheduleNode> launch_;
};

// Collects the descriptions recorded on this thread during its life.
class DescriptionCollector {
 public:
  DescriptionCollector();
  ~DescriptionCollector();
  DescriptionCollector(const DescriptionCollector&) = delete;
  DescriptionCollector& operator=(const DescriptionCollector&) = delete;

  const ir::Array<ir::Any>& launches() const { return launches_; }

 private:
  friend class Description;
  ir::Array<ir::Any> launches_;
  DescriptionCollector* outer_;
};

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_DESCRIPTION_H_
