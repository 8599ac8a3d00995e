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
Small models, on a CPU: a transformer of two layers and a convolutional network, in PyTorch. "Beside bf16": the faulty side
also has bf16 autocast, whose rounding hides what is smaller. Each training has its own seed. TF32 is emulated, as a CPU has none.
No GPU has run this.

## How it is judged

A look runs a command once more, untimed. At the first three steps of each optimizer it takes of every parameter the gradient that
the optimizer uses, and what the step changes: the norm, and eight sums with random signs. The mean square of the differences of two
such sums estimates how far apart the vectors are.

What rounding may do is measured on the first command. It runs twice more. The results of its matrix products, convolutions,
attentions, norms and softmax are then off by up to a unit roundoff, at random
([Monte Carlo arithmetic](https://dl.acm.org/doi/10.1109/5992.852391)). The roundoff is that of the least exact type that either
command was seen to use: 2^-8 for bfloat16, 2^-11 for float16 and TF32, 2^-4 and 2^-3 for fp8
([Higham and Mary 2022](https://doi.org/10.1017/S0962492922000022), table 2.1), 2^-22 for float32, whose sums round at each term.
These runs have half the threads, too.

A parameter may be 8 times as far off as those runs are, or a quarter of all parameters 4 times; twice that at steps 2 and 3. A
gradient near zero is held to what rounding makes of it, not to its own size. Adam's first step is as large for such a gradient as for
any other, so signs that rounding turns are counted and allowed for.

Parameters are matched by name, without the prefixes of `torch.compile` and DDP, else by shape and order. The first that differs
is named, and the command is void: exit status 1. With `--losses free` it is only said.

## When nothing is said

- Without PyTorch, or where a CUDA graph replays the optimizer's step, only the losses are compared.
- The first command's own runs differ: seed it.
- Dropout may draw other numbers, or a gradient scaler skips a step. Agreement is still certified; a difference is not.
- A type is so coarse that it allows the whole gradient to be wrong, as fp8 may in deep models.
- A parameter has no counterpart.

What changes training after step 3, such as a schedule, is not seen. `tests/certificate/cases.py 50 5 | same_training_table` makes
this page again.

## GPT-2's rungs

`ladder ablate` looks at its own rungs, too, before their runs; `--no-look` leaves that out. Of 14 planted faults in a GPT-2 of two
layers it finds 14, and 13 beside bf16. The guard of 16 losses finds 2. Of 59 honest looks it accuses 0, 40 of them with bf16 and 20
seeds.

| planted fault | found | found beside bf16 | found by the losses |
|:--|--:|--:|--:|
| attention without its scale | yes | yes | no |
| attention without its mask | yes | yes | no |
| mask off by one | yes | yes | yes |
| no weight decay | yes | no | no |
| learning rate doubled | yes | yes | no |
| no clipping | yes | yes | no |
| gradient of half a batch | yes | yes | no |
| a norm without its weight | yes | yes | no |
| biases without gradients | yes | yes | no |
| a residual dropped | yes | yes | no |
| dropout left on | yes | yes | no |
| positions off by one | yes | yes | yes |
| GELU without its curve | yes | yes | no |
| untied head | yes | yes | no |

`build/release/tests/ablations_tests --gtest_filter='RungLook.*'` makes these figures again.

Gradients come from the optimizer's first moment, m = 0.9 m + 0.1 g. So it does not matter how they were made, or whether the update
is fused. The first three steps of a graph rung are no replays: a graph is captured at step 4, and the losses guard it.

Results of products, attention, norms and GELU are off in a look with rounding, and so are their gradients. fp8's roundoff is that of
products alone; the words say which products agree. A sum of n float32 terms is taken to be sqrt(n / 16) 2^-24 off,
also that of the norm by which gradients are clipped, which makes all of them off by one factor.

A padded vocabulary adds columns to the softmax, which have a known share of it: 0.09 % of 50304. A gradient may differ by that share
beside the rounding.

Peers in PyTorch and rungs of several ranks are not looked at, nor is a study with `--budget-s` or `--shard`.
)";

struct Result {
  Cases honest, faults, under_bf16;
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
      Cases& cases = group == "honest" ? result.honest : type == "bfloat16" ? result.under_bf16 : result.faults;
      count(cases.of(training.at("case")), same_training(first, again.at(type), sketch, type), losses,
            training.at("losses"));
    }
  }
  return result;
}

}  // namespace

int main() {
  Result result = judged();
  int found = 0, missed_by_losses = 0, found_beside = 0, false_alarms = 0, honest = 0;
  std::string faulty_rows, honest_rows;
  for (const auto& [name, tally] : result.faults.all()) {
    const Tally& beside = result.under_bf16.of(name);
    const bool is_found = tally.another == tally.trainings;
    found += is_found ? 1 : 0;
    found_beside += beside.trainings > 0 && beside.another == beside.trainings ? 1 : 0;
    missed_by_losses += is_found && 2 * tally.by_guard <= tally.trainings ? 1 : 0;
    faulty_rows += fmt::format("| {} | {} | {} | {} |\n", name, of_all(tally.another, tally),
                               of_all(beside.another, beside), of_all(tally.by_guard, tally));
    fmt::print(stderr, "{}: {}\n", name, tally.words);
  }
  for (const auto& [name, tally] : result.honest.all()) {
    false_alarms += tally.another;
    honest += tally.trainings;
    honest_rows += fmt::format("| {} | {} | {} | {} |\n", name, of_all(tally.another, tally),
                               of_all(tally.unknown, tally), of_all(tally.by_guard, tally));
    fmt::print(stderr, "{}: {}\n", name, tally.words);
  }
  const auto all = static_cast<int>(result.faults.all().size());
  fmt::print(
      "# Is it the same training?\n\nOf {} planted faults, `ladder measure` finds {} in every training, {} of which "
      "the losses "
      "of 16 steps miss in half or more.\nBeside bf16 it finds {}. Of {} honest trainings it accuses {}.\n",
      all, found, missed_by_losses, found_beside, honest, false_alarms);
  fmt::print("\n| planted fault | found | found beside bf16 | found by the losses |\n|:--|--:|--:|--:|\n{}",
             faulty_rows);
  fmt::print(
      "\n| honest flag | called another training | not compared | called other losses |\n|:--|--:|--:|--:|\n{}{}",
      honest_rows, method);
  const bool has_all = all >= 30;
  return 30 * found >= 28 * all && (!has_all || missed_by_losses >= 10) && 50 * false_alarms <= honest ? 0 : 1;
}
