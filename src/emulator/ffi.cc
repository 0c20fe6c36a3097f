// Exposes the emulator to Python: beside tensor_map_ffi.cc the only file of it that sees tvm-ffi.
// Reports travel as JSON texts.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "emulator/algebra_object.h"
#include "emulator/core/report.h"
#include "emulator/isa/describe.h"
#include "emulator/memory/global.h"
#include "emulator/run.h"
#include "emulator/sanitizer/previous_grid.h"
#include "emulator/timing/figures.h"
#include "emulator/timing/result.h"
#include "emulator/timing/varying.h"
#include "registry/functions.h"

namespace tilelang::emulator {
namespace {

namespace ffi = tvm::ffi;

// Launches that follow each other.
class StreamObj : public ffi::Object {
 public:
  std::shared_ptr<const GridFootprint> last_grid;  // for a launch that may overlap with it
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.emulator.Stream", StreamObj, ffi::Object);
};

class StreamRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(StreamRef, ffi::ObjectRef, StreamObj);
};

class DeviceObj : public ffi::Object {
 public:
  GlobalMemory memory;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.emulator.Device", DeviceObj, ffi::Object);
};

class DeviceRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(DeviceRef, ffi::ObjectRef, DeviceObj);
};

class ModuleObj : public ffi::Object {
 public:
  DeviceRef device;  // outlives the module, which unmaps its variables
  std::shared_ptr<Module> module;
  std::string report;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.emulator.Module", ModuleObj, ffi::Object);
};

class ModuleRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(ModuleRef, ffi::ObjectRef, ModuleObj);
};

// A launch that runs on its own threads, so that Python can wait, show progress and cancel.
class LaunchObj : public ffi::Object {
 public:
  ~LaunchObj() { Join(); }

  void Start() {
    started = std::chrono::steady_clock::now();
    try {
      thread = std::thread([this] {
        RunLaunch();
        stream->last_grid = launch->footprint;
        End();
      });
    } catch (const std::system_error& error) {
      launch->error =
          EmulatorError("out-of-memory", std::string("the host gives no thread: ") + error.what());
      End();
    }
  }
  void RunLaunch() {
    // A timed launch may leave parts out.
    if (!launch->options.timing.gpu.empty()) algebra = AlgebraRef(nullptr);
    if (algebra.defined()) {
      launch->algebra = algebra->state.get();
      algebra->state->BeginLaunch();
    }
    Run(*launch);
    if (algebra.defined()) algebra->state->EndLaunch(launch->global.HostRanges());
  }
  void End() {
    std::lock_guard<std::mutex> lock(mutex);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    done = true;
    changed.notify_all();
  }
  bool Wait(double timeout_seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::duration<double>(timeout_seconds), [this] { return done; });
    return done;
  }
  void Join() {
    if (!thread.joinable()) return;
    launch->cancelled = true;
    thread.join();
  }

  ModuleRef module;
  StreamRef stream;
  AlgebraRef algebra{nullptr};  // of the algebraic mode
  std::unique_ptr<Launch> launch;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::chrono::steady_clock::time_point started;
  double seconds = 0;
  bool done = false;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.emulator.Launch", LaunchObj, ffi::Object);
};

class LaunchRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(LaunchRef, ffi::ObjectRef, LaunchObj);
};

ModuleRef Load(DeviceRef device, ffi::String arch, ffi::String text,
               ffi::Map<ffi::String, int64_t> globals) {
  auto object = ffi::make_object<ModuleObj>();
  object->device = device;
  try {
    std::map<std::string, uint64_t> places;
    for (const auto& [name, address] : globals) {
      places[std::string(name)] = static_cast<uint64_t>(address);
    }
    object->module = LoadModule(std::string(text), std::string(arch), device->memory, places);
    CheckRunsOn(*object->module, std::string(arch));
    object->report = DescribeModule(*object->module);
  } catch (...) {
    object->module.reset();
    object->report = DescribeError(CurrentError("loading the PTX text"));
  }
  return ModuleRef(object);
}

