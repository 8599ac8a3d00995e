// Prints docs/same-training.md: which planted faults the certificate and the guard of the losses find, and how often
// honest flags are accused. Reads the trainings of tests/certificate/cases.py on standard input. Ends with 1 if a goal
// is missed: 28 faults found, ten of which the guard misses, and two false alarms in a hundred.
#include "files/json_file.h"
#include "study/guard.h"
#include "study/same_training.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace study;
using files::Json;

struct Tally {
  int trainings = 0, another = 0, unknown = 0, by_guard = 0;
  std::string words;  // of the first that is another training
};

// In the order in which they first come.
class Cases {
 public:
  Tally& of(const std::string& name) {
    const auto [place, is_new] = places_.try_emplace(name, all_.size());
    if (is_new) all_.emplace_back(name, Tally{});
    return all_[place->second].second;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, Tally>>& all() const { return all_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::pair<std::string, Tally>> all_;
};

RunsByRepeat one_run(const Json& losses) {
  RunData run;
  for (const Json& loss : losses) {
    run.losses.push_back(loss.is_number() ? loss.get<double>() : NAN);
    run.loss_steps.push_back(std::ssize(run.loss_steps) + 1);
  }
  return {{0, run}};
}

void count(Tally& counts, const SameTraining& verdict, const Json& losses, const Json& its) {
  ++counts.trainings;
  if (verdict.verdict == Sameness::another && counts.another++ == 0) counts.words = verdict.words;
  if (counts.words.empty()) counts.words = verdict.words;
  counts.unknown += verdict.verdict == Sameness::unknown ? 1 : 0;
  const auto guard = guard_command(one_run(its), one_run(losses)).verdict;
  counts.by_guard += guard && !guard->passed ? 1 : 0;
}

std::string of_all(int some, const Tally& counts) {
  return counts.trainings == 0 ? "-" : fmt::format("{} of {}", some, counts.trainings);
}

constexpr const char* method = R"(
Small models, on a CPU: a transformer, a convolutional network, and for the held-out faults a recurrent one, in PyTorch. "Beside
bf16": the faulty side also has bf16 autocast, whose rounding hides what is smaller. TF32 is emulated. No GPU has run this.
These counts are of an Intel Xeon with AMX. An AMD EPYC with AVX-512, before settings were compared, differed in four rows: skipped
decay, betas, epsilon and dampening, fewer of which it found beside bf16.

## How it is judged

A look runs a command once more, untimed. At the first three steps it takes of every parameter the gradient that the optimizer uses,
and what the step changes: the norm, and eight sums with random signs. The differences of two such sums estimate how far apart the
vectors are.

What rounding may do is measured. The first command runs twice more. The results of its products, convolutions, attentions, norms
and softmax are then off by up to a unit roundoff, at random ([Monte Carlo arithmetic](https://dl.acm.org/doi/10.1109/5992.852391)),
and it has half the threads. The roundoff is that of the least exact type which either command was seen to use: 2^-8 for bfloat16,
2^-11 for float16 and TF32, 2^-4 and 2^-3 for fp8 ([Higham and Mary 2022](https://doi.org/10.1017/S0962492922000022), table 2.1),
2^-22 for float32, whose sums round at each term.

A parameter may be 8 times as far off as those runs are, or a quarter of all parameters 4 times; twice that at steps 2 and 3. Adam's
first step is as large for a gradient near zero as for any other, so signs that rounding turns are counted and allowed for.

What the optimizers are set to for each parameter is compared, too, where both are of one class: rate, weight decay, betas, epsilon,
momentum. Beside bf16 a skipped decay and other betas are found by this alone, another epsilon in most trainings. A setting that
differs between the first command's own runs, as a rate that time decides, counts for nothing.

Parameters are matched by name, else by shape and order. The first that differs is named, and the command is void: exit status 1.
With `--losses free` it is only said.

## When nothing is said

- Without PyTorch, or where a CUDA graph replays the optimizer's step, only the losses are compared.
- The first command's own runs differ: seed it.
- Dropout may draw other numbers, or a gradient scaler skips a step. Agreement is still certified; a difference is not.
- A type is so coarse that it allows the whole gradient to be wrong, or a parameter has no counterpart.

What changes training after step 3, such as a schedule, is not seen. `tests/certificate/cases.py 50 5 | same_training_table` makes
this page again.
)";

struct Result {
  Cases honest;
  std::map<std::string, std::pair<Cases, Cases>> faults;  // by group: as they are, and beside bf16
};

// Of the trainings on standard input: a reference, its runs with rounding, and what is judged by them.
Result judged() {
  Result result;
  Json losses;
  Sketch first;
  std::map<std::string, std::vector<Sketch>> again;
  for (std::string line; std::getline(std::cin, line);) {
    const Json training = files::parse_json(line, "a training");
    const std::string group = training.at("group"), type = training.value("type", "");
    Sketch sketch = sketch_of(training.at("sketch"));
    if (group == "reference") {
      first = std::move(sketch);
      losses = training.at("losses");
      again.clear();
    } else if (group == "again") {
      again[type].push_back(std::move(sketch));
    } else {
      std::pair<Cases, Cases>& planted = result.faults[group];
      Cases& cases = group == "honest" ? result.honest : type == "bfloat16" ? planted.second : planted.first;
      count(cases.of(training.at("case")), same_training(first, again.at(type), sketch, type), losses,
            training.at("losses"));
    }
  }
  return result;
}

// Rows of a table, and how many are found.
struct Planted {
  std::string rows;
  int all = 0, found = 0, beside = 0, missed_by_losses = 0;
};

Planted planted_rows(std::pair<Cases, Cases>& planted) {
  Planted of;
  for (const auto& [name, tally] : planted.first.all()) {
    const Tally& beside = planted.second.of(name);
    const bool is_found = tally.another == tally.trainings;
    ++of.all;
    of.found += is_found ? 1 : 0;
    of.beside += beside.trainings > 0 && beside.another == beside.trainings ? 1 : 0;
    of.missed_by_losses += is_found && 2 * tally.by_guard <= tally.trainings ? 1 : 0;
    of.rows += fmt::format("| {} | {} | {} | {} |\n", name, of_all(tally.another, tally),
                           of_all(beside.another, beside), of_all(tally.by_guard, tally));
    fmt::print(stderr, "{}: {}\n", name, tally.words);
  }
  return of;
}

}  // namespace

int main() {
  Result result = judged();
  const Planted planted = planted_rows(result.faults["fault"]), held_out = planted_rows(result.faults["held out"]);
  int false_alarms = 0, honest = 0;
  std::string honest_rows;
  for (const auto& [name, tally] : result.honest.all()) {
    false_alarms += tally.another;
    honest += tally.trainings;
    honest_rows += fmt::format("| {} | {} | {} | {} |\n", name, of_all(tally.another, tally),
                               of_all(tally.unknown, tally), of_all(tally.by_guard, tally));
    fmt::print(stderr, "{}: {}\n", name, tally.words);
  }
  constexpr const char* head = "| found | found beside bf16 | found by the losses |\n|:--|--:|--:|--:|\n";
  fmt::print(
      "# Is it the same training?\n\nOf {} planted faults, `ladder measure` finds {} in every training, {} of which "
      "the "
      "losses of 16 steps miss in half or more.\nBeside bf16 it finds {}. Of {} honest trainings it accuses {}.\n"
      "Of {} more faults, planted after all limits were chosen, it finds {}, and beside bf16 {}.\n",
      planted.all, planted.found, planted.missed_by_losses, planted.beside, honest, false_alarms, held_out.all,
      held_out.found, held_out.beside);
  fmt::print("\n| planted fault {}{}", head, planted.rows);
  fmt::print("\n| fault that was held out {}{}", head, held_out.rows);
  fmt::print(
      "\n| honest flag | called another training | not compared | called other losses |\n|:--|--:|--:|--:|\n{}{}",
      honest_rows, method);
  const bool has_all = planted.all >= 30;
  return 30 * planted.found >= 28 * planted.all && (!has_all || planted.missed_by_losses >= 10) &&
                 50 * false_alarms <= honest
             ? 0
             : 1;
}
