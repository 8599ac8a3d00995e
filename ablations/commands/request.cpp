#include "ablations/commands/request.h"

#include "ablations/commands/defaults.h"
#include "ablations/plan/plan_json.h"
#include "ablations/plan/quick.h"
#include "ablations/plan/shard.h"
#include "ablations/run/child.h"
#include "ablations/run/reproduce.h"
#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "files/resources.h"
#include "harness/measure/environment.h"
#include "harness/measure/unfit.h"
#include "harness/measure/utc.h"
#include "model/config.h"
#include "model/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

namespace {

// T against the model, before any child is started.
void check_context(const std::string& model_name, int64_t T, int64_t positions) {
  const model::Config config = model::with_positions(model::preset(model_name), positions);
  if (T > config.n_positions) {
    throw std::invalid_argument(
        fmt::format("--context must be between 1 and {0}, got {1}; {2} has {0} positions, --positions gives it more",
                    config.n_positions, T, config.name));
  }
}

// Refuses what this machine cannot run, before any child is started.
void check_recipe(const model::Recipe& recipe, const model::Config& config) {
  if (recipe.device == model::Device::cuda && !harness::this_machine().gpu) {
    throw harness::Unfit("recipe: device cuda is not available here: " + harness::this_machine().no_gpu_reason);
  }
  if (const std::string obstacle = recipe_obstacle(recipe, harness::this_machine()); !obstacle.empty()) {
    throw std::invalid_argument("recipe: " + obstacle);
  }
  if (recipe.vocabulary_rows < config.vocabulary) {
    throw std::invalid_argument(
        fmt::format("recipe: vocabulary_rows must be at least {}, got {}", config.vocabulary, recipe.vocabulary_rows));
  }
}

// The tokens that the plan's runs read. A text is tokenised here once, so that no run has to.
model::TokenStream tokens_of(const Plan& plan, int64_t vocabulary) {
  if (!plan.tokens.empty() && fs::exists(plan.tokens)) return model::load_tokens(plan.tokens, vocabulary);
  model::TokenStream tokens =
      model::tokens_of(plan.data, plan.vocabulary, files::cache_folder() / "tokens", vocabulary);
  if (!plan.tokens.empty() && !fs::exists(plan.tokens)) {
    throw std::invalid_argument(
        fmt::format("{}: the study's token file is missing, and {} does not give it again: the text, the vocabulary or "
                    "the cache folder has changed; begin a new study",
                    plan.tokens, plan.data));
  }
  return tokens;
}

// Throws before the first run for everything that would make each run fail.
void check_workload(const Plan& plan, const model::TokenStream& tokens) {
  const model::Config config = model::preset(plan.model);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    if (rung.status != Rung::Status::planned) continue;
    const Shape shape = shape_of(plan, i);
    check_context(plan.model, shape.T, shape.positions);
    check_recipe(rung.recipe, config);
    check_warmup(rung.recipe, plan.warmup_steps);
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

fs::path data_file(const WorkloadFlags& flags) {
  if (!flags.data.empty()) return fs::absolute(flags.data);
  const bool readable = fs::exists(default_text()) && (!flags.vocabulary.empty() || fs::exists(default_vocabulary()));
  if (!readable && fs::exists(bundled_tokens())) return bundled_tokens();
  if (!fs::exists(default_text())) {
    throw std::invalid_argument(
        fmt::format("the default text is missing ({}): `make data` fetches it, or name yours with --data",
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

// Flags that are given replace what a ladder, or the options of a run, had.
template <typename LadderOrRun>
void apply(const WorkloadFlags& flags, LadderOrRun& target) {
  if (!flags.model.empty()) {
    target.model = flags.model;
    // Without a flag the context is at most what this model has.
    target.T = std::min(target.T, model::with_positions(model::preset(flags.model), flags.positions).n_positions);
  }
  if (flags.B > 0) target.B = flags.B;
  if (flags.T > 0) target.T = flags.T;
  if (flags.accumulation > 0) target.accumulation = flags.accumulation;
  if (flags.warmup >= 0) target.warmup_steps = flags.warmup;
  if (flags.steps > 0) target.timed_steps = flags.steps;
}

// "gpt2-cpu-20261121T110500Z": what utc_now() says, without what a file name should not have.
std::string study_id(const std::string& ladder, const std::string& created) {
  std::string stamp;
  for (const char c : created) {
    if (c != '-' && c != ':') stamp += c;
  }
  return ladder + "-" + stamp;
}

}  // namespace

Plan make_plan(const AblateFlags& ablate) {
  const WorkloadFlags& flags = ablate.workload;
  Ladder ladder = load_ladder(chosen_ladder(ablate.ladder));
  apply(flags, ladder);
  ladder.start.deterministic |= flags.deterministic;
  const Design design = design_of(ablate.design, harness::this_machine());
  const int64_t given = design.swept == "batch" ? flags.B : design.swept == "context" ? flags.T : flags.accumulation;
  if (design.mode == Mode::sweep && given > 0) {
    throw std::invalid_argument(fmt::format("--{0} cannot be combined with --sweep {0}=...", design.swept));
  }
  const bool shared = !ablate.shard.empty();  // by several machines, which must all make the same plan
  Plan plan{.id = "",
            .created = shared ? "" : harness::utc_now(),
            .ladder_name = ladder.name,
            .ladder_title = ladder.title,
            .ladder_file = ladder.file,
            .model = ladder.model,
            .B = ladder.B,
            .T = ladder.T,
            .accumulation = ladder.accumulation,
            .positions = model::with_positions(model::preset(ladder.model), flags.positions).n_positions,
            .seed = static_cast<uint64_t>(flags.seed),
            .threads = threads_of(flags),
            .data = data_file(flags).string(),
            .vocabulary = vocabulary_file(flags).string(),
            .tokens = "",
            .warmup_steps = ladder.warmup_steps,
            .timed_steps = ladder.timed_steps,
            .repeats = ablate.repeats > 0 ? ablate.repeats : ladder.repeats,
            .order_seed = ablate.order_seed >= 0 ? static_cast<uint64_t>(ablate.order_seed)
                          : shared               ? 1
                                                 : std::random_device{}(),
            .run_limit_s = static_cast<double>(ablate.limit_s),
            .rungs = {},
            .reference = 0,
            .runs = {},
            .mode = design.mode,
            .swept = design.swept};
  if (shared) plan.shard = shard_of(ablate.shard);
  plan.rungs = rungs_of(ladder, design, shape_of(plan), harness::this_machine());
  if (plan.rungs.front().shape) plan.positions = plan.rungs.front().shape->positions;
  plan.reference = reference_rung(plan.rungs);
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  if (ablate.quick) make_quick(plan, ladder.quick);
  plan.id = shared ? id_by_content(plan) : study_id(plan.ladder_name, plan.created);
  if (plan.runs.empty()) {
    throw std::invalid_argument(
        fmt::format("ladder {}: no rung applies on this machine: {}", plan.ladder_name, plan.rungs.front().reason));
  }
  const model::TokenStream tokens = tokens_of(plan, model::preset(plan.model).vocabulary);
  plan.tokens = fs::absolute(tokens.file).string();
  return plan;
}

void check_workload(const Plan& plan) { check_workload(plan, tokens_of(plan, model::preset(plan.model).vocabulary)); }

namespace {

// The run of a record, with this program and on its data, or every reason why not.
RunOptions options_again(const RunFlags& run) {
  const Json record = files::read_json(run.from, "record");
  RunOptions options = options_of(record, run.from);
  options.data = data_file(run.workload);
  options.vocabulary = vocabulary_file(run.workload);
  const int64_t vocabulary = model::preset(options.model).vocabulary;
  const model::TokenStream tokens =
      model::tokens_of(options.data, options.vocabulary, files::cache_folder() / "tokens", vocabulary);
  options.tokens = tokens.file;
  std::vector<std::string> faults;
  const Json data = record.at("workload").at("data");
  if (const Json sha256 = data.value("sha256", Json()); sha256 != tokens.sha256) {
    faults.push_back(
        fmt::format("data: the record's tokens of {} have SHA-256 {}, {} has those of {} (--data names another file)",
                    data.value("source", Json()).dump(), sha256.dump(), tokens.sha256, options.data.string()));
  }
  if (!run.any_program) {
    for (const std::string& difference :
         compare_programs(record.at("environment"), harness::environment(), options.recipe.device).differences) {
      faults.push_back(difference + " (--any-program runs it anyway)");
    }
  }
  if (!faults.empty()) {
    throw std::invalid_argument(fmt::format("--from {}: not the same run: {}", run.from, fmt::join(faults, "; ")));
  }
  check_context(options.model, options.T, options.positions);
  check_recipe(options.recipe, model::preset(options.model));
  return options;
}

// A run of a plan, as the runner starts it.
RunOptions planned_options(const RunFlags& run) {
  const Plan plan = plan_from_json(files::read_json(run.plan, "plan"), run.plan);
  const PlannedRun& planned = planned_run(plan, run);
  const Rung& rung = plan.rungs[planned.rung];
  const Shape shape = shape_of(plan, planned.rung);
  if (!rung.peer.empty()) {
    throw std::invalid_argument(fmt::format("{}: run \"{}\" is for PyTorch: python {} --plan {} --run {} --record FILE",
                                            run.plan, run.run_id, peer_script().string(), run.plan, run.run_id));
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

}  // namespace

const PlannedRun& planned_run(const Plan& plan, const RunFlags& run) {
  const auto found = std::ranges::find(plan.runs, run.run_id, &PlannedRun::id);
  if (found == plan.runs.end()) throw std::invalid_argument(fmt::format("{}: no run \"{}\"", run.plan, run.run_id));
  return *found;
}

RunOptions run_options(const RunFlags& run) {
  if (!run.from.empty()) return options_again(run);
  if (!run.plan.empty()) return planned_options(run);
  const WorkloadFlags& flags = run.workload;
  RunOptions options;
  if (!run.recipe.empty()) {
    const bool inline_json = run.recipe.front() == '{';
    const std::string where = inline_json ? "--recipe" : run.recipe;
    const std::string text = inline_json ? run.recipe : files::read_file(run.recipe, size_t{1} << 20);
    options.recipe = model::recipe_from_json(files::parse_json(text, where), where);
  } else if (!run.rung.empty()) {
    Ladder ladder = load_ladder(chosen_ladder(run.ladder));
    ladder.start.deterministic |= flags.deterministic;
    const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
    const Rung& chosen = rungs[find_rung(rungs, run.rung, "--rung", ladder.name)];
    options.id = name_of(chosen);
    options.recipe = chosen.recipe;
    options.applied = chosen.applied;
    options.model = ladder.model;
    options.B = ladder.B;
    options.T = ladder.T;
    options.accumulation = ladder.accumulation;
    options.warmup_steps = ladder.warmup_steps;
    options.timed_steps = ladder.timed_steps;
  }
  options.recipe.deterministic |= flags.deterministic;
  apply(flags, options);
  options.positions = flags.positions;
  if (run.rung.empty() && flags.T == 0) {  // a default, not a flag
    options.T = std::min(options.T, model::with_positions(model::preset(options.model), flags.positions).n_positions);
  }
  options.seed = static_cast<uint64_t>(flags.seed);
  options.threads = threads_of(flags);
  options.data = data_file(flags);
  options.vocabulary = vocabulary_file(flags);
  check_context(options.model, options.T, options.positions);
  check_recipe(options.recipe, model::preset(options.model));
  return options;
}

}  // namespace ablations
