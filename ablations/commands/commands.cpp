#include "ablations/commands/commands.h"

#include "ablations/commands/draw.h"
#include "ablations/commands/request.h"
#include "ablations/plan/shard.h"
#include "ablations/run/occupy.h"
#include "ablations/run/reproduce.h"
#include "ablations/run/runner.h"
#include "ablations/study/compare.h"
#include "ablations/study/history.h"
#include "ablations/study/merge.h"
#include "ablations/study/verify.h"
#include "ablations/text/text.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/environment.h"
#include "harness/process.h"
#include "harness/unfit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;
using harness::Json;

int ablate(const AblateFlags& flags) {
  fs::path out = flags.out;
  Plan plan;
  bool is_new = !flags.resume;
  if (flags.resume) {
    plan = open_study(out);
    if (plan.gate) {
      throw std::invalid_argument(
          fmt::format("{}: is a gate, not a study; ladder gate --resume --out {} goes on", flags.out, flags.out));
    }
    check_workload(plan);
  } else {
    const std::string name = flags.ladder.empty() ? ladder_for_this_machine() : flags.ladder;
    plan = make_plan(name, flags);
    if (out.empty()) out = fs::path("studies") / plan.id;
    if (flags.ladder.empty()) {
      fmt::print(stderr, "ladder {}: {}\n", name,
                 harness::this_machine().gpu ? "there is a CUDA device, " + harness::this_machine().gpu->name
                                             : harness::this_machine().no_gpu_reason +
                                                   ", so this measures what the CPU can do; CPU figures only");
    }
    // A shard that is begun twice, as Slurm does after a pre-emption, goes on: its plan is the same.
    if (plan.shard && fs::exists(out / "plan.json")) is_new = to_json(open_study(out)) != to_json(plan);
  }
  const std::vector<PlannedRun> planned = runs_to_make(plan);
  Occupied devices = occupy(devices_of(plan, planned), "ladder ablate", out, flags.wait);
  if (is_new) {
    create_study(plan, out);
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
    fmt::print(stderr, "{} runs of {} steps into {} (order seed {})\n", planned.size(),
               plan.warmup_steps + plan.timed_steps, printable(out.string()), plan.order_seed);
  }
  if (plan.shard && planned.empty()) {
    fmt::print("shard {}/{} has nothing to do: the plan has {} repeat{}\n", plan.shard->index, plan.shard->count,
               plan.repeats, plan.repeats == 1 ? "" : "s");
    return 0;
  }
  // Not by its name: a build may put another program there while the study runs.
  const Programs programs{.ladder = fmt::format("/proc/{}/exe", ::getpid()), .python = python()};
  const std::string to_go_on =
      fmt::format("ladder ablate --resume{} --out {}", flags.explain ? " --explain" : "", printable(out.string()));
  const Outcome outcome = carry_out(plan, out, programs, static_cast<double>(flags.budget_s));
  if (outcome.interrupted) {
    fmt::print(stderr, "what is measured is kept; go on with: {}\n", to_go_on);
    return 130;
  }
  const bool explained = flags.explain || (harness::this_machine().gpu && flags.budget_s == 0 && !plan.shard);
  const bool traced = !explained || plan.mode != Mode::cumulative || trace_rungs(plan, out, programs);
  devices.clear();
  const StudyFiles study = computed_study(plan, out);
  harness::write_json(out / "study.json", study.study, "study");
  const int status = show_study(study.study, flags.json);
  std::fflush(stdout);
  if (!flags.json && plan.shard) {
    fmt::print("This is shard {} of {}; where all of them are: ladder merge OUT SHARD...\n", plan.shard->index,
               plan.shard->count);
  } else if (!flags.json) {
    fmt::print("Files:\n{}\n", printable((out / "study.json").string()));
    std::fflush(stdout);
    if (!draw_report(study, out)) {
      fmt::print(stderr, "the study is kept; to draw it, here or where its folder is copied to: ladder report {}\n",
                 printable(out.string()));
    }
  }
  if (outcome.not_made > 0) {
    std::fflush(stdout);
    fmt::print(stderr, "{} run{} not made: the budget of {} s is spent; {} goes on\n", outcome.not_made,
               outcome.not_made == 1 ? " was" : "s were", flags.budget_s, to_go_on);
  }
  if (!traced) return 130;
  return outcome.some_failed ? 1 : status;
}

