// The table of peaks: names are told apart as a whole, and what is not known has none.
#include "harness/machine/peaks.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace peaks_test {

using namespace harness;

TEST(Peaks, DevicesOfOneFamilyDiffer) {
  EXPECT_DOUBLE_EQ(*peaks_of("NVIDIA H100 80GB HBM3")->bf16, 989.4e12);
  EXPECT_DOUBLE_EQ(*peaks_of("NVIDIA H100 PCIe")->bf16, 756e12);
  EXPECT_DOUBLE_EQ(peaks_of("NVIDIA A100-SXM4-40GB")->bytes_per_s, 1555e9);
  EXPECT_DOUBLE_EQ(peaks_of("NVIDIA A100-SXM4-80GB")->bytes_per_s, 2039e9);
  EXPECT_DOUBLE_EQ(peaks_of("NVIDIA A100 80GB PCIe")->bytes_per_s, 1935e9);
  EXPECT_DOUBLE_EQ(*peaks_of("Tesla V100-SXM2-32GB")->fp16, 125e12);
  EXPECT_DOUBLE_EQ(*peaks_of("Tesla V100-PCIE-32GB")->fp16, 112e12);
}

TEST(Peaks, OldDriversLeaveTheMakerOut) {
  EXPECT_DOUBLE_EQ(*peaks_of("A100-SXM4-40GB")->tf32, 156e12);
  EXPECT_DOUBLE_EQ(*peaks_of("NVIDIA A100-SXM4-40GB")->tf32, 156e12);
}

TEST(Peaks, AnythingElseIsUnknown) {
  std::istringstream names(
      "|NVIDIA |NVIDIA A100|A100|NVIDIA H100|NVIDIA H100 NVL|NVIDIA H200 NVL|NVIDIA GH200 480GB|"
      "NVIDIA A100-SXM4-40GB MIG 1g.5gb|NVIDIA H100 80GB HBM3 MIG 1g.10gb|NVIDIA A100-SXM-64GB|NVIDIA A10G|NVIDIA L40|"
      "NVIDIA GeForce RTX 4090 D|NVIDIA GeForce RTX 4090 Laptop GPU|NVIDIA GeForce RTX 5090 D|"
      "NVIDIA GeForce RTX 5090 Laptop GPU|Tesla V100-SXM3-32GB|nvidia h200|NVIDIA NVIDIA H200| NVIDIA H200");
  for (std::string name; std::getline(names, name, '|');) EXPECT_FALSE(peaks_of(name)) << name;
}

TEST(Peaks, ATypeThatTheDeviceLacksHasNone) {
  const auto t4 = peaks_of("Tesla T4");
  EXPECT_FALSE(t4->of(NumberType::bf16) || t4->of(NumberType::tf32));
  EXPECT_DOUBLE_EQ(*t4->of(NumberType::fp16), 65e12);
  EXPECT_DOUBLE_EQ(*t4->of(NumberType::fp32), 8.1e12);
  EXPECT_FALSE(peaks_of("NVIDIA B200")->of(NumberType::fp32));
}

// Dense figures: tensor units at least as fast as the others, half of bf16 (or less) in TF32, and a source with a year.
TEST(Peaks, RowsAreOfOneKind) {
  for (const char* name : {"Tesla V100-SXM2-16GB", "Tesla V100S-PCIE-32GB", "Tesla T4", "NVIDIA A100-PCIE-40GB",
                           "NVIDIA A10", "NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200",
                           "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090", "NVIDIA L4", "NVIDIA L40S"}) {
    const auto peaks = peaks_of(name);
    ASSERT_TRUE(peaks) << name;
    EXPECT_NE(peaks->source.find(" 20"), std::string::npos) << name << ": " << peaks->source;
    EXPECT_GE(peaks->bytes_per_s, 300e9) << name;
    if (peaks->bf16) {
      EXPECT_DOUBLE_EQ(*peaks->bf16, *peaks->fp16) << name;
      EXPECT_LE(*peaks->tf32, 0.51 * *peaks->bf16) << name;
    }
    if (peaks->fp32 && peaks->tf32) {
      EXPECT_GE(*peaks->tf32, *peaks->fp32) << name;
    }
  }
}

}  // namespace peaks_test
