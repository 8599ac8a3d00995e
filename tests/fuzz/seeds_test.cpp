// The fuzzers' targets without a fuzzer: every seed, every seed damaged from fixed random numbers, and small files that
// ask for much. Memory is bounded by the file's size: while a hostile file is read, the process may not grow by more.
#include "files/files.h"
#include "files/json_file.h"
#include "fuzz/edits.h"
#include "fuzz/mutate.h"
#include "fuzz/targets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace seeds_test {

namespace fs = std::filesystem;
using files::Json;

struct Seed {
  std::string name, bytes;
  bool taken;
};

// A file that is named valid is taken, another is refused; of an edit its entry says it.
std::vector<Seed> seeds_of(const std::string& target) {
  std::vector<Seed> seeds;
  for (const auto& entry : fs::directory_iterator(fs::path(FUZZ_SEEDS) / target)) {
    const std::string name = entry.path().filename();
    seeds.push_back({name, files::read_file(entry.path()), name.starts_with("valid")});
  }
  std::ranges::sort(seeds, {}, &Seed::name);
  for (const fuzz::Edit& edit : fuzz::edits()) {
    if (edit.kind == target) seeds.push_back({edit.name, edit.bytes(), edit.taken});
  }
  return seeds;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, target] : fuzz::targets()) all.push_back(name);
  return all;
}

class Readers : public testing::TestWithParam<std::string> {
 protected:
  const fuzz::Target read_ = fuzz::targets().at(GetParam());
};

TEST_P(Readers, TakeTheValidSeedsAndRefuseTheOthers) {
  for (const Seed& seed : seeds_of(GetParam())) {
    bool taken = false;
    ASSERT_NO_THROW(taken = read_(seed.bytes)) << seed.name;
    EXPECT_EQ(taken, seed.taken) << seed.name;
  }
}

TEST_P(Readers, TakeOrRefuseDamagedSeeds) {
  const bool has_values = !fuzz::words_of(GetParam()).empty();  // to change; and costs more than bytes
  int refused = 0, round = 0;
  for (const Seed& seed : seeds_of(GetParam())) {
    fuzz::Random random(1);
    for (int i = 0; i < (has_values ? 50 : 300); ++i, ++round) {
      const bool by_value = has_values && i % 2 == 0;
      const std::string damaged = by_value ? fuzz::damaged_json(seed.bytes, fuzz::words_of(GetParam()), random)
                                           : fuzz::damaged_bytes(seed.bytes, random);
      try {
        refused += read_(damaged) ? 0 : 1;
      } catch (const std::exception& error) {
        const fs::path kept = fs::path(testing::TempDir()) / fmt::format("finding-{}-{}", GetParam(), round);
        std::ofstream(kept, std::ios::binary) << damaged;
        FAIL() << seed.name << ", round " << i << ", kept in " << kept << ": " << error.what();
      }
    }
  }
  EXPECT_GT(refused, round / 4) << "damage that nobody notices tests nothing";
}

INSTANTIATE_TEST_SUITE_P(Files, Readers, testing::ValuesIn(names()), [](const auto& p) { return p.param; });

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

struct Hostile {
  const char* name;
  const char* target;
  std::function<std::string()> bytes;
  bool taken = false;
};

constexpr size_t kMany = 300'000;

