// What the kernel says of files: bytes that this process reads, the page cache, mappings.
#include "harness/machine/file_use.h"

#include "files/files.h"
#include "harness/machine/control_groups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace file_use_test {

namespace fs = std::filesystem;

class FileUse : public testing::Test {
 protected:
  static constexpr size_t size_ = 300001;  // of no whole pages

  FileUse() {
    std::ofstream(path_) << std::string(size_, 'x');
    const int descriptor = ::open(path_.c_str(), O_RDONLY);  // pages that are not written yet cannot be dropped
    ::fsync(descriptor);
    ::close(descriptor);
  }

  const files::TemporaryFolder folder_{"file-use-test"};
  const fs::path path_ = folder_.path() / "a file";
};

TEST_F(FileUse, ReadsAreCountedToTheByteAndMappedBytesAreNot) {
  const auto before = harness::ReadCount::now();
  if (!before) GTEST_SKIP() << "this kernel does not count reads";
  const auto nothing = harness::ReadCount::now()->since(*before);
  EXPECT_EQ(nothing.bytes, 0);
  EXPECT_EQ(nothing.calls, 0);

  const files::InputFile file(path_);
  std::vector<char> bytes(1000);
  const auto begin = harness::ReadCount::now();
  for (uint64_t i = 0; i < 7; ++i) file.read_at(i * 5000, bytes.data(), bytes.size());
  const auto seven = harness::ReadCount::now()->since(*begin);
  EXPECT_EQ(seven.bytes, 7000);
  EXPECT_EQ(seven.calls, 7);

  const files::MappedFile mapped(path_);
  const auto begin_mapped = harness::ReadCount::now();
  size_t sum = 0;
  for (const char c : mapped.bytes()) sum += static_cast<size_t>(c);
  const auto of_mapping = harness::ReadCount::now()->since(*begin_mapped);
  EXPECT_EQ(sum, size_ * 'x');
  EXPECT_EQ(of_mapping.bytes, 0);
  EXPECT_EQ(of_mapping.calls, 0);
}

TEST_F(FileUse, AMappingIsFoundByItsFile) {
  EXPECT_FALSE(harness::mapping_of(path_));
  EXPECT_FALSE(harness::mapping_of(folder_.path() / "absent"));
  EXPECT_FALSE(harness::mapping_of(""));
  {
    const files::MappedFile mapped(path_);
    const auto untouched = harness::mapping_of(path_);
    ASSERT_TRUE(untouched);
    EXPECT_EQ(std::stoull(untouched->address, nullptr, 16), reinterpret_cast<uintptr_t>(mapped.bytes().data()));
    EXPECT_EQ(untouched->resident_bytes, 0);
    size_t sum = 0;
    for (const char c : mapped.bytes()) sum += static_cast<size_t>(c);
    EXPECT_GT(sum, 0U);
    EXPECT_GE(harness::mapping_of(path_)->resident_bytes, static_cast<int64_t>(size_));
  }
  EXPECT_FALSE(harness::mapping_of(path_));
}

TEST_F(FileUse, TheCacheHoldsWhatWasReadUntilItIsDropped) {
  std::string bytes(size_, '\0');
  files::InputFile(path_).read(bytes.data(), bytes.size());
  const auto cached = harness::cached_bytes(path_);
  if (!cached) GTEST_SKIP() << "this kernel does not tell what is cached";
  EXPECT_EQ(*cached, static_cast<int64_t>(size_));
  harness::drop_from_page_cache(path_);
  const auto dropped = harness::cached_bytes(path_);
  ASSERT_TRUE(dropped);
  struct statfs system {};
  ASSERT_EQ(::statfs(path_.c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC || system.f_type == OVERLAYFS_SUPER_MAGIC) {
    GTEST_SKIP() << "this file system may keep its pages";
  }
  EXPECT_LT(*dropped, *cached / 2);
  files::InputFile(path_).read(bytes.data(), bytes.size());
  EXPECT_EQ(*harness::cached_bytes(path_), *cached);
}

TEST_F(FileUse, IsNotKnownOfAFileThatIsNotThere) {
  EXPECT_FALSE(harness::cached_bytes(folder_.path() / "absent"));
  EXPECT_THROW(harness::drop_from_page_cache(folder_.path() / "absent"), std::system_error);
  std::ofstream(folder_.path() / "empty") << "";
  EXPECT_EQ(harness::cached_bytes(folder_.path() / "empty"), 0);
}

TEST(ResidentMemory, GrowsByWhatIsWritten) {
  const auto before = harness::resident_bytes();
  if (!before) GTEST_SKIP() << "this kernel does not tell";
  constexpr size_t size = size_t{64} << 20;
  std::vector<char> block(size, 'x');
  const auto after = harness::resident_bytes();
  ASSERT_TRUE(after);
  EXPECT_EQ(block[size / 2], 'x');
  EXPECT_GT(*after - *before, static_cast<int64_t>(size) / 2);
  EXPECT_LT(*after - *before, 2 * static_cast<int64_t>(size));
}

}  // namespace file_use_test
