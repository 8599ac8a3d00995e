#include "cli/gpt2/request.h"

#include "ablations/gpt2/child.h"
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/reproduce.h"
#include "ablations/plan/make_plan.h"
#include "ablations/plan/shard.h"
#include "ablations/techniques/products/products.h"
#include "ablations/techniques/techniques.h"
#include "cli/draw.h"
#include "cli/gpt2/timed_here.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "files/what_is.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "model/config.h"
#include "model/data.h"
#include "model/ranks.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace cli {

namespace fs = std::filesystem;

namespace {

// Refuses a step that the model, the machine or the data does not allow, before any child is started.
void check_step(const RunOptions& step, const harness::Machine& machine = harness::this_machine()) {
  const model::Config config = config_of(step);
  if (step.T > config.n_positions) {
    throw std::invalid_argument(
        fmt::format("--context must be between 1 and {0}, got {1}; {2} has {0} positions, --positions gives it more",
                    config.n_positions, step.T, config.name));
  }
  if (step.recipe.device == model::Device::cuda && !machine.gpu) {
    throw harness::Unfit("recipe: device cuda is not available here: " + machine.no_gpu_reason);
  }
  std::string obstacle = recipe_obstacle(step.recipe, machine);
  if (obstacle.empty() && step.recipe.vocabulary_rows < config.vocabulary) {
    obstacle =
        fmt::format("vocabulary_rows must be at least {}, got {}", config.vocabulary, step.recipe.vocabulary_rows);
  }
  if (obstacle.empty() && !step.data.empty()) obstacle = batches_obstacle(step.recipe.batches, step.data);
  if (!obstacle.empty()) throw std::invalid_argument("recipe: " + obstacle);
}

// The tokens that the plan's runs read. A text is tokenised here once, so that no run has to.
model::TokenStream planned_tokens(const PlannedWorkload& workload) {
  const int64_t vocabulary = model::preset(workload.model).vocabulary;
  const std::string& file = workload.tokens;
  if (!file.empty() && fs::exists(file)) return model::load_tokens(file, vocabulary, model::Keep::in_file);
  model::TokenStream tokens = model::tokens_of(workload.data, workload.vocabulary, files::cache_folder() / "tokens",
                                               vocabulary, model::Keep::in_file);
  if (!file.empty() && !fs::exists(file)) {
    throw std::invalid_argument(
        fmt::format("{}: the study's token file is missing, and {} does not give it again: the text, the vocabulary or "
                    "the cache folder has changed; begin a new study",
                    file, workload.data));
  }
  return tokens;
}

fs::path named_data(const WorkloadFlags& flags) {
  if (!flags.data.empty()) {
    (void)files::InputFile(flags.data);  // before anything is waited for
    return fs::absolute(flags.data);
  }
  const bool readable =
      fs::exists(default_text()) && (!flags.vocabulary.empty() || fs::exists(files::default_vocabulary()));
  if (!readable && fs::exists(bundled_tokens())) return bundled_tokens();
  if (!fs::exists(default_text())) {
    throw std::invalid_argument(
        fmt::format("the default text is missing ({}): `make data` fetches it, or name yours with --data",
                    default_text().string()));
  }
  return default_text();
}

fs::path data_file(const WorkloadFlags& flags) {
  fs::path data = named_data(flags);
  if (!flags.repeat_to) return data;
  if (files::is_token_file(data)) {
    throw std::invalid_argument(
        fmt::format("--repeat-to: needs a text, and {} is a token file; --data names a text", data.string()));
  }
  return model::repeated_text(data, static_cast<uint64_t>(*flags.repeat_to), files::cache_folder() / "texts");
}

fs::path vocabulary_file(const WorkloadFlags& flags) {
  return flags.vocabulary.empty() ? files::default_vocabulary() : fs::absolute(flags.vocabulary);
}

int64_t threads_of(const WorkloadFlags& flags) {
  const int64_t threads = threads_for(flags.threads);
  return flags.threads ? threads : std::max<int64_t>(1, threads / model::ranks_of_environment().local_size);
}

// Given flags replace sizes in `workload` and numbers of steps in `steps`. Both are a ladder's or a run's.
template <class Sizes, class Steps>
void apply(const WorkloadFlags& flags, Sizes& workload, Steps& steps) {
  if (!flags.model.empty()) {
    workload.model = flags.model;
    // Without a flag the context is at most what this model has.
    workload.T = std::min(workload.T,
                          model::with_positions(model::preset(flags.model), flags.positions.value_or(0)).n_positions);
  }
  workload.B = flags.B.value_or(workload.B);
  workload.T = flags.T.value_or(workload.T);
  workload.accumulation = flags.accumulation.value_or(workload.accumulation);
  steps.warmup_steps = flags.warmup.value_or(steps.warmup_steps);
  steps.timed_steps = flags.steps.value_or(steps.timed_steps);
}

// A GPU's energy counter moves every 100 ms or so. Over such a window its difference is right to 7 %.
constexpr double window_for_energy_s = 1.5;

Choose choice_of(OwnOperations& timed) {
  return [&](const model::Recipe& before, model::Recipe& edited) { return timed.choose(before, edited); };
}

}  // namespace

