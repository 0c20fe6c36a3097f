#include "driver/instrument.h"

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "ir/print_places.h"

namespace tilelang::driver {

using ir::Func;

namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Removes the dumps of an earlier compilation of the function.
void RemoveDumps(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename(), ending = entry.path().extension();
    bool dump = name.size() > 7 && std::isdigit(name[0]) && std::isdigit(name[1]) &&
                name[2] == '_' && (ending == ".txt" || ending == ".places");
    if (dump) std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace

PassContext::PassContext(const Target& target)
    : target_(target),
      dump_directory_(Environment("TILELANG_DUMP_IR")),
      verify_(Environment("TILELANG_VERIFY") == "1"),
      verify_synchronization_(Environment("TILELANG_VERIFY_SYNCHRONIZATION") == "1") {}

Func PassContext::RunTimed(const char* name, const std::function<Func()>& pass, const Func& before,
                           std::optional<check::Stage> reaches) {
  if (!dump_directory_.empty() && dumped_ == 0) Dump("input", before, 0);
  auto start = std::chrono::steady_clock::now();
  Func after = pass();
  std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (!dump_directory_.empty()) Dump(name, after, time.count());
  stage_ = reaches.value_or(stage_);
  if (verify_) check::Verify(after, stage_, name);
  return after;
}

void PassContext::Dump(const std::string& name, const Func& func, double milliseconds) {
  std::filesystem::path directory =
      std::filesystem::path(dump_directory_) / std::string(func->name);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (dumped_ == 0) RemoveDumps(directory);
  char number[16];
  std::snprintf(number, sizeof(number), "%02d_", dumped_++);
  std::filesystem::path path = directory / (number + name + ".txt");
  std::ofstream file(path);
  char time[64];
  std::snprintf(time, sizeof(time), "# %.3f ms\n", milliseconds);
  auto [text, places] = ir::PrintWithPlaces(func);
  file << "# " << name << "\n" << time << (text == last_text_ ? "(unchanged)\n" : text);
  if (text != last_text_) {
    std::ofstream lines(path.replace_extension(".places"));
    for (const std::string& place : places) lines << place << "\n";
  }
  if (!file) {
    TL_USER_ERROR(kSemantics, func->span,
                  "TILELANG_DUMP_IR: cannot write to " << directory.string());
  }
  last_text_ = std::move(text);
}

void RegisterPass(const std::string& name, std::function<Func(const Func&, const Target&)> pass) {
  tvm::ffi::reflection::GlobalDef().def(("tl.transform." + name).c_str(),
                                        [name, pass](Func func, ir::String arch) {
                                          PassContext context(GetTarget(arch));
                                          Func result = context.Run(name.c_str(), pass, func);
                                          return ir::Array<ir::Any>{result, context.remarks()};
                                        });
}

}  // namespace tilelang::driver
