#include "ablations/commands.h"

#include "ablations/analysis.h"
#include "ablations/merge.h"
#include "ablations/occupy.h"
#include "ablations/request.h"
#include "ablations/runner.h"
#include "ablations/shard.h"
#include "ablations/table.h"
#include "ablations/terminal.h"
#include "files/files.h"
#include "harness/environment.h"
#include "harness/process.h"
#include "harness/resources.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/data.h"
#include "model/host_memory.h"
#include "model/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

// Draws the report into `out`. The plotting script prints the files it wrote.
int render_report(const fs::path& study, const fs::path& out) {
  const fs::path log = out / "report.log";
  const auto child = harness::run_child(
      {.argv = {python(), (harness::resource_root() / "plots" / "render.py").string(), study.string(), out.string()},
       .log = log,
       .limit_s = 300});
  std::string output = files::read_file(log, size_t{1} << 20);
  if (child.succeeded()) {
    fs::remove(log);
    fmt::print("{}", output);
    return 0;
  }
  fmt::print(
      stderr,
      "{}ladder: the report was not drawn: {} {} (LADDER_PYTHON names another Python with jinja2 and vl-convert)\n",
      output, python(), child.describe(300));
  return child.end == harness::ChildResult::End::exited ? child.code : 1;
}

int show_study(const Plan& plan, const fs::path& folder, bool json) {
  const Json study = analyse(plan, folder);
  harness::write_json(folder / "study.json", study, "study");
  if (json) {
    fmt::print("{}\n", study.dump(1));
  } else {
    fmt::print("{}\n", study_table(study));
  }
  for (const Json& rung : study.at("rungs")) {
    for (const char* bad : {"failed", "unproven", "void"}) {
      if (rung.at("status") == bad) return 1;
    }
  }
  return 0;
}

}  // namespace

int ablate(const AblateFlags& flags) {
  fs::path out = flags.out;
  Plan plan;
  bool is_new = !flags.resume;
  if (flags.resume) {
    plan = open_study(out);
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
               plan.warmup_steps + plan.timed_steps, out.string(), plan.order_seed);
  }
  if (planned.empty()) {
    fmt::print("shard {}/{} has nothing to do: the plan has {} repeat{}\n", plan.shard->index, plan.shard->count,
               plan.repeats, plan.repeats == 1 ? "" : "s");
    return 0;
  }
  // Not by its name: a build may put another program there while the study runs.
  const Programs programs{.ladder = fmt::format("/proc/{}/exe", ::getpid()), .python = python()};
  const Outcome outcome = carry_out(plan, out, programs, static_cast<double>(flags.budget_s));
  if (outcome.interrupted) {
    fmt::print(stderr, "what is measured is kept; go on with: ladder ablate --resume --out {}\n", out.string());
    return 130;
  }
  const bool explained = flags.explain || (harness::this_machine().gpu && flags.budget_s == 0 && !plan.shard);
  const bool traced = !explained || plan.mode != Mode::cumulative || trace_rungs(plan, out, programs);
  devices.clear();
  const int status = show_study(plan, out, flags.json);
  std::fflush(stdout);
  if (!flags.json && plan.shard) {
    fmt::print("This is shard {} of {}; where all of them are: ladder merge OUT SHARD...\n", plan.shard->index,
               plan.shard->count);
  } else if (!flags.json) {
    fmt::print("Files:\n{}\n", (out / "study.json").string());
    std::fflush(stdout);
    if (render_report(out / "study.json", out) != 0) {
      fmt::print(stderr, "the study is kept; to draw it, here or where its folder is copied to: ladder report {}\n",
                 out.string());
    }
  }
  if (outcome.not_made > 0) {
    std::fflush(stdout);
    fmt::print(stderr, "{} run{} not made: the budget of {} s is spent; ladder ablate --resume --out {} goes on\n",
               outcome.not_made, outcome.not_made == 1 ? " was" : "s were", flags.budget_s, out.string());
  }
  if (!traced) return 130;
  return outcome.some_failed ? 1 : status;
}

