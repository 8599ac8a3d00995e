// `ladder run`: one run in this process.
#include "ablations/gpt2/run.h"

#include "ablations/gpt2/memory.h"
#include "ablations/gpt2/reproduce.h"
#include "ablations/gpt2/rung_look.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/request.h"
#include "cli/gpt2/timed_here.h"
#include "cli/place.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "model/ranks.h"
#include "study/measured.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

struct RunFlags : StepFlags {
  std::string record;
  bool json = false, verbose = false;
  bool report_steps = false;  // to file descriptor 3, for the runner
  std::string time_against;   // a recipe: only time its operation beside this recipe's (timed_here.h)
  std::string look;           // only look at the first steps, and write this file (rung_look.h)
  std::string look_rounding;  // "8+1": bits and seed
};

void note_unknown_programs(const Record& original, model::Device device) {
  for (const std::string& unknown :
       compare_programs(original.environment, environment_here(), device == model::Device::cuda).unknown) {
    fmt::print(stderr, "note: cannot tell whether this is the record's program: {}\n", unknown);
  }
}

// Tells the steps done to the parent process, or shows them on a terminal.
std::function<void(int64_t)> progress_of(const RunOptions& options, bool to_parent) {
  const int64_t steps = options.warmup_steps + options.timed_steps;
  if (to_parent) {
    return [steps](int64_t step) {
      const std::string line = fmt::format("{} {}\n", step, std::max(step, steps));
      [[maybe_unused]] const ssize_t ignored = ::write(3, line.data(), line.size());
    };
  }
  if (::isatty(STDERR_FILENO) == 0) return [](int64_t) {};
  return [steps](int64_t step) { fmt::print(stderr, "\r\x1b[Kstep {}/{}", step, std::max(step, steps)); };
}

void print_summary(const RunOptions& options, const Record& record) {
  const RunSummary& summary = record.summary;
  const std::optional<double> last = record.timing.loss.back();
  fmt::print(
      "{} B={} T={}: median {} ms/step (least {}, most {}) over {}, {} tokens/s, peak {:.2f} GiB, last loss {}\n",
      options.model, options.B, options.T, number(summary.median_ms), number(summary.min_ms), number(summary.max_ms),
      number_of(summary.n, "step"), number(summary.tokens_per_s), gib(record.memory.peak_bytes),
      last ? fmt::format("{:.4f}", *last) : "not finite");
  if (const auto& scaling = record.scaling) {
    fmt::print(
        "{}: each gives {} bytes to be reduced in a step; scaling efficiency {:.2f}, the step of rank 0 alone ({} ms) "
        "over "
        "that of all\n",
        number_of(*record.workload.ranks, "rank"), plain(static_cast<double>(scaling->bytes_per_step)),
        scaling->efficiency, number(scaling->alone_ms));
  }
  if (const auto& data = record.data;
      data && data->cold && 2 * data->cached_before.value_or(data->file_bytes) > data->file_bytes) {
    const std::string file = printable(data->file);
    fmt::print("--cold-cache: {}\n", data->cached_before
                                         ? fmt::format("the kernel kept {} in the page cache", file)
                                         : fmt::format("the kernel does not say whether {} left the page cache", file));
  }
  if (!record.is_disturbed()) return;
  for (const std::string& flag : *record.flags) fmt::print("disturbed: {}\n", flag);
}

constexpr int64_t look_steps = 3;

// Of "8+1".
std::optional<Rounding> rounding_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  Rounding rounding;
  const char* const end = text.data() + text.size();
  const auto [plus, bad] = std::from_chars(text.data(), end, rounding.bits);
  if (bad != std::errc() || plus == end || std::from_chars(plus + 1, end, rounding.seed).ptr != end) {
    throw std::invalid_argument("--look-rounding: must be like 8+1, got " + text);
  }
  return rounding;
}

// Each of them, if one failed or all are asked for.
void print_proofs(const std::vector<Proof>& proofs, bool all) {
  const auto passed = std::ranges::count(proofs, true, &Proof::passed);
  if (all || passed < std::ssize(proofs)) {
    for (const Proof& proof : proofs) {
      const char* const word = proof.passed ? "proven" : "FAILED";
      fmt::print(
          "{} {:<17} {}\n", standard_output().painted(style_of(word), word), proof.field,
          proof.passed ? proof.observed : fmt::format("expected {}; observed {}", proof.expected, proof.observed));
    }
  }
  fmt::print("{} of {} passed\n", passed, number_of(std::ssize(proofs), "proof"));
}

