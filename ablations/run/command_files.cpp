#include "ablations/run/command_files.h"

#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/sha256.h"
#include "harness/process/unfit.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace ablations {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of_commands(const Plan& plan) {
  constexpr uintmax_t most_bytes = uintmax_t{64} << 20;  // of code; larger ones are data
  std::map<std::string, std::string> found{{".", files::sha256_hex(fs::current_path().string())}};
  std::vector<fs::path> folders{""};
  const auto add = [&](const fs::path& file) {
    std::error_code none;
    const std::string name = files::valid_utf8(file.string());
    if (found.contains(name)) return true;
    if (!fs::is_regular_file(file, none) || fs::file_size(file, none) > most_bytes) return false;
    try {
      found[name] = files::sha256_of_file(file);
    } catch (const std::invalid_argument&) {  // cannot be read, or is gone
    }
    return true;
  };
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    std::string text = plan.rungs[i].command->text;
    for (char& c : text) c = std::string_view("'\"=;|&<>()").find(c) == std::string::npos ? c : ' ';
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      std::error_code none;
      if (fs::is_directory(word, none)) folders.emplace_back(word);  // of a cd
      std::string module = word;                                     // of python -m
      std::ranges::replace(module, '.', '/');
      for (const fs::path& folder : folders) {
        for (const fs::path& file : {folder / word, folder / (module + ".py"), folder / module / "__main__.py"}) {
          if (!add(file) || file.extension() != ".py") continue;
          const fs::path around = file.has_parent_path() ? file.parent_path() : fs::path(".");
          for (const auto& entry : fs::directory_iterator(around, none)) {
            if (entry.path().extension() == ".py") add(file.parent_path() / entry.path().filename());
          }
        }
      }
    }
  }
  return found;
}

void check_has_its_files(const Plan& plan, const fs::path& folder) {
  const auto now = plan.commands->files.empty() ? plan.commands->files : files_of_commands(plan);
  for (const auto& [name, sha256] : plan.commands->files) {
    if (const auto found = now.find(name); found != now.end() && found->second == sha256) continue;
    throw harness::Unfit(fmt::format(
        "{}: its runs were made under other circumstances: {}; resume there, or begin a new study", folder.string(),
        name == "." ? "in another working folder" : files::printable(name) + " has changed since the study was begun"));
  }
}

double now_of_files() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double changed_at(const fs::path& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_ctim.tv_sec) + 1e-9 * static_cast<double>(status.st_ctim.tv_nsec);
}

std::vector<std::string> written_since(const fs::path& directory, double since_s, const fs::path& out) {
  std::vector<std::string> written;
  std::error_code error;
  int64_t looked_at = 0;
  fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end && ++looked_at < 20000;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(error)) {
      const bool is_ours = fs::equivalent(entry->path(), out, error);
      if (is_ours || name.starts_with('.') || name == "__pycache__" || entry->is_symlink(error)) {
        entry.disable_recursion_pending();
      }
      error.clear();
    } else if (entry->is_regular_file(error) && changed_at(entry->path()) >= since_s) {
      written.push_back(files::valid_utf8(entry->path().lexically_relative(directory).string()));
      if (written.size() == 20) break;
    }
    error.clear();
  }
  std::ranges::sort(written);
  return written;
}

BegunFolder::BegunFolder(fs::path folder, std::vector<std::string> parts, bool resumes)
    : folder_(std::move(folder)), parts_(std::move(parts)) {
  make_study_folder(folder_);
  if (!resumes) {
    lock_.emplace(folder_);
    check_may_begin(folder_);  // nobody else can begin one now
    for (const char* part : {"logs", "runs"}) fs::remove_all(folder_ / part);
  }
  fs::create_directory(folder_ / "logs");
  for (const std::string& part : parts_) fs::create_directory(folder_ / part);
}

BegunFolder::~BegunFolder() {
  std::error_code ignored;  // what cannot be removed stays
  for (const std::string& part : parts_) {
    if (part != "logs" || !fs::exists(folder_ / "plan.json", ignored)) fs::remove_all(folder_ / part, ignored);
  }
  fs::remove(folder_ / "logs", ignored);  // likewise
  fs::remove(folder_, ignored);           // if nothing is left in it
}

using harness::StepLine;

static bool is_count(const files::Json& json) {
  return json.is_number_unsigned() && json.get<uint64_t>() < uint64_t{1} << 53;
}