void add_data_flags(Command& command, WorkloadFlags& flags) {
  constexpr int64_t least = 1000, most = 6000000000;  // a token file can still hold all tokens
  add_bytes(
      command, "--repeat-to", flags.repeat_to,
      "make a text of that size from copies of --data, and keep it in the cache folder, which XDG_CACHE_HOME names "
      "(500MB, 2GB; default: "
      "the text as it is)",
      least, most);
  command.add_flag("--cold-cache", flags.cold_cache,
                   "take each run's data out of the page cache before its first step, as far as the kernel does it "
                   "(default: leave it as it is)");
}

void add_deterministic_flag(Command& command, WorkloadFlags& flags) {
  command.add_flag(
      "--deterministic", flags.deterministic,
      "PyTorch's deterministic algorithms: bit-identical losses each time on a GPU, and on a CPU with --threads 1");
}

CLI::Option* add_rung_flag(Command& command, std::string& rung) {
  return add_text(command, "--rung", rung, "a rung of --ladder: the name of its optimization, or \"start\"", "NAME");
}

int64_t threads_for(std::optional<int64_t> given) {
  const int64_t cores = harness::this_cpu().logical_cores;
  if (given > cores) {
    throw std::invalid_argument(
        fmt::format("--threads must be between 1 and {}, the cores that this process may use, got {}", cores, *given));
  }
  return given.value_or(cores);
}

fs::path default_studies() { return "studies"; }
fs::path default_text() { return files::cache_folder() / "data" / "shakespeare.txt"; }
fs::path bundled_tokens() { return files::resource_root() / "data" / "shakespeare.bin"; }

std::string chosen_ladder(const std::string& named) {
  if (!named.empty()) return named;
  const harness::Machine& machine = harness::this_machine();
  if (!machine.gpu) return "gpt2-cpu";
  const model::Recipe in_bf16{.device = model::Device::cuda, .autocast = model::Autocast::bf16};
  return recipe_obstacle(in_bf16, machine).empty() ? "gpt2" : "gpt2-fp16";
}

