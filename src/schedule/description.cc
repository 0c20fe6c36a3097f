#include "schedule/description.h"

#include <tvm/ffi/reflection/registry.h>

#include "layout/layout.h"
#include "schedule/describe_steps.h"
#include "schedule/epilogue_note.h"
#include "schedule/tile_note.h"

namespace tilelang::schedule {

using ir::Buffer;

namespace {

thread_local DescriptionCollector* current = nullptr;

// Bytes of all elements, of tiles in tensor memory as well.
int64_t BytesOf(const Buffer& buffer) {
  auto shape = ir::AsInts(buffer->shape);
  return shape ? layout::Product(*shape) * buffer->dtype.bits / 8 : 0;
}

}  // namespace

std::string IterationName(const ir::ForNode* loop, int64_t distance) {
  if (distance == 0) return "";
  std::string number = std::to_string(distance);
  return std::string(loop->var->name) + (distance > 0 ? "+" : "") + number;
}

Description::Description(const ir::KernelLaunchNode* launch)
    : launch_(tvm::ffi::make_object<LaunchScheduleNode>()) {
  launch_->span = launch->span;
  auto epilogues = launch->attrs.Get(kEpilogueNotes);
  if (epilogues) launch_->epilogues = (*epilogues).cast<ir::Array<ir::Any>>();
  auto tiles = launch->attrs.Get(kTileCandidates);
  if (tiles) launch_->tiles = (*tiles).cast<ir::Array<ir::Any>>();
}

void Description::AddRole(const std::string& name, const op::ThreadRange& threads,
                          int64_t registers, const ir::Stmt& program) {
  auto role = tvm::ffi::make_object<RoleNode>();
  role->name = name;
  role->first = threads.begin;
  role->threads = threads.count;
  role->registers = registers;
  role->steps = DescribeSteps(program, &notes);
  launch_->roles.push_back(tvm::ffi::ObjectRef(role));
}

void Description::AddRing(const Ring& ring, const std::string& producer,
                          const std::string& consumer, const std::string& release) {
  auto channel = tvm::ffi::make_object<ChannelNode>();
  channel->name = ring.channel->Name();
  for (const Buffer& tile : ring.channel->tiles) {
    channel->tiles.push_back(tile->name);
    channel->slot_bytes += BytesOf(tile);
  }
  channel->memory = ring.slots.front().IsTmem() ? "tensor memory" : "shared";
  channel->slots = ring.channel->slots;
  if (ring.full.defined()) channel->full = ring.full->name;
  if (ring.empty.defined()) channel->empty = ring.empty->name;
  channel->producer = producer;
  channel->consumer = consumer;
  channel->release = release;
  launch_->channels.push_back(tvm::ffi::ObjectRef(channel));
}

void Description::AddTurns(const std::string& name, const Buffer& ready, const Buffer& done,
                           int64_t blocks, const std::string& threads, const std::string& mma) {
  auto channel = tvm::ffi::make_object<ChannelNode>();
  channel->name = name;
  channel->slots = blocks;
  channel->full = ready->name;
  channel->empty = done->name;
  channel->producer = threads;
  channel->consumer = mma;
  channel->release = "tcgen05.commit";
  launch_->channels.push_back(tvm::ffi::ObjectRef(channel));
}

void Description::Record() const {
  if (current != nullptr) current->launches_.push_back(tvm::ffi::ObjectRef(launch_));
}

DescriptionCollector::DescriptionCollector() : outer_(current) { current = this; }
DescriptionCollector::~DescriptionCollector() { current = outer_; }

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<StepNode>()
      .def_ro("action", &StepNode::action)
      .def_ro("subject", &StepNode::subject)
      .def_ro("iteration", &StepNode::iteration)
      .def_ro("engine", &StepNode::engine)
      .def_ro("barrier", &StepNode::barrier)
      .def_ro("index", &StepNode::index)
      .def_ro("work", &StepNode::work)
      .def_ro("stages", &StepNode::stages)
      .def_ro("trips", &StepNode::trips)
      .def_ro("body", &StepNode::body)
      .def_ro("span", &StepNode::span);
  refl::ObjectDef<RoleNode>()
      .def_ro("name", &RoleNode::name)
      .def_ro("first", &RoleNode::first)
      .def_ro("threads", &RoleNode::threads)
      .def_ro("registers", &RoleNode::registers)
      .def_ro("steps", &RoleNode::steps);
  refl::ObjectDef<ChannelNode>()
      .def_ro("name", &ChannelNode::name)
      .def_ro("tiles", &ChannelNode::tiles)
      .def_ro("memory", &ChannelNode::memory)
      .def_ro("slots", &ChannelNode::slots)
      .def_ro("slot_bytes", &ChannelNode::slot_bytes)
      .def_ro("full", &ChannelNode::full)
      .def_ro("empty", &ChannelNode::empty)
      .def_ro("producer", &ChannelNode::producer)
      .def_ro("consumer", &ChannelNode::consumer)
      .def_ro("release", &ChannelNode::release);
  refl::ObjectDef<EpilogueNoteNode>()
      .def_ro("tile", &EpilogueNoteNode::tile)
      .def_ro("slices", &EpilogueNoteNode::slices)
      .def_ro("columns", &EpilogueNoteNode::columns)
      .def_ro("parts", &EpilogueNoteNode::parts)
      .def_ro("slots", &EpilogueNoteNode::slots)
      .def_ro("bytes", &EpilogueNoteNode::bytes)
      .def_ro("before", &EpilogueNoteNode::before)
      .def_ro("ahead", &EpilogueNoteNode::ahead)
      .def_ro("span", &EpilogueNoteNode::span);
  refl::ObjectDef<TileCandidateNode>()
      .def_ro("rows", &TileCandidateNode::rows)
      .def_ro("columns", &TileCandidateNode::columns)
      .def_ro("parts", &TileCandidateNode::parts)
      .def_ro("pairs", &TileCandidateNode::pairs)
      .def_ro("transposed", &TileCandidateNode::transposed)
      .def_ro("microseconds", &TileCandidateNode::microseconds)
      .def_ro("outcome", &TileCandidateNode::outcome);
  refl::ObjectDef<LaunchScheduleNode>()
      .def_ro("roles", &LaunchScheduleNode::roles)
      .def_ro("channels", &LaunchScheduleNode::channels)
      .def_ro("epilogues", &LaunchScheduleNode::epilogues)
      .def_ro("tiles", &LaunchScheduleNode::tiles)
      .def_ro("span", &LaunchScheduleNode::span);
}

}  // namespace tilelang::schedule
