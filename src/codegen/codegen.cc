#include "codegen/codegen.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "codegen/named_tiles.h"
#include "codegen/stmt_printer.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/min_blocks.h"
#include "ir/next_tile.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "registry/functions.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Finds a comparison of a constant with an index of the launch's threads and the variable of an
// unrolled loop: whether a register of the thread holds an element.
class RegisterTestFinder : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  explicit RegisterTestFinder(const KernelLaunchNode* launch) : threads_(launch->thread_vars) {
    VisitStmt(launch->body);
  }
  bool found() const { return found_; }

  void Visit(const ForNode* op) override {
    if (op->Kind() == ForKind::kUnrolled) unrolled_.push_back(op->var);
    StmtVisitor::Visit(op);
  }
  void Visit(const BinaryNode* op) override {
    bool compares = op->Op() == BinaryOp::kLt || op->Op() == BinaryOp::kLe;
    if (compares && AsInt(op->b) && !found_) {
      auto used = [&](const Var& var) { return UsesVar(op->a, var); };
      found_ = std::any_of(threads_.begin(), threads_.end(), used) &&
               std::any_of(unrolled_.begin(), unrolled_.end(), used);
    }
    StmtVisitor::Visit(op);
  }

 private:
  Array<Var> threads_;
  std::vector<Var> unrolled_;
  bool found_ = false;
};

// Collects the names that the body of a kernel uses and does not define.
class FreeNames : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  std::vector<Var> vars;        // in order of first use
  std::vector<Buffer> buffers;  // global ones
  std::unordered_set<const ffi::Object*> written;
  std::vector<Expr> callees;  // names of functions that the user brings along

  void Define(const Var& var) { known_.insert(var.get()); }

  void Visit(const VarNode* op) override {
    if (known_.insert(op).second) vars.push_back(ffi::GetRef<Var>(op));
  }
  void Visit(const ForNode* op) override {
    Define(op->var);
    StmtVisitor::Visit(op);
  }
  void Visit(const BindNode* op) override {
    VisitExpr(op->value);
    Define(op->var);
  }
  void Visit(const AllocNode* op) override {
    known_.insert(op->buffer.get());
    StmtVisitor::Visit(op);
    auto init = op->buffer->attrs.find("init");
    if (init != op->buffer->attrs.end()) VisitExpr((*init).second.cast<Expr>());
  }
  void Visit(const StoreNode* op) override {
    written.insert(op->buffer.get());
    StmtVisitor::Visit(op);
  }
  void Visit(const CallNode* op) override {
    for (const MemoryEffect& effect : CallEffects(op)) {
      if (effect.write) written.insert(effect.buffer.get());
    }
    if (op->Is(Builtin::kExtern)) callees.push_back(op->args[0]);
    StmtVisitor::Visit(op);
  }

 protected:
  void VisitBuffer(const Buffer& buffer) override {
    if (buffer.IsGlobal() && known_.insert(buffer.get()).second) buffers.push_back(buffer);
  }

 private:
  std::unordered_set<const ffi::Object*> known_;
};

template <typename T>
T Attr(const Map<String, Any>& attrs, const char* key, T fallback) {
  auto it = attrs.find(key);
  return it == attrs.end() ? fallback : (*it).second.template cast<T>();
}

bool WaitsForGrid(const Stmt& s) {
  const auto* barrier = s.as<BarrierNode>();
  return barrier != nullptr && barrier->Kind() == BarrierKind::kGrid;
}

bool WaitsForPreviousGrid(const Stmt& s) {
  const auto* dependency = s.as<GridDependencyNode>();
  return dependency != nullptr && dependency->waits;
}

// Returns whether a thread of the kernel may wait for others, or learn by other means that they
// have written.
bool OrdersThreads(const Stmt& body) {
  bool orders = HasStmt(body, [](const Stmt& s) {
    return s->kind == StmtKind::kBarrier || s->kind == StmtKind::kWait ||
           s->kind == StmtKind::kWaitParity || s->kind == StmtKind::kFence;
  });
  return orders || HasCall(body, [](const CallNode* call) {
           return IsUnknown(call) || IsAtomic(call) ||
                  (call->intrinsic != nullptr &&
                   call->intrinsic->participants == Participants::kCta);
         });
}

// Writes one kernel.
class KernelPrinter {
 public:
  KernelPrinter(const Func& func, const Target& target, const KernelLaunchNode* launch,
                std::string name)
      : func_(func), target_(target), launch_(launch), name_(std::move(name)), exprs_(&names_) {}

