#include "emulator/core/launch.h"

#include <string>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

void CountInstructions(Launch& launch, const Cluster& cluster) {
  const Kernel& kernel = launch.kernel;
  for (size_t i = 0; i < cluster.counts.size(); ++i) {
    const InstructionClass kind = kernel.sources[kernel.code[i].source].kind;
    InstructionCount& sum = launch.counts[static_cast<size_t>(kind)];
    sum.warps += cluster.counts[i].warps;
    sum.lanes += cluster.counts[i].lanes;
  }
}

bool Suppression::Covers(const EmulatorError& error) const {
  if (!kind.empty() && kind != error.kind) return false;
  const auto is_file = [&](const std::string& path) {
    return path.ends_with(file) &&
           (path.size() == file.size() || path[path.size() - file.size() - 1] == '/');
  };
  const auto is_here = [&](const Where& where) {
    if (!kernel.empty() && kernel != where.kernel) return false;
    if (line == 0) return true;
    if (file.empty()) return line == where.ptx_line;
    return (line == where.source_line && is_file(where.source_file)) ||
           (line == where.inlined_line && is_file(where.inlined_file));
  };
  return is_here(error.where) || (error.earlier && is_here(*error.earlier));
}

bool Launch::Suppresses(const EmulatorError& error) {
  std::lock_guard<std::mutex> lock(mutex);
  suppressed.resize(options.suppressions.size());
  for (size_t i = 0; i < suppressed.size(); ++i) {
    if (!options.suppressions[i].Covers(error)) continue;
    ++suppressed[i];
    return true;
  }
  return false;
}

void Launch::Report(const EmulatorError& error) {
  if (Suppresses(error)) return;
  if (!options.keep_going && options.collected.count(error.kind) == 0) throw error;
  std::lock_guard<std::mutex> lock(mutex);
  ++findings.try_emplace({error.kind, error.where.ptx_line}, Finding{error}).first->second.count;
}

}  // namespace tilelang::emulator
