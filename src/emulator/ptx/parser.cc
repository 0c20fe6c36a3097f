#include <bit>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "emulator/ptx/ast.h"
#include "emulator/ptx/operand_parser.h"
#include "emulator/ptx/token_stream.h"

namespace tilelang::emulator::ptx {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(text) {}

  Program Run() {
    while (!tokens_.AtEnd()) TopLevel();
    program_.lines = tokens_.lines();
    return std::move(program_);
  }

 private:
  const Token& Peek(size_t ahead = 0) const { return tokens_.Peek(ahead); }
  const Token& Advance() { return tokens_.Advance(); }
  bool Accept(char c) { return tokens_.Accept(c); }
  void Expect(char c) { tokens_.Expect(c); }
  bool IsPunctuation(char c, size_t ahead = 0) const { return tokens_.IsPunctuation(c, ahead); }
  bool IsDotted(std::string_view name) const { return tokens_.IsDotted(name); }
  bool AcceptDotted(std::string_view name) { return tokens_.AcceptDotted(name); }
  std::string Identifier() { return tokens_.Identifier(); }
  [[noreturn]] void Error(const std::string& message) const { tokens_.Error(message); }
  // Parses the number of a directive that has no limit of its own.
  int Count(const std::string& what) {
    return static_cast<int>(tokens_.IntegerIn(0, std::numeric_limits<int>::max(), what));
  }
  // Skips the tokens on the current line (directives that end at the newline).
  void SkipLine() {
    int line = Peek().line;
    while (!tokens_.AtEnd() && Peek().line == line) Advance();
  }

  // --- module level ---------------------------------------------------------------------------
  void TopLevel() {
    if (Accept(';')) return;
    if (AcceptDotted("version")) return VersionDirective();
    if (AcceptDotted("target")) return TargetDirective();
    if (AcceptDotted("address_size")) {
      tokens_.IntegerIn(64, 64, ".address_size");
      return;
    }
    if (IsDotted("file")) return FileDirective();
    if (IsDotted("loc")) return SkipLine();
    if (IsDotted("section")) return SkipSection();
    if (AcceptDotted("pragma") || AcceptDotted("alias")) return SkipToSemicolon();
    bool is_extern = false;
    while (IsDotted("visible") || IsDotted("weak") || IsDotted("extern") || IsDotted("common")) {
      is_extern |= IsDotted("extern");
      Advance();
    }
    if (IsDotted("entry") || IsDotted("func")) return ParseFunction();
    for (Variable& variable : VariableDeclarations()) {
      variable.is_extern = is_extern;
      program_.variables.push_back(std::move(variable));
    }
    Expect(';');
  }

  void VersionDirective() {
    program_.version = std::string(Peek().text);
    SkipLine();
  }
  void TargetDirective() {
    program_.target = std::string(Peek().text);
    SkipLine();
  }

  void FileDirective() {
    int line = Peek().line;
    Advance();
    SourceFile file;
    file.index = Count("the index of a .file");
    if (Peek().kind == TokenKind::kString) file.path = std::string(Advance().text);
    program_.files.push_back(file);
    while (!tokens_.AtEnd() && Peek().line == line) Advance();
  }

  void SkipSection() {
    while (!IsPunctuation('{')) {
      if (tokens_.AtEnd()) Error("'{' expected after .section");
      Advance();
    }
    int depth = 0;
    do {
      if (IsPunctuation('{')) ++depth;
      if (IsPunctuation('}')) --depth;
      if (tokens_.AtEnd()) Error("unterminated .section");
      Advance();
    } while (depth > 0);
  }

  void SkipToSemicolon() {
    while (!IsPunctuation(';')) {
      if (tokens_.AtEnd()) Error("';' expected");
      Advance();
    }
    Advance();
  }

  // --- variables ------------------------------------------------------------------------------
  bool AcceptSpace(Variable* variable) {
    static const std::pair<const char*, Space> kSpaces[] = {
        {"global", Space::kGlobal}, {"shared", Space::kShared}, {"local", Space::kLocal},
        {"param", Space::kParam},   {"const", Space::kConst},   {"shared::cta", Space::kShared}};
    if (AcceptDotted("reg")) {
      variable->is_register = true;
      return true;
    }
    for (const auto& [name, space] : kSpaces) {
      if (AcceptDotted(name)) {
        variable->space = space;
        return true;
      }
    }
    return false;
  }

  // Space, attributes and type, up to the name.
  Variable DeclarationHead() {
    Variable variable;
    if (!AcceptSpace(&variable)) {
      Error("unknown directive '" + std::string(Peek().text) + "'");
    }
    VariableAttributes(&variable);
    return variable;
  }

  // The variables of one declaration, which ends at (not including) its ';'.
  std::vector<Variable> VariableDeclarations() {
    std::vector<Variable> variables;
    const Variable head = DeclarationHead();
    do {
      variables.push_back(head);
      VariableName(&variables.back());
    } while (Accept(','));
    return variables;
  }

