#include "ablations/commands.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include "ablations/analysis.h"
#include "ablations/ladder.h"
#include "ablations/plan.h"
#include "ablations/run.h"
#include "ablations/runner.h"
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

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

// Flags that several commands share. Zero or empty: not given.
struct WorkloadFlags {
  std::string model;
  int64_t B = 0, T = 0, accumulation = 0;
  int64_t steps = 0, warmup = -1;
  uint64_t seed = 1;
  int64_t threads = 0;
  std::string data, vocabulary;
};

fs::path default_vocabulary() { return harness::cache_folder() / "data" / "gpt2.tiktoken"; }
fs::path default_text() { return harness::cache_folder() / "data" / "shakespeare.txt"; }

// Numbers are read as text first, so that "-1", "1e9" and "99999999999999999999" get the same kind of answer.
void add_number(CLI::App* app, const std::string& names, int64_t& value, const std::string& help, int64_t least, int64_t most) {
  app->add_option_function<std::string>(
         names,
         [&value, names, least, most](const std::string& text) {
           try {
             size_t used = 0;
             value = std::stoll(text, &used);
             if (used == text.size() && value >= least && value <= most) return;
           } catch (const std::exception&) {  // not a number, or none that fits
           }
           const std::string name = names.substr(names.find("--"));
           throw std::invalid_argument(fmt::format("{} {} is not allowed; a whole number from {} to {} is", name, text, least, most));
         },
         help)
      ->type_name("N");
}

constexpr int64_t most_steps = 100000, most_sequences = 1 << 16;

void add_workload_flags(CLI::App* app, WorkloadFlags& flags, const std::string& default_from) {
  app->add_option("--model", flags.model, fmt::format("{} (default: {})", fmt::join(model::preset_names(), ", "), default_from))
      ->type_name("NAME");
  add_number(app, "-B,--batch", flags.B, "sequences per micro-step", 1, most_sequences);
  add_number(app, "-T,--context", flags.T, "tokens per sequence, at most the model's positions (gpt2-*: 1024)", 1, 1 << 20);
  add_number(app, "--accumulation", flags.accumulation, "micro-steps per step", 1, most_sequences);
  add_number(app, "--steps", flags.steps, "timed steps of a run", 1, most_steps);
  add_number(app, "--warmup", flags.warmup, "untimed steps before them", 0, most_steps);
  app->add_option("--seed", flags.seed, "weights and place in the text (default 1)")->type_name("N");
  add_number(app, "--threads", flags.threads, "CPU threads (default: one for each core)", 1, 4096);
  app->add_option("--data", flags.data, "a UTF-8 text, or a token file (.bin, llm.c's format)")->type_name("FILE");
  app->add_option("--vocab", flags.vocabulary, "vocab.bpe or gpt2.tiktoken, to read texts with")->type_name("FILE");
}

// T against the model, before any child is started.
void check_context(const std::string& model_name, int64_t T) {
  const model::Config config = model::preset(model_name);
  if (T > config.n_positions) {
    throw std::invalid_argument(
        fmt::format("--context {} is not allowed; {} has {} positions", T, config.name, config.n_positions));
  }
}

fs::path data_file(const WorkloadFlags& flags) {
  if (!flags.data.empty()) return fs::absolute(flags.data);
  if (!fs::exists(default_text())) {
    throw std::invalid_argument(fmt::format("the default text is not there ({}): `make data` fetches it, or name yours with --data",
                                            default_text().string()));
  }
  return default_text();
}

fs::path vocabulary_file(const WorkloadFlags& flags) {
  return flags.vocabulary.empty() ? default_vocabulary() : fs::absolute(flags.vocabulary);
}

int64_t threads_of(const WorkloadFlags& flags) {
  return flags.threads > 0 ? flags.threads : harness::this_machine().cpu.logical_cores;
}

// "gpt2-cpu-20261121T110500Z": what utc_now() says, without what a file name should not have.
std::string study_id(const std::string& ladder, const std::string& created) {
  std::string stamp;
  for (const char c : created) {
    if (c != '-' && c != ':') stamp += c;
  }
  return ladder + "-" + stamp;
}