// Maps host memory at `address`, or at an address of the emulator's choice if that is 0; returns
// the address.
int64_t MapHost(DeviceRef device, int64_t host, int64_t bytes, ffi::String name, int64_t address) {
  GlobalMemory& memory = device->memory;
  uint8_t* pointer = reinterpret_cast<uint8_t*>(host);
  const uint64_t size = static_cast<uint64_t>(bytes);
  try {
    if (address == 0) return static_cast<int64_t>(memory.Map(pointer, size, std::string(name)));
    memory.MapAt(static_cast<uint64_t>(address), pointer, size, std::string(name));
    return address;
  } catch (const EmulatorError& error) {
    TVM_FFI_THROW(ValueError) << error.what();
  }
}

Dim3 DimOf(const ffi::Array<int64_t>& values, size_t first) {
  return {static_cast<uint32_t>(values[first]), static_cast<uint32_t>(values[first + 1]),
          static_cast<uint32_t>(values[first + 2])};
}

// dims: grid, block, cluster (three each). settings: dynamic shared bytes, explicit cluster,
// schedule, seed, instruction limit, threads, sanitize, keep going, programmatic. suppressions:
// kind, kernel, file, line. timing: GPU, clock in MHz, most CTAs, sampled, warm L2, recorded,
// registers, what costs nothing, alone; or nothing.
using Suppressions = ffi::Array<ffi::Tuple<ffi::String, ffi::String, ffi::String, int64_t>>;
using TimingSettings = ffi::Tuple<ffi::String, double, int64_t, bool, bool, bool, int64_t,
                                  ffi::Array<ffi::String>, bool>;

TimingOptions TimingOf(const TimingSettings& settings) {
  TimingOptions options;
  options.gpu = std::string(settings.get<0>());
  options.clock_mhz = settings.get<1>();
  options.ctas = static_cast<uint64_t>(settings.get<2>());
  options.sampled = settings.get<3>();
  options.warm = settings.get<4>();
  options.record = settings.get<5>();
  options.registers = static_cast<int>(settings.get<6>());
  for (const ffi::String& name : settings.get<7>()) options.ablate.insert(std::string(name));
  options.alone = settings.get<8>();
  return options;
}

// Runs only the selected clusters. All others count as if they had run.
void Select(Launch* launch, const ffi::Shape& selected) {
  launch->timed_clusters.assign(launch->clusters(), true);
  for (int64_t cluster : selected) launch->timed_clusters[cluster] = false;
  const uint64_t others = launch->clusters() - selected.size();
  launch->finished_ctas = others * launch->options.cluster.count();
}

// The grid that a programmatic launch may overlap with, if there is one.
std::shared_ptr<PreviousGrid> TakePrevious(StreamObj& stream, bool programmatic,
                                           const GlobalMemory& memory) {
  const auto last = std::exchange(stream.last_grid, nullptr);
  if (!programmatic || !last) return nullptr;
  auto previous = std::make_shared<PreviousGrid>(last);
  return previous->Overwritten(memory) ? nullptr : previous;
}

