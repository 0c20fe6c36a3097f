#include "ir/printer.h"

#include <tvm/ffi/cast.h>

#include <cmath>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/async.h"
#include "ir/print_places.h"
#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

// Binding strength of operators, as in Python.
int Precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kOr:
      return 1;
    case BinaryOp::kAnd:
      return 2;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
      return 4;
    case BinaryOp::kBitOr:
      return 5;
    case BinaryOp::kBitXor:
      return 6;
    case BinaryOp::kBitAnd:
      return 7;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return 8;
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return 9;
    default:
      return 10;
  }
}
constexpr int kUnaryPrecedence = 11;

std::string Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::ostringstream os;
  os.precision(17);
  os << value;
  std::string shortest = os.str();
  for (int digits = 1; digits < 17; ++digits) {
    std::ostringstream attempt;
    attempt.precision(digits);
    attempt << value;
    if (std::stod(attempt.str()) == value) {
      shortest = attempt.str();
      break;
    }
  }
  return shortest;
}

class Printer : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  std::string Take() { return os_.str(); }
  // Returns the Python line of each line of the text: of the first statement that begins there.
  std::vector<std::string> Places() const {
    std::vector<std::string> places;
    std::istringstream lines(os_.str());
    auto start = starts_.begin();
    size_t end = 0;
    for (std::string line; std::getline(lines, line);) {
      end += line.size() + 1;
      std::string place;
      for (; start != starts_.end() && start->first < end; ++start) {
        const Span& span = start->second;
        if (!place.empty() || !span.defined()) continue;
        place = std::string(span->file) + ":" + std::to_string(span->line);
      }
      places.push_back(place);
    }
    return places;
  }

  void PrintFunc(const Func& func) {
    os_ << "def " << std::string(func->name) << "(";
    bool first = true;
    for (const Any& param : func->params) {
      if (!first) os_ << ", ";
      first = false;
      if (auto buffer = param.as<Buffer>()) {
        os_ << Declaration(*buffer);
      } else {
        Var var = param.cast<Var>();
        os_ << Name(var.get(), var->name) << ": " << ToString(var.dtype());
      }
    }
    os_ << "):\n";
    Attributes(func->attrs, 1);
    Block(func->body);
  }

  void Visit(const IntImmNode* op) override {
    if (IsBool(op->dtype)) {
      os_ << (op->value != 0 ? "True" : "False");
    } else if (op->dtype == dtypes::kInt32) {
      os_ << op->value;
    } else {
      os_ << ToString(op->dtype) << "(";
      if (IsUInt(op->dtype)) {
        os_ << static_cast<uint64_t>(op->value);
      } else {
        os_ << op->value;
      }
      os_ << ")";
    }
  }
  void Visit(const FloatImmNode* op) override {
    os_ << ToString(op->dtype) << "(" << Number(op->value) << ")";
  }
  void Visit(const StringImmNode* op) override {
    os_ << '"';
    for (char c : std::string(op->value)) {
      if (c == '\n') {
        os_ << "\\n";
      } else {
        os_ << (c == '"' || c == '\\' ? "\\" : "") << c;
      }
    }
    os_ << '"';
  }
  void Visit(const VarNode* op) override { os_ << Name(op, op->name); }
  void Visit(const BinaryNode* op) override {
    if (op->Op() == BinaryOp::kMin || op->Op() == BinaryOp::kMax) {
      os_ << Spelling(op->Op());
      Arguments({op->a, op->b});
      return;
    }
    int precedence = Precedence(op->Op());
    bool parenthesize = precedence < context_;
    if (parenthesize) os_ << "(";
    Operand(op->a, precedence);
    os_ << " " << Spelling(op->Op()) << " ";
    Operand(op->b, precedence + 1);
    if (parenthesize) os_ << ")";
  }
  void Visit(const UnaryNode* op) override {
    os_ << Spelling(op->Op());
    Operand(op->a, kUnaryPrecedence);
  }
  void Visit(const SelectNode* op) override {
    os_ << "select";
    Arguments({op->condition, op->true_value, op->false_value});
  }
  void Visit(const CastNode* op) override {
    os_ << ToString(op->dtype);
    Arguments({op->value});
  }
  void Visit(const LoadNode* op) override { Element(op->buffer, op->indices); }
  void Visit(const CallNode* op) override {
    os_ << std::string(op->name);
    if (op->Is(Builtin::kReinterpret)) os_ << "<" << ToString(op->dtype) << ">";
    Arguments(std::vector<Expr>(op->args.begin(), op->args.end()));
  }

  void VisitStmt(const Stmt& s) override {
    starts_.emplace_back(static_cast<size_t>(os_.tellp()), s->span);
    if (s->kind != StmtKind::kSeq) os_ << std::string(2 * indent_, ' ');
    StmtVisitor::VisitStmt(s);
  }
  void Visit(const StoreNode* op) override {
    Element(op->buffer, op->indices);
    os_ << " = ";
    Operand(op->value, 0);
    os_ << "\n";
  }
  void Visit(const EvaluateNode* op) override {
    Operand(op->value, 0);
    os_ << "\n";
  }
  void Visit(const BindNode* op) override {
    os_ << Name(op->var.get(), op->var->name) << ": " << ToString(op->var.dtype()) << " = ";
    Operand(op->value, 0);
    os_ << "\n";
  }
  void Visit(const SeqNode* op) override {
    if (op->stmts.empty()) os_ << std::string(2 * indent_, ' ') << "pass\n";
    for (const Stmt& s : op->stmts) {
      // A nested sequence is a scope of its own.
      if (s->kind == StmtKind::kSeq) {
        os_ << std::string(2 * indent_, ' ') << "scope:\n";
        Block(s);
      } else {
        VisitStmt(s);
      }
    }
  }
  void Visit(const IfNode* op) override {
    os_ << "if ";
    Operand(op->condition, 0);
    os_ << ":\n";
    Block(op->then_case);
    if (op->else_case.defined()) {
      os_ << std::string(2 * indent_, ' ') << "else:\n";
      Block(op->else_case);
    }
  }
  void Visit(const ForNode* op) override {
    static const char* const kKinds[] = {"serial", "unroll", "vectorized", "Pipelined"};
    os_ << "for " << Name(op->var.get(), op->var->name) << " in " << kKinds[op->for_kind] << "(";
    if (!IsConst(op->min, 0)) {
      Operand(op->min, 0);
      os_ << ", ";
    }
    Operand(op->extent, 0);
    Annotations(op->annotations);
    os_ << "):\n";
    Block(op->body);
  }
  void Visit(const WhileNode* op) override {
    os_ << "while ";
    Operand(op->condition, 0);
    os_ << ":\n";
    Block(op->body);
  }
  void Visit(const BreakNode*) override { os_ << "break\n"; }
  void Visit(const ContinueNode*) override { os_ << "continue\n"; }
  void Visit(const AllocNode* op) override {
    os_ << "alloc " << Declaration(op->buffer) << " in " << std::string(op->buffer->scope);
    Annotations(op->buffer->attrs);
    os_ << "\n";
  }
  void Visit(const AssumeNode* op) override {
    os_ << "assume ";
    Operand(op->condition, 0);
    os_ << "\n";
  }
  void Visit(const AssertNode* op) override {
    os_ << "assert ";
    Operand(op->condition, 0);
    os_ << ", \"" << std::string(op->message) << "\"\n";
  }
  void Visit(const KernelLaunchNode* op) override {
    os_ << "launch";
    for (size_t i = 0; i < op->grid.size(); ++i) {
      os_ << (i == 0 ? " grid(" : ", ") << Name(op->block_vars[i].get(), op->block_vars[i]->name)
          << ": ";
      Operand(op->grid[i], 0);
    }
    os_ << ")";
    for (size_t i = 0; i < op->threads.size(); ++i) {
      os_ << (i == 0 ? " threads(" : ", ")
          << Name(op->thread_vars[i].get(), op->thread_vars[i]->name) << ": ";
      Operand(op->threads[i], 0);
    }
    os_ << "):\n";
    Attributes(op->attrs, indent_ + 1);
    Block(op->body);
  }
  void Visit(const IssueNode* op) override {
    os_ << "issue";
    Of(op->completion);
    if (op->awaited) os_ << ", awaited";
    os_ << ":\n";
    Block(op->body);
  }
  void Visit(const WaitNode* op) override {
    os_ << "wait";
    Of(op->completion);
    if (op->left != 0) os_ << ", left=" << op->left;
    if (op->written) os_ << ", written";
    os_ << "\n";
  }
  void Visit(const ArriveNode* op) override { Ordering(op); }
  void Visit(const WaitParityNode* op) override { Ordering(op); }
  void Visit(const FenceNode* op) override { Ordering(op); }
  void Visit(const BarrierNode* op) override { Ordering(op); }
  void Visit(const TmemAllocNode* op) override { Ordering(op); }
  void Visit(const CommitGroupNode* op) override { Ordering(op); }
  void Visit(const WaitGroupNode* op) override { Ordering(op); }
  void Visit(const MbarrierInitNode* op) override { Ordering(op); }
  void Visit(const GridDependencyNode* op) override { Ordering(op); }
  void Visit(const CopyNode* op) override {
    os_ << "copy(";
    VisitRegion(op->src);
    os_ << ", ";
    VisitRegion(op->dst);
    Barrier(op->mbar);
    if (op->block.defined()) {
      os_ << ", block=";
      Operand(op->block, 0);
    }
    if (op->safe_value.defined()) {
      os_ << ", safe_value=";
      Operand(op->safe_value, 0);
    }
    if (!op->rows.empty()) {
      os_ << ", rows=[";
      for (size_t i = 0; i < op->rows.size(); ++i) {
        if (i > 0) os_ << ", ";
        Operand(op->rows[i], 0);
      }
      os_ << "]";
    }
    Values(op->options->Given());
    os_ << ")\n";
  }
  void Visit(const FillNode* op) override {
    os_ << "fill(";
    VisitRegion(op->dst);
    os_ << ", ";
    Operand(op->value, 0);
    os_ << ")\n";
  }
  void Visit(const ReduceNode* op) override {
    os_ << "reduce_" << std::string(op->op) << "(";
    VisitRegion(op->src);
    os_ << ", ";
    VisitRegion(op->dst);
    os_ << ", dim=" << op->dim << ", clear=" << (op->clear ? "True" : "False");
    if (op->nan_propagate) os_ << ", nan_propagate=True";
    if (op->slack.defined()) {
      os_ << ", slack=";
      Operand(op->slack, 0);
    }
    os_ << ")\n";
  }
  void Visit(const ParallelForNode* op) override {
    os_ << "for ";
    for (size_t i = 0; i < op->vars.size(); ++i) {
      os_ << (i == 0 ? "" : ", ") << Name(op->vars[i].get(), op->vars[i]->name);
    }
    os_ << " in Parallel";
    Arguments(std::vector<Expr>(op->extents.begin(), op->extents.end()), op->annotations);
    os_ << ":\n";
    Block(op->body);
  }
  void Visit(const GemmNode* op) override {
    os_ << "gemm(";
    for (const GemmOperand& operand : op->operands) {
      if (!operand->IsMatrix()) os_ << operand->name() << "=";
      VisitRegion(operand->region);
      os_ << (operand->transposed ? ".T, " : ", ");
    }
    os_ << "clear_accum=";
    Operand(op->clear_accum, 0);
    if (op->k_start.defined()) {
      os_ << ", k_start=";
      Operand(op->k_start, 0);
    }
    Barrier(op->mbar);
    Annotations(op->annotations);
    os_ << ")\n";
  }
  void VisitRegion(const Region& region) override {
    os_ << Name(region->buffer.get(), region->buffer->name);
    if (region.IsWhole()) return;
    os_ << "[";
    for (size_t i = 0; i < region->mins.size(); ++i) {
      if (i != 0) os_ << ", ";
      Operand(region->mins[i], 0);
      if (IsConst(region->extents[i], 1)) continue;
      os_ << ":";
      Operand(region->mins[i] + CastTo(region->mins[i].dtype(), region->extents[i]), 0);
    }
    os_ << "]";
  }
  void Operand(const Expr& e, int precedence) {
    int saved = context_;
    context_ = precedence;
    VisitExpr(e);
    context_ = saved;
  }

 private:
  void Ordering(const StmtNode* op) {
    Operand(CallFor(ffi::GetRef<Stmt>(op)), 0);
    os_ << "\n";
  }
  std::string Name(const ffi::Object* object, const String& base) {
    auto it = names_.find(object);
    if (it != names_.end()) return it->second;
    std::string name = base.empty() ? "_" : std::string(base);
    for (int i = 1; used_.count(name) != 0; ++i) name = std::string(base) + "_" + std::to_string(i);
    used_.insert(name);
    return names_[object] = name;
  }
  void Of(const Completion& completion) {
    if (completion->barrier.defined()) {
      os_ << " " << Name(completion->barrier.get(), completion->barrier->name);
      return;
    }
    if (completion->engine_kind() == Engine::kTmaStore) {
      os_ << " stores of threads " << completion->threads[0] << ":"
          << completion->threads[0] + completion->threads[1];
      return;
    }
    os_ << " wgmma(";
    for (size_t i = 0; i < completion->registers.size(); ++i) {
      const Buffer& registers = completion->registers[i];
      os_ << (i == 0 ? "" : ", ") << Name(registers.get(), registers->name);
    }
    os_ << ")";
  }
  std::string Declaration(const Buffer& buffer) {
    Printer inner;
    inner.names_ = names_;
    inner.used_ = used_;
    inner.os_ << inner.Name(buffer.get(), buffer->name) << ": " << ToString(buffer->dtype);
    inner.List(buffer->shape);
    if (!buffer->strides.empty()) {
      inner.os_ << " strides";
      inner.List(buffer->strides);
    }
    names_ = inner.names_;
    used_ = inner.used_;
    return inner.Take();
  }
  void List(const Array<Expr>& items) {
    os_ << "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) os_ << ", ";
      Operand(items[i], 0);
    }
    os_ << "]";
  }
  void Element(const Buffer& buffer, const Array<Expr>& indices) {
    os_ << Name(buffer.get(), buffer->name);
    List(indices);
  }
  void Arguments(const std::vector<Expr>& args, const Map<String, Any>& annotations = {}) {
    os_ << "(";
    for (size_t i = 0; i < args.size(); ++i) {
      if (i != 0) os_ << ", ";
      Operand(args[i], 0);
    }
    Annotations(annotations);
    os_ << ")";
  }
  void Value(const Any& value) {
    if (auto e = value.as<Expr>()) {
      Operand(*e, 0);
    } else if (auto i = value.try_cast<int64_t>()) {
      os_ << *i;
    } else if (auto s = value.as<String>()) {
      os_ << std::string(*s);
    } else if (auto buffer = value.as<Buffer>()) {
      os_ << Name(buffer->get(), (*buffer)->name);
    } else if (auto items = value.as<Array<Any>>()) {
      os_ << "[";
      for (size_t i = 0; i < items->size(); ++i) {
        if (i != 0) os_ << ", ";
        Value((*items)[i]);
      }
      os_ << "]";
    } else if (auto map = value.as<Map<Any, Any>>()) {
      os_ << "{";
      std::vector<std::string> lines = MapLines(*map);
      for (size_t i = 0; i < lines.size(); ++i) os_ << (i == 0 ? "" : ", ") << lines[i];
      os_ << "}";
    } else {
      os_ << ObjectText(value);
    }
  }
  // "key: value" in the order of the text.
  std::vector<std::string> MapLines(const Map<Any, Any>& map) {
    std::vector<std::string> lines;
    for (const auto& item : map) {
      std::ostringstream line;
      os_.swap(line);
      Value(item.first);
      os_ << ": ";
      Value(item.second);
      os_.swap(line);
      lines.push_back(line.str());
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  // Objects of other folders print through the registry: "tl.print." and the key of their type.
  static std::string ObjectText(const Any& value) {
    if (auto s = value.as<String>()) return std::string(*s);
    std::string hook = "tl.print." + value.GetTypeKey();
    if (auto fn = ffi::Function::GetGlobal(hook)) return std::string((*fn)(value).cast<String>());
    return "<" + value.GetTypeKey() + ">";
  }
  void Barrier(const Expr& mbar) {
    if (!mbar.defined()) return;
    os_ << ", mbar=";
    Operand(mbar, 0);
  }
  void Annotations(const Map<String, Any>& annotations) {
    std::vector<std::pair<std::string, Any>> sorted;
    for (const auto& item : annotations) sorted.emplace_back(std::string(item.first), item.second);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    Values(sorted);
  }
  void Values(const std::vector<std::pair<std::string, Any>>& named) {
    for (const auto& [key, value] : named) {
      os_ << ", " << key << "=";
      Value(value);
    }
  }
  void Attributes(const Map<String, Any>& attrs, int indent) {
    std::vector<std::pair<std::string, Any>> sorted;
    for (const auto& item : attrs) sorted.emplace_back(std::string(item.first), item.second);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, value] : sorted) {
      os_ << std::string(2 * indent, ' ') << "# " << key << " = ";
      auto map = value.as<Map<Any, Any>>();
      if (map && map->size() > 1) {
        os_ << "{\n";
        for (const std::string& line : MapLines(*map)) {
          os_ << std::string(2 * indent, ' ') << "#   " << line << "\n";
        }
        os_ << std::string(2 * indent, ' ') << "# }\n";
        continue;
      }
      Value(value);
      os_ << "\n";
    }
  }
  void Block(const Stmt& s) {
    ++indent_;
    VisitStmt(s);
    --indent_;
  }

  std::ostringstream os_;
  std::vector<std::pair<size_t, Span>> starts_;  // of statements in the text
  int indent_ = 0;
  int context_ = 0;
  std::unordered_map<const ffi::Object*, std::string> names_;
  std::unordered_set<std::string> used_;
};

}  // namespace

std::string Print(const Func& func) {
  Printer printer;
  printer.PrintFunc(func);
  return printer.Take();
}

PlacedText PrintWithPlaces(const Func& func) {
  Printer printer;
  printer.PrintFunc(func);
  return {printer.Take(), printer.Places()};
}

std::string Print(const Stmt& stmt) {
  Printer printer;
  printer.VisitStmt(stmt);
  return printer.Take();
}

std::string Print(const Expr& expr) {
  Printer printer;
  printer.Operand(expr, 0);
  return printer.Take();
}

std::string Print(const Region& region) {
  Printer printer;
  printer.VisitRegion(region);
  return printer.Take();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  registry::Functions().Add("tl.ir.Print", [](ffi::ObjectRef node) {
    if (auto func = node.as<Func>()) return String(Print(*func));
    if (auto stmt = node.as<Stmt>()) return String(Print(*stmt));
    if (auto region = node.as<Region>()) return String(Print(*region));
    return String(Print(Any(node).cast<Expr>()));
  });
}

}  // namespace tilelang::ir
