// The lines that a client writes into a run's file (client/ladder_client.py), read as they come.
#pragma once

#include "files/json_file.h"
#include "harness/lines/step_reader.h"
#include "results/common.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations {

class ClientLog {
 public:
  explicit ClientLog(std::filesystem::path file) : file_(std::move(file)) {}

  // Steps that have come since the last call. begun_s: when the run began, by the clock of the lines. A line that says
  // an earlier time than the line before it, or a later one than now, came now. Nothing is read of what is no regular
  // file, or lies beyond its first 64 MiB.
  std::vector<harness::StepLine> read(double begun_s);

  [[nodiscard]] bool has_begun() const {
    std::error_code none;
    return std::filesystem::is_regular_file(std::filesystem::symlink_status(file_, none));
  }
  [[nodiscard]] std::optional<int64_t> tokens() const { return tokens_; }  // of a step
  // What the program says of itself, and what it has checked.
  [[nodiscard]] const std::map<std::string, std::string>& stated() const { return stated_; }
  [[nodiscard]] const std::vector<Proof>& proofs() const { return proofs_; }

 private:
  void take_words(const files::Json& line);

  std::filesystem::path file_;
  uint64_t at_ = 0;
  double last_s_ = 0;
  double ahead_s_ = 0;  // of the lines' clock, where they come from a container with one of its own
  std::optional<int64_t> tokens_;
  std::map<std::string, std::string> stated_;
  std::vector<Proof> proofs_;
};

}  // namespace ablations