Plan make_plan(const StudyFlags& ablate, OwnAre own) {
  const WorkloadFlags& flags = ablate.workload;
  Ladder ladder = load_ladder(chosen_ladder(ablate.ladder));
  apply(flags, ladder.workload, ladder.plan);
  if (flags.deterministic) ladder.start["deterministic"] = true;
  const Design design = design_of(ablate.design, harness::this_machine());
  const auto& given = design.swept == Swept::batch     ? flags.B
                      : design.swept == Swept::context ? flags.T
                                                       : flags.accumulation;
  if (design.swept && given) {
    throw std::invalid_argument(fmt::format("--{0} cannot be combined with --sweep {0}=...", name_of(*design.swept)));
  }
  const bool shared = !ablate.shard.empty();  // by several machines, which must all make the same plan
  Plan plan{.id = "",
            .created = shared ? "" : harness::utc_now(),
            .ladder = {.name = ladder.name, .title = ladder.title, .file = ladder.file},
            .workload = {ladder.workload, ladder.workload.model, static_cast<uint64_t>(flags.seed), threads_of(flags),
                         data_file(flags).string(), vocabulary_file(flags).string(), /*tokens=*/"", flags.cold_cache},
            .warmup_steps = ladder.plan.warmup_steps,
            .timed_steps = ladder.plan.timed_steps,
            .repeats = ablate.repeats.value_or(ladder.plan.repeats),
            .order_seed = ablate.order_seed ? static_cast<uint64_t>(*ablate.order_seed)
                          : shared          ? 1
                                            : files::random_number() % 1000000000,
            .run_limit_s = static_cast<double>(ablate.limit_s),
            .mode = design.mode,
            .swept = design.swept};
  plan.workload.positions =
      model::with_positions(model::preset(plan.workload.model), flags.positions.value_or(0)).n_positions;
  plan.workload.random_windows = flags.random_windows;
  if (flags.repeat_to) plan.workload.repeated = {named_data(flags).filename().string(), *flags.repeat_to};
  if (shared) plan.shard = shard_of(ablate.shard);
  OwnOperations timed = own_operations_here({.model = plan.workload.model,
                                             .B = plan.workload.B,
                                             .T = plan.workload.T,
                                             .positions = plan.workload.positions,
                                             .threads = plan.workload.threads,
                                             .data = plan.workload.data,
                                             .vocabulary = plan.workload.vocabulary,
                                             .recipe = {},
                                             .applied = {}},
                                            ablate.wait);
  plan.rungs = rungs_of(ladder, design, shape_of(plan), harness::this_machine(),
                        own == OwnAre::timed && !shared ? choice_of(timed) : nullptr);
  plan.product_timings = timed.timings();
  for (Rung& rung : plan.rungs) {
    const std::string reason = batches_obstacle(recipe_of(rung).batches, plan.workload.data);
    if (rung.status != Rung::Status::planned || reason.empty()) continue;
    rung.status = Rung::Status::not_applicable;
    rung.reason = reason;
  }
  if (plan.rungs.front().shape) plan.workload.positions = plan.rungs.front().shape->positions;
  if (!flags.steps && uses_cuda(plan)) plan.least_window_s = window_for_energy_s;
  plan.typed = ablate.typed;
  std::vector<std::string>& typed = plan.typed->flags;
  if (ablate.ladder.empty()) typed.insert(typed.begin(), {"--ladder", plan.ladder.name});
  if (!ablate.order_seed) typed.insert(typed.end(), {"--order-seed", std::to_string(plan.order_seed)});
  plan.reference = reference_rung(plan.rungs);
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  if (ablate.quick) make_quick(plan);
  plan.id = shared ? id_by_content(plan) : study_id(plan.ladder.name, plan.created);
  if (plan.runs.empty()) {
    throw std::invalid_argument(
        fmt::format("ladder {}: no rung applies on this machine: {}", plan.ladder.name, plan.rungs.front().reason));
  }
  return plan;
}

std::string check_workload(const Plan& plan) {
  const PlannedWorkload& workload = plan.workload;
  const model::TokenStream tokens = planned_tokens(workload);  // in the file: they may be more than the memory
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    if (rung.status != Rung::Status::planned) continue;
    const Shape shape = shape_of(plan, i);
    check_step({.model = workload.model,
                .T = shape.T,
                .positions = shape.positions,
                .data = workload.data,
                .recipe = recipe_of(rung)});
    check_warmup(recipe_of(rung), plan.warmup_steps);
    (void)model::BatchLoader(tokens, shape.B, shape.T, workload.seed, model::Batches::mapped);
    if (!rung.peer.empty() && !fs::exists(peer_script())) {
      throw std::invalid_argument(fmt::format("--with-peer: {} is missing", peer_script().string()));
    }
    if (!rung.peer.empty() && ::access(python().front().c_str(), X_OK) != 0) {
      throw std::invalid_argument(fmt::format(
          "--with-peer: {} cannot be run; LADDER_PYTHON names another Python that has PyTorch", python().front()));
    }
  }
  return fs::absolute(tokens.file).string();
}

