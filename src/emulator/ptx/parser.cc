#include <sstream>

#include "emulator/core/error.h"
#include "emulator/ptx/ast.h"
#include "emulator/ptx/lexer.h"

namespace tilelang::emulator::ptx {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(Tokenize(text)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) program_.lines.push_back(line);
  }

  Program Run() {
    while (Peek().kind != TokenKind::kEnd) TopLevel();
    return std::move(program_);
  }

 private:
  // --- tokens -------------------------------------------------------------------------------
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  const Token& Advance() {
    const Token& token = Peek();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }
  [[noreturn]] void Error(const std::string& message) const {
    Where where;
    where.ptx_line = Peek().line;
    if (where.ptx_line >= 1 && where.ptx_line <= static_cast<int>(program_.lines.size())) {
      where.ptx_text = program_.lines[where.ptx_line - 1];
    }
    throw EmulatorError("syntax", message, where);
  }
  bool IsPunctuation(char c, size_t ahead = 0) const {
    const Token& token = Peek(ahead);
    return token.kind == TokenKind::kPunctuation && token.text[0] == c;
  }
  bool Accept(char c) {
    if (!IsPunctuation(c)) return false;
    Advance();
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) {
      Error(std::string("expected '") + c + "' but found '" + std::string(Peek().text) + "'");
    }
  }
  bool IsDotted(std::string_view name) const {
    return Peek().kind == TokenKind::kDotted && Peek().text == name;
  }
  bool AcceptDotted(std::string_view name) {
    if (!IsDotted(name)) return false;
    Advance();
    return true;
  }
  std::string Identifier() {
    if (Peek().kind != TokenKind::kIdentifier) {
      Error("expected a name but found '" + std::string(Peek().text) + "'");
    }
    return std::string(Advance().text);
  }
  uint64_t Integer() {
    bool negative = Accept('-');
    if (Peek().kind != TokenKind::kInteger) {
      Error("expected an integer but found '" + std::string(Peek().text) + "'");
    }
    uint64_t value = Advance().bits;
    return negative ? -value : value;
  }
  // Skips the tokens on the current line (directives that end at the newline).
  void SkipLine() {
    int line = Peek().line;
    while (Peek().kind != TokenKind::kEnd && Peek().line == line) Advance();
  }

  // --- module level ---------------------------------------------------------------------------
  void TopLevel() {
    if (Accept(';')) return;
    if (AcceptDotted("version")) return VersionDirective();
    if (AcceptDotted("target")) return TargetDirective();
    if (AcceptDotted("address_size")) {
      program_.address_size = static_cast<int>(Integer());
      if (program_.address_size != 64) Error("only .address_size 64 is supported");
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
    Variable variable = VariableDeclaration();
    variable.is_extern = is_extern;
    Expect(';');
    program_.variables.push_back(std::move(variable));
    while (pending_names_.size()) {
      program_.variables.push_back(std::move(pending_names_.back()));
      pending_names_.pop_back();
    }
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
    file.index = static_cast<int>(Integer());
    if (Peek().kind == TokenKind::kString) file.path = std::string(Advance().text);
    program_.files.push_back(file);
    while (Peek().kind != TokenKind::kEnd && Peek().line == line) Advance();
  }

  void SkipSection() {
    while (!IsPunctuation('{')) {
      if (Peek().kind == TokenKind::kEnd) Error("'{' expected after .section");
      Advance();
    }
    int depth = 0;
    do {
      if (IsPunctuation('{')) ++depth;
      if (IsPunctuation('}')) --depth;
      if (Peek().kind == TokenKind::kEnd) Error("unterminated .section");
      Advance();
    } while (depth > 0);
  }

  void SkipToSemicolon() {
    while (!IsPunctuation(';')) {
      if (Peek().kind == TokenKind::kEnd) Error("';' expected");
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

  // Attributes, type and name up to (not including) ',' ';' ')' or '='.
  Variable VariableDeclaration() {
    Variable variable;
    variable.line = Peek().line;
    if (!AcceptSpace(&variable)) {
      Error("unknown directive '" + std::string(Peek().text) + "'");
    }
    VariableAttributes(&variable);
    VariableName(&variable);
    while (IsPunctuation(',') && !in_parameter_list_) {
      Advance();
      Variable next = variable;
      next.is_array = false;
      next.count = 1;
      next.range = -1;
      next.initializer.clear();
      VariableName(&next);
      pending_names_.push_back(std::move(next));
    }
    return variable;
  }

  void VariableAttributes(Variable* variable) {
    bool pointer = false;
    while (Peek().kind == TokenKind::kDotted) {
      std::string name(Advance().text);
      if (name == "align") {
        uint32_t align = static_cast<uint32_t>(Integer());
        if (!pointer) variable->align = align;
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
    while (!Accept(')')) Advance();
  }

  void VariableName(Variable* variable) {
    variable->line = Peek().line;
    variable->name = Identifier();
    if (variable->is_register && Accept('<')) {
      variable->range = static_cast<int>(Integer());
      Expect('>');
    }
    while (Accept('[')) {
      variable->is_array = true;
      if (Accept(']')) {
        variable->count = 0;
        continue;
      }
      variable->count *= Integer();
      Expect(']');
    }
    if (Accept('=')) {
      Initializer(variable);
      if (variable->is_array && variable->count == 0)
        variable->count = variable->initializer.size();
    }
  }

  void Initializer(Variable* variable) {
    if (!Accept('{')) {
      variable->initializer.push_back(ParseOperand());
      return;
    }
    while (!Accept('}')) {
      if (IsPunctuation('{')) {
        Initializer(variable);
      } else {
        variable->initializer.push_back(ParseOperand());
      }
      Accept(',');
    }
  }

  // --- functions ------------------------------------------------------------------------------
  std::vector<Variable> ParameterList() {
    std::vector<Variable> parameters;
    if (!Accept('(')) return parameters;
    in_parameter_list_ = true;
    while (!Accept(')')) {
      parameters.push_back(VariableDeclaration());
      Accept(',');
    }
    in_parameter_list_ = false;
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

  std::vector<int> IntegerList() {
    std::vector<int> values{static_cast<int>(Integer())};
    while (Accept(',')) values.push_back(static_cast<int>(Integer()));
    return values;
  }

  void FunctionAttributes(Function* function) {
    while (Peek().kind == TokenKind::kDotted) {
      std::string name(Peek().text);
      Advance();
      if (name == "reqntid") {
        function->reqntid = IntegerList();
      } else if (name == "maxntid") {
        function->maxntid = IntegerList();
      } else if (name == "reqnctapercluster" || name == "cluster_dim") {
        function->reqnctapercluster = IntegerList();
      } else if (name == "minnctapersm") {
        function->minnctapersm = static_cast<int>(Integer());
      } else if (name == "maxnreg" || name == "maxclusterrank" || name == "maxnctapersm") {
        int value = static_cast<int>(Integer());
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
      if (Peek().kind == TokenKind::kEnd) Error("'}' expected at the end of " + function->name);
      if (Accept(';')) continue;
      if (Accept('{')) {
        ++depth;
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
    if (AcceptDotted("pragma")) return SkipToSemicolon();
    if (IsDotted("section")) return SkipSection();
    if (IsDotted("callprototype")) Error("a .callprototype needs a label");
    if (IsDotted("extern")) Advance();
    AddVariable(function, VariableDeclaration());
    while (pending_names_.size()) {
      AddVariable(function, std::move(pending_names_.back()));
      pending_names_.pop_back();
    }
    Expect(';');
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
    const auto same_line = [&] { return Peek().kind != TokenKind::kEnd && Peek().line == line; };
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
    location.file = static_cast<int>(Integer());
    location.line = static_cast<int>(Integer());
    if (Peek().kind == TokenKind::kInteger && Peek().line == line) {
      location.column = static_cast<int>(Integer());
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
      instruction.operands.push_back(ParseOperandOrPair());
      if (!Accept(',') && !IsPunctuation(';')) {
        Error("expected ',' or ';' but found '" + std::string(Peek().text) + "'");
      }
    }
    return instruction;
  }

  // --- operands -------------------------------------------------------------------------------
  Operand ParseOperandOrPair() {
    Operand first = ParseOperand();
    if (!Accept('|')) return first;
    Operand pair;
    pair.kind = Operand::Kind::kPair;
    pair.elements.push_back(std::move(first));
    pair.elements.push_back(ParseOperand());
    return pair;
  }

  Operand ParseOperand() {
    if (Accept('!')) {
      Operand operand = ParseOperand();
      operand.negated = !operand.negated;
      return operand;
    }
    if (IsPunctuation('[')) return AddressOperand();
    if (IsPunctuation('{')) return ListOperand('{', '}', Operand::Kind::kVector);
    if (IsPunctuation('(')) return ListOperand('(', ')', Operand::Kind::kTuple);
    if (IsPunctuation('-') || IsPunctuation('+') || IsPunctuation('~')) return Signed();
    Operand operand;
    const Token& token = Advance();
    switch (token.kind) {
      case TokenKind::kInteger:
        operand.kind = Operand::Kind::kInteger;
        operand.bits = token.bits;
        return operand;
      case TokenKind::kFloat:
        operand.kind = Operand::Kind::kFloat;
        operand.bits = token.bits;
        operand.real = token.real;
        operand.float_bits = token.float_bits;
        return operand;
      case TokenKind::kString:
        operand.kind = Operand::Kind::kString;
        operand.name = std::string(token.text);
        return operand;
      case TokenKind::kIdentifier:
        return NamedOperand(std::string(token.text));
      default:
        --position_;
        Error("unexpected '" + std::string(token.text) + "' in an operand");
    }
  }

  Operand NamedOperand(std::string name) {
    Operand operand;
    if (name == "_") return operand;
    if ((name == "generic") && Accept('(')) {
      operand = ParseOperand();
      Expect(')');
      return operand;
    }
    operand.kind = Operand::Kind::kName;
    operand.name = std::move(name);
    while (Peek().kind == TokenKind::kDotted) operand.name.append(1, '.').append(Advance().text);
    operand.offset = Offset();
    return operand;
  }

  // "+ 16", "+-16", "- 16" or nothing
  int64_t Offset() {
    int64_t offset = 0;
    while (IsPunctuation('+') || IsPunctuation('-')) {
      bool negative = IsPunctuation('-');
      Advance();
      int64_t value = static_cast<int64_t>(Integer());
      offset += negative ? -value : value;
    }
    return offset;
  }

  Operand Signed() {
    char sign = Advance().text[0];
    Operand operand = ParseOperand();
    if (operand.kind == Operand::Kind::kInteger) {
      if (sign == '-') operand.bits = -operand.bits;
      if (sign == '~') operand.bits = ~operand.bits;
    } else if (operand.kind == Operand::Kind::kFloat) {
      if (sign == '-') {
        operand.real = -operand.real;
        if (operand.float_bits) operand.bits ^= uint64_t{1} << (operand.float_bits - 1);
      }
    } else {
      Error("a sign needs a constant");
    }
    return operand;
  }

  Operand ListOperand(char open, char close, Operand::Kind kind) {
    Operand operand;
    operand.kind = kind;
    Expect(open);
    while (!Accept(close)) {
      operand.elements.push_back(ParseOperand());
      if (!Accept(',') && !IsPunctuation(close)) Error("expected ',' in a list of operands");
    }
    return operand;
  }

  Operand AddressOperand() {
    Operand operand;
    operand.kind = Operand::Kind::kAddress;
    Expect('[');
    while (!Accept(']')) {
      Operand element = ParseOperand();
      if (operand.elements.empty()) {
        operand.offset = element.offset + Offset();
        element.offset = 0;
      }
      operand.elements.push_back(std::move(element));
      if (!Accept(',') && !IsPunctuation(']')) Error("expected ']' in an address");
    }
    if (operand.elements.empty()) Error("empty address");
    return operand;
  }

  std::vector<Token> tokens_;
  size_t position_ = 0;
  Program program_;
  std::vector<Variable> pending_names_;
  bool in_parameter_list_ = false;
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
