#include "ablations/plan/make_plan.h"

#include "files/nearest.h"
#include "harness/clock/clock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace ablations {

namespace {

// Half of a Williams design for n treatments: rows that zigzag k, k+1, k-1, k+2, ... Their mirror images are the other
// half. For even n the zigzag from k + n/2 mirrors the zigzag from k.
std::vector<std::vector<size_t>> williams_rows(size_t n) {
  std::vector<std::vector<size_t>> rows(n % 2 == 0 ? n / 2 : n);
  for (size_t first = 0; first < rows.size(); ++first) {
    for (size_t i = 0; i < n; ++i) rows[first].push_back((first + (i % 2 == 1 ? (i + 1) / 2 : n - i / 2)) % n);
  }
  return rows;
}

// std::shuffle is not the same everywhere; this is.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

}  // namespace

std::vector<std::string> mode_names() { return {Names<Mode>::list.begin(), Names<Mode>::list.end()}; }

Mode mode_of(const std::string& name, const std::string& where) {
  const auto& modes = Names<Mode>::list;
  const auto found = std::ranges::find(modes, name);
  if (found == modes.end()) {
    throw std::invalid_argument(files::or_nearest(
        fmt::format("{} must be one of {}, got {}", where, fmt::join(modes, ", "), name), name, mode_names()));
  }
  return static_cast<Mode>(found - modes.begin());
}

std::string name_of(const Rung& rung) {
  if (!rung.name.empty()) return rung.name;
  return rung.optimization.empty() ? "start" : rung.optimization;
}

std::string label_of(const Rung& rung) { return (rung.optimization.empty() ? "" : "+ ") + rung.title; }

size_t reference_rung(const std::vector<Rung>& rungs) {
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i].status == Rung::Status::planned) return i;
  }
  return 0;
}

int64_t most_timed_steps(int64_t timed_steps, double least_window_s) {
  return least_window_s > 0 ? harness::most_times_longer * timed_steps : timed_steps;
}

std::string study_id(const std::string& ladder, const std::string& created) {
  std::string stamp;
  for (const char c : created) {
    if (c != '-' && c != ':') stamp += c;
  }
  return ladder + "-" + stamp;
}

PlannedRun run_of(const std::vector<Rung>& rungs, size_t rung, int64_t repeat) {
  return {fmt::format("r{}-{:02}-{}", repeat + 1, rung, name_of(rungs[rung])), rung, repeat};
}

std::vector<PlannedRun> interleave(const std::vector<Rung>& rungs, int64_t repeats, uint64_t order_seed) {
  std::vector<size_t> measured;
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i].status == Rung::Status::planned) measured.push_back(i);
  }
  std::mt19937_64 random(order_seed);
  auto rows = williams_rows(measured.size());
  shuffle(measured, random);
  shuffle(rows, random);
  std::vector<PlannedRun> runs;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    if (measured.empty()) break;
    std::vector<size_t> row = rows[static_cast<size_t>(repeat / 2) % rows.size()];
    if (repeat % 2 == 1) std::ranges::reverse(row);
    for (const size_t treatment : row) runs.push_back(run_of(rungs, measured[treatment], repeat));
  }
  return runs;
}

Shape shape_of(const Plan& plan) { return plan.workload; }

Shape shape_of(const Plan& plan, size_t rung) { return plan.rungs[rung].shape.value_or(shape_of(plan)); }

std::optional<size_t> reference_of(const Plan& plan, size_t rung) {
  if (plan.rungs[rung].reference) return plan.rungs[rung].reference;
  if (plan.mode != Mode::cumulative || rung == plan.reference) return std::nullopt;
  return plan.reference;
}

bool uses_cuda(const Plan& plan) {
  return std::ranges::any_of(plan.rungs, [](const Rung& rung) {
    const bool is_on_gpu =
        rung.command ? !rung.command->trial.gpus.empty() : device_of(rung.recipe) == DeviceKind::cuda;
    return rung.status == Rung::Status::planned && is_on_gpu;
  });
}

std::string label_of(const Plan& plan, size_t rung, const std::string& title) {
  const bool adds = plan.mode == Mode::cumulative || plan.mode == Mode::one_at_a_time;
  const Rung& of = plan.rungs[rung];
  const bool is_more = of.command ? of.command->typed.starts_with('+') : rung > 0 && of.peer.empty();
  return (adds && is_more ? plan.quick ? "+ all up to " : "+ " : "") + title;  // a quick look has no rung between
}

void add_arms(std::vector<Rung>& arms, const Rung& rung, const std::string& base, const std::string& head) {
  const auto add = [&](const char* side, const std::string& program) {
    arms.push_back({.optimization = "",
                    .title = label_of(rung),
                    .applied = rung.applied,
                    .recipe = rung.recipe,
                    .name = fmt::format("{}-{}", side, name_of(rung)),
                    .program = program,
                    .summary = rung.summary,
                    .text = rung.text,
                    .losses = rung.losses});
  };
  if (!base.empty()) add("base", base);
  add("head", head);
  if (!base.empty()) arms.back().against = arms.size() - 2;
}

bool is_base(const std::vector<Rung>& arms, size_t arm) {
  return std::ranges::any_of(arms, [&](const Rung& other) { return other.against == arm; });
}

std::vector<PlannedRun> abba(const std::vector<Rung>& arms, int64_t repeats, bool blocked) {
  const size_t sides = arms.back().against ? 2 : 1, recipes = arms.size() / sides;
  std::vector<PlannedRun> runs;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < recipes; ++i) {
      const size_t recipe = (i + static_cast<size_t>(repeat)) % recipes;
      for (size_t place = 0; place < sides; ++place) {
        const size_t side = repeat % 2 == 1 ? sides - 1 - place : place;
        runs.push_back(run_of(arms, recipe * sides + side, repeat));
      }
    }
  }
  if (blocked) {
    std::stable_partition(runs.begin(), runs.end(), [&](const PlannedRun& run) { return is_base(arms, run.rung); });
  }
  return runs;
}

bool is_blocked(const Plan& plan) {
  return std::ranges::is_partitioned(plan.runs, [&](const PlannedRun& run) { return is_base(plan.rungs, run.rung); });
}

void make_quick(Plan& plan) {
  plan.quick = Quick{.repeats = std::max(plan.repeats, 2 * quick_repeats), .left_out = {}};
  const auto is_planned = [&](size_t i) { return plan.rungs[i].status == Rung::Status::planned; };
  size_t last = plan.rungs.size() - 1;
  while (last > plan.reference && !is_planned(last)) --last;
  for (size_t i = plan.reference + 1; i < last; ++i) {
    if (!is_planned(i)) continue;
    plan.rungs[i].status = Rung::Status::not_measured;
    plan.rungs[i].reason = "left out by --quick";
    plan.quick->left_out.push_back(i);
  }
  plan.repeats = quick_repeats;
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
}

Plan whole_plan(const Plan& quick) {
  Plan plan = quick;
  for (const size_t i : quick.quick->left_out) {
    plan.rungs[i].status = Rung::Status::planned;
    plan.rungs[i].reason.clear();
  }
  plan.repeats = quick.quick->repeats;
  plan.quick.reset();
  for (const PlannedRun& run : interleave(plan.rungs, plan.repeats, plan.order_seed)) {
    if (run.repeat >= quick.repeats) plan.runs.push_back(run);
  }
  return plan;
}

}  // namespace ablations
