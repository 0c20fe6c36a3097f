#include "emulator/isa/describe.h"

#include "emulator/base/json.h"
#include "emulator/isa/family.h"

namespace tilelang::emulator::isa {
namespace {

const char* FidelityName(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::kExact:
      return "exact";
    case Fidelity::kApproximate:
      return "approximate";
    case Fidelity::kNoEffect:
      return "no effect";
  }
  return "";
}

std::string KindName(const ClassRule& kind) {
  switch (kind.by) {
    case ClassRule::By::kTypes:
      return "integer or float";
    case ClassRule::By::kSpace:
      return "memory";
    case ClassRule::By::kNothing:
      break;
  }
  return ClassName(kind.fixed);
}

std::string TargetsName(const Targets& targets) {
  if (targets.only) return targets.only;
  return targets.from.sm > 0 ? TargetName(targets.from) + " and later" : "all";
}

}  // namespace

std::string DescribeInstructions() {
  Json json;
  json.Open('[');
  for (const Family& family : Families()) {
    const Row& row = *family.row;
    json.Open('{').Field("name", std::string(family.name)).Field("class", KindName(row.kind));
    json.Field("targets", TargetsName(row.targets));
    json.Field("fidelity", std::string(FidelityName(row.differs.fidelity)));
    json.Field("with", std::string(row.differs.with)).Field("why", std::string(row.differs.why));
    json.Close('}');
  }
  json.Close(']');
  return json.Take();
}

}  // namespace tilelang::emulator::isa
