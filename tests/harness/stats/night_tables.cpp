// Simulates nights of 100 experiments, each a change that gains nothing, something, or loses, and what rules make of
// them. A run's time is its program's, times the machine's pace, times noise.
#include "tests/harness/stats/night_tables.h"

#include "harness/stats/sequential.h"
#include "harness/stats/stats.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace harness;

constexpr int experiments = 100;
constexpr double error = 0.05;
constexpr double run_noise = 0.005;  // standard deviation of the logarithm of a run's time

struct Troubles {
  const char* name;
  double walk = 0;   // of the pace from run to run, in run_noise: runs that follow each other are alike
  double tails = 0;  // degrees of freedom of Student's t in place of the normal distribution; 0: normal
  double tails_scale = 1;
  double head_noise = 1;  // of head's runs, in run_noise
};

// What is tried: how much faster, and how often.
struct Change {
  double gain;
  double share;
};
const std::vector<Change> nothing{{0, 1}};
const std::vector<Change> a_few{{0.03, 0.05}, {0.01, 0.1}, {0, 0.4}, {-0.01, 0.3}, {-0.05, 0.15}};

class Machine {
 public:
  Machine(const Troubles& troubles, uint64_t seed) : troubles_(troubles), random_(seed) {}

  // The logarithm of a run's time.
  double run(double level, bool head) {
    pace_ += troubles_.walk * run_noise * normal_(random_);
    double noise = troubles_.tails > 0 ? tails_(random_) * troubles_.tails_scale : normal_(random_);
    if (head) noise *= troubles_.head_noise;
    return level + pace_ + run_noise * noise;
  }
  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  uint64_t number() { return random_(); }

 private:
  Troubles troubles_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> tails_{troubles_.tails > 0 ? troubles_.tails : 1};
  double pace_ = 0;
};

struct Kept {
  bool keeps = false;
  int64_t runs = 0;
  double claimed = 0;  // gain, where it is kept
};

// Judges a night's experiments one after the other.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual Kept judge(Machine& machine, double base, double head) = 0;
};

// Base's and head's runs in turn.
struct Runs {
  std::vector<double> base, head;
};
void add_pair(Machine& machine, double base, double head, Runs& runs) {
  const bool head_first = runs.base.size() % 2 == 1;
  for (const bool is_head : {head_first, !head_first}) {
    (is_head ? runs.head : runs.base).push_back(machine.run(is_head ? head : base, is_head));
  }
}
std::vector<double> gains_of(const Runs& runs) {
  std::vector<double> gains;
  for (size_t i = 0; i < runs.base.size(); ++i) gains.push_back(runs.base[i] - runs.head[i]);
  return gains;
}

class BetterThanTheBest : public Rule {
 public:
  Kept judge(Machine& machine, double base, double head) override {
    const bool is_first = best_ == std::numeric_limits<double>::infinity();
    if (is_first) best_ = machine.run(base, false);
    const double time = machine.run(head, true);
    const Kept kept{.keeps = time < best_, .runs = is_first ? 2 : 1, .claimed = best_ - time};
    best_ = std::min(best_, time);
    return kept;
  }

 private:
  double best_ = std::numeric_limits<double>::infinity();
};

// So many runs of both, and whether `keeps` of them.
template <class Test>
class Fixed : public Rule {
 public:
  explicit Fixed(int64_t pairs) : pairs_(pairs) {}
  Kept judge(Machine& machine, double base, double head) override {
    Runs runs;
    for (int64_t i = 0; i < pairs_; ++i) add_pair(machine, base, head, runs);
    return {.keeps = Test::keeps(runs, machine),
            .runs = 2 * pairs_,
            .claimed = moments(runs.base).mean - moments(runs.head).mean};
  }

 private:
  int64_t pairs_;
};

struct Bootstrap {  // 95 % of the means of 1,000 resamples
  static bool keeps(const Runs& runs, Machine& machine) {
    std::vector<double> means;
    for (int i = 0; i < 1000; ++i) {
      double sum = 0;
      for (size_t k = 0; k < runs.base.size(); ++k) {
        sum += runs.base[machine.number() % runs.base.size()] - runs.head[machine.number() % runs.head.size()];
      }
      means.push_back(sum);
    }
    std::ranges::nth_element(means, means.begin() + 25);
    return means[25] > 0;
  }
};

