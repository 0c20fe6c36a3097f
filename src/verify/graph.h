// The dependences of a kernel's operators: what must be over before what, of the program as it is
// written, whoever carries it out.
#ifndef TILELANG_VERIFY_GRAPH_H_
#define TILELANG_VERIFY_GRAPH_H_

#include <string>
#include <vector>

#include "ir/effects.h"
#include "op/instruction.h"

namespace tilelang::verify {

enum class NodeKind : uint8_t {
  kOperator,  // a tile operator, or a T.Parallel loop
  kScalar,    // a statement of a thread that touches memory
  kLoop,      // its bounds or condition
  kBranch,    // its condition
};

struct Node {
  NodeKind kind = NodeKind::kOperator;
  const ir::StmtNode* stmt = nullptr;
  op::Engine engine = op::Engine::kThreads;
  std::vector<ir::Effect> effects;
  std::vector<const ir::StmtNode*> loops;  // around it, outermost first
  // Branches around it, outermost first, and whether it is in the else of each.
  std::vector<std::pair<const ir::IfNode*, bool>> branches;
};

enum class Dependence : uint8_t { kReadAfterWrite, kWriteAfterRead, kWriteAfterWrite };

// The progress that the earlier node must have made.
enum class Progress : uint8_t {
  kIssued,      // what is asked for later by the same threads of the same engine comes later
  kSourceDone,  // what it reads may be written
  kResultDone,  // what it writes may be read, and written again
};

struct Edge {
  int from = 0;
  int to = 0;
  Dependence kind = Dependence::kReadAfterWrite;
  Progress progress = Progress::kResultDone;
  // The number of iterations of `loop` between the two. 0 stands for the same iteration of all
  // loops around both.
  int distance = 0;
  const ir::StmtNode* loop = nullptr;
  ir::Buffer buffer;
};

// The graph of one launch of tile IR with planned operators. Effects on one buffer are apart if the
// analyzer proves it for their regions, as for slot n % s and slot (n + 1) % s.
class Graph {
 public:
  explicit Graph(const ir::KernelLaunchNode* launch);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  // "line 24 -> line 31: K_shared, read after write, result_done, distance 0"
  std::string ToString() const;

 private:
  friend class GraphBuilder;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_GRAPH_H_