int run(const RunFlags& flags) {
  if (flags.report_steps) harness::die_with_parent();
  const RunOptions options = run_options(flags);
  if (!flags.record.empty()) check_can_write("--record", flags.record);
  const Json original = flags.from.empty() ? Json() : harness::read_json(flags.from, "record");
  if (!original.is_null()) {
    for (const std::string& unknown :
         compare_programs(original.at("environment"), harness::environment(), options.recipe.device).unknown) {
      fmt::print(stderr, "note: whether this is the record's program cannot be known: {}\n", unknown);
    }
  }
  Occupied devices;
  if (!flags.report_steps) devices = occupy({options.recipe.device}, "ladder run", fs::current_path(), flags.wait);
  const int64_t steps = options.warmup_steps + options.timed_steps;
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && !flags.report_steps;
  Json record = execute_run(options, [&](int64_t step) {
    if (flags.report_steps) {
      const std::string line = fmt::format("{} {}\n", step, steps);
      [[maybe_unused]] const ssize_t ignored = ::write(3, line.data(), line.size());
    }
    if (terminal) fmt::print(stderr, "\r\x1b[Kstep {}/{}{}", step, steps, step == steps ? "\r\x1b[K" : "");
  });
  bool reproduced = true;
  std::string verdict;
  if (!original.is_null() && record.at("status") == "ok") {
    const Reproduction reproduction = compare_losses(original, record);
    reproduced = reproduction.identical || !reproduction.excuses.empty();
    verdict = describe(reproduction, original.at("id"));
    record["reproduction"] = to_json(reproduction);
  }
  if (!flags.record.empty()) harness::write_json(flags.record, record, "record");
  if (flags.report_steps) return 0;
  if (flags.json) {
    harness::check_schema(record, "record", "the record");
    fmt::print("{}\n", harness::ascii_text(record));
  }
  if (record.at("status") == "failed") {
    throw std::runtime_error(fmt::format("out of memory: {}", record.at("failure").at("message").get<std::string>()));
  }
  if (!flags.json) {
    const Json& summary = record.at("summary");
    fmt::print("{} B={} T={}: median {} ms/step [{} - {}] over {} steps, {} tokens/s, peak {:.2f} GiB, last loss {}\n",
               options.model, options.B, options.T, number(summary.at("median_ms")), number(summary.at("min_ms")),
               number(summary.at("max_ms")), summary.at("n").get<int64_t>(), number(summary.at("tokens_per_s")),
               gib(record.at("memory").at("peak_bytes")), record.at("timing").at("loss").back().dump());
    for (const Json& flag : record.at("flags")) fmt::print("disturbed: {}\n", flag.get<std::string>());
  }
  bool proven = true;
  for (const Json& proof : record.at("proofs")) {
    const bool passed = proof.at("passed");
    proven = proven && passed;
    if (!flags.json) {
      const char* const word = passed ? "proven" : "FAILED";
      fmt::print("{} {:<17} {}\n", standard_output().painted(style_of(word), word),
                 proof.at("field").get<std::string>(),
                 passed ? proof.at("observed").get<std::string>()
                        : fmt::format("expected {}; observed {}", proof.at("expected").get<std::string>(),
                                      proof.at("observed").get<std::string>()));
    }
  }
  if (!verdict.empty()) {
    std::fflush(stdout);
    fmt::print(flags.json ? stderr : stdout, "{}\n", printable(verdict));
  }
  return proven && reproduced ? 0 : 1;
}

int compare(const CompareFlags& flags) {
  const Json comparison = compare_sides(read_side(flags.base), read_side(flags.head),
                                        {.min_effect = flags.min_effect, .force = flags.force});
  harness::check_schema(comparison, "comparison", "the comparison");
  fmt::print("{}\n", flags.json       ? harness::ascii_text(comparison)
                     : flags.markdown ? comparison_markdown(comparison)
                                      : comparison_table(comparison, standard_output()));
  return 0;
}

