// Launches and fragments against what the target has.
#include "check/check_parts.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

// CUDA C++ Programming Guide, "Compute Capabilities": the same for all architectures.
constexpr int64_t kMaxThreads[] = {1024, 1024, 64};
constexpr int64_t kMaxGrid[] = {2147483647, 65535, 65535};
constexpr const char* kAxes[] = {"x", "y", "z"};
constexpr int kRegisterBytes = 4;

class ResourceChecker : public ir::StmtVisitor {
 public:
  explicit ResourceChecker(const Target& target) : target_(target) {}
  using StmtVisitor::Visit;

  void Visit(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    threads_ = Threads(op);
    CheckGrid(op);
    CheckCluster(op);
    StmtVisitor::Visit(op);
  }

  void Visit(const ir::AllocNode* op) override {
    if (op->buffer.IsFragment()) CheckFragment(op);
  }

 private:
  int64_t Threads(const ir::KernelLaunchNode* op) {
    auto threads = ir::AsInts(op->threads);
    if (!threads) {
      TL_USER_ERROR(kResource, op->span,
                    "the number of threads of a kernel must be a constant; threads= takes a "
                    "Python integer");
    }
    int64_t count = 1;
    for (size_t i = 0; i < threads->size(); ++i) {
      int64_t n = (*threads)[i];
      if (n < 1 || n > kMaxThreads[i]) {
        TL_USER_ERROR(kResource, op->span,
                      n << " threads along " << kAxes[i] << ": a block has 1 to " << kMaxThreads[i]
                        << " threads along this axis");
      }
      count *= n;
    }
    if (count > target_->max_threads_per_block) {
      TL_USER_ERROR(kResource, op->span,
                    count << " threads in a block, but " << std::string(target_->arch)
                          << " takes at most " << target_->max_threads_per_block
                          << "; let each thread do more, or make the tile smaller");
    }
    return count;
  }

  void CheckGrid(const ir::KernelLaunchNode* op) {
    for (size_t i = 0; i < op->grid.size(); ++i) {
      auto n = ir::AsInt(op->grid[i]);
      if (!n || (*n >= 0 && *n <= kMaxGrid[i])) continue;
      TL_USER_ERROR(kResource, op->span,
                    "a grid of " << *n << " blocks along " << kAxes[i] << ": CUDA allows at most "
                                 << kMaxGrid[i] << "; the first extent of T.Kernel is "
                                 << "x, which allows the most blocks");
    }
  }

  void CheckCluster(const ir::KernelLaunchNode* op) {
    auto it = op->attrs.find("cluster_dims");
    if (it == op->attrs.end()) return;
    auto dims = (*it).second.as<ir::Array<int64_t>>();
    int64_t size = 1;
    if (dims) {
      for (int64_t n : *dims) size *= n;
    }
    if (size >= 1 && size <= target_->max_cluster_size) return;
    if (target_->max_cluster_size == 1) {
      TL_USER_ERROR(kResource, op->span,
                    "cluster_dims: " << std::string(target_->arch)
                                     << " has no clusters; leave cluster_dims out, or compile with "
                                        "target=\"sm_90a\" or target=\"sm_100a\"");
    }
    TL_USER_ERROR(kResource, op->span,
                  "cluster_dims: a cluster of " << size << " blocks, but clusters of "
                                                << std::string(target_->arch) << " have 1 to "
                                                << target_->max_cluster_size << " blocks");
  }

  void CheckFragment(const ir::AllocNode* op) {
    auto shape = ir::AsInts(op->buffer->shape);
    if (!shape || threads_ == 0) return;
    int64_t bytes = ir::Bytes(op->buffer->dtype);
    for (int64_t n : *shape) bytes *= n;
    int64_t file = int64_t{target_->registers_per_sm} * kRegisterBytes;
    if (bytes > file) {
      TL_USER_ERROR(kResource, op->span,
                    Describe(op->buffer)
                        << " is " << bytes << " bytes large, but the register file has only "
                        << file << " bytes; make the tile smaller or keep it in shared memory"
                        << Rewrite(op->buffer));
    }
  }

  // Returns a note with a program that does not hold the fragment, if that is reduced.
  std::string Rewrite(const ir::Buffer& tile) const {
    const ir::ReduceNode* reduce = nullptr;
    const ir::CopyNode* copy = nullptr;
    int writes = 0;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      if (!effect.buffer.same_as(tile) || effect.By<ir::AllocNode>() != nullptr) return;
      if (effect.Reads() && reduce == nullptr) reduce = effect.By<ir::ReduceNode>();
      writes += effect.Writes();
      if (effect.Writes()) copy = effect.By<ir::CopyNode>();
    });
    if (reduce == nullptr || !reduce->src.IsWhole()) return "";
    auto dim = static_cast<size_t>(reduce->dim);
    std::string call = "T.reduce_" + std::string(reduce->op);
    std::string out = ir::Print(reduce->dst);
    std::string text = "\n@note " + call + " reduces dimension " + std::to_string(dim) + " of " +
                       ir::Print(tile->shape[dim]) + " elements, which need not be held at once: ";
    if (copy != nullptr && writes == 1 && copy->src->buffer.IsGlobal()) {
      int64_t from_end = reduce->dim - static_cast<int64_t>(tile->shape.size());
      return text + call + "(" + ir::Print(copy->src) + ", " + out +
             ", dim=" + std::to_string(from_end) + ") goes through the tensor in turns";
    }
    return text +
           "contribute to a reducer (r = T.alloc_reducer(...)) in the T.Parallel loop that "
           "fills the fragment, as r[i] += x, and the loop has any number of iterations";
  }

  Target target_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  int64_t threads_ = 0;
};

}  // namespace

void CheckResources(const ir::Func& func, const Target& target) {
  ResourceChecker(target).VisitStmt(func->body);
}

}  // namespace tilelang::check
