#include "study/gate/baseline_file.h"

#include "ablations/run/run_setting.h"
#include "files/files.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"
#include "harness/stats/verdict.h"
#include "study/measured.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace study {

namespace fs = std::filesystem;

namespace {

constexpr int64_t published_pairs[] = {6, 8, 12, 16, 24, 32, 48};

fs::path file_of(const fs::path& folder, const Setting& setting, const std::string& hash, const char* ending) {
  return folder / setting.device_slug() / (hash + ending);
}

constexpr const char* baseline_ending = ".json";
constexpr const char* noise_ending = ".noise.json";

// What both kinds of file say first.
Kept kept_of(const Record& record, const std::string& label) {
  return {.created = harness::utc_now(),
          .label = label,
          .recipe_hash = recipe_hash_of(record),
          .recipe = record.recipe,
          .setting = setting_of(record),
          .program = record.environment.git_commit};
}

// What a baseline's runs did beyond their setting: other steps take other times, and their losses cannot be compared.
Facts steps_of(const Record& record) {
  return {{"warm-up steps", std::to_string(record.timing.warmup_steps)},
          {"timed steps", std::to_string(record.summary.n)},
          {"seed", std::to_string(record.workload.seed)},
          {"text", record.workload.data.sha256}};
}

double median_ms(const std::vector<Record>& records) {
  std::vector<double> medians;
  for (const Record& record : records) medians.push_back(record.summary.median_ms);
  return harness::median(medians);
}

// About zero: the programs are the same.
double sd_of(std::span<const double> differences) {
  double squares = 0;
  for (const double difference : differences) squares += difference * difference;
  return std::sqrt(squares / static_cast<double>(differences.size()));
}

Session session_of(const std::vector<Record>& records) {
  std::vector<std::string> starts;
  for (const Record& record : records) starts.push_back(record.started);
  return {.started = std::ranges::min(starts), .runs = std::ssize(records), .median_ms = median_ms(records)};
}

}  // namespace

fs::path baseline_file(const fs::path& folder, const Record& record) {
  return file_of(folder, setting_of(record), recipe_hash_of(record), baseline_ending);
}

fs::path noise_file(const fs::path& folder, const Record& record) {
  return file_of(folder, setting_of(record), recipe_hash_of(record), noise_ending);
}

void check_baseline(const Baseline& baseline, const fs::path& file) {
  for (const Record& record : baseline.records) {
    if (!record.is_ok() || recipe_hash_of(record) != baseline.recipe_hash ||
        !differences(setting_of(record), baseline.setting).empty()) {
      throw std::invalid_argument(fmt::format("{}: record {} is not of the recipe and device that the baseline names",
                                              file.string(), files::in_quotes(record.id)));
    }
    (void)run_data(record);  // throws for one that contradicts itself
  }
  const double median = median_ms(baseline.records);
  if (baseline.sessions.front().median_ms != median || baseline.median_ms != median) {
    throw std::invalid_argument(fmt::format("{}: median_ms does not follow from its records", file.string()));
  }
}

Baseline read_baseline(const fs::path& file) {
  auto baseline = read_document<Baseline>(file);
  check_baseline(baseline, file);
  return baseline;
}

Sample sample_of(const Baseline& baseline) {
  Sample sample{baseline.label, baseline.records, {}};
  for (const Session& session : baseline.sessions) sample.sessions.push_back(session.median_ms);
  return sample;
}

std::vector<std::string> other_circumstances(const Kept& kept, const Record& record) {
  return differences(kept.setting, setting_of(record));
}

std::string why_no_noise(const Noise& noise, const Record& record) {
  if (const auto lines = other_circumstances(noise, record); !lines.empty()) {
    return fmt::format("it was made under other circumstances: {}", fmt::join(lines, "; "));
  }
  const double sd = sd_of(noise.differences);
  const bool follows = noise.pairs == std::ssize(noise.differences) && std::abs(noise.sd - sd) <= 1e-9 * sd;
  return follows ? "" : "its pairs and sd are not those of its differences";
}

std::vector<std::string> other_steps(const Baseline& baseline, const Record& record) {
  return differences(steps_of(baseline.records.front()), steps_of(record));
}

Baseline baseline_of(const Sample& sample) {
  Baseline baseline;
  static_cast<Kept&>(baseline) = kept_of(sample.records.front(), sample.label);
  baseline.median_ms = median_ms(sample.records);
  baseline.sessions = {session_of(sample.records)};
  baseline.records = sample.records;
  return baseline;
}

std::string why_no_session(const Baseline& baseline, const Sample& sample) {
  if (std::ranges::any_of(sample.records, &Record::is_disturbed)) return "some of its runs were disturbed";
  if (const auto steps = other_steps(baseline, sample.records.front()); !steps.empty()) return steps.front();
  if (sample.records.size() < harness::runs_of_a_session)
    return "it has only " + number_of(std::ssize(sample.records), "run");
  const std::string started = session_of(sample.records).started;
  for (const Session& known : baseline.sessions) {
    const auto hours = harness::hours_between(started, known.started);
    if (!hours || *hours < harness::hours_between_sessions) {
      return fmt::format("it began only {:.1f} hours from a known session, and {:g} are needed", hours.value_or(0),
                         harness::hours_between_sessions);
    }
  }
  return "";
}

Baseline with_session(Baseline baseline, const Sample& sample) {
  baseline.sessions.push_back(session_of(sample.records));
  return baseline;
}

bool is_same_program(const Record& record, const Record& other) {
  if (record.command) return other.command && record.command->commit == other.command->commit;
  const bool cuda = record.is_on_gpu();
  return are_of_one_program(record.environment, other.environment) &&
         differences(study_facts(record, cuda), study_facts(other, cuda)).empty();
}

Noise noise_of(std::span<const double> differences, const Record& record, const std::string& label) {
  Noise noise;
  static_cast<Kept&>(noise) = kept_of(record, label);
  noise.pairs = std::ssize(differences);
  noise.differences.assign(differences.begin(), differences.end());
  noise.sd = sd_of(differences);
  for (const int64_t pairs : published_pairs) noise.floors.push_back({pairs, harness::noise_floor(differences, pairs)});
  return noise;
}

const Floor& floor_at(const Noise& noise, int64_t pairs) {
  const Floor* floor = &noise.floors.front();
  for (const Floor& entry : noise.floors) {
    if (entry.pairs <= pairs) floor = &entry;
  }
  return *floor;
}

}  // namespace study