int history(const HistoryFlags& flags) {
  const Json history = history_of(flags.folder);
  harness::check_schema(history, "history", "the history");
  for (const Json& skipped : history.at("skipped"))
    fmt::print(stderr, "skipped: {}: {}\n", printable(skipped.at("file").get<std::string>()),
               printable(skipped.at("reason").get<std::string>()));
  if (flags.json) {
    fmt::print("{}\n", harness::ascii_text(history));
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  const int status = flags.fail_on_slowdown && history.at("slower") != 0 ? 1 : 0;
  if (flags.out.empty()) return status;
  const fs::path out = flags.out;
  fs::create_directories(out);
  harness::write_json(out / "history.json", history, "history");
  fmt::print("Files:\n{}\n", (out / "history.json").string());
  std::fflush(stdout);
  const int drawn = draw(out / "history.json", out);
  return drawn != 0 ? drawn : status;
}

int verify(const VerifyFlags& flags) {
  const Verification seen = verify_study(flags.study);
  if (flags.json) {
    Json findings = Json::array();
    for (const Finding& finding : seen.findings) {
      findings.push_back({{"file", finding.file},
                          {"field", finding.field},
                          {"stored", finding.stored},
                          {"expected", finding.expected}});
    }
    fmt::print("{}\n", harness::ascii_text({{"findings", findings},
                                            {"unchecked", seen.unchecked},
                                            {"hashes", seen.sealed},
                                            {"records", seen.records},
                                            {"files", seen.files},
                                            {"values", seen.values}}));
  } else {
    for (const Finding& finding : seen.findings) {
      fmt::print("{}{}: {}; expected {}\n", printable(finding.file),
                 finding.field.empty() ? "" : " " + printable(finding.field), printable(finding.stored),
                 printable(finding.expected));
    }
  }
  std::fflush(stdout);
  for (const std::string& line : seen.unchecked) fmt::print(stderr, "note: {}\n", line);
  if (!seen.findings.empty()) {
    if (!seen.made_by.empty()) {
      fmt::print(stderr, "note: the study was made by commit {}, this is another: a difference may be the program's\n",
                 seen.made_by);
    }
    fmt::print(stderr, "ladder: {}: {} difference{}\n", flags.study, seen.findings.size(),
               seen.findings.size() == 1 ? "" : "s");
    return 1;
  }
  if (!seen.sealed) {
    throw harness::Unfit(
        fmt::format("{}: the {} values of study.json follow from its {} records, but it has no hashes "
                    "(it is from before them), so that an edited record would not show",
                    flags.study, seen.values, seen.records));
  }
  if (!flags.json) {
    fmt::print("{}: {} values follow from {} records; {} files have their SHA-256\n", flags.study, seen.values,
               seen.records, seen.files);
  }
  return 0;
}

int merge(const MergeFlags& flags) {
  const std::vector<MergedStudy> studies =
      merge_studies(flags.out, {flags.shards.begin(), flags.shards.end()}, flags.group_by_device);
  int status = 0;
  for (const auto& [folder, plan, missing] : studies) {
    const StudyFiles study = computed_study(plan, folder);
    harness::write_json(folder / "study.json", study.study, "study");
    status = std::max(status, show_study(study.study, false));
    std::fflush(stdout);
    if (!draw_report(study, folder)) {
      fmt::print(stderr, "the study is kept; to draw it: ladder report {}\n", printable(folder.string()));
    }
    if (missing.empty()) continue;
    std::set<int64_t> repeats;
    for (const PlannedRun& run : missing) repeats.insert(run.repeat + 1);
    fmt::print(stderr,
               "{}: {} of {} runs are missing, of the repeats {}; merge their shard as well, or make them here: "
               "ladder ablate --resume --out {}\n",
               printable(folder.string()), missing.size(), plan.runs.size(), fmt::join(repeats, ", "),
               printable(folder.string()));
  }
  return status;
}

}  // namespace ablations
