#include "ir/spelled_copies.h"

#include "ir/printer.h"

namespace tilelang::ir {

namespace {

thread_local SpelledCopies* current_program = nullptr;

std::string Spelled(const CopyNode* op) {
  return op->Adds() ? "T.atomic_add(" + Print(op->dst) + ", " + Print(op->src) + ")"
                    : "T.copy(" + Print(op->src) + ", " + Print(op->dst) + ")";
}

}  // namespace

SpelledCopies::SpelledCopies(const Func& program) : outer_(current_program) {
  VisitStmt(program->body);
  current_program = this;
}

SpelledCopies::~SpelledCopies() { current_program = outer_; }

SpelledCopies::Place SpelledCopies::PlaceOf(const Span& span) {
  return {std::string(span->file), span->line, span->column};
}

void SpelledCopies::Visit(const CopyNode* op) {
  if (!op->span.defined()) return;
  auto [known, is_new] = texts_.emplace(PlaceOf(op->span), Spelled(op));
  if (!is_new && known->second != Spelled(op)) known->second.clear();
}

std::string SpelledCopies::TextOf(const CopyNode* op) {
  if (current_program != nullptr && op->span.defined()) {
    auto known = current_program->texts_.find(PlaceOf(op->span));
    if (known != current_program->texts_.end() && !known->second.empty()) return known->second;
  }
  return Spelled(op);
}

}  // namespace tilelang::ir