Plan make_plan(const std::string& ladder_name, const WorkloadFlags& flags, int64_t repeats, std::optional<uint64_t> order_seed,
               int64_t limit_s) {
  Ladder ladder = load_ladder(ladder_name);
  Plan plan{.id = "",
            .created = utc_now(),
            .ladder_name = ladder.name,
            .ladder_title = ladder.title,
            .model = flags.model.empty() ? ladder.model : flags.model,
            .B = flags.B > 0 ? flags.B : ladder.B,
            .T = flags.T > 0 ? flags.T : ladder.T,
            .accumulation = flags.accumulation > 0 ? flags.accumulation : ladder.accumulation,
            .seed = flags.seed,
            .threads = threads_of(flags),
            .data = data_file(flags).string(),
            .vocabulary = vocabulary_file(flags).string(),
            .warmup_steps = flags.warmup >= 0 ? flags.warmup : ladder.warmup_steps,
            .timed_steps = flags.steps > 0 ? flags.steps : ladder.timed_steps,
            .repeats = repeats > 0 ? repeats : ladder.repeats,
            .order_seed = order_seed ? *order_seed : std::random_device{}(),
            .run_limit_s = static_cast<double>(limit_s),
            .rungs = climb(ladder, harness::this_machine()),
            .reference = 0,
            .runs = {}};
  plan.id = study_id(plan.ladder_name, plan.created);
  plan.reference = reference_rung(plan.rungs);
  check_context(plan.model, plan.T);
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  if (plan.runs.empty()) {
    throw std::invalid_argument(fmt::format("ladder {}: no rung applies on this machine: {}", plan.ladder_name,
                                            plan.rungs.front().reason));
  }
  return plan;
}