  KernelInfo Print() {
    info_ = ffi::make_object<KernelInfoNode>();
    info_->name = name_;
    info_->grid = launch_->grid;
    info_->cluster = Attr(launch_->attrs, "cluster_dims", Array<int64_t>());
    info_->dyn_smem_bytes = Attr<int64_t>(launch_->attrs, "dyn_smem_bytes", 0);
    if (auto bytes = launch_->attrs.Get("smem_at_call"))
      info_->smem_at_call = (*bytes).cast<Expr>();
    info_->cooperative = HasStmt(launch_->body, WaitsForGrid);
    info_->dependent =
        target_->major >= 9 && !info_->cooperative && HasStmt(launch_->body, WaitsForPreviousGrid);
    info_->tiles = NamedTilesOf(launch_);
    CollectParams();
    PrintBody();
    info_->alignment = exprs_.alignment();
    return KernelInfo(ffi::ObjectPtr<KernelInfoNode>(info_));
  }
  const SourceWriter& source() const { return out_; }
  const ExprPrinter& exprs() const { return exprs_; }

 private:
  void CollectParams();
  void AddParam(const Any& param, const std::string& declaration) {
    info_->params.push_back(param);
    declarations_.push_back(declaration);
  }
  void AddScalar(const Var& var) { AddParam(var, exprs_.Type(var.dtype()) + " " + names_.Of(var)); }
  // Finds the stores that arrivals on mbarriers of other blocks must publish.
  void FindWhatIsPublished();
  // Finds the memory that the kernel both reads and writes.
  void FindWhatIsExchanged();
  bool IsRestricted(const Buffer& tensor) const;
  void PrintBody();
  void PrintIndices();
  // The offsets in shared memory that the call decides.
  Map<Buffer, Expr> OffsetsAtCall() const {
    return Attr(launch_->attrs, "smem_offsets_at_call", Map<Buffer, Expr>());
  }
  std::string Attributes();

  Func func_;
  Target target_;
  const KernelLaunchNode* launch_;
  std::string name_;
  Names names_;
  ExprPrinter exprs_;
  SourceWriter out_;
  ffi::ObjectPtr<KernelInfoNode> info_;
  std::vector<std::string> declarations_;
  // The memory that the kernel reads and writes, without numbers of tiles.
  std::unordered_set<const ffi::Object*> exchanged_;
};

void KernelPrinter::CollectParams() {
  auto maps = Attr(launch_->attrs, "tensor_maps", Array<TensorMapInfo>());
  FreeNames free;
  for (const Var& var : launch_->block_vars) free.Define(var);
  for (const Var& var : launch_->thread_vars) free.Define(var);
  for (const TensorMapInfo& map : maps) free.Define(map->var);
  free.VisitStmt(launch_->body);
  for (const auto& [buffer, offset] : OffsetsAtCall()) free.VisitExpr(offset);
  for (const Expr& callee : free.callees) {
    if (const auto* name = callee.as<StringImmNode>()) names_.Reserve(name->value);
  }

  std::unordered_set<const ffi::Object*> used;
  for (const Var& var : free.vars) used.insert(var.get());
  FindWhatIsExchanged();
  auto add_buffer = [&](const Buffer& buffer) {
    bool written = free.written.count(buffer.get()) != 0;
    std::string type = (written ? "" : "const ") + exprs_.Type(buffer->dtype) + "* ";
    if (IsRestricted(buffer)) {
      type += "__restrict__ ";
      if (!written) exprs_.AddConstant(buffer);
    }
    AddParam(buffer, type + names_.Of(buffer));
  };
  std::unordered_set<const ffi::Object*> given;
  for (const Any& param : func_->params) {
    given.insert(param.cast<ffi::ObjectRef>().get());
    if (auto buffer = param.as<Buffer>()) {
      if (HasSame(free.buffers, *buffer)) add_buffer(*buffer);
    } else if (Var var = param.cast<Var>(); used.count(var.get())) {
      AddScalar(var);
    }
  }
  for (const Buffer& buffer : free.buffers) {  // scratch
    if (!given.count(buffer.get())) add_buffer(buffer);
  }
  for (const Var& var : free.vars) {  // symbolic dimensions
    if (!given.count(var.get())) AddScalar(var);
  }
  FindWhatIsPublished();
  exprs_.analyzer()->BindParams(func_->params);
  exprs_.analyzer()->BindLaunch(launch_);
  for (const TensorMapInfo& map : maps) {
    exprs_.UseHeader("tensor_map.h");
    exprs_.AddTensorMap(map->var);
    AddParam(map, "const __grid_constant__ CUtensorMap " + names_.Of(map->var));
  }
}

