// A study in a folder of its own, whose records hold what a test planted: three rungs, each twice as fast as the one
// before, three repeats that get slower, or as many as a test sets.
#pragma once

#include "ablations/plan/make_plan.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/resources.h"
#include "model/recipe.h"
#include "plots/study_table.h"
#include "results/record.h"
#include "study/analysis.h"
#include "study/archive/seal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

namespace planted {

namespace fs = std::filesystem;
using namespace study;
using files::Json;

inline constexpr const char* begun = "2026-01-01T00:00:00Z";

inline std::string table_of(const Json& study) { return plots::study_table(value_from<Study>(study, "the study")); }

class PlantedStudy : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"planted-study"};
  const fs::path folder_ = temporary_.path();
  Plan plan_;
  int64_t repeats_ = 3;  // fewer than a verdict needs

  void SetUp() override {
    // float32, bf16, fused: three rungs.
    const model::Recipe start, bf16{.autocast = model::Autocast::bf16},
        fused{.autocast = model::Autocast::bf16, .optimizer = model::Optimizer::fused};
    plan_ = {
        .id = "test",
        .created = "2026-01-01T00:00:00Z",
        .ladder = {.name = "test", .title = "Test"},
        .workload = {{}, "tiny", 1, 1, "text", "vocabulary"},
        .warmup_steps = 1,
        .timed_steps = 2,
        .repeats = repeats_,
        .rungs =
            {{"", "float32", {}, model::to_json(start), Rung::Status::planned, ""},
             {"bf16", "bf16 autocast", {"bf16"}, model::to_json(bf16), Rung::Status::planned, ""},
             {"fused_adamw", "fused AdamW", {"bf16", "fused_adamw"}, model::to_json(fused), Rung::Status::planned, ""}},
        .reference = 0,
        .runs = {}};
    for (Rung& rung : plan_.rungs) rung.losses = ExpectedLosses{.tolerance = rung.applied.empty() ? 1e-3 : 1e-2};
    plan_.typed = TypedLine{.flags = {"--ladder", "test"}, .arguments = {}};
    plan_.rungs[1].text = "ablations/techniques/autocast/bf16.md";
    plan_.rungs[2].text = "ablations/techniques/optimizer/fused_adamw.md";
    plan_.runs = interleave(plan_.rungs, plan_.repeats, 1);
    create_study(plan_, folder_);
    fs::create_directories(folder_ / "records");
    for (const PlannedRun& run : plan_.runs) {
      write(run, good(run, 100.0 / std::pow(2.0, static_cast<double>(run.rung)) *
                               (1.0 + 0.1 * static_cast<double>(run.repeat))));
    }
  }

  // What it comes to, of the schema.
  Json study() const {
    Json result = json_of(sealed(analyse(plan_, folder_), folder_));
    (void)value_from<Study>(result, "the study");
    return result;
  }

  void write(const PlannedRun& run, const Json& record) const {
    files::write_json(record_file(folder_, run.id), record);
  }
  void write(const PlannedRun& run, const Record& record) const { write(run, json_of(record)); }

  using Values = std::map<std::string, Json>;  // by their places in a record

  // A good record with these values.
  void plant(const PlannedRun& run, double ms, const Values& values = {}) const {
    Json record = good(run, ms);
    for (const auto& [place, value] : values) record[Json::json_pointer(place)] = value;
    write(run, record);
  }
  void plant(size_t rung, int64_t repeat, double ms, const Values& values = {}) const {
    plant(run_of(rung, repeat), ms, values);
  }
  void plant_all(double ms, const Values& values) const {
    for (const PlannedRun& run : plan_.runs) plant(run, ms, values);
  }
  void fail(size_t rung, int64_t repeat, FailureKind kind, const std::string& message) const {
    write(run_of(rung, repeat), failed_record(run_of(rung, repeat).id, kind, message, begun, 1.0));
  }
  // All repeats ask for more memory than there is.
  void lose(size_t rung) const {
    for (int64_t repeat = 0; repeat < plan_.repeats; ++repeat) {
      fail(rung, repeat, FailureKind::out_of_memory, "asked 9 GiB of 8");
    }
  }
  // What a GPU's monitor tells of a calm run, where it can read nothing else.
  static Json monitor(const Json& known = {}) {
    Json made{{"samples", 3}, {"throttle", Json::array()}, {"other_processes", 0}, {"notes", Json::object()}};
    for (const char* field : {"sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "utilization_percent",
                              "energy_j", "joules_per_token"}) {
      made[field] = nullptr;
    }
    if (!known.is_null()) made.update(known);
    return made;
  }

  // A record of the fuzzer's seeds with the run's names and times.
  Json good(const PlannedRun& run, double ms) const {
    static const Json seed =
        files::read_any_json(files::resource_root() / "tests" / "fuzz" / "seeds" / "record" / "valid.json");
    const Rung& rung = plan_.rungs[run.rung];
    Json made = seed;
    for (const char* field : {"flags", "monitor"}) made.erase(field);
    made.update({{"id", run.id},
                 {"started", begun},
                 {"duration_s", 1.0},
                 {"recipe", rung.recipe},
                 {"optimizations", rung.applied},
                 {"observations", json_of(Observations{})},
                 {"proofs", {{{"field", "autocast"}, {"passed", true}, {"expected", "e"}, {"observed", "o"}}}},
                 {"environment", json_of(environment_here())}});
    made["workload"].update(
        {{"parameters", 1}, {"context", 10}, {"positions", 10}, {"tokens_per_step", 10}, {"flops_per_step", 1.0}});
    made["timing"].update({{"step_ms", {1000.0, ms, ms}},
                           {"loss", {10.0, 9.5, 9.0}},
                           {"page_faults", {9, 1, 1}},
                           {"skipped_steps", 0},
                           {"window_ms", 2 * ms},
                           {"processor_lost", nullptr}});
    for (const char* field : {"median_ms", "q1_ms", "q3_ms", "min_ms", "max_ms"}) made["summary"][field] = ms;
    made["summary"]["n"] = 2;
    return made;
  }
  // The study becomes one about batches: its second rung reads a file, its third has all in memory. cached: bytes of
  // 1000 in the page cache before the first step.
  void make_about_batches(int64_t cached = 1000) {
    plan_.rungs[1].recipe["batches"] = "read";
    for (const PlannedRun& run : plan_.runs) {
      const double ms = 10.0 / (1.0 + static_cast<double>(run.rung) + static_cast<double>(run.repeat));
      Json data{{"file", "tokens.bin"},
                {"file_bytes", 1000},
                {"storage_bytes", nullptr},
                {"major_faults", 1},
                {"cached_before", cached},
                {"cached_after", 500},
                {"bytes_read", run.rung == 1 ? 68 : 0},
                {"reads", run.rung == 1 ? 2 : 0},
                {"resident_bytes", 100 + 10 * run.repeat}};
      if (plan_.workload.cold_cache) data["cold"] = true;
      plant(run, 100.0 / std::pow(2.0, static_cast<double>(run.rung)),
            {{"/timing/data_ms", {500.0, ms, ms}}, {"/data", data}});
    }
  }
  const PlannedRun& run_of(size_t rung, int64_t repeat) const {
    for (const PlannedRun& run : plan_.runs) {
      if (run.rung == rung && run.repeat == repeat) return run;
    }
    throw std::runtime_error("no such run");
  }
};

}  // namespace planted
