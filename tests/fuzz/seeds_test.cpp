// The fuzzers' targets without a fuzzer: every seed, damaged copies of it, and small files that ask for much. Memory is
// bounded by the file's size: while a hostile file is read, the process may not grow by more.
#include "files/files.h"
#include "files/json_file.h"
#include "fuzz/targets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace seeds_test {

namespace fs = std::filesystem;
using files::Json;

std::vector<std::string> folders() {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(FUZZ_SEEDS)) all.push_back(entry.path().filename());
  std::ranges::sort(all);
  return all;
}

std::vector<fs::path> seeds_of(const std::string& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(fs::path(FUZZ_SEEDS) / folder)) all.push_back(entry.path());
  std::ranges::sort(all);
  return all;
}

bool is_good(const fs::path& seed) { return seed.filename().string().starts_with("valid"); }

// Every value in a document. Of a list only the first: the others are read as it is.
void collect(const Json& value, const Json::json_pointer& place, std::vector<Json::json_pointer>& all) {
  all.push_back(place);
  if (value.is_array() && !value.empty()) collect(value[0], place / 0, all);
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) collect(member, place / name, all);
}

// Copies of a document in which one value is left out or another one.
std::vector<Json> with_other_values(const Json& document) {
  static const std::vector<Json> others{
      nullptr,           true,          0,   3,      -1,      INT64_MAX,
      uint64_t{1} << 63, UINT64_MAX,    0.5, 1e-320, 1.7e308, "\x1b[31m\x07\r\n\u202e<b>|`../../x",
      Json::array(),     Json::object()};
  std::vector<Json::json_pointer> places;
  collect(document, Json::json_pointer(), places);
  std::vector<Json> all;
  for (const auto& place : places) {
    for (const Json& other : others) {
      all.push_back(document);
      all.back()[place] = other;
    }
    if (place.empty() || !document[place.parent_pointer()].is_object()) continue;
    all.push_back(document);
    all.back()[place.parent_pointer()].erase(place.back());
  }
  return all;
}

// Copies of `bytes`, each with one fault at one of so many places: cut short, a stretch left out or twice,
// a bit or eight bytes changed, digits that overflow.
std::vector<std::string> damaged(const std::string& bytes, size_t places) {
  std::vector<std::string> all;
  for (size_t i = 0; i < places; ++i) {
    const size_t at = bytes.size() * i / places;
    const std::string before = bytes.substr(0, at), after = bytes.substr(at);
    const size_t digits = after.find_first_of("0123456789");
    all.push_back(before);
    all.push_back(before + after.substr(std::min<size_t>(9, after.size())));
    all.push_back(before + after.substr(0, 9) + after);
    if (after.empty()) continue;
    all.push_back(before + static_cast<char>(after[0] ^ 0x10) + after.substr(1));
    all.push_back(before + std::string(8, '\xff') + after.substr(std::min<size_t>(8, after.size())));
    if (digits == std::string::npos) continue;
    const size_t end = std::min(after.find_first_not_of("0123456789", digits), after.size());
    all.push_back(before + after.substr(0, digits) + "18446744073709551615" + after.substr(end));
  }
  return all;
}

class Readers : public testing::TestWithParam<std::string> {
 protected:
  const fuzz::Target read_ = fuzz::target_of(GetParam());

  // How many are refused.
  int refused(const std::vector<std::string>& all) {
    int count = 0;
    for (const std::string& bytes : all) {
      try {
        count += read_(bytes) ? 0 : 1;
      } catch (const std::exception& error) {
        const fs::path kept = fs::path(testing::TempDir()) / ("finding-" + GetParam());
        std::ofstream(kept, std::ios::binary) << bytes;
        ADD_FAILURE() << "kept in " << kept << ": " << error.what();
        return count;
      }
    }
    return count;
  }
};

TEST_P(Readers, TakeTheValidSeedsAndRefuseTheOthers) {
  for (const fs::path& seed : seeds_of(GetParam())) {
    EXPECT_EQ(refused({files::read_file(seed)}), is_good(seed) ? 0 : 1) << seed;
  }
}