Prospect prospect_of(const StudyFlags& flags) {
  Prospect prospect{.plan = make_plan(flags, OwnAre::as_listed), .estimate = {}, .refusal = ""};
  prospect.estimate = estimate_of(prospect.plan, speeds_for(prospect.plan));
  prospect.refusal = reason_against_running_here(prospect.plan, prospect.estimate);
  return prospect;
}

const char* status_text(const Rung& rung) {
  return rung.status == Rung::Status::planned        ? "can be measured"
         : rung.status == Rung::Status::not_measured ? "not measured"
                                                     : "not applicable here";
}

std::string summary_of(const Prospect& prospect) {
  const Plan& plan = prospect.plan;
  const auto planned = std::ranges::count(plan.rungs, Rung::Status::planned, &Rung::status);
  const std::string rungs = number_of(std::ssize(plan.rungs), "rung");
  return fmt::format("{}{}, {}", planned == std::ssize(plan.rungs) ? "" : fmt::format("{} of ", planned), rungs,
                     estimate_text(prospect.estimate, plan.runs));
}

std::string rungs_text(const Prospect& prospect) {
  const Plan& plan = prospect.plan;
  const Shape shape = shape_of(plan);
  std::string text =
      wrapped(fmt::format("ladder {} ({}, B={} T={}): {} if nothing else runs", files::printable(plan.ladder.name),
                          plan.workload.model, shape.B, shape.T, summary_of(prospect)),
              "  ");
  size_t width = 0;
  for (const Rung& rung : plan.rungs) width = std::max(width, name_of(rung).size());
  const size_t rest = width < 40 ? 52 - width : 12;  // of 80 columns
  text += fmt::format("{:>80}\n", "runs      each     memory");
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    const std::string begin = fmt::format("  {:<{}} ", name_of(rung), width);
    if (rung.status != Rung::Status::planned) {
      text += wrapped(begin + status_text(rung) + (rung.reason.empty() ? "" : ": " + rung.reason),
                      std::string(begin.size(), ' '));
      continue;
    }
    const double seconds = prospect.estimate.run_s[i];
    text += fmt::format("{}{:<{}} {:>3} x {:>7} {:>6.1f} GiB\n", begin, files::shortened(label_of(rung), rest), rest,
                        std::ranges::count(plan.runs, i, &PlannedRun::rung), seconds > 0 ? clock_time(seconds) : "-",
                        gib(prospect.estimate.bytes[i]));
  }
  return text;
}

