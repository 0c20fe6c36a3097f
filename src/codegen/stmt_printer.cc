#include "codegen/stmt_printer.h"

#include "codegen/literals.h"
#include "ir/async.h"
#include "ir/error.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

void StmtPrinter::Print(const Stmt& s) {
  Span outer = out_->span();
  if (s.span().defined()) out_->SetSpan(s.span());
  switch (s->kind) {
    case StmtKind::kStore: {
      const auto* op = s.as<StoreNode>();
      out_->Line(exprs_->Element(op->buffer, op->indices) + " = " + exprs_->Print(op->value) + ";");
      break;
    }
    case StmtKind::kEvaluate: {
      const auto* op = s.as<EvaluateNode>();
      // Any other value is computed for the calls in it.
      bool is_call = op->value->kind == ExprKind::kCall;
      std::string value = exprs_->Print(op->value);
      out_->Line((is_call ? value : "static_cast<void>(" + value + ")") + ";");
      break;
    }
    case StmtKind::kBind: {
      const auto* op = s.as<BindNode>();
      std::string value = exprs_->Print(op->value);
      if (IsIntegral(op->var.dtype())) exprs_->analyzer()->Bind(op->var, op->value);
      out_->Line("const " + exprs_->Type(op->var.dtype()) + " " + names_->Of(op->var) + " = " +
                 value + ";");
      break;
    }
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) Print(child);
      break;
    case StmtKind::kIf:
      Print(s.as<IfNode>(), "if");
      break;
    case StmtKind::kFor:
      Print(s.as<ForNode>());
      break;
    case StmtKind::kWhile:
      out_->Open("while (" + exprs_->Print(s.as<WhileNode>()->condition) + ")");
      PrintUnder(s.as<WhileNode>()->condition, s.as<WhileNode>()->body);
      out_->Close();
      break;
    case StmtKind::kBreak:
      out_->Line("break;");
      break;
    case StmtKind::kContinue:
      out_->Line("continue;");
      break;
    case StmtKind::kAlloc:
      Print(s.as<AllocNode>());
      break;
    case StmtKind::kAssume:
      exprs_->analyzer()->Assume(s.as<AssumeNode>()->condition);
      out_->Line("__builtin_assume(" + exprs_->Print(s.as<AssumeNode>()->condition) + ");");
      break;
    case StmtKind::kAssert: {
      const auto* op = s.as<AssertNode>();
      exprs_->UseHeader("debug.h");
      out_->Line("TL_CHECK(" + exprs_->Print(op->condition) + ", " + StringLiteral(op->message) +
                 ");");
      break;
    }
    case StmtKind::kArrive:
    case StmtKind::kWaitParity:
    case StmtKind::kFence:
    case StmtKind::kBarrier:
    case StmtKind::kTmemAlloc:
    case StmtKind::kCommitGroup:
    case StmtKind::kWaitGroup:
    case StmtKind::kMbarrierInit:
    case StmtKind::kGridDependency:
      out_->Line(Ordering(s) + ";");
      break;
    default:
      ThrowInternalError(s.span(),
                         "a statement reached code generation that should have been lowered");
  }
  out_->SetSpan(outer);
}

std::string StmtPrinter::Ordering(const Stmt& s) {
  Call call = CallFor(s);
  auto function = [&](const char* name, const char* header) {
    Map<String, Any> attrs;
    attrs.Set("header", String(header));
    return exprs_->Print(Call(dtypes::kVoid, name, call->args, attrs, s.span()));
  };
  const auto* wait = s.as<WaitParityNode>();
  const auto* arrive = s.as<ArriveNode>();
  const auto* barrier = s.as<BarrierNode>();
  // Memory of the cluster is ordered, and not of the block alone.
  bool in_cluster = exprs_->publishes();
  if (wait != nullptr && (in_cluster || wait->scope_kind() != Scope::kCta)) {
    return function("tl::mbarrier_wait_cluster", "cluster.h");
  }
  bool gives_back = arrive != nullptr && arrive->Kind() == ArriveKind::kThread &&
                    arrive->block.defined() && arrive->scope_kind() == Scope::kCta;
  if (gives_back && !in_cluster) return function("tl::mbarrier_give_back", "barrier.h");
  if (barrier != nullptr && barrier->Kind() == BarrierKind::kBlock) return "__syncthreads()";
  return exprs_->Print(call);
}

