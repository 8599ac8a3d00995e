#include "ablations/study/measured.h"

#include "ablations/run/study_folder.h"
#include "harness/measure/utc.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

namespace {

// The readings that a GPU's monitor (harness/gpu/monitor.h) could not give.
std::string why_unwatched(const Json& monitor) {
  if (monitor.contains("unavailable")) return monitor.at("unavailable");
  const Json notes = monitor.value("notes", Json::object());
  for (const char* field : {"throttle", "other_processes"}) {
    if (files::field_or_null(monitor, field).is_null()) return notes.value(field, std::string(field) + " is not known");
  }
  return "";
}

Made made_of(const Json& record) {
  Made made{.started = record.at("started"), .boot = "", .duration_s = record.at("duration_s")};
  if (const auto moment = record.find("since_boot"); moment != record.end()) {
    made.boot = moment->at("boot");
    made.since_boot_s = moment->at("seconds");
  }
  return made;
}

}  // namespace

RunData run_data(const Json& record) {
  RunData run;
  const Json& timing = record.at("timing");
  const auto warmup = timing.at("warmup_steps").get<int64_t>();
  const auto all_ms = timing.at("step_ms").get<std::vector<double>>();
  const auto faults = timing.at("page_faults").get<std::vector<double>>();
  const Json& losses = timing.at("loss");
  if (warmup >= std::ssize(all_ms) || faults.size() != all_ms.size() || losses.size() != all_ms.size()) {
    throw std::invalid_argument(
        fmt::format("record of run {}: {} steps of warm-up among {} times, {} losses and {} counts of faults",
                    record.at("id").dump(), warmup, all_ms.size(), losses.size(), faults.size()));
  }
  run.timed_ms.assign(all_ms.begin() + warmup, all_ms.end());
  run.median_ms = harness::median(run.timed_ms);
  run.page_faults_per_step = harness::median(std::vector<double>(faults.begin() + warmup, faults.end()));
  for (const Json& loss : losses) {
    run.losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>());
  }
  run.peak_bytes = record.at("memory").at("peak_bytes");
  run.tokens_per_step = record.at("workload").at("tokens_per_step");
  run.flops_per_step = record.at("workload").at("flops_per_step");
  run.skipped_steps = timing.value("skipped_steps", int64_t{0});
  run.memory = record.at("memory");
  run.proofs = value_from<std::vector<Proof>>(record.at("proofs"), "proofs of run " + record.at("id").dump());
  if (!record.at("observations").contains("peer"))  // PyTorch's are of its own form
    run.observations = value_from<Observations>(record.at("observations"), record.at("id").get<std::string>());
  if (const auto flags = record.value("flags", std::vector<std::string>{}); !flags.empty()) {
    run.disturbed = fmt::format("{} {}", record.at("id").get<std::string>(), fmt::join(flags, "; "));
  }
  const Json monitor = record.value("monitor", Json::object());
  if (files::field_or_null(record.at("recipe"), "device") == "cuda") run.unwatched = why_unwatched(monitor);
  if (const auto joules = monitor.find("joules_per_token"); joules != monitor.end() && joules->is_number()) {
    run.joules_per_token = *joules;
  }
  if (const auto clock = monitor.find("sm_clock_mhz"); clock != monitor.end() && clock->is_object()) {
    run.sm_clock_mhz = clock->at("median");
  }
  return run;
}

std::string why_no_number(const Json& record) {
  if (record.at("status") != "ok") {
    const std::string message = record.at("failure").at("message");
    return message.empty() ? record.at("failure").at("kind").get<std::string>() : message;
  }
  for (const Json& proof : record.at("proofs")) {
    if (proof.at("passed").get<bool>()) continue;
    return fmt::format("{} is not proven: expected {}, observed {}", proof.at("field").get<std::string>(),
                       proof.at("expected").get<std::string>(), proof.at("observed").get<std::string>());
  }
  const Json& losses = record.at("timing").at("loss");
  const auto bad = std::ranges::find_if(losses, [](const Json& loss) { return loss.is_null(); });
  return bad == losses.end() ? "" : fmt::format("the loss of step {} is not finite", bad - losses.begin() + 1);
}

Measured read_records(const Plan& plan, const fs::path& folder) {
  Measured measured;
  measured.runs_of.resize(plan.rungs.size());
  size_t described_by = plan.rungs.size();  // the rung whose record environment and workload come from
  for (size_t position = 0; position < plan.runs.size(); ++position) {
    const PlannedRun& run = plan.runs[position];
    const fs::path file = record_file(folder, run.id);
    StudyRun entry{.id = run.id, .rung = run.rung, .repeat = run.repeat, .position = static_cast<int64_t>(position)};
    if (fs::exists(file)) {
      const Json record = files::read_json(file, "record");
      entry.record = file.lexically_relative(folder).string();
      entry.status = value_of<RunStatus>(record.at("status"));
      const std::string started = record.at("started");
      measured.made[run.repeat].push_back(made_of(record));
      if (const fs::path first = flagged_file(file); fs::exists(first)) {
        measured.made[run.repeat].push_back(made_of(files::read_json(first, "record")));
      }
      if (measured.first_started.empty() || started < measured.first_started) measured.first_started = started;
      measured.last_started = std::max(measured.last_started, started);
      if (entry.status == RunStatus::ok) {
        ++measured.runs_ok;
        const RunData& data = measured.runs_of[run.rung][run.repeat] = run_data(record);
        entry.median_ms = data.median_ms;
        if (!data.disturbed.empty() && !fs::exists(flagged_file(file))) ++measured.not_made_again;
        if (plan.rungs[run.rung].peer.empty() && run.rung < described_by) {
          described_by = run.rung;
          measured.environment = record.at("environment");
          measured.workload = record.at("workload");
        }
      } else {
        const Json& failure = record.at("failure");
        entry.reason = failure.at("message").get<std::string>();
        const bool out_of_memory = failure.at("kind") == "out_of_memory";
        const auto [known, first] = measured.failures.try_emplace(run.rung, Failure{"", true});
        // Where runs failed for different reasons, one that is not out of memory says more.
        if (first || (known->second.out_of_memory && !out_of_memory)) {
          known->second = {fmt::format("run {}: {}", run.id, entry.reason), out_of_memory};
        }
      }
    }
    measured.runs.push_back(std::move(entry));
  }
  return measured;
}

}  // namespace ablations
