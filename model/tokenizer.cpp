// Reading the two vocabulary formats, splitting with PCRE2 and merging with a heap.
// PCRE2's \s, \p{L} and \p{N} differ from tiktoken's. PCRE2 counts U+180E as a space. The PCRE2 of Debian 12 has
// Unicode 14, while tiktoken 0.14 has Unicode 16. So the split pattern spells out the spaces and adds the letters and
// digits that are new since Unicode 14. They were found by comparing both for every code point.
#include "model/tokenizer.h"

#include "files/files.h"
#include "files/resources.h"
#include "files/what_is.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace model {
namespace {

constexpr size_t kRanks = 50256;

using Ranges = std::span<const std::pair<uint32_t, uint32_t>>;

// Unicode's White_Space property, which is \s in tiktoken.
constexpr std::pair<uint32_t, uint32_t> kSpaces[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

// In \p{L} of Unicode 16, not of Unicode 14.
constexpr std::pair<uint32_t, uint32_t> kLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240}, {0x11380, 0x11389}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3},
    {0x11BC0, 0x11BE0}, {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF},
    {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A}, {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB},
    {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0}, {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};

// In \p{N} of Unicode 16, not of Unicode 14.
constexpr std::pair<uint32_t, uint32_t> kNumbers[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x11F50, 0x11F59}, {0x16130, 0x16139},
    {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3}, {0x1E4F0, 0x1E4F9}, {0x1E5F1, 0x1E5FA}};

std::string class_items(Ranges ranges) {
  std::string items;
  for (const auto& [first, last] : ranges) items += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, last);
  return items;
}

// GPT-2's pattern, '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ (openai/gpt-2,
// src/encoder.py), with possessive quantifiers wherever backtracking cannot be needed.
std::shared_ptr<const pcre2_code> compile_split() {
  const std::string s = class_items(kSpaces);
  const std::string l = "\\p{L}" + class_items(kLetters);
  const std::string n = "\\p{N}" + class_items(kNumbers);
  const std::string pattern =
      fmt::format("'(?:[sdmt]|ll|ve|re)| ?[{1}]++| ?[{2}]++| ?[^{0}{1}{2}]++|[{0}]+(?![^{0}])|[{0}]++", s, l, n);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr);
  if (code == nullptr) throw std::runtime_error(fmt::format("PCRE2 refused the split pattern: error {}", error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching falls back to the interpreter
  return {code, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); }};
}

// GPT-2's order of the 256 byte tokens: the printable ones first, then the rest, which the merge list writes as
// U+0100, U+0101, ... (bytes_to_unicode in openai/gpt-2, src/encoder.py).
struct ByteTable {
  std::vector<std::string> tokens;
  std::array<int, 512> byte_of;  // code point -> byte, -1 where none
};

ByteTable byte_table() {
  ByteTable table{{}, {}};
  table.byte_of.fill(-1);
  const auto printable = [](int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  };
  size_t stand_in = 256;
  for (const bool wanted : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (printable(byte) != wanted) continue;
      table.tokens.emplace_back(1, static_cast<char>(byte));
      table.byte_of[wanted ? static_cast<size_t>(byte) : stand_in++] = byte;
    }
  }
  return table;
}

// The bytes of one token of the merge list, from its stand-in characters (all below U+0200). Nothing if it is not one.
std::optional<std::string> bytes_of_stand_ins(std::string_view text, const ByteTable& table) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t code = static_cast<unsigned char>(text[i]);
    if (code >= 0xc2 && code <= 0xc7 && i + 1 < text.size()) {
      const size_t low = static_cast<unsigned char>(text[++i]);
      if ((low & 0xc0) != 0x80) return std::nullopt;
      code = (code & 0x1f) << 6 | (low & 0x3f);
    } else if (code >= 0x80) {
      return std::nullopt;
    }
    if (table.byte_of[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(table.byte_of[code]));
  }
  if (bytes.empty()) return std::nullopt;
  return bytes;
}

// Decodes RFC 4648, section 4, with padding. Nothing if `text` is not that or is empty.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const size_t digit = is_padding ? 0 : alphabet.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(bits >> shift & 0xff));
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

// The lines of a vocabulary file one by one, and the refusal that names the line reached.
class Lines {
 public:
  Lines(std::string_view text, std::string file) : rest_(text), file_(std::move(file)) {}