namespace {

// The run of a record, with this program and on its data, or every reason why not.
RunOptions options_again(const StepFlags& run) {
  const auto record = read_document<Record>(run.from);
  RunOptions options = options_of(record, run.from);
  options.data = data_file(run.workload);
  options.vocabulary = vocabulary_file(run.workload);
  const int64_t vocabulary = model::preset(options.model).vocabulary;
  const model::TokenStream tokens = model::tokens_of(options.data, options.vocabulary, files::cache_folder() / "tokens",
                                                     vocabulary, model::Keep::in_file);
  options.tokens = tokens.file;
  std::vector<std::string> faults;
  if (const Workload::Data& data = record.workload.data; data.sha256 != tokens.sha256) {
    faults.push_back(fmt::format(
        "data: the record's tokens of \"{}\" have SHA-256 \"{}\", {} has those of {} (--data names another file)",
        data.source, data.sha256, tokens.sha256, options.data.string()));
  }
  if (const auto ranks = ranks_under(options.recipe); ranks != options.ranks) {
    faults.push_back(
        fmt::format("ranks: the record has {}, and WORLD_SIZE is {}", options.ranks.value_or(1), ranks.value_or(1)));
  }
  if (!run.any_program) {
    for (const std::string& difference :
         compare_programs(record.environment, environment_here(), options.recipe.device == model::Device::cuda)
             .differences) {
      faults.push_back(difference + " (--any-program runs it anyway)");
    }
  }
  if (!faults.empty()) {
    throw std::invalid_argument(fmt::format("--from {}: not the same run: {}", run.from, fmt::join(faults, "; ")));
  }
  check_step(options);
  const auto& gpu = harness::this_machine().gpu;
  if (gpu && record.environment.gpu && record.environment.gpu->name == gpu->name) {
    model::keep_product_timings(value_from<Observations>(record.observations, run.from).product_timings);
  }
  return options;
}

// A run of a plan, as the runner starts it.
RunOptions planned_options(const StepFlags& run) {
  const Plan plan = value_from<Plan>(files::read_any_json(run.plan), run.plan);
  const PlannedRun& planned = planned_run(plan, run);
  const Rung& rung = plan.rungs[planned.rung];
  const Shape shape = shape_of(plan, planned.rung);
  if (!rung.peer.empty()) {
    throw std::invalid_argument(fmt::format("{}: run \"{}\" is for PyTorch: python {} --plan {} --run {} --record FILE",
                                            run.plan, run.run_id, peer_script().string(), run.plan, run.run_id));
  }
  const PlannedWorkload& workload = plan.workload;
  return {.id = planned.id,
          .model = workload.model,
          .B = shape.B,
          .T = shape.T,
          .accumulation = shape.accumulation,
          .ranks = ranks_under(recipe_of(rung)),
          .positions = shape.positions,
          .warmup_steps = plan.warmup_steps,
          .timed_steps = plan.timed_steps,
          .least_window_s = plan.least_window_s,
          .seed = workload.seed,
          .random_windows = workload.random_windows,
          .threads = workload.threads,
          .data = workload.data,
          .vocabulary = workload.vocabulary,
          .tokens = workload.tokens,
          .cold_cache = workload.cold_cache,
          .recipe = recipe_of(rung),
          .applied = rung.applied,
          .product_timings = plan.product_timings};
}

// How JSON reaches --recipe as it is.
constexpr const char* recipe_in_quotes = "--recipe '{\"autocast\": \"bf16\"}'";

// Refuses what is neither JSON nor a file: an optimization, or JSON whose quotes the shell has taken.
void check_quotes(const std::string& recipe) {
  std::error_code unknown;
  const bool may_be_file = recipe.find_first_of("./") != std::string::npos || fs::exists(recipe, unknown);
  if (recipe.front() == '{' ? recipe.find(':') == std::string::npos || recipe.find('"') != std::string::npos
                            : may_be_file)
    return;
  std::string meant = recipe_in_quotes;
  if (const Optimization* const optimization = find_optimization(recipe)) {
    model::Recipe edited;
    optimization->edit(edited, harness::this_machine());
    const files::Json changes = model::recipe_diff({}, edited);
    files::Json fields;
    for (const auto& [name, change] : changes.items()) fields[name] = change.at(1);
    meant = fmt::format("--recipe '{}'", fields.dump());
  }
  throw std::invalid_argument(fmt::format("--recipe {}: is neither a file nor JSON; did you mean {}?", recipe, meant));
}

struct FlagNames {
  const char *recipe, *rung;  // in messages
};

// The recipe and the size of a step. Rungs are as this machine has them.
RunOptions step_options(const StepFlags& run, const harness::Machine& machine, const FlagNames& names, OwnAre own) {
  const WorkloadFlags& flags = run.workload;
  RunOptions options;
  options.positions = flags.positions.value_or(0);
  if (!run.recipe.empty()) {
    check_quotes(run.recipe);
    const bool inline_json = run.recipe.front() == '{';
    const std::string where = inline_json ? names.recipe : run.recipe;
    const std::string text = inline_json ? run.recipe : files::read_file(run.recipe, size_t{1} << 20);
    options.recipe = model::recipe_from_json(files::parse_json(text, where), where);
  } else if (!run.rung.empty()) {
    Ladder ladder = load_ladder(chosen_ladder(run.ladder));
    if (flags.deterministic) ladder.start["deterministic"] = true;
    options.model = ladder.workload.model;
    options.B = ladder.workload.B;
    options.T = ladder.workload.T;
    options.accumulation = ladder.workload.accumulation;
    options.warmup_steps = ladder.plan.warmup_steps;
    options.timed_steps = ladder.plan.timed_steps;
    apply(flags, options, options);
    std::vector<Rung> rungs = climb(ladder, machine);
    const size_t index = find_rung(rungs, run.rung, names.rung, ladder.name);
    if (own == OwnAre::timed && model::ranks_of_environment().size == 1) {
      options.threads = threads_of(flags);
      options.data = data_file(flags);
      options.vocabulary = vocabulary_file(flags);
      OwnOperations timed = own_operations_here(options, run.wait);
      ladder.rungs.resize(index);
      rungs = climb(ladder, machine, choice_of(timed));
      options.product_timings = timed.timings();
    }
    const Rung& chosen = rungs[find_rung(rungs, name_of(rungs[index]), names.rung, ladder.name)];
    options.id = name_of(chosen);
    options.recipe = recipe_of(chosen);
    options.applied = chosen.applied;
  }
  options.recipe.deterministic |= flags.deterministic;
  if (run.rung.empty()) apply(flags, options, options);
  if (!flags.steps && options.recipe.device == model::Device::cuda) options.least_window_s = window_for_energy_s;
  if (run.rung.empty() && !flags.T) {  // a default, not a flag
    options.T = std::min(options.T,
                         model::with_positions(model::preset(options.model), flags.positions.value_or(0)).n_positions);
  }
  return options;
}

}  // namespace

