// SHA-256 against the examples of FIPS 180.
#include "files/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sha256_test {

TEST(Sha256, MatchesTheExamplesOfFips180) {
  EXPECT_EQ(files::sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(files::sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(files::sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(files::sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameDigestWithAndWithoutTheProcessorsInstructions) {
  for (size_t total = 0; total < 200; ++total) {
    std::string bytes(total, 'x');
    for (size_t i = 0; i < total; ++i) bytes[i] = static_cast<char>(i * 37);
    files::Sha256 plain(/*plain=*/true);
    plain.update(bytes);
    EXPECT_EQ(plain.hex(), files::sha256_hex(bytes)) << total;
    files::Sha256 pieces;
    for (size_t start = 0; start < total; start += 7) {
      pieces.update(std::string_view(bytes).substr(start, 7));
      (void)pieces.hex();  // must not disturb what follows
    }
    EXPECT_EQ(pieces.hex(), files::sha256_hex(bytes)) << total;
  }
}

}  // namespace sha256_test
