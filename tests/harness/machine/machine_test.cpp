#include "harness/machine/machine.h"

#include <gtest/gtest.h>

#include <sstream>

namespace machine_test {

harness::Cpu described(const std::string& cpuinfo, const std::string& architecture) {
  std::istringstream stream(cpuinfo);
  return harness::described_cpu(stream, architecture);
}

TEST(Machine, AnX86ProcessorHasANameAndFlags) {
  const harness::Cpu cpu = described(
      "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\nmodel name\t: other\n",
      "x86_64");
  EXPECT_EQ(cpu.model, "AMD EPYC");
  EXPECT_EQ(cpu.features, (std::vector<std::string>{"avx2", "avx512f"}));
}

// Else a Grace and a Graviton would be the same machine.
TEST(Machine, AnArmProcessorHasNumbers) {
  const harness::Cpu cpu = described(
      "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd bf16\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
      "CPU part\t: 0xd4f\nCPU revision\t: 0\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n",
      "aarch64");
  EXPECT_EQ(cpu.model, "aarch64 processor 0x41 0xd4f");
  EXPECT_TRUE(cpu.features.empty());
}

}  // namespace machine_test