  // Passes over empty lines, and over the CR of CR LF, as tiktoken does.
  bool next(std::string_view& line) {
    for (line = {}; line.empty() && !rest_.empty(); ++number_) {
      const size_t end = rest_.find('\n');
      line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
    }
    return !line.empty();
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(fmt::format("{}: line {}: {}", file_, number_, why));
  }

 private:
  std::string_view rest_;
  std::string file_;
  size_t number_ = 0;
};

std::vector<std::string> read_merges(Lines& lines) {
  const ByteTable table = byte_table();
  std::vector<std::string> tokens = table.tokens;
  std::unordered_set<std::string> known(tokens.begin(), tokens.end());
  std::string_view line;
  lines.next(line);  // "#version: 0.2"
  while (lines.next(line)) {
    if (tokens.size() == kRanks) lines.refuse(fmt::format("there must be {} merges, got more", kRanks - 256));
    const size_t space = std::min(line.find(' '), line.size());
    const auto left = bytes_of_stand_ins(line.substr(0, space), table);
    const auto right = bytes_of_stand_ins(line.substr(std::min(space + 1, line.size())), table);
    if (!left || !right || !known.contains(*left) || !known.contains(*right)) {
      lines.refuse(fmt::format("a merge must be two tokens of earlier lines with a space between, got {}",
                               files::in_quotes(line)));
    }
    tokens.push_back(*left + *right);
    if (!known.insert(tokens.back()).second) {
      lines.refuse(
          fmt::format("each merge must give a new token, but {} gives one of an earlier line", files::in_quotes(line)));
    }
  }
  if (tokens.size() != kRanks) {
    lines.refuse(fmt::format("the file ends after {} merges; {} are needed", tokens.size() - 256, kRanks - 256));
  }
  return tokens;
}

std::vector<std::string> read_ranks(Lines& lines) {
  std::vector<std::string> tokens(kRanks);
  std::unordered_set<std::string> known;
  std::string_view line;
  while (lines.next(line)) {
    const size_t space = std::min(line.find(' '), line.size());
    const auto token = decode_base64(line.substr(0, space));
    const std::string_view digits = line.substr(std::min(space + 1, line.size()));
    size_t rank = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!token || error != std::errc() || stop != digits.data() + digits.size()) {
      lines.refuse(
          fmt::format("a line must be \"base64 rank\" (or the first line \"#version...\", as in vocab.bpe), got {}",
                      files::in_quotes(line)));
    }
    if (rank >= kRanks) lines.refuse(fmt::format("ranks must be between 0 and {}, got {}", kRanks - 1, rank));
    if (!tokens[rank].empty()) lines.refuse(fmt::format("rank {} appears a second time", rank));
    if (!known.insert(*token).second) {
      lines.refuse(fmt::format("token {} has a second rank", files::in_quotes(*token)));
    }
    tokens[rank] = *token;
  }
  if (known.size() != kRanks) {
    lines.refuse(fmt::format("the file ends after {} ranks; {} are needed", known.size(), kRanks));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (known.contains(std::string(1, static_cast<char>(byte)))) continue;
    lines.refuse(fmt::format("the file ends without a rank for the byte 0x{:02x}; all 256 are needed", byte));
  }
  return tokens;
}

// Two neighbouring tokens, bytes [start, stop) of a piece together, that may merge.
struct Candidate {
  uint16_t rank;
  size_t start;
  size_t stop;
  bool operator>(const Candidate& other) const { return std::tie(rank, start) > std::tie(other.rank, other.start); }
};

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& vocabulary) {
  files::refuse_other(vocabulary, files::vocabulary_file);
  files::check_vocabulary(vocabulary);
  std::string text = files::read_file(vocabulary);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // a byte-order mark
  Lines lines(text, vocabulary.string());
  return Tokenizer(text.starts_with("#version") ? read_merges(lines) : read_ranks(lines));
}

Tokenizer::Tokenizer(std::vector<std::string> tokens) : tokens_(std::move(tokens)), split_(compile_split()) {
  static_assert(kRanks == end_of_text);
  tokens_.emplace_back(end_of_text_mark);
  ranks_.reserve(kRanks);
  for (size_t id = 0; id < kRanks; ++id) {
    ranks_.emplace(tokens_[id], static_cast<uint16_t>(id));
    longest_ = std::max(longest_, tokens_[id].size());
  }
}

int32_t Tokenizer::rank_of(std::string_view bytes) const {
  if (bytes.size() > longest_) return -1;
  const auto found = ranks_.find(bytes);
  return found == ranks_.end() ? -1 : found->second;
}