  void VariableAttributes(Variable* variable) {
    bool pointer = false;
    while (Peek().kind == TokenKind::kDotted) {
      std::string name(Advance().text);
      if (name == "align") {
        const int64_t align = tokens_.IntegerIn(1, kMaxAlign, ".align");
        if (!std::has_single_bit(static_cast<uint64_t>(align))) {
          Error(".align must be a power of two, not " + std::to_string(align));
        }
        if (!pointer) variable->align = static_cast<uint32_t>(align);
      } else if (name == "v2" || name == "v4" || name == "v8") {
        variable->vector = name[1] - '0';
      } else if (name == "ptr") {
        pointer = true;  // .ptr .global .align 16: properties of the pointee
      } else if (name == "attribute") {
        SkipParentheses();
      } else if (Type type = ParseType(name); type != Type::kNone) {
        variable->type = type;
      } else if (!pointer && name != "volatile") {
        Error("unknown attribute '." + name + "' in a declaration");
      }
    }
  }

  void SkipParentheses() {
    Expect('(');
    while (!Accept(')')) {
      if (tokens_.AtEnd()) Error("')' expected");
      Advance();
    }
  }

  void VariableName(Variable* variable) {
    variable->line = Peek().line;
    variable->name = Identifier();
    if (variable->is_register && Accept('<')) {
      variable->range = Count("the number of registers of '" + variable->name + "'");
      Expect('>');
    }
    while (Accept('[')) {
      variable->is_array = true;
      if (Accept(']')) {
        variable->count = 0;
        continue;
      }
      Dimension(variable);
      Expect(']');
    }
    if (Accept('=')) {
      Initializer(variable);
      if (variable->is_array && variable->count == 0)
        variable->count = variable->initializer.size();
    }
  }

  void Dimension(Variable* variable) {
    const std::string what = "an extent of '" + variable->name + "'";
    const int64_t extent = tokens_.IntegerIn(0, kMaxBytes, what);
    const bool wraps = extent > 0 && variable->count > uint64_t{kMaxBytes} / extent;
    variable->count *= static_cast<uint64_t>(extent);
    if (wraps || variable->bytes() > uint64_t{kMaxBytes}) {
      Error("'" + variable->name + "' is larger than " + std::to_string(kMaxBytes) + " bytes");
    }
  }

  void Initializer(Variable* variable) {
    const TokenStream::Level level(tokens_);
    if (!Accept('{')) {
      variable->initializer.push_back(ParseInitialValue(tokens_));
      return;
    }
    if (Accept('}')) return;
    do {
      Initializer(variable);
    } while (Accept(','));
    if (Accept('}')) return;
    tokens_.Error(
        "expected ',' or '}' after an initial value: a constant, a name, or generic(name), "
        "a name with an offset or without");
  }

  // --- functions ------------------------------------------------------------------------------
  std::vector<Variable> ParameterList() {
    std::vector<Variable> parameters;
    if (!Accept('(')) return parameters;
    while (!Accept(')')) {
      parameters.push_back(DeclarationHead());
      VariableName(&parameters.back());
      Accept(',');
    }
    return parameters;
  }

  void ParseFunction() {
    Function function;
    function.line = Peek().line;
    function.is_entry = IsDotted("entry");
    locations_.StartFunction();
    Advance();
    if (!function.is_entry) function.results = ParameterList();
    function.name = Identifier();
    function.parameters = ParameterList();
    FunctionAttributes(&function);
    if (!Accept(';')) {
      function.has_body = true;
      Expect('{');
      Body(&function);
    }
    program_.functions.push_back(std::move(function));
  }

  // One to three numbers.
  std::vector<int> Extents(const std::string& directive) {
    std::vector<int> values;
    do {
      values.push_back(Count("." + directive));
    } while (Accept(','));
    if (values.size() > 3) Error("." + directive + " takes one to three extents");
    return values;
  }

  void FunctionAttributes(Function* function) {
    while (Peek().kind == TokenKind::kDotted) {
      std::string name(Peek().text);
      Advance();
      if (name == "reqntid") {
        function->reqntid = Extents(name);
      } else if (name == "maxntid") {
        function->maxntid = Extents(name);
      } else if (name == "reqnctapercluster" || name == "cluster_dim") {
        function->reqnctapercluster = Extents(name);
      } else if (name == "minnctapersm") {
        function->minnctapersm = Count("." + name);
      } else if (name == "maxnreg" || name == "maxclusterrank" || name == "maxnctapersm") {
        const int value = Count("." + name);
        if (name == "maxnreg") function->maxnreg = value;
      } else if (name == "explicitcluster") {
        function->explicit_cluster = true;
      } else if (name == "pragma") {
        SkipToSemicolon();
      } else if (name != "noreturn" && name != "blocksareclusters") {
        Error("unknown function attribute '." + name + "'");
      }
    }
  }

