// A UTF-8 text that is read in parts. Each part ends at a cut: between an ASCII character that is not white space and
// ASCII white space. Then the tokens of a text are those of its parts, one after the other. GPT-2's pattern (see
// tokenizer.cpp) never matches across a cut, and looks only ahead, at white space after white space.
#pragma once

#include "files/files.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace model {

class TextFile {
 public:
  // Throws std::invalid_argument if it cannot be opened. Everything here throws it if the file cannot be read.
  explicit TextFile(const std::filesystem::path& path) : path_(path), file_(path) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] uint64_t size() const { return file_.size(); }

  // From byte `begin` to the first cut that is at least `least` bytes on, or to the end.
  [[nodiscard]] std::string part(uint64_t begin, size_t least);

  // The last cut at or before `byte`; 0 if there is none.
  [[nodiscard]] uint64_t cut_before(uint64_t byte);

  // Bytes [begin, begin + count).
  [[nodiscard]] std::string bytes(uint64_t begin, size_t count);

  // How often and how much was read so far.
  [[nodiscard]] int64_t reads() const { return reads_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }

 private:
  std::filesystem::path path_;
  files::InputFile file_;
  int64_t reads_ = 0, bytes_read_ = 0;
};

}  // namespace model
