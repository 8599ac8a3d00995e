// Damaged vocabularies of full size, which no fuzzer gets through in time, and damaged files in the cache of tokens,
// which are made anew. The damage comes from a fixed seed, and a failure names its round.
#include "files/files.h"
#include "fuzz/mutate.h"
#include "fuzz/targets.h"
#include "model/data.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace vocabularies_test {

namespace fs = std::filesystem;

void damage_and_read(const std::string& good) {
  ASSERT_TRUE(fuzz::read_vocabulary(good));
  fuzz::Random random(3);
  int refused = 0;
  constexpr int rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_NO_THROW(refused += fuzz::read_vocabulary(fuzz::damaged_bytes(good, random)) ? 0 : 1) << "round " << round;
  }
  EXPECT_GT(refused, rounds / 4) << "damage that nobody notices tests nothing";
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
  fuzz::Random random(6);
  for (int round = 0; round < 40; ++round) {
    std::ofstream(cached, std::ios::binary) << fuzz::damaged_bytes(good, random);
    ASSERT_EQ(model::tokens_of_text(text, vocabulary, cache).tokens, right) << "round " << round;
  }
}

}  // namespace vocabularies_test