  // --- statements -----------------------------------------------------------------------------
  void Body(Function* function) {
    int depth = 1;
    while (true) {
      Statement statement;
      statement.line = Peek().line;
      if (tokens_.AtEnd()) Error("'}' expected at the end of " + function->name);
      if (Accept(';')) continue;
      if (Accept('{')) {
        if (++depth > kMaxScopes) {
          Error("blocks nest deeper than " + std::to_string(kMaxScopes) + " levels");
        }
        statement.kind = Statement::Kind::kScopeBegin;
      } else if (Accept('}')) {
        if (--depth == 0) return;
        statement.kind = Statement::Kind::kScopeEnd;
      } else if (Peek().kind == TokenKind::kDotted) {
        Directive(function);
        continue;
      } else if (Peek().kind == TokenKind::kIdentifier && IsPunctuation(':', 1)) {
        LabelOrTargets(function);
        continue;
      } else {
        statement.instruction = ParseInstruction();
      }
      function->body.push_back(std::move(statement));
    }
  }

  void Directive(Function* function) {
    if (IsDotted("loc")) return LocDirective();
    if (IsDotted("file")) return FileDirective();
    if (AcceptDotted("pragma")) return Pragma();
    if (IsDotted("section")) return SkipSection();
    if (IsDotted("callprototype")) Error("a .callprototype needs a label");
    if (IsDotted("extern")) Advance();
    for (Variable& variable : VariableDeclarations()) AddVariable(function, std::move(variable));
    Expect(';');
  }

  void Pragma() {
    constexpr std::string_view kUsedBytes = "used_bytes_mask ";
    const std::string text(Peek().text);
    if (text.starts_with(kUsedBytes)) {
      used_bytes_ = std::strtoull(text.c_str() + kUsedBytes.size(), nullptr, 0);
    }
    SkipToSemicolon();
  }

  static void AddVariable(Function* function, Variable variable) {
    Statement statement;
    statement.kind = Statement::Kind::kVariable;
    statement.line = variable.line;
    statement.variable = std::move(variable);
    function->body.push_back(std::move(statement));
  }

  void LocDirective() {
    const int line = Peek().line;
    const auto same_line = [&] { return !tokens_.AtEnd() && Peek().line == line; };
    Advance();
    const SourceLocation here = Location();
    SourceLocation call;
    bool inlined = false;
    while (same_line()) {
      inlined = Advance().text == "inlined_at" && same_line();
      if (inlined) call = Location();
    }
    locations_.Set(here, inlined ? &call : nullptr);
  }

  // file line [column]
  SourceLocation Location() {
    SourceLocation location;
    const int line = Peek().line;
    location.file = Count("the file of a .loc");
    location.line = Count("the line of a .loc");
    if (Peek().kind == TokenKind::kInteger && Peek().line == line) {
      location.column = Count("the column of a .loc");
    }
    return location;
  }

  void LabelOrTargets(Function* function) {
    Statement statement;
    statement.line = Peek().line;
    statement.label = Identifier();
    Expect(':');
    statement.kind = Statement::Kind::kLabel;
    if (AcceptDotted("branchtargets")) {
      statement.kind = Statement::Kind::kTargets;
      do {
        statement.targets.push_back(Identifier());
      } while (Accept(','));
      Expect(';');
    } else if (IsDotted("calltargets") || IsDotted("callprototype")) {
      SkipToSemicolon();  // of an indirect call, which is refused where it stands
      return;
    }
    function->body.push_back(std::move(statement));
  }

  Instruction ParseInstruction() {
    Instruction instruction;
    instruction.used_bytes = std::exchange(used_bytes_, 0);
    instruction.line = Peek().line;
    instruction.location = locations_.user();
    instruction.exact_location = locations_.exact();
    if (Accept('@')) {
      instruction.guard_negated = Accept('!');
      instruction.guard = Identifier();
    }
    instruction.line = Peek().line;
    instruction.opcode = Identifier();
    while (Peek().kind == TokenKind::kDotted) instruction.modifiers.emplace_back(Advance().text);
    while (!Accept(';')) {
      instruction.operands.push_back(ParseOperandOrPair(tokens_));
      if (!Accept(',') && !IsPunctuation(';')) {
        Error("expected ',' or ';' but found '" + std::string(Peek().text) + "'");
      }
    }
    return instruction;
  }

  // Blocks cost a look-up each for every name in them.
  static constexpr int kMaxScopes = 256;
  static constexpr int64_t kMaxAlign = int64_t{1} << 16;
  // The largest size of a variable before the limit of its state space applies.
  static constexpr int64_t kMaxBytes = int64_t{1} << 40;

  TokenStream tokens_;
  Program program_;
  uint64_t used_bytes_ = 0;  // of the next instruction
  SourceLocations locations_;
};

}  // namespace

std::string Instruction::Spelling() const {
  std::string text = opcode;
  for (const std::string& modifier : modifiers) text += "." + modifier;
  return text;
}

Program Parse(const std::string& text) { return Parser(text).Run(); }

}  // namespace tilelang::emulator::ptx
