#include "ablations/training/checkpoints.h"

#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "model/checkpoint.h"
#include "model/safetensors.h"
#include "study/training/training_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <set>
#include <stdexcept>
#include <system_error>

namespace ablations {

using study::training_file, study::log_file, study::table_file;

namespace fs = std::filesystem;

namespace {

constexpr const char *checkpoint_folder = "checkpoints", *checkpoint_file = "checkpoint.json",
                     *weights_file = "model.safetensors", *config_file = "config.json",
                     *state_file = "optimizer.safetensors", *latest_link = "latest", *best_link = "best";
const std::vector<const char*> saved_files{weights_file, config_file, state_file};  // with their SHA-256

std::string name_of_step(int64_t step) { return fmt::format("step-{:08}", step); }

// Of a checkpoint's folder; none for any other name.
std::optional<int64_t> step_of(const std::string& name) {
  constexpr size_t digits_at = std::string_view("step-").size();
  int64_t step = 0;
  if (name.size() > digits_at) std::from_chars(name.data() + digits_at, name.data() + name.size(), step);
  return name == name_of_step(step) ? std::optional(step) : std::nullopt;
}

// What killed writers of such names left in the folder.
void remove_unfinished(const fs::path& folder, const std::function<bool(const std::string& name)>& is_ours) {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = files::finished_name(entry.path().filename().string());
    if (!name.empty() && is_ours(name)) unfinished.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& path : unfinished) fs::remove_all(path, ignored);
}

// Why one of these files is not as it was saved; empty: all are.
std::string damage_of(const fs::path& folder, const std::vector<const char*>& names) {
  try {
    const auto saved = read_document<Checkpoint>(folder / checkpoint_file).sha256;
    for (const char* name : names) {
      const auto hash = saved.find(name);
      if (hash == saved.end() || files::sha256_of_file(folder / name) == hash->second) continue;
      return fmt::format("{}: is damaged: its SHA-256 is not the one in {}", (folder / name).string(), checkpoint_file);
    }
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// Names the last whole checkpoint before it, too.
[[noreturn]] void refuse_damaged(const fs::path& checkpoint, const std::string& damage) {
  const fs::path folder = fs::canonical(checkpoint);  // may be named by a link
  fs::path before;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.parent_path())) {
    const bool is_earlier = step_of(entry.path().filename().string()) && entry.path() < folder;
    if (is_earlier && entry.path() > before && damage_of(entry.path(), saved_files).empty()) before = entry.path();
  }
  throw std::invalid_argument(
      fmt::format("{}; {}", damage,
                  before.empty() ? "no earlier whole checkpoint lies beside it"
                                 : fmt::format("the checkpoint before it, {}, is whole: to resume from it, delete {}",
                                               before.string(), folder.string())));
}

}  // namespace

Checkpoints::Checkpoints(const fs::path& folder, int64_t keep, Access access)
    : folder_(access == Access::writes ? files::make_folder_in(folder, checkpoint_folder) : folder / checkpoint_folder),
      keep_(keep) {
  if (access == Access::writes) {
    const std::set<std::string> names{training_file, log_file, table_file, latest_link, best_link};
    remove_unfinished(folder, [&](const std::string& name) { return names.contains(name); });
    remove_unfinished(folder_, [](const std::string& name) { return step_of(name).has_value(); });
  } else if (!fs::exists(folder_)) {
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::optional<int64_t> step = step_of(entry.path().filename().string());
    if (!step) continue;
    files::refuse_link(entry.path());
    if (const std::string damage = damage_of(entry.path(), {}); !damage.empty()) refuse_damaged(entry.path(), damage);
    const auto checkpoint = read_document<Checkpoint>(entry.path() / checkpoint_file);
    if (checkpoint.step != *step) {
      throw std::invalid_argument(
          fmt::format("{}: is of step {}, not {}", (entry.path() / checkpoint_file).string(), checkpoint.step, *step));
    }
    stored_.push_back({checkpoint.step, checkpoint.validation_loss});
  }
  std::ranges::sort(stored_, {}, &Stored::step);
}

