// The program of a role that loads or issues gemms: these operators, and what decides whether, when
// and on what they run.
#ifndef TILELANG_SCHEDULE_ROLE_SLICE_H_
#define TILELANG_SCHEDULE_ROLE_SLICE_H_

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/effects.h"
#include "ir/fresh_copy.h"

namespace tilelang::schedule {

// The statements of a launch on which some operators depend: the loops and conditions around them,
// the variables in their indices, and the statements that set these variables. Another role can
// execute them again if they compute scalars from the launch's parameters and from memory that the
// kernel does not write.
class RoleSlice {
 public:
  explicit RoleSlice(const ir::KernelLaunchNode* launch);

  // Adds what a copy or a gemm needs. Returns why another role cannot execute it, or nothing; the
  // slice is then of no use.
  std::string Add(const ir::TileOpNode* op);
  // Adds the statement that asks for the next tile (ir/next_tile.h). In slices of operators it
  // reads the number that another thread has asked for.
  std::string Add(const ir::BindNode* next_tile);

  // The statement belongs to the slice, or holds such statements.
  bool Has(const ir::StmtNode* s) const { return kept_.count(s) != 0; }

 private:
  friend class PlaceFinder;
  // A statement of the launch and the loops and branches around it, outermost first.
  struct Place {
    const ir::StmtNode* stmt = nullptr;
    std::vector<const ir::StmtNode*> around;
  };
  using Object = tvm::ffi::Object;

  void Keep(const Place& place);
  void Need(const ir::Expr& e);
  // Adds the places of an operator's effects in their buffers.
  void NeedAll(const std::vector<ir::Effect>& effects);
  void NeedBuffer(const ir::Buffer& buffer);
  void Refuse(const std::string& reason);

  const ir::KernelLaunchNode* launch_;
  std::unordered_map<const Object*, Place> places_;  // by statement: copies, gemms, next tiles
  std::unordered_map<const Object*, std::vector<Place>> setters_;  // of variables and buffers
  std::unordered_map<const Object*, std::vector<Place>> leaves_;   // breaks, continues, by loop
  std::vector<Place> grid_waits_;                                  // T.pdl_sync
  std::unordered_set<const Object*> written_;                      // global buffers
  std::unordered_set<const Object*> elsewhere_;  // local buffers set by more than stores
  std::unordered_set<const Object*> kept_;
  std::unordered_set<const Object*> needed_;  // variables and buffers
  std::string reason_;
};

// Copies the statements of a slice, with variables and local buffers of their own.
class SliceCopier : public ir::FreshCopy {
 public:
  explicit SliceCopier(const RoleSlice& slice) : slice_(slice) {}

  using FreshCopy::Rewrite;
  ir::Stmt MutateStmt(const ir::Stmt& s) override;
  ir::Stmt Rewrite(const ir::SeqNode* op) override;

 protected:
  // Appends the copy of the statement at index i of a sequence, if it has one.
  virtual void Append(const ir::SeqNode* seq, size_t i, std::vector<ir::Stmt>* stmts);

 private:
  const RoleSlice& slice_;
};

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_ROLE_SLICE_H_