struct Welch {
  static bool keeps(const Runs& runs, Machine& /*unused*/) {
    const Moments base = moments(runs.base), head = moments(runs.head);
    const auto n = static_cast<double>(runs.base.size());
    const double b = base.deviation * base.deviation / n, h = head.deviation * head.deviation / n;
    const double freedom = (b + h) * (b + h) * (n - 1) / (b * b + h * h);
    const double t = (base.mean - head.mean) / std::sqrt(b + h);
    return t > boost::math::quantile(boost::math::students_t(freedom), 0.975);
  }
};

struct SignedRank {
  static bool keeps(const Runs& runs, Machine& /*unused*/) { return symmetric_center(gains_of(runs)).interval->lo > 0; }
};

// Which error each experiment may make.
enum class Control { spending, e_lond, lord, saffron };

class Sequential : public Rule {
 public:
  explicit Sequential(int64_t most_pairs, Control control = Control::e_lond)
      : most_pairs_(most_pairs), control_(control) {}

  Kept judge(Machine& machine, double base, double head) override {
    const ExperimentTerms terms{.level = level(), .most_pairs = most_pairs_};
    Runs runs;
    Judged judged;
    double most = 0;
    while (judged.decision == Decision::undecided && std::ssize(runs.base) < most_pairs_) {
      add_pair(machine, base, head, runs);
      if (runs.base.size() < 2) continue;
      judged = judge_experiment(gains_of(runs), terms, noise_);
      most = std::max(most, judged.log_evidence);
    }
    const std::vector<double> gains = gains_of(runs);
    noise_.add(gains);
    ++before_;
    candidates_.push_back(most >= std::log(2));
    const bool keeps = judged.decision == Decision::keep;
    if (keeps) kept_.push_back(before_);
    return {.keeps = keeps, .runs = 2 * std::ssize(gains), .claimed = moments(gains).mean};
  }

 private:
  // LORD++ and SAFFRON as in Ramdas, Zrnic, Wainwright and Jordan 2018, "SAFFRON", with p = 1 / the largest evidence.
  [[nodiscard]] double level() const {
    if (control_ == Control::spending) return level_of_next(error, before_, 0);
    if (control_ == Control::e_lond) return level_of_next(error, before_, kept_.size());
    const bool saffron = control_ == Control::saffron;
    const auto weight = [&](size_t from) {  // of the experiments since `from`, without those that were candidates
      size_t since = before_ - from;
      for (size_t i = from; saffron && i < before_; ++i) since -= candidates_[i] ? 1 : 0;
      return level_of_next(1, since, 0);
    };
    double level = error / 2 * weight(0);
    for (size_t i = 0; i < kept_.size(); ++i) level += (i == 0 ? error / 2 : error) * weight(kept_[i]);
    return saffron ? std::min(0.5, level / 2) : level;
  }

  int64_t most_pairs_;
  Control control_;
  PooledNoise noise_;
  size_t before_ = 0;
  std::vector<size_t> kept_;
  std::vector<bool> candidates_;
};

struct OfChange {
  double tried = 0, kept = 0, runs = 0;
};
struct Result {
  double nights = 0, with_false = 0, false_share = 0, false_keeps = 0;
  double runs = 0, claimed = 0, gained = 0;  // of all experiments; of the kept ones
  std::vector<OfChange> of;
};

