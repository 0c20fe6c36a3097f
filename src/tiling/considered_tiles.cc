#include "tiling/considered_tiles.h"

#include <algorithm>

#include "ir/changed_launch.h"
#include "ir/visitor.h"
#include "schedule/tile_note.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

// Candidates of a list that are neither chosen nor excluded, and those that are excluded.
constexpr int64_t kListedSlower = 4;
constexpr int64_t kListedExcluded = 4;

class Noter : public ir::StmtMutator {
 public:
  explicit Noter(const ir::Array<ir::Any>& notes) : notes_(notes) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    return ir::WithAttr(op, schedule::kTileCandidates, notes_);
  }

 private:
  const ir::Array<ir::Any>& notes_;
};

ir::Any NoteOf(const ConsideredTiles& tiles) {
  auto note = tvm::ffi::make_object<schedule::TileCandidateNode>();
  const TileForm& form = tiles.candidate.form;
  note->rows = form.tile.rows;
  note->columns = form.tile.columns;
  note->parts = form.parts;
  note->pairs = form.pairs;
  note->transposed = form.transposed;
  note->microseconds = tiles.candidate.microseconds;
  if (tiles.chosen) note->outcome = "chosen";
  if (!tiles.reason.empty()) note->outcome = "excluded: " + tiles.reason;
  return tvm::ffi::ObjectRef(note);
}

}  // namespace

Stmt WithConsidered(const Stmt& s, std::vector<ConsideredTiles> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const auto& a, const auto& b) {
    return a.candidate.microseconds < b.candidate.microseconds;
  });
  ir::Array<ir::Any> notes;
  int64_t slower = 0;
  int64_t excluded = 0;
  for (const ConsideredTiles& t : tiles) {
    bool listed = t.chosen || (t.reason.empty() ? slower++ < kListedSlower  //
                                                : excluded++ < kListedExcluded);
    if (listed) notes.push_back(NoteOf(t));
  }
  return notes.empty() ? s : Noter(notes).MutateStmt(s);
}

}  // namespace tilelang::tiling