int run(const RunFlags& flags) {
  if (flags.report_steps || !flags.look.empty()) harness::die_with_parent();
  check_not_read("--out", flags.record, inputs_of(flags));
  const RunOptions options = run_options(flags);
  if (!flags.time_against.empty()) {
    tell_times(options, flags.time_against);
    return 0;
  }
  if (!flags.look.empty()) {
    files::write_json(flags.look, look_of(options, look_steps, rounding_of(flags.look_rounding)));
    return 0;
  }
  check_not_read("--out", flags.record,  // a plan names them
                 {{"--data", options.data}, {"--vocab", options.vocabulary}, {"--data", options.tokens}});
  const model::Ranks ranks = options.ranks ? model::ranks_of_environment() : model::Ranks{};
  if (!flags.record.empty() && ranks.is_first()) check_can_write("--out", flags.record);
  std::optional<Record> original;
  if (!flags.from.empty()) original = read_document<Record>(flags.from);
  if (original && ranks.is_first()) note_unknown_programs(*original, options.recipe.device);
  Occupied devices;
  // The first rank on a machine holds the cores for all.
  const bool occupies = ranks.local_rank == 0 || options.recipe.device == model::Device::cuda;
  if (!flags.report_steps && occupies)
    devices = occupy({options.recipe.device}, "ladder run", fs::current_path(), flags.wait);
  if (!ranks.is_first()) {  // rank 0 has the record
    const Record record = execute_run(options, [](int64_t) {});
    if (!record.is_ok()) throw std::runtime_error(fmt::format("out of memory: {}", record.failure->message));
    return 0;
  }
  Record record = execute_run(options, progress_of(options, flags.report_steps));
  if (!flags.report_steps && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  bool reproduced = true;
  std::string verdict;
  if (original && record.is_ok()) {
    const Reproduction reproduction = compare_losses(*original, record);
    reproduced = reproduction.identical || !reproduction.excuses.empty();
    verdict = describe(reproduction, files::printable(flags.from));
    record.reproduction = reproduction;
  }
  const Json written = json_of(record);
  if (!flags.record.empty()) write_document(flags.record, record, files::Links::followed);
  if (flags.report_steps) return 0;
  if (flags.json) {
    (void)value_from<Record>(written, "the record");
    fmt::print("{}\n", files::ascii_text(written));
  }
  if (!record.is_ok()) throw std::runtime_error(fmt::format("out of memory: {}", record.failure->message));
  if (!flags.json) {
    print_summary(options, record);
    print_proofs(record.proofs, flags.verbose);
  }
  if (!verdict.empty()) {
    std::fflush(stdout);
    fmt::print(flags.json ? stderr : stdout, "{}\n", printable(verdict));
  }
  const std::string failure = why_no_number(record);
  if (!failure.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "ladder run: this time does not count: {}\n", printable(failure));
  }
  return failure.empty() && reproduced ? 0 : 1;
}

}  // namespace

void add_run(CommandLine& line) {
  Command& command = line.add(
      {.name = "run",
       .about =
           "Trains for a few steps with one recipe. Prints the time of a step, the memory, and how many settings of "
           "the recipe were seen to take effect. Writes nothing unless --out names a file for the record, which "
           "holds every step. With --from it repeats the run of a record and says whether the losses are the same. "
           "The exit status is 1 if a proof failed or the losses differ.",
       .examples = {{"ladder run --rung flash --out record.json", "This machine's ladder up to that rung."},
                    {"ladder run --model tiny -T 64 --recipe '{\"autocast\": \"bf16\"}'",
                     "A recipe of your own on the two-layer model."},
                    {"ladder run --from record.json", "The same run again. Are the losses the same?"}},
       .common = {"--verbose", "--rung", "--ladder", "--recipe", "--from", "--model", "--batch", "--context", "--steps",
                  "--out", "--json"}});
  auto& flags = command.runs<RunFlags>(run);
  command.heading("What to run");
  add_text(command, "--recipe", flags.recipe, "JSON file, or JSON: '{\"autocast\": \"bf16\"}'", "FILE|JSON");
  CLI::Option* const rung = add_rung_flag(command, flags.rung);
  add_text(command, "--ladder", flags.ladder, "where --rung is looked up (default: same as ablate)", "NAME|FILE")
      ->needs(rung);
  CLI::Option* const plan = add_text(command, "--plan", flags.plan, "a study's plan.json", "FILE");
  plan->needs(add_text(command, "--run", flags.run_id, "a run of --plan, by its id", "ID")->needs(plan));
  CLI::Option* const from =
      add_text(command, "--from", flags.from,
               "a record: run it again, on its data, and say whether the losses are the same", "RECORD");
  command.add_flag("--any-program", flags.any_program, "with --from: also if another program made the record")
      ->needs(from);
  add_wait_flag(command, flags.wait);
  command.add_flag("--report-steps-to-parent", flags.report_steps)->group("");
  command.add_option("--time-against", flags.time_against)->group("");
  command.add_option("--look", flags.look)->group("");
  command.add_option("--look-rounding", flags.look_rounding)->group("");
  add_workload_flags(command, flags.workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_data_flags(command, flags.workload);
  add_deterministic_flag(command, flags.workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags.record, "write the record here (default: nowhere)", "FILE",
             "--json prints the record");
  command.add_flag("-v,--verbose", flags.verbose, "list the proofs (default: only if one failed)");
  add_text(command, "--record", flags.record, "--out, as runners of every version call it", "FILE")->group("");
  command.add_flag("--json", flags.json, "print the record as JSON");
  command.exclude("--recipe", {"--rung", "--plan", "--from"});
  command.exclude("--rung", {"--plan", "--from"});
  // A plan names its data; a record does not.
  command.exclude("--plan", {"--from", "--data", "--vocab", "--repeat-to"});
  for (const char* const flag : {"--plan", "--from"}) {
    command.exclude(flag, size_flags);
    command.exclude(
        flag, {"--steps", "--warmup", "--seed", "--threads", "--deterministic", "--cold-cache", "--random-windows"});
  }
}

}  // namespace cli