const PlannedRun& planned_run(const Plan& plan, const StepFlags& run) {
  const auto found = std::ranges::find(plan.runs, run.run_id, &PlannedRun::id);
  if (found == plan.runs.end()) throw std::invalid_argument(fmt::format("{}: no run \"{}\"", run.plan, run.run_id));
  return *found;
}

RunOptions run_options(const StepFlags& run) {
  if (!run.from.empty()) return options_again(run);
  if (!run.plan.empty()) return planned_options(run);
  const WorkloadFlags& flags = run.workload;
  RunOptions options =
      step_options(run, harness::this_machine(), {.recipe = "--recipe", .rung = "--rung"}, OwnAre::timed);
  options.seed = static_cast<uint64_t>(flags.seed);
  options.random_windows = flags.random_windows;
  options.threads = threads_of(flags);
  options.data = data_file(flags);
  options.vocabulary = vocabulary_file(flags);
  options.cold_cache = flags.cold_cache;
  options.ranks = ranks_under(options.recipe);
  check_step(options);
  return options;
}

RunOptions planned_step(const std::string& plan, StepFlags step, std::optional<int64_t> memory) {
  const bool is_json = plan.front() == '{' || plan.ends_with(".json") || plan.find('/') != std::string::npos;
  if (is_json && !step.ladder.empty()) throw std::invalid_argument("--ladder: needs the name of a rung in --plan");
  (is_json ? step.recipe : step.rung) = plan;
  const harness::Machine& here = harness::this_machine();
  harness::Machine another = here;
  another.gpu = harness::Gpu{
      .name = "another device", .compute_capability = assumed_compute_capability, .memory_bytes = memory.value_or(0)};
  RunOptions options =
      step_options(step, memory ? another : here, {.recipe = "--plan", .rung = "--plan"}, OwnAre::as_listed);
  check_step(options, memory || !here.gpu ? another : here);
  return options;
}

std::vector<Input> inputs_of(const StepFlags& flags) {
  std::vector<Input> inputs{{"--data", flags.workload.data.empty() ? default_text() : fs::path(flags.workload.data)},
                            {"--vocab", flags.workload.vocabulary.empty() ? files::default_vocabulary()
                                                                          : fs::path(flags.workload.vocabulary)},
                            {"--recipe", flags.recipe},
                            {"--from", flags.from},
                            {"--plan", flags.plan}};
  if (!flags.rung.empty()) inputs.push_back({"--ladder", ladder_file(chosen_ladder(flags.ladder))});
  return inputs;
}

}  // namespace cli
