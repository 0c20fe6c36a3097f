#include "emulator/ptx_mutator.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string_view>

namespace tilelang::testing {
namespace {

// A place in a text: [begin, end).
struct Piece {
  size_t begin, end;
};

size_t Below(std::mt19937_64& random, size_t end) { return end == 0 ? 0 : random() % end; }

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' || c == '$';
}

// Words with the dots before them, and single characters of punctuation.
std::vector<Piece> TokensOf(std::string_view text) {
  std::vector<Piece> tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (IsWord(text[i]) || text[i] == '.') {
      while (end < text.size() && (IsWord(text[end]) || text[end] == ':')) ++end;
    }
    if (!std::isspace(static_cast<unsigned char>(text[i]))) tokens.push_back({i, end});
    i = end;
  }
  return tokens;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// clang-format off
constexpr const char* kNumbers[] = {
    "0", "1", "-1", "2", "16", "31", "32", "33", "64", "255", "256", "1023", "1024", "65535",
    "65536", "0x7FFFFFFF", "0x80000000", "4294967295", "4294967296", "0x7FFFFFFFFFFFFFFF",
    "0x8000000000000000", "18446744073709551615", "18446744073709551616", "1.5", "1e300", "1e999",
    "0f7F800000", "0f7FC00000", "0d7FF0000000000000", "0b101", "0b", "0x", "08", "3U",
};
constexpr const char* kBrackets[][2] = {{"(", ")"}, {"{", "}"}, {"[", "]"}, {"-", ""}, {"!", ""},
                                        {"generic(", ")"}, {"~", ""}, {"<", ">"}};
// clang-format on

}  // namespace

PtxMutator::PtxMutator(std::vector<std::string> corpus) : corpus_(std::move(corpus)) {
  std::set<std::string> words(std::begin(kNumbers), std::end(kNumbers));
  for (const std::string& text : corpus_) {
    for (const Piece& token : TokensOf(text)) {
      words.insert(text.substr(token.begin, token.end - token.begin));
    }
    for (std::string& line : LinesOf(text)) lines_.push_back(std::move(line));
  }
  tokens_.assign(words.begin(), words.end());
}

const std::string& PtxMutator::RandomLine(Random& random) const {
  return lines_[Below(random, lines_.size())];
}

void PtxMutator::MutateBytes(Random& random, std::string* text) const {
  const size_t at = Below(random, text->size());
  const size_t length = 1 + Below(random, 8);
  switch (random() % 4) {
    case 0:
      (*text)[at] = static_cast<char>(random());
      return;
    case 1:
      text->erase(at, length);
      return;
    case 2:
      text->insert(at, text->substr(Below(random, text->size()), length));
      return;
    default:
      (*text)[at] = static_cast<char>((*text)[at] ^ (1 << random() % 8));
  }
}

void PtxMutator::MutateToken(Random& random, std::string* text) const {
  const std::vector<Piece> pieces = TokensOf(*text);
  const Piece piece = pieces[Below(random, pieces.size())];
  const Piece other = pieces[Below(random, pieces.size())];
  const std::string word = tokens_[Below(random, tokens_.size())];
  switch (random() % 5) {
    case 0:
      text->replace(piece.begin, piece.end - piece.begin, word);
      return;
    case 1:
      text->erase(piece.begin, piece.end - piece.begin);
      return;
    case 2:
      text->insert(piece.begin, word);
      return;
    case 3: {  // a number becomes another one
      const auto number = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& candidate) {
        return candidate.begin >= piece.begin &&
               std::isdigit(static_cast<unsigned char>((*text)[candidate.begin]));
      });
      if (number == pieces.end()) return;
      text->replace(number->begin, number->end - number->begin,
                    kNumbers[Below(random, std::size(kNumbers))]);
      return;
    }
    default:
      text->replace(piece.begin, piece.end - piece.begin,
                    text->substr(other.begin, other.end - other.begin));
  }
}

void PtxMutator::MutateStructure(Random& random, std::string* text) const {
  std::vector<std::string> lines = LinesOf(*text);
  const size_t at = Below(random, lines.size()), other = Below(random, lines.size());
  switch (random() % 6) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), RandomLine(random));
      break;
    case 2:
      std::swap(lines[at], lines[other]);
      break;
    case 3:  // a block around some lines
      lines[std::min(at, other)].insert(0, "{");
      lines[std::max(at, other)].append("}");
      break;
    case 4: {  // something nested, rarely deeply
      const auto& bracket = kBrackets[random() % std::size(kBrackets)];
      const size_t depth = random() % 16 == 0 ? 5000 : 1 + random() % 8;
      const std::vector<Piece> pieces = TokensOf(lines[at]);
      if (pieces.empty()) break;
      const Piece piece = pieces[Below(random, pieces.size())];
      for (size_t i = 0; i < depth; ++i) lines[at].insert(piece.end, bracket[1]);
      for (size_t i = 0; i < depth; ++i) lines[at].insert(piece.begin, bracket[0]);
      break;
    }
    default:  // the rest comes from another text
      const std::vector<std::string> tail = LinesOf(corpus_[Below(random, corpus_.size())]);
      lines.resize(at);
      lines.insert(lines.end(),
                   tail.begin() + static_cast<std::ptrdiff_t>(std::min(at, tail.size())),
                   tail.end());
  }
  *text = Joined(lines);
}

std::string PtxMutator::Mutant(uint64_t seed) const {
  Random random(seed);
  std::string text = corpus_[Below(random, corpus_.size())];
  const size_t mutations = 1 + Below(random, 4);
  for (size_t i = 0; i < mutations && text.size() > 8; ++i) {
    switch (random() % 8) {
      case 0:
        MutateBytes(random, &text);
        break;
      case 1:
      case 2:
        MutateStructure(random, &text);
        break;
      default:
        MutateToken(random, &text);
    }
  }
  return text;
}

}  // namespace tilelang::testing
