// The families of the asynchronous units, and the objects through which the core drives them.
#include "emulator/core/async.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

class NoEngines : public AsyncEngines {
 public:
  bool Advance(bool) override { return false; }
  void Drain() override {}
  std::string Describe() const override { return ""; }
};

class NoState : public CtaAsyncState {
 public:
  void OnExit() override {}
};

}  // namespace

std::unique_ptr<AsyncEngines> MakeAsyncEngines(Cluster&) { return std::make_unique<NoEngines>(); }
std::unique_ptr<CtaAsyncState> MakeCtaAsyncState(Cta&) { return std::make_unique<NoState>(); }

void RegisterAsync() {}

}  // namespace tilelang::emulator
