// A stranger's text in a message.
#include "files/files.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Quotes, FitOneLine) {
  EXPECT_EQ(files::in_quotes("a\n\"\\\xff"), R"("a\x0a\"\\\xff")");
  EXPECT_EQ(files::in_quotes(std::string(61, 'a')), "\"" + std::string(60, 'a') + "...\"");
}

}  // namespace