void KernelPrinter::FindWhatIsExchanged() {
  std::unordered_set<const ffi::Object*> read;
  std::unordered_set<const ffi::Object*> written;
  auto add = [&](const Buffer& buffer, bool reads, bool writes) {
    if (!buffer.IsGlobal() || buffer->attrs.count(kTileNumbers) != 0) return;
    if (reads) read.insert(MemoryOf(buffer));
    if (writes) written.insert(MemoryOf(buffer));
  };
  WalkEffects(launch_->body, [&](const Effect& effect) {
    if (effect.kind != EffectKind::kAddress) add(effect.buffer, effect.Reads(), effect.Writes());
  });
  WalkExprs(launch_->body, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      for (const MemoryEffect& effect : CallEffects(call)) {
        add(effect.buffer, effect.read, effect.write);
      }
    }
    return true;
  });
  for (const auto* tensor : written) {
    if (read.count(tensor) != 0) exchanged_.insert(tensor);
  }
}

// Returns whether the tensor can be declared with __restrict__, under which NVRTC moves accesses
// across barriers. It cannot if a thread may read what another thread has written, through this
// tensor or an overlapping one.
bool KernelPrinter::IsRestricted(const Buffer& tensor) const {
  auto ordered = Attr(launch_->attrs, "ordered_tensors", Array<Buffer>());
  bool exchanged = exchanged_.count(MemoryOf(tensor)) != 0 && OrdersThreads(launch_->body);
  return !exchanged && !HasSame(ordered, tensor) && !MayOverlapOthers(tensor);
}

void KernelPrinter::FindWhatIsPublished() {
  bool arrives = HasStmt(launch_->body, [](const Stmt& s) {
    const auto* arrive = s.as<ArriveNode>();
    return arrive != nullptr && arrive->IsByThread() && arrive->block.defined();
  });
  bool publishes = !exchanged_.empty() || HasCall(launch_->body, [](const CallNode* call) {
    bool ordered = call->attrs.count(op::kAcrossBlocks) != 0;
    return (call->Is(Builtin::kStoreToBlock) && !ordered) || call->Is(Builtin::kExtern);
  });
  if (arrives && publishes) exprs_.PublishToBlocks();
}

std::string KernelPrinter::Attributes() {
  int64_t threads = 1;
  for (int64_t extent : info_->block) threads *= extent;
  std::string text = "__launch_bounds__(" + std::to_string(threads) + ", " +
                     std::to_string(ir::MinBlocks(launch_)) + ")";
  // A block alone is a cluster everywhere, also where there are no others.
  if (op::ClusterSize(launch_) == 1) return text;
  text += " __cluster_dims__(";
  for (size_t i = 0; i < info_->cluster.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(info_->cluster[i]);
  }
  return text + ")";
}

void KernelPrinter::PrintIndices() {
  static constexpr const char* kAxes[] = {".x", ".y", ".z"};
  auto declare = [&](const Var& var, const std::string& value) {
    out_.Line("const " + exprs_.Type(var.dtype()) + " " + names_.Of(var) + " = " + value + ";");
  };
  auto panel = Attr<int64_t>(launch_->attrs, "swizzle_panel", 0);
  std::string block = "blockIdx";
  if (panel > 0) {
    exprs_.UseHeader("block_swizzle.h");
    bool columns = Attr(launch_->attrs, "swizzle_order", String("row")) == "column";
    block = "block_index";
    auto cluster = Attr(launch_->attrs, "cluster_dims", Array<int64_t>());
    std::string arguments = std::to_string(panel);
    for (size_t i = 0; i < std::min<size_t>(cluster.size(), 2); ++i) {
      arguments += ", " + std::to_string(cluster[static_cast<int64_t>(i)]);
    }
    out_.Line(std::string("const uint3 block_index = tl::swizzle_") +
              (columns ? "columns" : "rows") + "<" + arguments + ">();");
  }
  for (size_t i = 0; i < launch_->block_vars.size(); ++i) {
    declare(launch_->block_vars[i], block + kAxes[i]);
  }
  for (size_t i = 0; i < launch_->thread_vars.size(); ++i) {
    declare(launch_->thread_vars[i], std::string("threadIdx") + kAxes[i]);
  }
  // Not all versions of nvcc know this from the launch bounds, and each test that always holds
  // would be a branch, behind which loads wait for those before it.
  if (!RegisterTestFinder(launch_).found()) return;
  for (size_t i = 0; i < launch_->thread_vars.size(); ++i) {
    const std::string& name = names_.Of(launch_->thread_vars[i]);
    std::string extent = std::to_string(*AsInt(launch_->threads[i]));
    out_.Line("__builtin_assume(0 <= " + name + " && " + name + " < " + extent + ");");
  }
}

