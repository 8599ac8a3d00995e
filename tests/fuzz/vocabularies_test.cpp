// Damaged vocabularies of full size, which no fuzzer gets through in time, and damaged files in the cache of tokens,
// which are made anew.
#include "files/files.h"
#include "fuzz/damage.h"
#include "fuzz/targets.h"
#include "model/data.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace vocabularies_test {

namespace fs = std::filesystem;

void damage_and_read(const std::string& good) {
  ASSERT_TRUE(fuzz::read_vocabulary(good));
  const std::vector<std::string> all = fuzz::damaged(good, 10);
  size_t refused = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_NO_THROW(refused += fuzz::read_vocabulary(all[i]) ? 0 : 1) << "copy " << i;
  }
  EXPECT_GT(refused, all.size() / 4) << "damage that nobody notices tests nothing";
}

TEST(DamagedVocabularies, Ranks) { damage_and_read(fuzz::rank_file()); }

TEST(DamagedVocabularies, Merges) { damage_and_read(fuzz::merge_list()); }

TEST(DamagedVocabularies, CachedTokensAreMadeAnew) {
  const files::TemporaryFolder temporary("vocabularies-test");
  const fs::path folder = temporary.path();
  const fs::path vocabulary = folder / "vocabulary", text = folder / "text", cache = folder / "cache";
  std::ofstream(vocabulary, std::ios::binary) << fuzz::rank_file();
  std::ofstream(text) << "some text in a file";
  const auto right = model::tokens_of_text(text, vocabulary, cache).tokens;
  const fs::path cached = fs::directory_iterator(cache)->path();
  const std::string good = files::read_file(cached);
  for (const std::string& bytes : fuzz::damaged(good, 8)) {
    std::ofstream(cached, std::ios::binary) << bytes;
    ASSERT_EQ(model::tokens_of_text(text, vocabulary, cache).tokens, right);
  }
}

}  // namespace vocabularies_test