// Draws the report into `out`. The plotting script prints the files it wrote.
int render_report(const fs::path& study, const fs::path& out) {
  const char* python = std::getenv("LADDER_PYTHON");
  const fs::path log = out / "report.log";
  const auto child = harness::run_child({.argv = {python != nullptr ? python : LADDER_PYTHON,
                                                  (harness::resource_root() / "plots" / "render.py").string(), study.string(),
                                                  out.string()},
                                         .log = log,
                                         .limit_s = 300});
  std::string output = files::read_file(log, size_t{1} << 20);
  if (child.succeeded()) {
    fs::remove(log);
    fmt::print("{}", output);
    return 0;
  }
  fmt::print(stderr, "{}ladder: the report was not drawn: {} {} (LADDER_PYTHON names another Python with jinja2 and vl-convert)\n",
             output, python != nullptr ? python : LADDER_PYTHON, child.describe(300));
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

int ablate(const std::string& ladder, const WorkloadFlags& flags, int64_t repeats, std::optional<uint64_t> order_seed,
           int64_t limit_s, fs::path out, bool resume, bool json) {
  Plan plan;
  if (resume) {
    plan = open_study(out);
  } else {
    const bool chosen = ladder.empty();
    const std::string name = !chosen ? ladder : harness::this_machine().gpu ? "gpt2" : "gpt2-cpu";
    plan = make_plan(name, flags, repeats, order_seed, limit_s);
    if (out.empty()) out = fs::path("studies") / plan.id;
    if (chosen) {
      fmt::print(stderr, "ladder {}: {}\n", name,
                 harness::this_machine().gpu
                     ? "there is a CUDA device, " + harness::this_machine().gpu->name
                     : harness::this_machine().no_gpu_reason + ", so this measures what the CPU can do; CPU figures only");
    }
    // Tokenise now, once, so that no run does it.
    (void)model::tokens_of(plan.data, plan.vocabulary, harness::cache_folder() / "tokens", model::preset(plan.model).vocabulary);
    create_study(plan, out);
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
    fmt::print(stderr, "{} runs of {} steps into {} (order seed {})\n", plan.runs.size(), plan.warmup_steps + plan.timed_steps,
               out.string(), plan.order_seed);
  }
  const Outcome outcome = carry_out(plan, out, fs::read_symlink("/proc/self/exe"));
  if (outcome == Outcome::interrupted) {
    fmt::print(stderr, "what is measured is kept; go on with: ladder ablate --resume --out {}\n", out.string());
    return 130;
  }
  const int status = show_study(plan, out, json);
  std::fflush(stdout);
  if (!json) {
    fmt::print("Files:\n{}\n", (out / "study.json").string());
    std::fflush(stdout);
    if (const int drawn = render_report(out / "study.json", out); drawn != 0 && status == 0) return drawn;
  }
  return outcome == Outcome::some_failed ? 1 : status;
}

struct RunFlags {
  std::string recipe, ladder, rung, plan, run_id, record;
  bool json = false, report_steps = false;
};

RunOptions run_options(const WorkloadFlags& flags, const RunFlags& run) {
  RunOptions options;
  if (!run.plan.empty()) {
    const Plan plan = plan_from_json(harness::read_json(run.plan, "plan"), run.plan);
    for (const PlannedRun& planned : plan.runs) {
      if (planned.id != run.run_id) continue;
      const Rung& rung = plan.rungs[planned.rung];
      return {.id = planned.id,
              .model = plan.model,
              .B = plan.B,
              .T = plan.T,
              .accumulation = plan.accumulation,
              .warmup_steps = plan.warmup_steps,
              .timed_steps = plan.timed_steps,
              .seed = plan.seed,
              .threads = plan.threads,
              .data = plan.data,
              .vocabulary = plan.vocabulary,
              .recipe = rung.recipe,
              .applied = rung.applied};
    }
    throw std::invalid_argument(fmt::format("{}: no run \"{}\"", run.plan, run.run_id));
  }
  if (!run.recipe.empty()) {
    const bool inline_json = run.recipe.front() == '{';
    const std::string where = inline_json ? "--recipe" : run.recipe;
    const std::string text = inline_json ? run.recipe : files::read_file(run.recipe, size_t{1} << 20);
    options.recipe = model::recipe_from_json(harness::parse_json(text, where), where);
  } else if (!run.rung.empty()) {
    const std::string name = !run.ladder.empty() ? run.ladder : harness::this_machine().gpu ? "gpt2" : "gpt2-cpu";
    const Ladder ladder = load_ladder(name);
    const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
    std::vector<std::string> known;
    const Rung* chosen = nullptr;
    for (const Rung& rung : rungs) {
      known.push_back(rung.optimization.empty() ? "start" : rung.optimization);
      if (known.back() == run.rung) chosen = &rung;
    }
    if (chosen == nullptr) {
      throw std::invalid_argument(fmt::format("--rung {}: ladder {} has {}", run.rung, ladder.name, fmt::join(known, ", ")));
    }
    if (chosen->status == Rung::Status::not_applicable) {
      throw std::invalid_argument(fmt::format("--rung {}: not applicable here: {}", run.rung, chosen->reason));
    }
    options.id = run.rung;
    options.recipe = chosen->recipe;
    options.applied = chosen->applied;
    options.model = ladder.model;
    options.B = ladder.B;
    options.T = ladder.T;
    options.accumulation = ladder.accumulation;
    options.warmup_steps = ladder.warmup_steps;
    options.timed_steps = ladder.timed_steps;
  }
  if (!flags.model.empty()) options.model = flags.model;
  if (flags.B > 0) options.B = flags.B;
  if (flags.T > 0) options.T = flags.T;
  if (flags.accumulation > 0) options.accumulation = flags.accumulation;
  if (flags.warmup >= 0) options.warmup_steps = flags.warmup;
  if (flags.steps > 0) options.timed_steps = flags.steps;
  options.seed = flags.seed;
  options.threads = threads_of(flags);
  options.data = data_file(flags);
  options.vocabulary = vocabulary_file(flags);
  check_context(options.model, options.T);
  if (options.recipe.device == model::Device::cuda && !harness::this_machine().gpu) {
    throw std::invalid_argument("recipe: device cuda is not to be had here: " + harness::this_machine().no_gpu_reason);
  }
  return options;
}

int run(const WorkloadFlags& flags, const RunFlags& run_flags) {
  if (run_flags.report_steps) harness::die_with_parent();
  const RunOptions options = run_options(flags, run_flags);
  const int64_t steps = options.warmup_steps + options.timed_steps;
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && !run_flags.report_steps;
  const Json record = execute_run(options, [&](int64_t step) {
    if (run_flags.report_steps) {
      const std::string line = fmt::format("{} {}\n", step, steps);
      [[maybe_unused]] const ssize_t ignored = ::write(3, line.data(), line.size());
    }
    if (terminal) fmt::print(stderr, "\r\x1b[Kstep {}/{}{}", step, steps, step == steps ? "\r\x1b[K" : "");
  });
  if (!run_flags.record.empty()) harness::write_json(run_flags.record, record, "record");
  if (run_flags.report_steps) return 0;
  if (run_flags.json) {
    harness::check_schema(record, "record", "the record");
    fmt::print("{}\n", record.dump(1));
  } else {
    const Json& summary = record.at("summary");
    fmt::print("{} B={} T={}: median {} ms/step [{} - {}] over {} steps, {} tokens/s, peak {:.2f} GiB, last loss {}\n", options.model,
               options.B, options.T, number(summary.at("median_ms")), number(summary.at("min_ms")), number(summary.at("max_ms")),
               summary.at("n").get<int64_t>(), number(summary.at("tokens_per_s")),
               record.at("memory").at("peak_bytes").get<double>() / (1024.0 * 1024.0 * 1024.0),
               record.at("timing").at("loss").back().dump());
  }
  bool proven = true;
  for (const Json& proof : record.at("proofs")) {
    const bool passed = proof.at("passed");
    proven = proven && passed;
    if (!run_flags.json) {
      fmt::print("{} {:<17} {}\n", passed ? "proven" : "FAILED", proof.at("field").get<std::string>(),
                 passed ? proof.at("observed").get<std::string>()
                        : fmt::format("expected {}; observed {}", proof.at("expected").get<std::string>(),
                                      proof.at("observed").get<std::string>()));
    }
  }
  return proven ? 0 : 1;
}

int doctor(bool json) {
  const harness::Machine& machine = harness::this_machine();
  const Json environment = harness::environment();
  const auto notes = harness::disturbances();
  if (json) {
    fmt::print("{}\n", Json{{"environment", environment}, {"notes", notes}}.dump(1));
    return 0;
  }
  fmt::print("CPU      {}, {} cores{}{}\n", machine.cpu.model, machine.cpu.logical_cores, machine.cpu.features.empty() ? "" : ": ",
             fmt::join(machine.cpu.features, " "));
  if (machine.gpu) {
    fmt::print("GPU      {}, compute capability {:.1f}, {:.1f} GiB\n", machine.gpu->name,
               machine.gpu->compute_capability / 10.0, static_cast<double>(machine.gpu->memory_bytes) / (1024.0 * 1024.0 * 1024.0));
  } else {
    fmt::print("GPU      none: {}\n", machine.no_gpu_reason);
  }
  fmt::print("software torch {}, CUDA {}, driver for CUDA {}, {}\n", environment.at("torch").get<std::string>(),
             environment.at("cuda").is_null() ? "?" : environment.at("cuda").get<std::string>(),
             environment.at("driver_cuda").is_null() ? "none" : environment.at("driver_cuda").get<std::string>(),
             environment.at("onednn").get<std::string>());
  std::ifstream driver("/proc/driver/nvidia/params");
  const std::string parameters(std::istreambuf_iterator<char>(driver), {});
  const char* const restricted =
      parameters.empty()                                                      ? "no NVIDIA driver is loaded"
      : parameters.find("RmProfilingAdminOnly: 0") != std::string::npos ? "permitted for everybody"
                                                                        : "root only; to permit them: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d";
  fmt::print("counters {}\n", restricted);
  fmt::print("data     {}\n", fs::exists(default_text()) && fs::exists(default_vocabulary())
                                  ? harness::cache_folder().string() + "/data"
                                  : "the default text or vocabulary is missing: `make data` fetches them");
  for (const std::string& name : ladder_names()) {
    const Ladder ladder = load_ladder(name);
    fmt::print("\nladder {} ({}, B={} T={})\n", name, ladder.model, ladder.B, ladder.T);
    for (const Rung& rung : climb(ladder, machine)) {
      const std::string shown = rung.optimization.empty() ? "start" : rung.optimization;
      fmt::print("  {:<12} {}\n", shown,
                 rung.status == Rung::Status::planned          ? "can be measured"
                 : rung.status == Rung::Status::not_measured   ? "not measured: " + rung.reason
                                                               : "not applicable here: " + rung.reason);
    }
  }
  fmt::print("\n");
  for (const std::string& note : notes) fmt::print("to fix: {}\n", note);
  if (notes.empty()) fmt::print("nothing disturbs measurements right now\n");
  return 0;
}

struct TrainFlags {
  std::string recipe = "{}", weights, save;
  bool json = false;
};

int train(const WorkloadFlags& flags, const TrainFlags& train_flags) {
  const model::Config config = model::preset(flags.model.empty() ? "gpt2-124m" : flags.model);
  const int64_t steps = flags.steps > 0 ? flags.steps : 50;
  RunFlags recipe_flags;
  recipe_flags.recipe = train_flags.recipe;
  WorkloadFlags defaults = flags;
  defaults.model = config.name;
  if (defaults.T == 0) defaults.T = std::min<int64_t>(256, config.n_positions);
  const RunOptions options = run_options(defaults, recipe_flags);
  if (!train_flags.save.empty()) {
    // Fail before the training, not after it.
    const fs::path folder = fs::absolute(train_flags.save).parent_path();
    if (::access(folder.c_str(), W_OK) != 0) {
      throw std::invalid_argument(fmt::format("--save {}: the folder {} cannot be written", train_flags.save, folder.string()));
    }
  }
  model::apply_host_memory(options.recipe.host_memory);
  at::set_num_threads(static_cast<int>(options.threads));
  const model::TokenStream tokens =
      model::tokens_of(options.data, options.vocabulary, harness::cache_folder() / "tokens", config.vocabulary);
  model::Trainer trainer(config, options.recipe,
                         {.B = options.B, .T = options.T, .accumulation = options.accumulation, .max_steps = steps, .seed = options.seed,
                          .schedule = {.warmup_steps = std::min<int64_t>(10, steps), .decay_steps = std::max<int64_t>(steps, 11)}},
                         tokens);
  if (!train_flags.weights.empty()) model::load_weights(trainer.model(), train_flags.weights);
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step();
    if (train_flags.json) continue;
    trainer.synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("step {:>5}  loss {:.4f}  {} ms  {} tokens/s\n", step + 1, trainer.losses().back(), number(seconds * 1e3),
               number(static_cast<double>(trainer.tokens_per_step()) / seconds));
    std::fflush(stdout);
  }
  if (train_flags.json) {
    Json losses = Json::array();
    for (const double loss : trainer.losses()) losses.push_back(harness::finite_or_null(loss));
    fmt::print("{}\n", Json{{"losses", losses}}.dump());
  }
  if (!train_flags.save.empty()) model::save_weights(trainer.model(), train_flags.save);
  return 0;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("Which optimization bought what, on this machine, training GPT-2: measured, proven, drawn.\n"
               "Start with `ladder doctor`, then `ladder ablate`.");
  app.name("ladder");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ladder, torch {}", TORCH_VERSION));
  std::function<int()> command;

  {
    auto* sub = app.add_subcommand("doctor", "what this machine can measure, and what to fix");
    auto json = std::make_shared<bool>(false);
    sub->add_flag("--json", *json, "for programs");
    sub->callback([&command, json] { command = [json] { return doctor(*json); }; });
  }
  {
    struct Flags {
      WorkloadFlags workload;
      std::string ladder, out, order_seed;
      int64_t repeats = 0, limit = 900, order = -1;
      bool resume = false, json = false;
    };
    auto flags = std::make_shared<Flags>();
    auto* sub = app.add_subcommand("ablate", "measure a ladder: one fresh process for each run, a table and a report at the end");
    sub->add_option("--ladder", flags->ladder,
                    fmt::format("{}, or a file (default: gpt2 with a GPU, gpt2-cpu without)", fmt::join(ladder_names(), ", ")))
        ->type_name("NAME");
    sub->add_option("--out", flags->out, "folder of the study (default: studies/<ladder>-<time>)")->type_name("FOLDER");
    sub->add_flag("--resume", flags->resume, "make only the runs that the study in --out lacks");
    add_number(sub, "--repeats", flags->repeats, "runs of each rung", 1, 1000);
    add_number(sub, "--order-seed", flags->order, "of the interleaved order (default: a new one, recorded)", 0, INT64_MAX);
    add_number(sub, "--limit", flags->limit, "seconds after which a run is stopped (default 900)", 1, 1000000);
    add_workload_flags(sub, flags->workload, "the ladder's");
    sub->add_flag("--json", flags->json, "print the study, draw nothing");
    sub->callback([&command, flags, sub] {
      if (flags->resume && flags->out.empty()) throw std::invalid_argument("--resume needs --out, the folder of the study");
      if (flags->resume && sub->count_all() > (flags->json ? 3U : 2U) + 1) {
        throw std::invalid_argument("--resume goes on with the plan in --out; other flags would change it and are not allowed");
      }
      command = [flags] {
        return ablate(flags->ladder, flags->workload, flags->repeats,
                      flags->order >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(flags->order)) : std::nullopt, flags->limit,
                      flags->out, flags->resume, flags->json);
      };
    });
  }
  {
    struct Flags {
      WorkloadFlags workload;
      RunFlags run;
    };
    auto flags = std::make_shared<Flags>();
    auto* sub = app.add_subcommand("run", "one run in this process, with its proofs");
    auto* recipe = sub->add_option("--recipe", flags->run.recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}'")->type_name("FILE|JSON");
    auto* rung = sub->add_option("--rung", flags->run.rung, "a rung of --ladder, by its optimization, or \"start\"")->type_name("NAME");
    sub->add_option("--ladder", flags->run.ladder, "where --rung is looked up")->type_name("NAME");
    auto* plan = sub->add_option("--plan", flags->run.plan, "a study's plan.json")->type_name("FILE");
    sub->add_option("--run", flags->run.run_id, "a run of --plan, by its id")->type_name("ID")->needs(plan);
    recipe->excludes(rung)->excludes(plan);
    rung->excludes(plan);
    sub->add_option("--record", flags->run.record, "write the record here")->type_name("FILE");
    sub->add_flag("--json", flags->run.json, "print the record");
    sub->add_flag("--report-steps-to-parent", flags->run.report_steps)->group("");
    add_workload_flags(sub, flags->workload, "gpt2-124m, or the ladder's");
    sub->callback([&command, flags] { command = [flags] { return run(flags->workload, flags->run); }; });
  }
  {
    struct Flags {
      std::string study, out;
    };
    auto flags = std::make_shared<Flags>();
    auto* sub = app.add_subcommand("report", "draw a study again: report.md, ladder.svg, ladder.png");
    sub->add_option("study", flags->study, "folder of a study")->required()->type_name("FOLDER");
    sub->add_option("--out", flags->out, "folder to draw into (default: the study's)")->type_name("FOLDER");
    sub->callback([&command, flags] {
      command = [flags] {
        const Plan plan = open_study(flags->study);
        const fs::path out = flags->out.empty() ? fs::path(flags->study) : fs::path(flags->out);
        fs::create_directories(out);
        const int status = show_study(plan, flags->study, false);
        std::fflush(stdout);
        const int drawn = render_report(fs::path(flags->study) / "study.json", out);
        return drawn != 0 ? drawn : status;
      };
    });
  }
  {
    struct Flags {
      WorkloadFlags workload;
      TrainFlags train;
    };
    auto flags = std::make_shared<Flags>();
    auto* sub = app.add_subcommand("train", "train, and save the weights for Hugging Face");
    sub->add_option("--recipe", flags->train.recipe, "JSON file, or JSON")->type_name("FILE|JSON");
    sub->add_option("--weights", flags->train.weights, "start from these (safetensors, GPT-2 names)")->type_name("FILE");
    sub->add_option("--save", flags->train.save, "write the weights here at the end")->type_name("FILE");
    sub->add_flag("--json", flags->train.json, "print the losses only");
    add_workload_flags(sub, flags->workload, "gpt2-124m");
    sub->callback([&command, flags] { command = [flags] { return train(flags->workload, flags->train); }; });
  }
  {
    struct Flags {
      std::string data, vocabulary, out;
    };
    auto flags = std::make_shared<Flags>();
    auto* sub = app.add_subcommand("tokenize", "turn a text into a token file");
    sub->add_option("--data", flags->data, "UTF-8 text")->required()->type_name("FILE");
    sub->add_option("--vocab", flags->vocabulary, "vocab.bpe or gpt2.tiktoken")->type_name("FILE");
    sub->add_option("--out", flags->out, "token file (llm.c's format)")->required()->type_name("FILE");
    sub->callback([&command, flags] {
      command = [flags] {
        const fs::path vocabulary = flags->vocabulary.empty() ? default_vocabulary() : fs::path(flags->vocabulary);
        const auto stream = model::tokens_of_text(flags->data, vocabulary, harness::cache_folder() / "tokens");
        model::write_tokens(flags->out, stream.tokens);
        fmt::print("{}: {} tokens\n", flags->out, stream.tokens.size());
        return 0;
      };
    });
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "ladder: {}\n`ladder --help` and `ladder COMMAND --help` say what there is.\n", error.what());
    return 2;
  }
  return command();
}

}  // namespace ablations