// Merges the lowest rank first, the leftmost of equals first. A candidate in the heap is stale, and skipped, when the
// two tokens it joined are no longer there.
void Tokenizer::merge(std::string_view piece, std::vector<uint16_t>& ids) const {
  constexpr size_t gone = 0;
  std::vector<size_t> stop(piece.size());      // where the token that starts here ends; `gone`: none starts here
  std::vector<size_t> previous(piece.size());  // where the token before the one that starts here starts
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](size_t start) {
    if (stop[start] == piece.size()) return;
    const size_t end = stop[stop[start]];
    const int32_t rank = rank_of(piece.substr(start, end - start));
    if (rank >= 0) candidates.push({static_cast<uint16_t>(rank), start, end});
  };
  for (size_t i = 0; i < piece.size(); ++i) {
    stop[i] = i + 1;
    previous[i] = i - 1;
  }
  for (size_t i = 0; i < piece.size(); ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const size_t middle = stop[best.start];
    if (middle == gone || middle == piece.size() || stop[middle] != best.stop) continue;
    stop[best.start] = best.stop;
    stop[middle] = gone;
    if (best.stop < piece.size()) previous[best.stop] = best.start;
    consider(best.start);
    if (best.start > 0) consider(previous[best.start]);
  }
  for (size_t i = 0; i < piece.size(); i = stop[i]) {
    ids.push_back(static_cast<uint16_t>(rank_of(piece.substr(i, stop[i] - i))));
  }
}

int64_t marks_in(std::string_view utf8) {
  constexpr std::string_view mark = Tokenizer::end_of_text_mark;
  int64_t count = 0;
  for (size_t at = utf8.find(mark); at != utf8.npos; at = utf8.find(mark, at + mark.size())) ++count;
  return count;
}

std::vector<uint16_t> Tokenizer::encode(std::string_view utf8, uint64_t begin, Marks marks) const {
  std::vector<uint16_t> ids;
  ids.reserve(utf8.size() / 3);
  for (size_t start = 0;;) {
    const size_t mark = marks == Marks::text ? std::string_view::npos : utf8.find(end_of_text_mark, start);
    append(utf8.substr(start, mark - start), begin + start, ids);
    if (mark == std::string_view::npos) return ids;
    ids.push_back(end_of_text);
    start = mark + end_of_text_mark.size();
  }
}

void Tokenizer::append(std::string_view utf8, uint64_t begin, std::vector<uint16_t>& ids) const {
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> seen;  // piece -> where in ids it stands
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(pcre2_match_data_create(1, nullptr),
                                                                             pcre2_match_data_free);
  if (!match) throw std::bad_alloc();
  uint32_t options = 0;  // the first match checks all of the text for valid UTF-8; a check in each would be quadratic
  for (size_t start = 0; start < utf8.size();) {
    const int found = pcre2_match(split_.get(), reinterpret_cast<PCRE2_SPTR>(utf8.data()), utf8.size(), start, options,
                                  match.get(), nullptr);
    if (found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21) {
      throw std::invalid_argument(
          fmt::format("invalid UTF-8 at byte {}; text must be UTF-8", begin + pcre2_get_startchar(match.get())));
    }
    const size_t stop = found < 0 ? start : pcre2_get_ovector_pointer(match.get())[1];
    if (stop <= start) throw std::runtime_error(fmt::format("PCRE2 failed at byte {}: error {}", begin + start, found));
    options = PCRE2_NO_UTF_CHECK;
    const std::string_view piece = utf8.substr(start, stop - start);
    start = stop;
    if (const int32_t whole = rank_of(piece); whole >= 0) {
      ids.push_back(static_cast<uint16_t>(whole));
      continue;
    }
    const auto [entry, is_new] = seen.try_emplace(piece, ids.size(), 0);
    auto& [first, count] = entry->second;
    if (is_new) {
      merge(piece, ids);
      count = ids.size() - first;
    } else {
      for (size_t i = 0; i < count; ++i) ids.push_back(ids[first + i]);
    }
  }
}

std::string Tokenizer::decode(std::span<const uint16_t> tokens) const {
  std::string bytes;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= tokens_.size()) {
      throw std::invalid_argument(
          fmt::format("tokens must be between 0 and {}, got {} at position {}", tokens_.size() - 1, tokens[i], i));
    }
    bytes += tokens_[tokens[i]];
  }
  return bytes;
}

}  // namespace model