int run(const RunFlags& flags) {
  if (flags.report_steps) harness::die_with_parent();
  const RunOptions options = run_options(flags);
  if (!flags.record.empty()) check_can_write("--record", flags.record);
  Occupied devices;
  if (!flags.report_steps) devices = occupy({options.recipe.device}, "ladder run", fs::current_path(), flags.wait);
  const int64_t steps = options.warmup_steps + options.timed_steps;
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && !flags.report_steps;
  const Json record = execute_run(options, [&](int64_t step) {
    if (flags.report_steps) {
      const std::string line = fmt::format("{} {}\n", step, steps);
      [[maybe_unused]] const ssize_t ignored = ::write(3, line.data(), line.size());
    }
    if (terminal) fmt::print(stderr, "\r\x1b[Kstep {}/{}{}", step, steps, step == steps ? "\r\x1b[K" : "");
  });
  if (!flags.record.empty()) harness::write_json(flags.record, record, "record");
  if (flags.report_steps) return 0;
  if (flags.json) {
    harness::check_schema(record, "record", "the record");
    fmt::print("{}\n", record.dump(1));
  }
  if (record.at("status") == "failed") {
    throw std::runtime_error(fmt::format("out of memory: {}", record.at("failure").at("message").get<std::string>()));
  }
  if (!flags.json) {
    const Json& summary = record.at("summary");
    fmt::print("{} B={} T={}: median {} ms/step [{} - {}] over {} steps, {} tokens/s, peak {:.2f} GiB, last loss {}\n",
               options.model, options.B, options.T, number(summary.at("median_ms")), number(summary.at("min_ms")),
               number(summary.at("max_ms")), summary.at("n").get<int64_t>(), number(summary.at("tokens_per_s")),
               record.at("memory").at("peak_bytes").get<double>() / (1024.0 * 1024.0 * 1024.0),
               record.at("timing").at("loss").back().dump());
  }
  bool proven = true;
  for (const Json& proof : record.at("proofs")) {
    const bool passed = proof.at("passed");
    proven = proven && passed;
    if (!flags.json) {
      fmt::print("{} {:<17} {}\n", passed ? "proven" : "FAILED", proof.at("field").get<std::string>(),
                 passed ? proof.at("observed").get<std::string>()
                        : fmt::format("expected {}; observed {}", proof.at("expected").get<std::string>(),
                                      proof.at("observed").get<std::string>()));
    }
  }
  return proven ? 0 : 1;
}

int train(const TrainFlags& flags) {
  RunFlags run_flags;
  run_flags.workload = flags.workload;
  run_flags.recipe = flags.recipe;
  WorkloadFlags& workload = run_flags.workload;
  if (workload.model.empty()) workload.model = "gpt2-124m";
  const model::Config config = model::with_positions(model::preset(workload.model), workload.positions);
  if (workload.T == 0) workload.T = std::min<int64_t>(256, config.n_positions);
  if (workload.steps == 0) workload.steps = 50;
  const int64_t steps = workload.steps;
  const RunOptions options = run_options(run_flags);
  if (!flags.save.empty()) check_can_write("--save", flags.save);
  model::apply_host_memory(options.recipe.host_memory);
  at::set_num_threads(static_cast<int>(options.threads));
  const model::TokenStream tokens =
      model::tokens_of(options.data, options.vocabulary, harness::cache_folder() / "tokens", config.vocabulary);
  model::Trainer trainer(
      config, options.recipe,
      {.B = options.B,
       .T = options.T,
       .accumulation = options.accumulation,
       .max_steps = steps,
       .seed = options.seed,
       .schedule = {.warmup_steps = std::min<int64_t>(10, steps), .decay_steps = std::max<int64_t>(steps, 11)}},
      tokens);
  if (!flags.weights.empty()) model::load_weights(trainer.model(), flags.weights);
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step();
    if (flags.json) continue;
    trainer.synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("step {:>5}  loss {:.4f}  {} ms  {} tokens/s\n", step + 1, trainer.losses().back(),
               number(seconds * 1e3), number(static_cast<double>(trainer.tokens_per_step()) / seconds));
    std::fflush(stdout);
  }
  if (flags.json) {
    Json losses = Json::array();
    for (const double loss : trainer.losses()) losses.push_back(harness::finite_or_null(loss));
    fmt::print("{}\n", Json{{"losses", losses}}.dump());
  }
  if (!flags.save.empty()) model::save_weights(trainer.model(), flags.save);
  return 0;
}

int report(const ReportFlags& flags) {
  const fs::path study = flags.study;
  const fs::path out = flags.out.empty() ? study : fs::path(flags.out);
  const Plan plan = open_study(study);
  fs::create_directories(out);
  const int status = show_study(plan, study, false);
  std::fflush(stdout);
  const int drawn = render_report(study / "study.json", out);
  return drawn != 0 ? drawn : status;
}

int merge(const MergeFlags& flags) {
  const std::vector<MergedStudy> studies =
      merge_studies(flags.out, {flags.shards.begin(), flags.shards.end()}, flags.group_by_device);
  int status = 0;
  for (const auto& [folder, plan, missing] : studies) {
    status = std::max(status, show_study(plan, folder, false));
    std::fflush(stdout);
    if (render_report(folder / "study.json", folder) != 0) {
      fmt::print(stderr, "the study is kept; to draw it: ladder report {}\n", folder.string());
    }
    if (missing.empty()) continue;
    std::set<int64_t> repeats;
    for (const PlannedRun& run : missing) repeats.insert(run.repeat + 1);
    fmt::print(stderr,
               "{}: {} of {} runs are missing, of the repeats {}; merge their shard as well, or make them here: "
               "ladder ablate --resume --out {}\n",
               folder.string(), missing.size(), plan.runs.size(), fmt::join(repeats, ", "), folder.string());
  }
  return status;
}

int tokenize(const TokenizeFlags& flags) {
  check_can_write("--out", flags.out);
  const fs::path vocabulary = flags.vocabulary.empty() ? default_vocabulary() : fs::path(flags.vocabulary);
  const auto stream = model::tokens_of_text(flags.data, vocabulary, harness::cache_folder() / "tokens");
  model::write_tokens(flags.out, stream.tokens);
  fmt::print("{}: {} tokens\n", flags.out, stream.tokens.size());
  return 0;
}

}  // namespace ablations