LaunchRef StartLaunch(ModuleRef module, StreamRef stream, ffi::String name,
                      ffi::Array<int64_t> dims, ffi::Array<int64_t> settings,
                      ffi::Array<ffi::String> lints, ffi::Array<ffi::String> collected,
                      Suppressions suppressions, TimingSettings timing, ffi::Bytes params,
                      ffi::Shape selected, AlgebraRef algebra) {
  auto object = ffi::make_object<LaunchObj>();
  object->module = module;
  object->stream = stream;
  const Kernel* kernel = module->module->Find(std::string(name));
  TVM_FFI_ICHECK(kernel != nullptr) << "no kernel " << name;
  object->launch = std::make_unique<Launch>(*kernel, module->device->memory);
  LaunchOptions& options = object->launch->options;
  options.grid = DimOf(dims, 0);
  options.block = DimOf(dims, 3);
  options.cluster = DimOf(dims, 6);
  options.dynamic_shared = static_cast<uint32_t>(settings[0]);
  options.explicit_cluster = settings[1] != 0;
  options.schedule = static_cast<Schedule>(settings[2]);
  options.seed = static_cast<uint64_t>(settings[3]);
  options.instruction_limit = static_cast<uint64_t>(settings[4]);
  options.threads = static_cast<int>(settings[5]);
  options.sanitize = settings[6] != 0;
  options.keep_going = settings[7] != 0;
  object->launch->previous = TakePrevious(*stream.get(), settings[8] != 0, module->device->memory);
  options.timing = TimingOf(timing);
  for (const auto& [kind, kernel, file, line] : suppressions) {
    options.suppressions.push_back(
        {std::string(kind), std::string(kernel), std::string(file), static_cast<int>(line)});
  }
  for (const ffi::String& lint : lints) options.lints.insert(std::string(lint));
  for (const ffi::String& kind : collected) options.collected.insert(std::string(kind));
  if (!selected.empty()) Select(object->launch.get(), selected);
  object->launch->params.assign(params.data(), params.data() + params.size());
  object->algebra = algebra;
  object->Start();
  return LaunchRef(object);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<DeviceObj>();
  refl::ObjectDef<StreamObj>();
  refl::ObjectDef<ModuleObj>();
  refl::ObjectDef<LaunchObj>();
  registry::Functions()
      .Add("tl.emulator.Architectures",
           []() {
             return ffi::Array<ffi::String>{"sm_80",   "sm_90a",  "sm_100a",
                                            "sm_103a", "sm_120a", "sm_121a"};
           })
      .Add("tl.emulator.TimedArchitectures",
           []() {
             ffi::Array<ffi::String> names;
             for (const Figures* gpu : TimedGpus()) {
               if (UsualGpu(gpu->arch) == gpu) names.push_back(gpu->arch);
             }
             return names;
           })
      .Add("tl.emulator.TimedGpus",
           []() {
             ffi::Array<ffi::Tuple<ffi::String, ffi::String>> names;  // architecture, GPU
             for (const Figures* gpu : TimedGpus())
               names.push_back(ffi::Tuple<ffi::String, ffi::String>(gpu->arch, gpu->gpu));
             return names;
           })
      .Add("tl.emulator.Figures",
           [](ffi::String arch) { return ffi::String(DescribeFigures(*UsualGpu(arch))); })
      .Add("tl.emulator.Instructions", []() { return ffi::String(isa::DescribeInstructions()); })
      .Add("tl.emulator.Device", []() { return DeviceRef(ffi::make_object<DeviceObj>()); })
      .Add("tl.emulator.Map", MapHost)
      .Add("tl.emulator.Follow",
           [](DeviceRef device, int64_t address, int64_t written) {
             device->memory.Follow(address, reinterpret_cast<uint8_t*>(written));
           })
      .Add("tl.emulator.Unmap",
           [](DeviceRef device, int64_t address) { device->memory.Unmap(address); })
      .Add("tl.emulator.AllowRange",
           [](DeviceRef device, int64_t address, int64_t bytes, bool writable) {
             device->memory.AllowRange(address, bytes, writable);
           })
      .Add("tl.emulator.ForbidRange",
           [](DeviceRef device, int64_t address, int64_t bytes, bool writable) {
             device->memory.ForbidRange(address, bytes, writable);
           })
      .Add("tl.emulator.Load", Load)
      .Add("tl.emulator.ModuleReport", [](ModuleRef module) { return ffi::String(module->report); })
      .Add("tl.emulator.MemoryDecides",
           [](ModuleRef module, ffi::String name) {
             const Kernel* kernel = module->module->Find(std::string(name));
             return kernel != nullptr && MemoryDecides(*kernel);
           })
      .Add("tl.emulator.Launch", StartLaunch)
      .Add("tl.emulator.Stream", []() { return StreamRef(ffi::make_object<StreamObj>()); })
      .Add("tl.emulator.MayOverlap", [](StreamRef stream) { return stream->last_grid != nullptr; })
      .Add("tl.emulator.Wait",
           [](LaunchRef launch, double seconds) { return launch->Wait(seconds); })
      .Add("tl.emulator.Progress",
           [](LaunchRef launch) {
             return static_cast<double>(launch->launch->finished_ctas) /
                    static_cast<double>(launch->launch->options.grid.count());
           })
      .Add("tl.emulator.Cancel", [](LaunchRef launch) { launch->Join(); })
      .Add("tl.emulator.LaunchReport",
           [](LaunchRef launch) {
             return ffi::String(DescribeLaunch(*launch->launch, launch->seconds));
           })
      .Add("tl.emulator.TimingReport",
           [](LaunchRef launch) {
             const TimingResult* timing = launch->launch->timing.get();
             return ffi::String(timing ? DescribeTiming(*timing) : "");
           })
      .Add("tl.emulator.TimingColumn", [](LaunchRef launch, ffi::String name) {
        return ffi::Bytes(TimingColumn(*launch->launch->timing, std::string(name)));
      });
}

}  // namespace tilelang::emulator