void StmtPrinter::PrintUnder(const Expr& condition, const Stmt& body) {
  arith::Analyzer::Scope scope(exprs_->analyzer(), condition);
  Print(body);
}

void StmtPrinter::Print(const IfNode* op, const std::string& opening) {
  if (opening != "if") out_->Dedent();
  out_->Open(opening + " (" + exprs_->Print(op->condition) + ")");
  PrintUnder(op->condition, op->then_case);
  if (!op->else_case.defined()) {
    out_->Close();
    return;
  }
  arith::Analyzer::Scope scope(exprs_->analyzer(), Not(op->condition));
  if (const auto* chained = op->else_case.as<IfNode>()) {
    Print(chained, "} else if");
    return;
  }
  out_->Close("} else {");
  out_->Indent();
  Print(op->else_case);
  out_->Close();
}

void StmtPrinter::Print(const ForNode* op) {
  if (op->Kind() == ForKind::kVectorized) return PrintVectorized(op, op->body);
  bool unroll = op->Kind() == ForKind::kUnrolled;
  if (!unroll || !PrintNarrowed(op)) PrintLoop(op, unroll);
}

void StmtPrinter::PrintLoop(const ForNode* op, bool unroll) {
  auto factor = op->annotations.find("unroll_factor");
  if (factor != op->annotations.end()) {
    out_->Line("#pragma unroll " + std::to_string((*factor).second.cast<int64_t>()));
  } else if (unroll) {
    out_->Line("#pragma unroll");
  }
  exprs_->analyzer()->Bind(op->var, op->min, op->extent);
  const std::string& name = names_->Of(op->var);
  std::string type = op->var.dtype() == dtypes::kInt32 ? "int" : exprs_->Type(op->var.dtype());
  std::string end = exprs_->Operand(op->min + op->extent, kPrecRelation + 1);
  out_->Open("for (" + type + " " + name + " = " + exprs_->Print(op->min) + "; " + name + " < " +
             end + "; ++" + name + ")");
  Print(op->body);
  out_->Close();
}

void StmtPrinter::Print(const AllocNode* op) {
  const Buffer& buffer = op->buffer;
  std::string type = exprs_->Type(buffer->dtype);
  const std::string& name = names_->Of(buffer);
  if (buffer->scope == "local.var") {
    auto init = buffer->attrs.find("init");
    std::string value =
        init == buffer->attrs.end() ? "" : " = " + exprs_->Print((*init).second.cast<Expr>());
    out_->Line(type + " " + name + value + ";");
    return;
  }
  TL_CHECK(buffer->shape.size() == 1, op->span, buffer->name << " was not flattened");
  if (buffer.IsLocal()) {
    out_->Line(type + " " + name + "[" + exprs_->Print(buffer->shape[0]) + "];");
    return;
  }
  TL_CHECK(buffer.IsShared() || buffer.IsBarrier(), op->span,
           "code generation cannot allocate " << buffer->name << " in " << buffer->scope);
  auto offset = smem_offsets_.find(buffer);
  TL_CHECK(offset != smem_offsets_.end(), op->span,
           buffer->name << " has no place in shared memory: PlanSharedMemory must run first");
  int64_t bytes = (*offset).second;
  std::string place = bytes == 0 ? "" : " + " + std::to_string(bytes);
  auto at_call = offsets_at_call_.find(buffer);
  if (at_call != offsets_at_call_.end()) place = " + " + exprs_->Print((*at_call).second);
  out_->Line(type + "* " + name + " = reinterpret_cast<" + type + "*>(smem" + place + ");");
}

}  // namespace tilelang
