#include "harness/machine/peaks.h"

#include <algorithm>
#include <vector>

namespace harness {
namespace {

constexpr std::nullopt_t none = std::nullopt;
constexpr double tera = 1e12;

struct Row {
  std::vector<std::string_view> names;           // as cudaGetDeviceProperties gives them, without "NVIDIA "
  std::optional<double> fp32, tf32, bf16, fp16;  // TFLOP/s
  double gb_per_s;
  const char* source;
};

// Compared on 2026-11-21 with quotations of these documents. Figures "with sparsity" are halved here.
const std::vector<Row>& table() {
  static const char* const v100 = "NVIDIA V100 datasheet, January 2020";
  static const char* const a100 = "NVIDIA A100 datasheet, June 2021";
  static const char* const h100 = "NVIDIA H100 architecture whitepaper V1.04 and datasheet, 2023";
  static const char* const ada = "NVIDIA Ada GPU architecture whitepaper V2.01, 2023";
  static const std::vector<Row> rows{
      {{"Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"}, 15.7, none, none, 125, 900, v100},
      {{"Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"}, 14, none, none, 112, 900, v100},
      {{"Tesla V100S-PCIE-32GB"}, 16.4, none, none, 130, 1134, v100},
      {{"Tesla T4", "T4"}, 8.1, none, none, 65, 320, "NVIDIA T4 datasheet, March 2019"},
      {{"A100-SXM4-40GB", "A100-PCIE-40GB"}, 19.5, 156, 312, 312, 1555, a100},
      {{"A100-SXM4-80GB"}, 19.5, 156, 312, 312, 2039, a100},
      {{"A100 80GB PCIe"}, 19.5, 156, 312, 312, 1935, a100},
      {{"A10"}, 31.2, 62.5, 125, 125, 600, "NVIDIA A10 datasheet, 2021"},
      {{"H100 80GB HBM3"}, 66.9, 494.7, 989.4, 989.4, 3350, h100},
      {{"H100 PCIe"}, 51.2, 378, 756, 756, 2000, h100},
      {{"H200"}, 67, 494.5, 989.5, 989.5, 4800, "NVIDIA H200 datasheet, November 2023"},
      // float32: 80 in this document, 75 in later ones.
      {{"B200"}, none, 1100, 2250, 2250, 8000, "NVIDIA Blackwell architecture technical brief, March 2024"},
      {{"GeForce RTX 4090"}, 82.6, 82.6, 165.2, 165.2, 1008, ada},
      {{"GeForce RTX 5090"}, 104.8, 104.8, 209.5, 209.5, 1792, "NVIDIA RTX Blackwell architecture whitepaper, 2025"},
      {{"L4"}, 30.3, 60, 121, 121, 300, "NVIDIA L4 datasheet, 2023"},
      {{"L40S"}, 91.6, 183, 362, 362, 864, "NVIDIA L40S datasheet, 2023"},
  };
  return rows;
}

}  // namespace

std::string_view name_of(NumberType type) {
  switch (type) {
    case NumberType::fp32:
      return "fp32";
    case NumberType::tf32:
      return "TF32";
    case NumberType::bf16:
      return "bf16";
    case NumberType::fp16:
      return "fp16";
  }
  return "";
}

std::optional<double> Peaks::of(NumberType type) const {
  switch (type) {
    case NumberType::fp32:
      return fp32;
    case NumberType::tf32:
      return tf32;
    case NumberType::bf16:
      return bf16;
    case NumberType::fp16:
      return fp16;
  }
  return std::nullopt;
}

std::optional<Peaks> peaks_of(std::string_view device_name) {
  constexpr std::string_view maker = "NVIDIA ";
  if (device_name.starts_with(maker)) device_name.remove_prefix(maker.size());
  const auto flops = [](std::optional<double> tflops) { return tflops ? std::optional(*tflops * tera) : std::nullopt; };
  for (const Row& row : table()) {
    if (std::ranges::find(row.names, device_name) == row.names.end()) continue;
    return Peaks{.fp32 = flops(row.fp32),
                 .tf32 = flops(row.tf32),
                 .bf16 = flops(row.bf16),
                 .fp16 = flops(row.fp16),
                 .bytes_per_s = row.gb_per_s * 1e9,
                 .source = row.source};
  }
  return std::nullopt;
}

}  // namespace harness
