#include "emulator/ptx/operand_parser.h"

namespace tilelang::emulator::ptx {
namespace {

// "+ 16", "+-16", "- 16" or nothing; wraps around as addresses do.
int64_t ParseOffset(TokenStream& tokens) {
  uint64_t offset = 0;
  while (tokens.IsPunctuation('+') || tokens.IsPunctuation('-')) {
    const bool negative = tokens.Advance().text[0] == '-';
    const uint64_t value = tokens.Integer();
    offset += negative ? -value : value;
  }
  return static_cast<int64_t>(offset);
}

Operand ParseNamed(TokenStream& tokens, std::string name) {
  Operand operand;
  if (name == "_") return operand;
  operand.kind = Operand::Kind::kName;
  operand.name = std::move(name);
  while (tokens.Peek().kind == TokenKind::kDotted) {
    operand.name.append(1, '.').append(tokens.Advance().text);
  }
  operand.offset = ParseOffset(tokens);
  return operand;
}

Operand ParseSigned(TokenStream& tokens) {
  const char sign = tokens.Advance().text[0];
  Operand operand = ParseOperand(tokens);
  if (operand.kind == Operand::Kind::kInteger) {
    if (sign == '-') operand.bits = -operand.bits;
    if (sign == '~') operand.bits = ~operand.bits;
  } else if (operand.kind == Operand::Kind::kFloat) {
    if (sign == '-') {
      operand.real = -operand.real;
      if (operand.float_bits) operand.bits ^= uint64_t{1} << (operand.float_bits - 1);
    }
  } else {
    tokens.Error("a sign needs a constant");
  }
  return operand;
}

Operand ParseList(TokenStream& tokens, char close, Operand::Kind kind) {
  Operand operand;
  operand.kind = kind;
  tokens.Advance();
  while (!tokens.Accept(close)) {
    operand.elements.push_back(ParseOperand(tokens));
    if (!tokens.Accept(',') && !tokens.IsPunctuation(close)) {
      tokens.Error("expected ',' in a list of operands");
    }
  }
  return operand;
}

Operand ParseAddress(TokenStream& tokens) {
  Operand operand;
  operand.kind = Operand::Kind::kAddress;
  tokens.Expect('[');
  while (!tokens.Accept(']')) {
    Operand element = ParseOperand(tokens);
    if (operand.elements.empty()) {
      operand.offset = static_cast<int64_t>(static_cast<uint64_t>(element.offset) +
                                            static_cast<uint64_t>(ParseOffset(tokens)));
      element.offset = 0;
    }
    operand.elements.push_back(std::move(element));
    if (!tokens.Accept(',') && !tokens.IsPunctuation(']')) {
      tokens.Error("expected ']' in an address");
    }
  }
  if (operand.elements.empty()) tokens.Error("empty address");
  return operand;
}

Operand ParseToken(TokenStream& tokens) {
  Operand operand;
  const Token& token = tokens.Peek();
  switch (token.kind) {
    case TokenKind::kInteger:
      operand.kind = Operand::Kind::kInteger;
      operand.bits = token.bits;
      break;
    case TokenKind::kFloat:
      operand.kind = Operand::Kind::kFloat;
      operand.bits = token.bits;
      operand.real = token.real;
      operand.float_bits = token.float_bits;
      break;
    case TokenKind::kString:
      operand.kind = Operand::Kind::kString;
      operand.name = std::string(token.text);
      break;
    case TokenKind::kIdentifier:
      return ParseNamed(tokens, tokens.Identifier());
    default:
      tokens.Error("unexpected '" + std::string(token.text) + "' in an operand");
  }
  tokens.Advance();
  return operand;
}

}  // namespace

Operand ParseOperandOrPair(TokenStream& tokens) {
  Operand first = ParseOperand(tokens);
  if (!tokens.Accept('|')) return first;
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.elements.push_back(std::move(first));
  pair.elements.push_back(ParseOperand(tokens));
  return pair;
}

Operand ParseInitialValue(TokenStream& tokens) {
  const Token& first = tokens.Peek();
  if (first.kind != TokenKind::kIdentifier || first.text != "generic") return ParseOperand(tokens);
  tokens.Advance();
  Operand operand;
  operand.kind = Operand::Kind::kName;
  operand.generic = true;
  tokens.Expect('(');
  operand.name = tokens.Identifier();
  tokens.Expect(')');
  operand.offset = ParseOffset(tokens);
  return operand;
}

Operand ParseOperand(TokenStream& tokens) {
  const TokenStream::Level level(tokens);
  if (tokens.Accept('!')) {
    Operand operand = ParseOperand(tokens);
    operand.negated = !operand.negated;
    return operand;
  }
  if (tokens.IsPunctuation('[')) return ParseAddress(tokens);
  if (tokens.IsPunctuation('{')) return ParseList(tokens, '}', Operand::Kind::kVector);
  if (tokens.IsPunctuation('(')) return ParseList(tokens, ')', Operand::Kind::kTuple);
  for (const char sign : {'-', '+', '~'}) {
    if (tokens.IsPunctuation(sign)) return ParseSigned(tokens);
  }
  return ParseToken(tokens);
}

}  // namespace tilelang::emulator::ptx
