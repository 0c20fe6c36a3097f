// Mbarriers and tensor memory, which a CTA sets up before its work and releases after it.
#ifndef TILELANG_MEMORY_CTA_RESOURCES_H_
#define TILELANG_MEMORY_CTA_RESOURCES_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "op/issue.h"

namespace tilelang::memory {

class CtaResources {
 public:
  // Finds the barriers and the tensor memory that the body of a launch allocates. Columns come
  // from launch->attrs["tmem_columns"] (see PlanTensorMemory).
  CtaResources(const ir::KernelLaunchNode* launch, const Target& target);

  // Buffers whose allocation moves to the set-up.
  bool Owns(const ir::Buffer& buffer) const;
  const op::TensorMemory* tensor_memory() const { return &tmem_; }
  // Returns the phase on which operations of an engine ("mma", "tma") complete that these threads
  // issue now. Threads that issue together wait together, so each range of threads has its own
  // barriers. Successive tensor copies ("tma") use different barriers, up to a number, so threads
  // that have waited for one copy need not synchronize before the next one. A phase takes
  // `arrivals` arrivals.
  const op::Phase& PhaseOf(const std::string& engine, const op::ThreadRange& threads,
                           int64_t arrivals = 1);

  int64_t cluster_size() const { return cluster_; }
  // Returns whether pairs of blocks compute the gemms.
  bool in_pairs() const { return in_pairs_; }

  // Set-up, the lowered body, release.
  ir::Stmt Wrap(const ir::Stmt& body);

 private:
  void SetUpBarriers(std::vector<ir::Stmt>* stmts) const;
  // Returns a barrier of all threads of the block or of the cluster.
  ir::Stmt AllThreads(bool of_cluster) const;
  void AllocateTensorMemory(std::vector<ir::Stmt>* stmts) const;
  void ReleaseTensorMemory(std::vector<ir::Stmt>* stmts) const;

  ir::Span span_;
  ir::Expr thread_;
  bool has_async_proxy_;
  int64_t cluster_ = 1;          // blocks
  bool reaches_blocks_ = false;  // others of the cluster
  bool leaves_blocks_open_ = false;
  bool in_pairs_ = false;  // blocks compute gemms
  int64_t columns_ = 0;    // to allocate: 0, or a power of two from 32
  op::TensorMemory tmem_;
  ir::Buffer tmem_slot_;  // where tcgen05.alloc writes the address
  std::vector<ir::Buffer> barriers_;
  struct PhasesInTurn {
    std::vector<op::Phase> phases;
    size_t uses = 0;
  };
  // The phases by engine, first thread and number of threads.
  std::map<std::tuple<std::string, int64_t, int64_t>, PhasesInTurn> rings_;
};

}  // namespace tilelang::memory

#endif  // TILELANG_MEMORY_CTA_RESOURCES_H_
