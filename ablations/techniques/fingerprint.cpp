#include "ablations/techniques/fingerprint.h"

#include <fmt/format.h>

#include <cmath>

namespace ablations {

std::string precision_of(double relative_error) {
  // The geometric middle between two neighbours of the table in fingerprint.h.
  static const double float32_to_tf32 = std::sqrt(8.1e-7 * 2.9e-4);     // 1.5e-5
  static const double tf32_to_bfloat16 = std::sqrt(7.7e-4 * 2.4e-3);    // 1.4e-3
  static const double bfloat16_to_8_bits = std::sqrt(6.2e-3 * 3.7e-2);  // 1.5e-2
  if (!(relative_error < bfloat16_to_8_bits)) return "wrong";
  if (relative_error > tf32_to_bfloat16) return "bfloat16";
  if (relative_error > float32_to_tf32) return "tf32 or float16";
  return "float32";
}

std::string in_words(const Fingerprint& fingerprint) {
  return fmt::format("error {}, {}{}",
                     fingerprint.relative_error ? fmt::format("{:.1e}", *fingerprint.relative_error) : "not finite",
                     fingerprint.precision, fingerprint.kernel ? ", by " + *fingerprint.kernel : "");
}

}  // namespace ablations