void KernelPrinter::PrintBody() {
  for (const Expr& extent : launch_->threads) info_->block.push_back(*AsInt(extent));
  out_.SetSpan(launch_->span);
  std::string head = "extern \"C\" __global__ void " + Attributes() + " " + name_ + "(";
  if (declarations_.empty()) {
    out_.Open(head + ")");
  } else {
    out_.Line(head);
    out_.Indent();
    out_.Indent();
    for (size_t i = 0; i < declarations_.size(); ++i) {
      bool last = i + 1 == declarations_.size();
      out_.Line(declarations_[i] + (last ? ") {" : ","));
    }
    out_.Dedent();
  }
  if (info_->dyn_smem_bytes > 0) {
    out_.Line("extern __shared__ __align__(1024) unsigned char smem[];");
  }
  PrintIndices();
  auto smem_offsets = Attr(launch_->attrs, "smem_offsets", Map<Buffer, int64_t>());
  StmtPrinter(&out_, &exprs_, &names_, smem_offsets, OffsetsAtCall()).Print(launch_->body);
  out_.Close();
}

std::vector<const KernelLaunchNode*> Launches(const Func& func) {
  std::vector<const KernelLaunchNode*> launches;
  WalkStmts(func->body, [&](const Stmt& s) {
    if (const auto* launch = s.as<KernelLaunchNode>()) {
      launches.push_back(launch);
      return false;
    }
    return true;
  });
  return launches;
}

}  // namespace

CompiledFunc Codegen(const Func& func, const Target& target, const CodegenOptions& options) {
  auto result = ffi::make_object<CompiledFuncNode>();
  result->func = func;
  if (options.fast_math) result->options.push_back("--use_fast_math");
  SourceWriter kernels;
  std::set<std::string> headers{"common.h"};
  std::set<std::string> definitions;
  std::vector<std::string> preludes;  // what the user brings along, in order
  for (const KernelLaunchNode* launch : Launches(func)) {
    std::string prelude = Attr(launch->attrs, "prelude", String());
    if (std::find(preludes.begin(), preludes.end(), prelude) == preludes.end()) {
      preludes.push_back(prelude);
    }
    std::string name = Identifier(func->name) + "_kernel";
    if (!result->kernels.empty()) name += "_" + std::to_string(result->kernels.size());
    KernelPrinter printer(func, target, launch, name);
    result->kernels.push_back(printer.Print());
    headers.merge(std::set(printer.exprs().headers()));
    definitions.merge(std::set(printer.exprs().definitions()));
    kernels.Line("");
    kernels.Append(printer.source());
  }
  TL_CHECK(!result->kernels.empty(), func->span, "the function launches no kernel");
  SourceWriter source;
  source.Line("#include <tl_templates/cuda/common.h>");
  headers.erase("common.h");
  for (const std::string& header : headers) {
    source.Line("#include <tl_templates/cuda/" + header + ">");
  }
  auto add_lines = [&](const std::string& text) {
    if (text.empty()) return;
    source.Line("");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) source.Line(line);
  };
  for (const std::string& definition : definitions) add_lines(definition);
  for (const std::string& prelude : preludes) {
    if (prelude.empty()) continue;
    // tilelang/runtime/nvrtc.py finds the user's own lines between these two.
    source.Line("");
    source.Line("// C++ source of the program");
    source.Line("typedef unsigned short ushort;  // as the C library of nvcc's host declares them");
    source.Line("typedef unsigned int uint;");
    add_lines(prelude);
    source.Line("// end of it");
  }
  source.Append(kernels);
  result->source = source.Readable();
  result->lined_source = source.WithLineDirectives();
  return CompiledFunc(result);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.codegen.Codegen", [](Func func, String arch, bool fast_math) {
    return Codegen(func, GetTarget(arch), {.fast_math = fast_math});
  });
}

}  // namespace tilelang