const std::vector<Hostile>& hostile_files() {
  static const std::vector<Hostile> all{
      {"nested_arrays", "ladder", [] { return repeated("[", kMany); }},
      {"nested_objects", "record", [] { return repeated("{\"a\":", kMany); }},
      {"nested_in_a_recipe", "ladder",
       [] { return with("ladder/valid.json", "/start", Json::parse(repeated("[", 150) + repeated("]", 150))); }},
      {"nested_in_observations", "record",  // whose schema lets them be anything
       [] {
         return with("record/valid.json", "/observations/a", Json::parse(repeated("[", 300) + repeated("]", 300)));
       }},
      {"many_fields", "ladder",
       [] { return with("ladder/valid.json", "/start", Json::parse(many_members(kMany / 10))); }},
      {"many_unknown_fields", "ladder", [] { return many_members(kMany / 10); }},
      {"many_wrong_times", "record",
       [] { return with("record/valid.json", "/timing/step_ms", std::vector<std::string>(kMany)); }},
      {"many_wrong_rungs", "plan", [] { return with("plan/valid.json", "/rungs", std::vector<int>(kMany)); }},
      {"many_times", "record",
       [] { return with("record/valid.json", "/timing/step_ms", std::vector<double>(kMany, 1.5)); }},
      {"long_name", "ladder", [] { return with("ladder/valid.json", "/name", std::string(kMany, 'x')); }},
      {"long_run", "plan", [] { return with("plan/valid.json", "/runs/0/id", std::string(kMany, 'x')); }},
      {"long_kind", "plan", [] { return with("plan/valid.json", "/kind", std::string(kMany, 'x')); }},
      {"long_message", "record",
       [] { return with("record/valid-failed.json", "/failure/message", std::string(kMany, 'x')); }, true},
      {"long_words_in_a_message", "record",
       [] { return with("record/valid-failed.json", "/failure/message", repeated("x ", kMany / 2)); }, true},
      {"long_title", "plan", [] { return with("plan/valid.json", "/ladder/title", repeated("\x1b[31m", kMany / 5)); },
       true},
      {"unended_text", "trace", [] { return "{\"a\": \"" + std::string(kMany, 'x'); }},
      {"long_number", "trace", [] { return std::string(kMany, '1'); }},
      {"many_kernels", "trace",
       [] {
         return with(
             "trace/valid.json", "/summary/by_name",
             std::vector<Json>(kMany / 75, {{"name", "<<<<"}, {"ms", 1}, {"min_ms", 1}, {"max_ms", 1}, {"count", 1}}));
       },
       true},
      {"header_of_arrays", "safetensors", [] { return safetensors(repeated("[", kMany)); }},
      {"header_of_objects", "safetensors", [] { return safetensors(repeated("{\"a\":", kMany)); }},
      {"nested_beside_a_shape", "safetensors",
       [] { return safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"b":[[[[]]]]}})"); }},
      {"header_of_numbers", "safetensors", [] { return safetensors("{\"a\":[0" + repeated(",0", kMany) + "]}"); }},
      {"many_tensors", "safetensors", [] { return many_tensors(kMany / 60); }, true},
      {"large_tensor", "safetensors",
       [] { return safetensors(R"({"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})"); }},
      {"one_rank", "vocabulary", [] { return repeated("QUFB", kMany / 4) + " 0\n"; }},
      {"no_line_end", "vocabulary", [] { return std::string(kMany, 'x'); }},
      {"empty_lines", "vocabulary", [] { return "#version\n" + std::string(kMany, '\n'); }},
      {"doubling_merges", "vocabulary",
       [] {
         std::string text = "#version: 0.2\n";
         for (std::string token = "a"; text.size() < kMany; token += token) text += fmt::format("{0} {0}\n", token);
         return text;
       }},
      {"blanks", "text", [] { return std::string(kMany, ' '); }, true},
      {"one_word", "text", [] { return std::string(kMany, 'a'); }, true},
      {"apostrophes", "text", [] { return std::string(kMany, '\''); }, true},
      {"words_and_blanks", "text", [] { return repeated(" \n\t a1'", kMany / 7); }, true},
      {"combining", "text", [] { return "e" + repeated("\xcc\x81", kMany / 2); }, true},
      {"beyond_4_kib", "lines", [] { return std::string(kMany, ' ') + "step 1 loss 2"; }},
      {"many_shapes", "lines",
       [] {
         std::string text;
         for (size_t i = 0; text.size() < kMany; ++i) {
           for (size_t rest = i; rest > 0; rest /= 26) text += static_cast<char>('a' + rest % 26);
           text += '\n';
         }
         return text;
       }},
      {"many_steps", "lines", [] { return repeated("loss 1\n", kMany / 70); }, true},
      {"count", "tokens", [] { return seed("tokens/count-of-2-31.bin"); }},
  };
  return all;
}

class HostileFiles : public testing::TestWithParam<Hostile> {};

TEST_P(HostileFiles, CostMemoryInProportionToTheirSize) {
  const Hostile& file = GetParam();
  const fuzz::Target read = fuzz::targets().at(file.target);
  for (const Seed& seed : seeds_of(file.target)) (void)read(seed.bytes);  // makes what is made once
  const std::string bytes = file.bytes();
  const Limit limit((size_t{32} << 20) + 100 * bytes.size());
  EXPECT_EQ(read(bytes), file.taken);
}

INSTANTIATE_TEST_SUITE_P(Files, HostileFiles, testing::ValuesIn(hostile_files()),
                         [](const auto& p) { return std::string(p.param.name); });

void PrintTo(const Hostile& file, std::ostream* out) { *out << file.name; }

}  // namespace seeds_test
