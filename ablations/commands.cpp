#include "ablations/commands.h"

#include "ablations/analysis.h"
#include "ablations/ladder.h"
#include "ablations/plan.h"
#include "ablations/profile_counters.h"
#include "ablations/run.h"
#include "ablations/runner.h"
#include "ablations/table.h"
#include "ablations/terminal.h"
#include "files/files.h"
#include "harness/environment.h"
#include "harness/process.h"
#include "harness/resources.h"
#include "harness/unfit.h"
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
#include <random>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

// T against the model, before any child is started.
void check_context(const std::string& model_name, int64_t T, int64_t positions) {
  const model::Config config = model::with_positions(model::preset(model_name), positions);
  if (T > config.n_positions) {
    throw std::invalid_argument(
        fmt::format("--context {} is not allowed; {} has {} positions, --positions gives it more", T, config.name,
                    config.n_positions));
  }
}

// What this machine has no way to run, before any child is started.
void check_recipe(const model::Recipe& recipe, const model::Config& config) {
  if (const std::string obstacle = recipe_obstacle(recipe, harness::this_machine()); !obstacle.empty()) {
    throw std::invalid_argument("recipe: " + obstacle);
  }
  if (recipe.vocabulary_rows < config.vocabulary) {
    throw std::invalid_argument(fmt::format("recipe: vocabulary_rows {} is not allowed; {} or more are",
                                            recipe.vocabulary_rows, config.vocabulary));
  }
}

std::string python() {
  const char* named = std::getenv("LADDER_PYTHON");
  return named != nullptr ? named : LADDER_PYTHON;
}

// What the plan's runs read. Tokenises a text, once, so that no run does it.
model::TokenStream tokens_of(const Plan& plan, int64_t vocabulary) {
  if (!plan.tokens.empty() && fs::exists(plan.tokens)) return model::load_tokens(plan.tokens, vocabulary);
  model::TokenStream tokens =
      model::tokens_of(plan.data, plan.vocabulary, harness::cache_folder() / "tokens", vocabulary);
  if (!plan.tokens.empty() && !fs::exists(plan.tokens)) {
    throw std::invalid_argument(
        fmt::format("{}: the study's token file is gone, and {} no longer makes it: the text, the vocabulary or the "
                    "cache folder is another one; begin a new study",
                    plan.tokens, plan.data));
  }
  return tokens;
}

// Everything that would make each run fail, before the first.
void check_workload(const Plan& plan, const model::TokenStream& tokens) {
  const model::Config config = model::preset(plan.model);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    if (rung.status != Rung::Status::planned) continue;
    const Shape shape = shape_of(plan, i);
    check_context(plan.model, shape.T, shape.positions);
    check_recipe(rung.recipe, config);
    (void)model::BatchLoader(tokens, shape.B, shape.T, plan.seed);
    if (!rung.peer.empty() && !fs::exists(peer_script())) {
      throw std::invalid_argument(fmt::format("--with-peer: {} is missing", peer_script().string()));
    }
    if (!rung.peer.empty() && ::access(python().c_str(), X_OK) != 0) {
      throw std::invalid_argument(
          fmt::format("--with-peer: {} cannot be run; LADDER_PYTHON names another Python that has PyTorch", python()));
    }
  }
}

// Before the work whose result goes there.
void check_can_write(const char* flag, const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder) || ::access(folder.c_str(), W_OK) != 0) {
    throw std::invalid_argument(
        fmt::format("{} {}: the folder {} cannot be written", flag, file.string(), folder.string()));
  }
  if (fs::is_directory(file)) throw std::invalid_argument(fmt::format("{} {}: a directory", flag, file.string()));
}

