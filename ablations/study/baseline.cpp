#include "ablations/study/baseline.h"

#include "ablations/run/setting.h"
#include "ablations/study/measured.h"
#include "harness/stats.h"
#include "harness/utc.h"
#include "harness/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

constexpr int64_t published_pairs[] = {6, 8, 12, 16, 24, 32, 48};

fs::path file_of(const fs::path& folder, const Json& record, const char* ending) {
  return folder / device_slug(setting_of(record)) / (recipe_hash(record.at("recipe"), record.at("workload")) + ending);
}

// What both kinds of file say first.
Json header(const char* kind, const Json& record, const std::string& label) {
  return {{"kind", kind},
          {"schema_version", 1},
          {"created", harness::utc_now()},
          {"label", label},
          {"recipe_hash", recipe_hash(record.at("recipe"), record.at("workload"))},
          {"recipe", record.at("recipe")},
          {"setting", setting_of(record)},
          {"program", record.at("environment").value("git_commit", Json())}};
}

// What a baseline's runs did beyond their setting: other steps take other times, and their losses cannot be compared.
Json steps_of(const Json& record) {
  const Json& workload = record.at("workload");
  return {{"warm-up steps", record.at("timing").at("warmup_steps")},
          {"timed steps", record.at("summary").at("n")},
          {"seed", workload.at("seed")},
          {"text", workload.at("data").at("sha256")}};
}

double median_ms(const Arm& arm) {
  std::vector<double> medians;
  for (const Json& record : arm.records) medians.push_back(record.at("summary").at("median_ms"));
  return harness::median(medians);
}

Json session_of(const Arm& arm) {
  std::vector<std::string> starts;
  for (const Json& record : arm.records) starts.push_back(record.at("started"));
  return {{"started", std::ranges::min(starts)}, {"runs", arm.records.size()}, {"median_ms", median_ms(arm)}};
}

// Of a baseline; one from before there were others knows its own.
Json sessions_of(const Json& baseline) {
  if (baseline.contains("sessions")) return baseline.at("sessions");
  return Json::array({session_of({"", baseline.at("records"), {}})});
}

}  // namespace

fs::path baseline_file(const fs::path& folder, const Json& record) { return file_of(folder, record, ".json"); }
fs::path noise_file(const fs::path& folder, const Json& record) { return file_of(folder, record, ".noise.json"); }

fs::path kept_file(const fs::path& folder, const Json& document) {
  const char* const ending = harness::kind_of(document) == "noise" ? ".noise.json" : ".json";
  return folder / device_slug(document.at("setting")) / (document.at("recipe_hash").get<std::string>() + ending);
}

std::vector<std::string> other_circumstances(const fs::path& file, const char* kind, const Json& record) {
  return differences(harness::read_json(file, kind).at("setting"), setting_of(record));
}

std::vector<std::string> other_steps(const fs::path& baseline, const Json& record) {
  return differences(steps_of(read_baseline(baseline).records.front()), steps_of(record));
}

Json baseline_json(const Arm& arm) {
  Json json = header("baseline", arm.records.front(), arm.label);
  json["median_ms"] = median_ms(arm);
  json["sessions"] = Json::array({session_of(arm)});
  json["records"] = arm.records;
  return json;
}

std::string why_no_session(const fs::path& baseline, const Arm& arm) {
  const auto is_disturbed = [](const Json& record) { return !run_data(record).disturbed.empty(); };
  if (std::ranges::any_of(arm.records, is_disturbed)) return "runs of it were disturbed";
  if (const auto steps = other_steps(baseline, arm.records.front()); !steps.empty()) return steps.front();
  if (arm.records.size() < harness::runs_of_a_session) return fmt::format("it has {} runs", arm.records.size());
  const std::string started = session_of(arm).at("started");
  for (const Json& known : sessions_of(harness::read_json(baseline, "baseline"))) {
    const auto hours = harness::hours_between(started, known.at("started"));
    if (!hours || *hours < harness::hours_between_sessions) {
      return fmt::format("it began {:.1f} hours from one that the baseline knows, and {:g} are needed",
                         hours.value_or(0), harness::hours_between_sessions);
    }
  }
  return "";
}

Json with_session(const fs::path& baseline, const Arm& arm) {
  Json json = harness::read_json(baseline, "baseline");
  json["sessions"] = sessions_of(json);
  json["sessions"].push_back(session_of(arm));
  return json;
}

bool is_same_program(const Json& record, const Json& other) {
  const bool cuda = record.at("recipe").at("device") == "cuda";
  return are_of_one_program(record.at("environment"), other.at("environment")) &&
         differences(study_setting(record, cuda), study_setting(other, cuda)).empty();
}

Arm read_baseline(const fs::path& file) {
  const Json json = harness::read_json(file, "baseline");
  Arm arm{json.at("label"), {}, {}};
  for (const Json& record : json.at("records")) {
    harness::check_schema(record, "record", file.string() + ": records");
    if (record.at("status") != "ok" ||
        recipe_hash(record.at("recipe"), record.at("workload")) != json.at("recipe_hash") ||
        !differences(setting_of(record), json.at("setting")).empty()) {
      throw std::invalid_argument(fmt::format("{}: record {} is not of the recipe and device that the baseline names",
                                              file.string(), record.at("id").dump()));
    }
    (void)run_data(record);  // throws for one that contradicts itself
    arm.records.push_back(record);
  }
  for (const Json& session : sessions_of(json)) arm.sessions.push_back(session.at("median_ms"));
  if (arm.sessions.front() != median_ms(arm) || json.at("median_ms") != median_ms(arm)) {
    throw std::invalid_argument(fmt::format("{}: median_ms is not that of its records", file.string()));
  }
  return arm;
}

Json noise_json(std::span<const double> differences, const Json& record, const std::string& label) {
  Json json = header("noise", record, label);
  double squares = 0;
  for (const double difference : differences) squares += difference * difference;
  json["pairs"] = differences.size();
  json["differences"] = differences;
  json["sd"] = std::sqrt(squares / static_cast<double>(differences.size()));  // about zero: the programs are the same
  Json floors = Json::array();
  for (const int64_t pairs : published_pairs) {
    floors.push_back({{"pairs", pairs}, {"floor", harness::noise_floor(differences, pairs)}});
  }
  json["floors"] = floors;
  return json;
}

double floor_at(const Json& noise, int64_t pairs) {
  double floor = noise.at("floors").front().at("floor");
  for (const Json& entry : noise.at("floors")) {
    if (entry.at("pairs").get<int64_t>() <= pairs) floor = entry.at("floor");
  }
  return floor;
}

}  // namespace ablations