std::optional<Checkpoints::Stored> Checkpoints::latest() const {
  return stored_.empty() ? std::nullopt : std::optional(stored_.back());
}

std::optional<Checkpoints::Stored> Checkpoints::best() const {
  std::optional<Stored> best;
  for (const Stored& one : stored_) {
    if (one.validation_loss && (!best || *one.validation_loss < *best->validation_loss)) best = one;
  }
  return best;
}

fs::path Checkpoints::place_of(const Stored& stored) const { return folder_ / name_of_step(stored.step); }

void Checkpoints::save(model::Trainer& trainer, Checkpoint checkpoint) {
  const Stored stored{checkpoint.step, checkpoint.validation_loss};
  files::AtomicFolder folder(place_of(stored));
  model::save_weights(trainer.model(), folder.place() / weights_file);
  files::write_file(folder.place() / config_file, model::hugging_face_config(trainer.model().config()));
  model::write_safetensors(folder.place() / state_file, trainer.state());
  for (const char* name : saved_files) checkpoint.sha256[name] = files::sha256_of_file(folder.place() / name);
  write_document(folder.place() / checkpoint_file, checkpoint);
  folder.commit();
  stored_.push_back(stored);
  link(latest_link, latest());
  link(best_link, best());
  remove_old();
}

void Checkpoints::complete(const Checkpoint& checkpoint) {
  write_document(place_of(stored_.back()) / checkpoint_file, checkpoint);
  stored_.back().validation_loss = checkpoint.validation_loss;
  link(best_link, best());
}

void Checkpoints::link(const std::string& name, const std::optional<Stored>& stored) {
  if (!stored || !links_) return;
  try {
    files::write_link(folder_.parent_path() / name, fs::path(checkpoint_folder) / name_of_step(stored->step));
  } catch (const std::system_error& error) {  // a file system without links, or somebody's own file
    links_ = false;
    fmt::print(stderr, "note: no links to the latest and the best checkpoint: {}\n", files::printable(error.what()));
  }
}

void Checkpoints::remove_old() {
  const std::optional<Stored> best_one = best();
  const auto count = static_cast<int64_t>(stored_.size());
  std::vector<Stored> kept;
  for (int64_t i = 0; i < count; ++i) {
    const Stored& one = stored_[static_cast<size_t>(i)];
    const bool stays = i >= count - keep_ || (best_one && best_one->step == one.step);
    if (stays) kept.push_back(one);
    if (!stays) files::remove_folder(place_of(one));
  }
  stored_ = kept;
}

std::optional<Checkpoint> latest_checkpoint(const Checkpoints& checkpoints, const Training& training) {
  const std::optional<Checkpoints::Stored> latest = checkpoints.latest();
  if (!latest) return std::nullopt;
  const fs::path file = checkpoints.place_of(*latest) / checkpoint_file;
  auto checkpoint = read_document<Checkpoint>(file);
  const std::vector<std::string> different = differences(checkpoint.training.settings, training.settings);
  if (!different.empty()) {
    throw std::invalid_argument(fmt::format("{}: is not of the training that {} describes: {}", file.string(),
                                            training_file, fmt::join(different, "; ")));
  }
  return checkpoint;
}

void check_undamaged(const fs::path& weights) {
  const fs::path folder = fs::absolute(weights).parent_path();
  const std::string damage = damage_of(folder, {weights_file});  // config.json may be edited
  const bool is_ours = files::is_of_kind(folder / checkpoint_file, Checkpoint::kind);
  if (is_ours && !damage.empty()) refuse_damaged(folder, damage);
}

void load_checkpoint(model::Trainer& trainer, const fs::path& checkpoint) {
  if (const std::string damage = damage_of(checkpoint, saved_files); !damage.empty())
    refuse_damaged(checkpoint, damage);
  model::load_weights(trainer.model(), checkpoint / weights_file);
  const fs::path state = checkpoint / state_file;
  trainer.load_state(model::read_safetensors(state), state.string());
}

}  // namespace ablations