// What has come from `at` on.
static std::string text_of(const std::filesystem::path& file, uint64_t at) try {
  const files::InputFile input(file);
  const uint64_t end = std::min(input.size(), uint64_t{64} << 20);
  std::string text(std::max(end, at) - at, '\0');
  input.read_at(at, text.data(), text.size());
  return text;
} catch (const std::invalid_argument&) {  // it is gone, or another kind of file
  return "";
}

void ClientLog::remove() const {
  const std::string begin = lowest_.path.filename().string() + ".";
  std::error_code ignored;
  fs::remove(lowest_.path, ignored);
  for (const auto& entry : fs::directory_iterator(lowest_.path.parent_path(), ignored)) {
    if (entry.path().filename().string().starts_with(begin)) fs::remove(entry.path(), ignored);
  }
}

std::vector<StepLine> ClientLog::read(double begun_s) {
  ranks_.add(0, read(lowest_, begun_s));
  ranks_.expect(ranks_told_);
  for (int64_t rank = 1; rank < ranks_told_; ++rank) {
    File& file = others_[rank];
    if (file.path.empty()) file.path = fmt::format("{}.{}", lowest_.path.string(), rank);
    ranks_.add(static_cast<double>(rank), read(file, begun_s));
  }
  return ranks_.take();
}

std::vector<StepLine> ClientLog::read(File& file, double begun_s) {
  std::vector<StepLine> lines;
  const std::string text = is_there(file) ? text_of(file.path, file.at) : "";
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() - begun_s;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    file.at += end + 1 - begin;
    const files::Json json = files::Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                                text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                                /*allow_exceptions=*/false);
    if (json.is_object()) take_words(json, file);
    if (!json.is_object() || !json.value("t", files::Json()).is_number() ||
        !is_count(json.value("step", files::Json()))) {
      continue;
    }
    const files::Json loss = json.value("loss", files::Json()), tokens = json.value("tokens", files::Json());
    const double seconds = json["t"].get<double>() + file.ahead_s - begun_s;
    file.last_s = seconds >= file.last_s && seconds <= now ? seconds : now;
    StepLine step{.seconds = file.last_s, .lowest_s = file.last_s, .step = json["step"].get<int64_t>()};
    step.read_from_s = file.read_s;
    step.read_s = now;
    const files::Json wait_ms = json.value("wait_ms", files::Json());
    if (wait_ms.is_number()) step.wait_ms = std::clamp(wait_ms.get<double>(), 0.0, 1e12);
    if (loss.is_number()) step.loss = loss.get<double>();
    if (loss.is_string()) step.loss = NAN;  // JSON has no NaN
    if (is_count(tokens) && tokens > 0 && &file == &lowest_) tokens_ = tokens.get<int64_t>();
    lines.push_back(step);
  }
  for (StepLine& line : lines) line.newest_s = file.last_s;
  file.read_s = now;
  return lines;
}

void ClientLog::take_words(const files::Json& line, File& file) {
  if (const auto clock = line.find("clock"); clock != line.end() && clock->is_number()) {
    const std::chrono::duration<double> own = std::chrono::system_clock::now().time_since_epoch(),
                                        monotonic = std::chrono::steady_clock::now().time_since_epoch();
    const double ahead_s = clock->get<double>() - (own - monotonic).count();
    file.ahead_s = std::abs(ahead_s) > 1 ? ahead_s : 0;  // else it is the same clock, read twice
  }
  constexpr int64_t most_ranks = 4096;
  if (const auto host = line.find("host"); host != line.end() && host->is_string() && std::ssize(hosts_) < most_ranks) {
    hosts_.insert(host->get<std::string>());
  }
  if (&file != &lowest_) return;
  if (const auto ranks = line.find("ranks"); ranks != line.end() && is_count(*ranks)) {
    ranks_told_ = std::clamp<int64_t>(ranks->get<int64_t>(), 1, most_ranks);
  }
  if (const auto stated = line.find("stated"); stated != line.end() && stated->is_object()) {
    for (const auto& [name, value] : stated->items()) {
      if (value.is_string() && stated_.size() < 50) stated_[name] = value.get<std::string>();
    }
  }
  if (const auto proof = line.find("proof"); proof != line.end() && proofs_.size() < 50) {
    try {
      proofs_.push_back(value_from<Proof>(*proof, "proof"));
    } catch (const std::invalid_argument&) {  // not a line of the client's
    }
  }
}

}  // namespace ablations