template <class MakeRule>
Result some_nights(int first, int last, const Troubles& troubles, const std::vector<Change>& changes, MakeRule make) {
  Result result;
  result.nights = last - first;
  result.of.resize(changes.size());
  for (int night = first; night < last; ++night) {
    Machine machine(troubles, static_cast<uint64_t>(night) + 1);
    const auto rule = make();
    double base = 0;
    int kept = 0, kept_falsely = 0;
    for (int i = 0; i < experiments; ++i) {
      size_t which = 0;
      for (double left = machine.uniform(); which + 1 < changes.size() && left >= changes[which].share; ++which) {
        left -= changes[which].share;
      }
      const double gain = std::log(1 + changes[which].gain);
      const Kept judged = rule->judge(machine, base, base - gain);
      OfChange& of = result.of[which];
      of.tried += 1;
      of.runs += static_cast<double>(judged.runs);
      result.runs += static_cast<double>(judged.runs);
      if (!judged.keeps) continue;
      of.kept += 1;
      result.claimed += judged.claimed;
      result.gained += gain;
      base -= gain;
      ++kept;
      kept_falsely += gain <= 0 ? 1 : 0;
    }
    result.with_false += kept_falsely > 0 ? 1 : 0;
    result.false_keeps += kept_falsely;
    result.false_share += kept > 0 ? static_cast<double>(kept_falsely) / kept : 0;
  }
  return result;
}

// In parts, each on a thread.
template <class MakeRule>
Result nights(int count, const Troubles& troubles, const std::vector<Change>& changes, MakeRule make) {
  constexpr int parts = 8;
  std::vector<std::future<Result>> running;
  for (int part = 0; part < parts; ++part) {
    running.push_back(std::async(std::launch::async, [=, &troubles, &changes] {
      return some_nights(count * part / parts, count * (part + 1) / parts, troubles, changes, make);
    }));
  }
  Result all;
  all.of.resize(changes.size());
  for (std::future<Result>& one : running) {
    const Result part = one.get();
    for (double Result::*sum : {&Result::nights, &Result::with_false, &Result::false_share, &Result::false_keeps,
                                &Result::runs, &Result::claimed, &Result::gained}) {
      all.*sum += part.*sum;
    }
    for (size_t i = 0; i < all.of.size(); ++i) {
      all.of[i].tried += part.of[i].tried;
      all.of[i].kept += part.of[i].kept;
      all.of[i].runs += part.of[i].runs;
    }
  }
  return all;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string kept(const OfChange& of) { return percent(of.kept / of.tried); }
std::string runs(const OfChange& of) { return fmt::format("{:.1f}", of.runs / of.tried); }

template <class R, class... Arguments>
auto rule(Arguments... arguments) {
  return [=]() -> std::unique_ptr<Rule> { return std::make_unique<R>(arguments...); };
}

constexpr int whole = 10000, part = 1000;

template <class MakeRule>
std::string rule_row(const char* name, int count, MakeRule make) {
  const Result none = nights(count, {""}, nothing, make), some = nights(part, {""}, a_few, make);
  return fmt::format("| {} | {} | {:.1f} | {} | {} | {:.1f} | {:.2f} |\n", name, percent(none.with_false / none.nights),
                     none.false_keeps / none.nights, kept(some.of[1]), percent(some.false_share / some.nights),
                     some.runs / some.nights / experiments, some.claimed / some.gained);
}

}  // namespace

