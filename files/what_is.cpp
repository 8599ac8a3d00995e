#include "files/what_is.h"

#include "files/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>

namespace files {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view save_again =
    "save_pretrained() of transformers writes the model as safetensors, with its config.json";
constexpr std::string_view add_header =
    "a token file is 256 int32 (20240520, 1, the number of tokens, then zeros) and the tokens as uint16";
constexpr std::string_view unpack = "unpack it first";
constexpr std::string_view web_page = "a page of a web site";
constexpr std::string_view from_utf16 = "`iconv -f UTF-16 -t UTF-8` makes it readable";

struct Beginning {
  std::string_view bytes;
  Known known;
};

constexpr Beginning beginnings[] = {
    {"version https://git-lfs.github.com/spec/", {"a Git LFS pointer", "`git lfs pull` fetches the file itself"}},
    {"/annex/objects/", {"a git-annex pointer", "`git annex get` fetches the file itself"}},
    // Little-endian int32 in llm.c: 20240520 and so on.
    {"\x88\xd8\x34\x01"sv, {token_file, "--data reads it as it is"}},
    {"\xa1\xd9\x34\x01"sv, {"a token file of Llama 3", "tokenize its text with `ladder tokenize`"}},
    {"\xc6\xd7\x34\x01"sv, {"weights of llm.c", save_again}},
    {"\xc7\xd7\x34\x01"sv, {"a debug state of llm.c", save_again}},
    {"\xc8\xd7\x34\x01"sv, {"a tokenizer of llm.c", "vocab.bpe and gpt2.tiktoken can be read"}},
    {"\x8f\xd8\x34\x01"sv, {"a training state of llm.c", save_again}},
    {"\x8a\xd8\x34\x01"sv,
     {"multiple-choice questions of llm.c", "it evaluates with them; --data reads its token files"}},
    {"PK\x03\x04", {"a zip archive, as torch.save writes it", save_again}},
    {"\x80\x02", {"a pickle, as torch.save writes it", save_again}},
    {"\x80\x04", {"a pickle, as torch.save writes it", save_again}},
    {"\x80\x05", {"a pickle, as torch.save writes it", save_again}},
    {"{\"!\": 0", {"Hugging Face's vocab.json", "--vocab reads the merges.txt beside it"}},
    {"GGUF", {"weights in GGUF", save_again}},
    {"\x89HDF\r\n\x1a\n", {"an HDF5 file", save_again}},
    {"\x93NUMPY", {"a NumPy array", add_header}},
    {"\x1f\x8b", {"compressed by gzip", unpack}},
    {"\x28\xb5\x2f\xfd", {"compressed by zstd", unpack}},
    {"\xfd\x37zXZ\0"sv, {"compressed by xz", unpack}},
    {"BZh91AY&SY", {"compressed by bzip2", unpack}},
    {"PAR1", {"a Parquet file", "write its texts into one UTF-8 file"}},
    {"\xff\xfe\0\0"sv, {"a text in UTF-32", "`iconv -f UTF-32 -t UTF-8` makes it readable"}},
    {"\xff\xfe", {"a text in UTF-16", from_utf16}},
    {"\xfe\xff", {"a text in UTF-16", from_utf16}},
};

std::string first_bytes_of(const std::filesystem::path& path) {
  constexpr uint64_t enough = 4096;
  InputFile file(path);
  std::string bytes(std::min(enough, file.size()), '\0');
  file.read(bytes.data(), bytes.size());
  return bytes;
}

// Whether these may be token ids of GPT-2 without a header. Every pair of bytes is an id, and many bytes cannot be
// text.
bool may_be_tokens(std::string_view bytes) {
  size_t foreign = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto low = static_cast<unsigned char>(bytes[i]), high = static_cast<unsigned char>(bytes[i + 1]);
    if (256 * high + low > 50256) return false;
    for (const unsigned char byte : {low, high})
      foreign += byte < 32 && byte != '\n' && byte != '\r' && byte != '\t' ? 1 : 0;
  }
  return 10 * foreign > bytes.size();
}

}  // namespace

Known what_is(std::string_view bytes) {
  for (const Beginning& beginning : beginnings) {
    if (bytes.starts_with(beginning.bytes)) return beginning.known;
  }
  // The length of its header, below 2^32, and the header, which is JSON.
  if (bytes.size() > 8 && bytes.substr(4, 4) == "\0\0\0\0"sv && bytes[8] == '{') {
    return {safetensors_file, "--weights reads it"};
  }
  if (bytes.starts_with('{') && bytes.find("\"weight_map\"") != std::string_view::npos) {
    return {"the index of weights in several files",
            "save_pretrained(FOLDER, max_shard_size=\"100GB\") of transformers writes them into one"};
  }
  std::string begin(bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n\xef\xbb\xbf"), bytes.size()), 14));
  std::ranges::transform(begin, begin.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  if (begin.starts_with("<!doctype html") || begin.starts_with("<html") || begin.starts_with("<?xml")) {
    return {web_page,
            "its address shows the file or an error; on Hugging Face and GitHub `raw` or `resolve` in place of "
            "`blob` gives the file itself"};
  }
  // A byte-order mark is not always there.
  const std::string_view some = bytes.substr(0, 16);
  for (const size_t zero : {size_t{0}, size_t{1}}) {
    bool alternates = some.size() == 16;
    for (size_t i = 0; i < some.size(); ++i) alternates &= (some[i] == 0) == (i % 2 == zero);
    if (alternates) return {"a text in UTF-16", from_utf16};
  }
  return {};
}

bool is_token_file(const std::filesystem::path& path) {
  std::error_code unknown;
  if (path.extension() == ".bin") return true;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  return what_is(first_bytes_of(path)).name == token_file;
}

void refuse_other(const std::filesystem::path& path, std::string_view wanted) {
  const std::string bytes = first_bytes_of(path);
  Known known = what_is(bytes);
  if (known.name.empty() && wanted == text_file && may_be_tokens(bytes)) {
    known = {"probably uint16 tokens without a header", add_header};
  }
  const bool is_text = known.name == web_page && wanted == text_file;
  if (known.name.empty() || known.name == wanted || is_text) return;
  throw std::invalid_argument(fmt::format("{}: is {}, not {}: {}", path.string(), known.name, wanted, known.remedy));
}

}  // namespace files