TEST_P(Readers, TakeOrRefuseDamagedSeeds) {
  for (const fs::path& seed : seeds_of(GetParam())) {
    const std::string bytes = files::read_file(seed);
    std::vector<std::string> all = damaged(bytes, std::min<size_t>(bytes.size(), 60));
    if (read_ == fuzz::read_document) {
      for (const Json& document : with_other_values(Json::parse(bytes))) all.push_back(document.dump());
    }
    EXPECT_GE(refused(all), static_cast<int>(all.size() / 30)) << "damage that nobody notices tests nothing: " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Readers, testing::ValuesIn(folders()), [](const auto& p) { return p.param; });

// Of full size, which no fuzzer gets through in time.
TEST(Vocabularies, AreTakenOrRefusedWhereTheyAreDamaged) {
  for (const std::string& good : {fuzz::rank_file(), fuzz::merge_list()}) {
    ASSERT_TRUE(fuzz::read_vocabulary(good));
    const std::vector<std::string> all = damaged(good, 10);
    size_t refused = 0;
    for (const std::string& bytes : all) refused += fuzz::read_vocabulary(bytes) ? 0 : 1;
    EXPECT_GT(refused, all.size() / 4) << "damage that nobody notices tests nothing";
  }
}

// ---- small files that ask for much

#if defined(__SANITIZE_ADDRESS__)  // gcc
constexpr bool sanitized = true;
#elif defined(__has_feature)  // clang
constexpr bool sanitized = __has_feature(address_sanitizer);
#else
constexpr bool sanitized = false;
#endif

class Limit {
 public:
  // From here on the process may take so many bytes more. Sanitizers keep maps of terabytes: no limit for them.
  explicit Limit(size_t more) {
    getrlimit(RLIMIT_AS, &before_);
    if (sanitized) return;
    malloc_trim(0);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit now{pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + more, before_.rlim_max};
    setrlimit(RLIMIT_AS, &now);
  }
  ~Limit() { setrlimit(RLIMIT_AS, &before_); }
  Limit(const Limit&) = delete;  // one limit
  Limit& operator=(const Limit&) = delete;

 private:
  rlimit before_{};
};

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string seed(const std::string& name) { return files::read_file(fs::path(FUZZ_SEEDS) / name); }

// A seed with one value for another.
std::string with(const std::string& name, const std::string& pointer, Json value) {
  Json document = Json::parse(seed(name));
  document[Json::json_pointer(pointer)] = std::move(value);
  return document.dump();
}

std::string safetensors(const std::string& header) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header;
}

std::string many_members(size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) text += fmt::format("{}\"{:x}\":0", i == 0 ? "" : ",", i);
  return text + "}";
}

std::string many_tensors(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i) {
    header += fmt::format(R"({}"{:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  }
  return safetensors(header + "}");
}

constexpr size_t kMany = 300'000;

std::string doubling_merges() {
  std::string text = "#version: 0.2\n";
  for (std::string token = "a"; text.size() < kMany; token += token) text += fmt::format("{0} {0}\n", token);
  return text;
}

struct Hostile {
  const char* name;
  const char* seeds;
  std::string bytes;
  bool taken = false;
};

const std::vector<Hostile>& hostile_files() {
  static const std::vector<Hostile> all{
      {"nested_arrays", "ladder", repeated("[", kMany)},
      {"nested_objects", "record", repeated("{\"a\":", kMany)},
      {"nested_in_observations", "record",  // whose schema lets them be anything
       with("record/valid.json", "/observations/a", Json::parse(repeated("[", 300) + repeated("]", 300)))},
      {"many_fields", "ladder", with("ladder/valid.json", "/start", Json::parse(many_members(kMany / 10)))},
      {"many_wrong_times", "record", with("record/valid.json", "/timing/step_ms", std::vector<std::string>(kMany))},
      {"long_kind", "plan", with("plan/valid.json", "/kind", std::string(kMany, 'x'))},
      {"long_message", "record", with("record/valid-failed.json", "/failure/message", std::string(kMany, 'x')), true},
      {"long_title", "plan", with("plan/valid.json", "/ladder/title", repeated("\x1b[31m", kMany / 5)), true},
      {"long_number", "trace", std::string(kMany, '1')},
      {"many_kernels", "trace",
       with("trace/valid.json", "/summary/by_name",
            std::vector<Json>(kMany / 75, {{"name", "<<<<"}, {"ms", 1}, {"min_ms", 1}, {"max_ms", 1}, {"count", 1}})),
       true},
      {"header_of_arrays", "safetensors", safetensors(repeated("[", kMany))},
      {"many_tensors", "safetensors", many_tensors(kMany / 60), true},
      {"large_tensor", "safetensors",
       safetensors(R"({"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})")},
      {"one_rank", "vocabulary", repeated("QUFB", kMany / 4) + " 0\n"},
      {"empty_lines", "vocabulary", "#version\n" + std::string(kMany, '\n')},
      {"doubling_merges", "vocabulary", doubling_merges()},
      {"blanks", "text", std::string(kMany, ' '), true},
      {"one_word", "text", std::string(kMany, 'a'), true},
      {"combining", "text", "e" + repeated("\xcc\x81", kMany / 2), true},
      {"many_steps", "lines", repeated("loss 1\n", kMany / 70), true},
      {"count", "tokens", seed("tokens/count-of-2-31.bin")},
  };
  return all;
}

class HostileFiles : public testing::TestWithParam<Hostile> {};

TEST_P(HostileFiles, CostMemoryInProportionToTheirSize) {
  const Hostile& file = GetParam();
  const fuzz::Target read = fuzz::target_of(file.seeds);
  for (const fs::path& seed : seeds_of(file.seeds)) (void)read(files::read_file(seed));  // makes what is made once
  const Limit limit((size_t{32} << 20) + 100 * file.bytes.size());
  EXPECT_EQ(read(file.bytes), file.taken);
}

INSTANTIATE_TEST_SUITE_P(Files, HostileFiles, testing::ValuesIn(hostile_files()),
                         [](const auto& p) { return std::string(p.param.name); });

void PrintTo(const Hostile& file, std::ostream* out) { *out << file.name; }

}  // namespace seeds_test