fs::path data_file(const WorkloadFlags& flags) {
  if (!flags.data.empty()) return fs::absolute(flags.data);
  const bool readable = fs::exists(default_text()) && (!flags.vocabulary.empty() || fs::exists(default_vocabulary()));
  if (!readable && fs::exists(bundled_tokens())) return bundled_tokens();
  if (!fs::exists(default_text())) {
    throw std::invalid_argument(
        fmt::format("the default text is not there ({}): `make data` fetches it, or name yours with --data",
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

std::string ladder_for_this_machine() { return harness::this_machine().gpu ? "gpt2" : "gpt2-cpu"; }

Plan make_plan(const std::string& ladder_name, const AblateFlags& ablate) {
  const WorkloadFlags& flags = ablate.workload;
  Ladder ladder = load_ladder(ladder_name);
  if (!flags.model.empty()) ladder.model = flags.model;
  const Design design = design_of(ablate.design, harness::this_machine());
  const int64_t given = design.swept == "batch" ? flags.B : design.swept == "context" ? flags.T : flags.accumulation;
  if (design.mode == Mode::sweep && given > 0) {
    throw std::invalid_argument(fmt::format("--{0} and --sweep {0}=... exclude each other", design.swept));
  }
  Plan plan{.id = "",
            .created = utc_now(),
            .ladder_name = ladder.name,
            .ladder_title = ladder.title,
            .model = ladder.model,
            .B = flags.B > 0 ? flags.B : ladder.B,
            .T = flags.T > 0 ? flags.T : ladder.T,
            .accumulation = flags.accumulation > 0 ? flags.accumulation : ladder.accumulation,
            .positions = model::with_positions(model::preset(ladder.model), flags.positions).n_positions,
            .seed = static_cast<uint64_t>(flags.seed),
            .threads = threads_of(flags),
            .data = data_file(flags).string(),
            .vocabulary = vocabulary_file(flags).string(),
            .tokens = "",
            .warmup_steps = flags.warmup >= 0 ? flags.warmup : ladder.warmup_steps,
            .timed_steps = flags.steps > 0 ? flags.steps : ladder.timed_steps,
            .repeats = ablate.repeats > 0 ? ablate.repeats : ladder.repeats,
            .order_seed = ablate.order_seed >= 0 ? static_cast<uint64_t>(ablate.order_seed) : std::random_device{}(),
            .run_limit_s = static_cast<double>(ablate.limit_s),
            .rungs = {},
            .reference = 0,
            .runs = {},
            .mode = design.mode,
            .swept = design.swept};
  plan.rungs = arms(ladder, design, shape_of(plan), harness::this_machine());
  if (plan.rungs.front().shape) plan.positions = plan.rungs.front().shape->positions;
  plan.id = study_id(plan.ladder_name, plan.created);
  plan.reference = reference_rung(plan.rungs);
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  if (plan.runs.empty()) {
    throw std::invalid_argument(
        fmt::format("ladder {}: no rung applies on this machine: {}", plan.ladder_name, plan.rungs.front().reason));
  }
  const model::TokenStream tokens = tokens_of(plan, model::preset(plan.model).vocabulary);
  plan.tokens = fs::absolute(tokens.file).string();
  check_workload(plan, tokens);
  return plan;
}

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
    const bool no_fault = rung.at("status") == "failed" && rung.value("out_of_memory", false);
    for (const char* bad : {"failed", "unproven", "void"}) {
      if (rung.at("status") == bad && !no_fault) return 1;
    }
  }
  return 0;
}

RunOptions run_options(const RunFlags& run) {
  const WorkloadFlags& flags = run.workload;
  RunOptions options;
  if (!run.plan.empty()) {
    const Plan plan = plan_from_json(harness::read_json(run.plan, "plan"), run.plan);
    for (const PlannedRun& planned : plan.runs) {
      if (planned.id != run.run_id) continue;
      const Rung& rung = plan.rungs[planned.rung];
      const Shape shape = shape_of(plan, planned.rung);
      if (!rung.peer.empty()) {
        throw std::invalid_argument(
            fmt::format("{}: run \"{}\" is for PyTorch: python {} --plan {} --run {} --record FILE", run.plan,
                        run.run_id, peer_script().string(), run.plan, run.run_id));
      }
      return {.id = planned.id,
              .model = plan.model,
              .B = shape.B,
              .T = shape.T,
              .accumulation = shape.accumulation,
              .positions = shape.positions,
              .warmup_steps = plan.warmup_steps,
              .timed_steps = plan.timed_steps,
              .seed = plan.seed,
              .threads = plan.threads,
              .data = plan.data,
              .vocabulary = plan.vocabulary,
              .tokens = plan.tokens,
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
    const std::string name = run.ladder.empty() ? ladder_for_this_machine() : run.ladder;
    const Ladder ladder = load_ladder(name);
    const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
    std::vector<std::string> known;
    const Rung* chosen = nullptr;
    for (const Rung& rung : rungs) {
      known.push_back(rung.optimization.empty() ? "start" : rung.optimization);
      if (known.back() == run.rung) chosen = &rung;
    }
    if (chosen == nullptr) {
      throw std::invalid_argument(
          fmt::format("--rung {}: ladder {} has {}", run.rung, ladder.name, fmt::join(known, ", ")));
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
  options.positions = flags.positions;
  if (flags.warmup >= 0) options.warmup_steps = flags.warmup;
  if (flags.steps > 0) options.timed_steps = flags.steps;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.threads = threads_of(flags);
  options.data = data_file(flags);
  options.vocabulary = vocabulary_file(flags);
  check_context(options.model, options.T, options.positions);
  check_recipe(options.recipe, model::preset(options.model));
  return options;
}

}  // namespace

int ablate(const AblateFlags& flags) {
  fs::path out = flags.out;
  Plan plan;
  if (flags.resume) {
    plan = open_study(out);
    check_workload(plan, tokens_of(plan, model::preset(plan.model).vocabulary));
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
    create_study(plan, out);
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
    fmt::print(stderr, "{} runs of {} steps into {} (order seed {})\n", plan.runs.size(),
               plan.warmup_steps + plan.timed_steps, out.string(), plan.order_seed);
  }
  // Not by its name: a build may put another program there while the study runs.
  const Outcome outcome = carry_out(plan, out, {.ladder = fmt::format("/proc/{}/exe", ::getpid()), .python = python()},
                                    static_cast<double>(flags.budget_s));
  if (outcome.interrupted) {
    fmt::print(stderr, "what is measured is kept; go on with: ladder ablate --resume --out {}\n", out.string());
    return 130;
  }
  const int status = show_study(plan, out, flags.json);
  std::fflush(stdout);
  if (!flags.json) {
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
  return outcome.some_failed ? 1 : status;
}

int run(const RunFlags& flags) {
  if (flags.report_steps) harness::die_with_parent();
  const RunOptions options = run_options(flags);
  if (!flags.record.empty()) check_can_write("--record", flags.record);
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

int profile(const ProfileFlags& flags) {
  if (flags.counters == flags.list_metrics) {
    throw std::invalid_argument("profile: one of --counters and --list-metrics says what to do");
  }
  std::vector<std::string> metrics;
  if (!flags.metrics.empty()) metrics = harness::split_metrics(flags.metrics);
  if (flags.list_metrics) {
    const Json list = metrics_json(flags.chip, metrics);
    fmt::print("{}", flags.json ? list.dump(1) + "\n" : metrics_table(list));
    return 0;
  }
  if (!harness::this_machine().gpu) {
    throw harness::Unfit("--counters: counters are a GPU's: " + harness::this_machine().no_gpu_reason);
  }
  if (flags.run.workload.steps > 0) {
    throw std::invalid_argument("--steps: --counters counts one step for each pass that the metrics need");
  }
  if (flags.run.recipe.empty() && flags.run.rung.empty()) {
    throw std::invalid_argument("profile --counters: --rung or --recipe says of which step");
  }
  if (!flags.out.empty()) check_can_write("--out", flags.out);
  const RunOptions options = run_options(flags.run);
  const Json counters =
      counters_json(options, count_step(options, metrics, flags.max_passes,
                                        [](const std::string& plan) { fmt::print(stderr, "{}\n", plan); }));
  harness::check_schema(counters, "counters", "the counters");
  if (!flags.out.empty()) harness::write_json(flags.out, counters, "counters");
  fmt::print("{}\n", flags.json ? counters.dump(1) : counters_table(counters));
  return 0;
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

int tokenize(const TokenizeFlags& flags) {
  check_can_write("--out", flags.out);
  const fs::path vocabulary = flags.vocabulary.empty() ? default_vocabulary() : fs::path(flags.vocabulary);
  const auto stream = model::tokens_of_text(flags.data, vocabulary, harness::cache_folder() / "tokens");
  model::write_tokens(flags.out, stream.tokens);
  fmt::print("{}: {} tokens\n", flags.out, stream.tokens.size());
  return 0;
}

fs::path default_vocabulary() { return harness::cache_folder() / "data" / "gpt2.tiktoken"; }
fs::path default_text() { return harness::cache_folder() / "data" / "shakespeare.txt"; }
fs::path bundled_tokens() { return harness::resource_root() / "data" / "shakespeare.bin"; }

}  // namespace ablations
