// The peak rates of GPUs as their makers publish them: a table by device name, with a dated source beside each row.
//
// Only whole names match, because parts mislead. "NVIDIA H100 PCIe" does three quarters of "NVIDIA H100 80GB HBM3". An
// "A10G" does half of an "A10". An "RTX 4090 Laptop GPU" is another chip. A MIG slice ends in "MIG 1g.10gb". A device
// that is not in the table has no peak, and so no MFU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace harness {

enum class NumberType { fp32, tf32, bf16, fp16 };

// "fp32", "TF32", "bf16", "fp16"
std::string_view name_of(NumberType type);

struct Peaks {
  // FLOP/s of dense matrix products that are summed in float32. None: the device has no such unit, or its maker's own
  // figures differ.
  std::optional<double> fp32, tf32, bf16, fp16;
  double bytes_per_s = 0;  // of its memory
  std::string source;

  [[nodiscard]] std::optional<double> of(NumberType type) const;
};

// By the name that the driver gives, with or without "NVIDIA " before it; none for any other.
std::optional<Peaks> peaks_of(std::string_view device_name);

}  // namespace harness
