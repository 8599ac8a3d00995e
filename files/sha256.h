// SHA-256 (FIPS 180-4) of bytes that arrive in pieces. Written here because 120 lines are cheaper than a dependency on
// a cryptography library. It finds edits; it is not a signature.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace files {

class Sha256 {
 public:
  explicit Sha256(bool plain = false);  // plain: without the processor's instructions

  // Appends `bytes` to what is hashed.
  void update(std::string_view bytes);

  // The digest of everything appended so far as 64 lower-case hexadecimal digits; more may be appended afterwards.
  [[nodiscard]] std::string hex() const;

 private:
  void compress(const char* block);

  bool by_instructions_;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, 64> pending_{};  // the last size_ % 64 bytes, not yet compressed
  uint64_t size_ = 0;               // bytes appended so far
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

// The SHA-256 of a file's bytes, which need not fit into memory. Throw std::invalid_argument where it cannot be read.
void hash_file(const std::filesystem::path& path, Sha256& hash);
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace files
