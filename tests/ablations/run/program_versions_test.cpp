#include "ablations/run/program_versions.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

namespace program_versions_test {

namespace fs = std::filesystem;

TEST(ProgramVersions, AreOfTheLoadedPackages) {
  const fs::path folder = fs::path(testing::TempDir()) / "versions" / "lib" / "python3.11" / "site-packages";
  for (const char* name : {"torch-2.11.0+cu130.dist-info", "flash_attn-2.7.dist-info", "numpy-2.1.3.dist-info"}) {
    fs::create_directories(folder / name);
  }
  EXPECT_EQ(ablations::versions_of({folder / "torch" / "lib" / "libtorch_cpu.so", folder / "flash_attn" / "a.so",
                                    "/usr/bin/python3.11", "/usr/lib/libc.so.6"}),
            (std::map<std::string, std::string>{{"python", "3.11"}, {"torch", "2.11.0+cu130"}, {"flash_attn", "2.7"}}));
  EXPECT_EQ(ablations::versions_of({"/opt/lib/libpython3.12.so.1.0", "/gone/site-packages/jax/x.so"}),
            (std::map<std::string, std::string>{{"python", "3.12"}}));
  EXPECT_TRUE(ablations::versions_of({}).empty());
  fs::remove_all(fs::path(testing::TempDir()) / "versions");
}

}  // namespace program_versions_test
