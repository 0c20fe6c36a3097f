// None for a tensor: what follows for the variables of its shape.
#include <tvm/ffi/error.h>

#include "ir/visitor.h"
#include "runtime/arguments.h"

namespace tilelang::runtime {

namespace {

template <typename Visit>
void ForEachSlot(const ir::Expr& expr, VarSlots* slots, const Visit& visit) {
  ir::WalkExprs(expr, [&](const ir::Expr& e) {
    if (const auto* var = e.as<ir::VarNode>()) visit(slots->Intern(ffi::GetRef<ir::Var>(var)));
    return true;
  });
}

}  // namespace

void Signature::Require(const ir::Expr& expr, VarSlots* slots) {
  ForEachSlot(expr, slots, [&](int slot) { required_.insert(slot); });
}

void Signature::FindUsers(VarSlots* slots) {
  for (size_t i = 0; i < params_.size(); ++i) {
    for (const auto* extents : {&params_[i].shape, &params_[i].strides}) {
      for (const Extent& extent : *extents) {
        if (params_[i].is_output) Require(extent.program.expr(), slots);
        if (extent.program.VariableSlot() >= 0) continue;
        ForEachSlot(extent.program.expr(), slots, [&](int slot) { users_[slot].push_back(i); });
      }
    }
  }
  for (const Param& workspace : workspaces_) {
    for (const Extent& extent : workspace.shape) Require(extent.program.expr(), slots);
  }
}

void Signature::BindUndetermined(CallState* state) const {
  auto bind = [&](size_t param, int slot) {
    if (BindByOthers(slot, state)) return;
    bool needed = required_.count(slot) > 0;
    if (auto users = users_.find(slot); users != users_.end()) {
      for (size_t user : users->second) needed |= state->tensors[user] != nullptr;
    }
    if (needed) {
      throw ffi::Error("tilelang.ArgumentError",
                       "argument '" + params_[param].name +
                           "' is None, but its shape determines symbolic dimensions of the kernel",
                       "");
    }
    state->values[slot] = 0;
    state->undetermined.push_back(slot);
  };
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& param = params_[i];
    if (!param.is_tensor || param.is_output || state->tensors[i] != nullptr) continue;
    for (const auto* extents : {&param.shape, &param.strides}) {
      for (const Extent& extent : *extents) {
        if (extent.binds) bind(i, extent.program.VariableSlot());
      }
    }
    for (const Solution& solution : solutions_) {
      if (solution.param == i) bind(i, solution.slot);
    }
  }
}

bool Signature::BindByOthers(int slot, CallState* state) const {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].is_tensor || params_[i].is_output || state->tensors[i] == nullptr) continue;
    const DLTensor& given = *state->tensors[i];
    for (size_t j = 0; j < params_[i].shape.size(); ++j) {
      if (params_[i].shape[j].program.VariableSlot() != slot) continue;
      state->values[slot] = given.shape[j];
      return true;
    }
    for (size_t j = 0; j < params_[i].strides.size() && given.strides != nullptr; ++j) {
      if (params_[i].strides[j].program.VariableSlot() != slot) continue;
      state->values[slot] = given.strides[j];
      return true;
    }
  }
  return false;
}

}  // namespace tilelang::runtime
