#include "ablations/training/training_folder.h"

#include "ablations/run/study_folder.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;

bool holds_training(const fs::path& folder) { return fs::exists(folder / training_file); }

void check_may_begin_training(const fs::path& folder) { check_holds_nothing(folder, training_file, "training"); }

void create_training(const Training& training, const fs::path& folder) {
  check_may_begin_training(folder);
  write_document(folder / training_file, training);
}

Training open_training(const fs::path& folder) {
  if (!holds_training(folder)) {
    throw std::invalid_argument(fmt::format("{}: holds no training (no {})", folder.string(), training_file));
  }
  return read_document<Training>(folder / training_file);
}

}  // namespace ablations