std::string night_tables() {
  std::string text = fmt::format(
      "## Nights of experiments\n\n"
      "`ladder gate --expect better --ledger`, in nights of {} experiments at {:g} % noise between runs. In a night "
      "with "
      "a few gains,\n"
      "one change of 20 gains 3 %, two gain 1 %, eight nothing, six lose 1 %, three lose 5 %. Each head that is kept "
      "is "
      "the next base.\n"
      "Nights without gains: {}, of other rules 1,000; nights with a few: 1,000.\n\n"
      "| rule | nights without gains: something is kept | kept in them | a gain of 1 % is kept | of what is kept, no "
      "gain "
      "| runs an experiment | claimed over true gain |\n"
      "|:--|--:|--:|--:|--:|--:|--:|\n",
      experiments, 100 * run_noise, "10,000");
  text += rule_row("**the ledger**, 16 pairs at most", whole, rule<Sequential>(16, Control::e_lond));
  text += rule_row("keep if better than the best", part, rule<BetterThanTheBest>());
  text += rule_row("3 + 3 runs, a bootstrap", part, rule<Fixed<Bootstrap>>(3));
  text += rule_row("3 + 3 runs, Welch's t at 5 %", part, rule<Fixed<Welch>>(3));
  text += rule_row("8 pairs, signed ranks at 5 %", part, rule<Fixed<SignedRank>>(8));

  text +=
      "\nThe ledger, by the machine's troubles. Runs are those of one experiment, both sides together.\n\n"
      "| machine | nights without gains: something is kept | of what is kept, no gain | 3 % is kept (runs) | 1 % | "
      "nothing "
      "| 1 % slower | 5 % slower |\n|:--|--:|--:|--:|--:|--:|--:|--:|\n";
  const std::vector<Troubles> machines{
      {.name = "0.5 % noise"},
      {.name = "runs depend on each other: the pace walks by 0.15 % a run", .walk = 0.3},
      {.name = "the pace walks by 0.5 % a run", .walk = 1},
      {.name = "0.5 % noise with heavy tails (Student's t, 3 degrees)", .tails = 3, .tails_scale = 1 / std::sqrt(3.0)},
      {.name = "heavier tails (2 degrees: no standard deviation), at the same scale", .tails = 2},
      {.name = "head is twice as noisy", .head_noise = 2}};
  for (const Troubles& machine : machines) {
    const auto ledger = rule<Sequential>(16, Control::e_lond);
    const Result none = nights(whole, machine, nothing, ledger), some = nights(part, machine, a_few, ledger);
    text += fmt::format("| {} | {} | {} |", machine.name, percent(none.with_false / none.nights),
                        percent(some.false_share / some.nights));
    for (const OfChange& of : some.of) text += fmt::format(" {} ({}) |", kept(of), runs(of));
    text += "\n";
  }

  text +=
      "\nBy the most pairs that an experiment may have (`--pairs`):\n\n"
      "| pairs at most | nights without gains: something is kept | 1 % is kept (runs) | runs an experiment |\n"
      "|--:|--:|--:|--:|\n";
  for (const int64_t pairs : {8, 12, 16, 24, 32}) {
    const auto ledger = rule<Sequential>(pairs, Control::e_lond);
    const Result none = nights(part, {""}, nothing, ledger), some = nights(part, {""}, a_few, ledger);
    text += fmt::format("| {} | {} | {} ({}) | {:.1f} |\n", pairs, percent(none.with_false / none.nights),
                        kept(some.of[1]), runs(some.of[1]), some.runs / some.nights / experiments);
  }

  text +=
      "\nBy how the error is shared among a night's experiments. e-LOND was chosen: it keeps as much as the others, "
      "and its "
      "error holds\nthough experiments depend on each other, as they do through the noise that they share.\n\n"
      "| control | nights without gains: something is kept | of what is kept, no gain | 1 % is kept (runs) |\n"
      "|:--|--:|--:|--:|\n";
  const std::vector<std::pair<const char*, Control>> controls{{"fixed weights (alpha spending)", Control::spending},
                                                              {"e-LOND", Control::e_lond},
                                                              {"LORD++", Control::lord},
                                                              {"SAFFRON", Control::saffron}};
  for (const auto& [name, control] : controls) {
    const auto ledger = rule<Sequential>(16, control);
    const Result none = nights(part, {""}, nothing, ledger), some = nights(part, {""}, a_few, ledger);
    text += fmt::format("| {} | {} | {} | {} ({}) |\n", name, percent(none.with_false / none.nights),
                        percent(some.false_share / some.nights), kept(some.of[1]), runs(some.of[1]));
  }
  const double level = error / experiments, power = 0.9, gain = std::log(1.01) / (std::sqrt(2) * run_noise);
  text += fmt::format(
      "\nNo test of pairs can do with much less: one that keeps {:.0f} % of gains of 1 % and makes an error of {:.2g} "
      "needs "
      "{:.1f} pairs in the\nmean (Wald 1945). What makes a night short is that the other experiments end after two to "
      "four.\n",
      100 * power, level,
      (power * std::log(power / level) + (1 - power) * std::log((1 - power) / (1 - level))) / (gain * gain / 2));
  return text;
}
