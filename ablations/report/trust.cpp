#include "ablations/report/trust.h"

#include "ablations/gate/baseline.h"
#include "ablations/report/sentences.h"
#include "ablations/text/figures.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace ablations {

namespace {

using Runs = std::vector<ReportedRun>;

// The runs that a study's numbers may come from: of all rungs, some of which have no number, and of PyTorch.
struct GoodRuns {
  std::vector<const ReportedRun*> on_gpu, others;
  std::vector<const ReportedRun*> disturbed;
  std::vector<const ReportedRun*> made_again;  // disturbed the first time, but not the second, which counts
  int64_t disturbed_twice = 0;
  int64_t unwatched_on_gpu = 0, unwatched_others = 0;  // which may have been disturbed for all that is known
};

bool was_disturbed_first(const ReportedRun& run) { return run.first_flags && !run.first_flags->empty(); }

bool is_watched(const ReportedRun& run) {
  return run.conditions && run.conditions->throttle && run.conditions->other_processes;
}

GoodRuns good_runs(const Study& study, const Runs& runs) {
  GoodRuns good;
  for (const ReportedRun& run : runs) {
    if (run.status != RunStatus::ok) continue;
    if (is_of_gpu(study.rungs.at(run.rung).recipe)) {
      good.on_gpu.push_back(&run);
      if (!is_watched(run)) ++good.unwatched_on_gpu;
    } else {
      good.others.push_back(&run);
      if (!run.processor_lost) ++good.unwatched_others;
    }
    if (!run.flags.empty()) {
      good.disturbed.push_back(&run);
      if (was_disturbed_first(run)) ++good.disturbed_twice;
    } else if (was_disturbed_first(run)) {
      good.made_again.push_back(&run);
    }
  }
  return good;
}

std::string seen_of_undisturbed(const GoodRuns& good) {
  std::vector<std::string> said;
  if (!good.on_gpu.empty()) said.emplace_back("no throttling, no other work on the device");
  if (!good.others.empty()) {
    double lost = 0;
    for (const ReportedRun* run : good.others) lost = std::max(lost, run->processor_lost.value_or(0));
    said.push_back(fmt::format("something else had the processor for at most {} of a run", percent(lost)));
  }
  return fmt::format("{}", fmt::join(said, "; "));
}

Card disturbance(const Study& study, const Runs& runs) {
  const GoodRuns good = good_runs(study, runs);
  const std::string what = "Disturbed runs";
  const std::string again = number_of(std::ssize(good.made_again), "run") + " made again";
  const std::string first = good.made_again.empty()
                                ? ""
                                : fmt::format("{}: {}", good.made_again[0]->id,
                                              files::shortened(good.made_again[0]->first_flags->front(), 80));
  std::vector<std::string> said;
  if (!good.disturbed.empty()) {
    said.emplace_back("throttled, shared, paused, busy with something else, or short of memory");
    if (good.disturbed_twice > 0) {
      said.push_back(number_of(good.disturbed_twice, "run") + " made again and disturbed once more");
    }
  }
  if (good.disturbed.empty() && good.unwatched_on_gpu > 0) {
    said.push_back(number_of(good.unwatched_on_gpu, "run") + " on a GPU that nobody watched");
  }
  if (good.disturbed.empty() && good.unwatched_others > 0) {
    said.push_back(number_of(good.unwatched_others, "run") + " where the system does not count who had the processor");
  }
  if (said.empty()) {
    if (!good.made_again.empty()) return {what, again, Mood::plain, "disturbed the first time: " + first};
    if (study.plan.runs_ok == 0) return {what, "no run", Mood::plain, ""};
    return {what, "none seen", Mood::good, seen_of_undisturbed(good)};
  }
  if (!good.made_again.empty()) said.push_back(fmt::format("{} ({})", again, first));
  const std::string value =
      good.disturbed.empty() ? "not known" : fmt::format("{} of {}", good.disturbed.size(), study.plan.runs_ok);
  return {what, value, disturbance_of_most(study) ? Mood::bad : Mood::warn, fmt::format("{}", fmt::join(said, "; "))};
}

Card completeness(const Study& study) {
  const StudyPlan& plan = study.plan;
  const bool is_complete = plan.runs_ok == static_cast<int64_t>(plan.runs_planned);
  return {"Runs", fmt::format("{} of {}", plan.runs_ok, plan.runs_planned), is_complete ? Mood::good : Mood::warn,
          fmt::format("fresh processes, {} of each rung, in interleaved order", number_of(plan.repeats, "repeat"))};
}

Card proofs(const Study& study) {
  int64_t passed = 0, all = 0;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer) continue;
    all += std::ssize(rung.proofs);
    passed += std::ranges::count(rung.proofs, true, &Proof::passed);
  }
  if (all == 0) return {"Proofs", "none", Mood::bad, "no run was observed"};
  return {"Proofs", fmt::format("{} of {} passed", passed, all), passed == all ? Mood::good : Mood::bad,
          "what the runs were seen to do, not what was switched on"};
}

// None: nothing was compared with the reference.
std::optional<Card> guards(const Study& study) {
  struct Counted {
    int64_t following = 0, all = 0;
  };
  Counted own, peers;
  const RungGuard* worst = nullptr;
  const auto distance = [](const RungGuard& guard) {
    return judged_deviation(guard).value_or(std::numeric_limits<double>::infinity());
  };
  for (const StudyRung& rung : study.rungs) {
    if (!rung.guard) continue;
    Counted& of = rung.peer ? peers : own;
    ++of.all;
    of.following += rung.guard->passed ? 1 : 0;
    if (worst == nullptr || distance(*rung.guard) > distance(*worst)) worst = &*rung.guard;
  }
  if (worst == nullptr) return std::nullopt;
  std::vector<std::string> said;
  if (own.all > 0) said.push_back(fmt::format("{} of {}", own.following, number_of(own.all, "rung")));
  if (peers.all > 0) said.push_back(fmt::format("{} of {}", peers.following, number_of(peers.all, "PyTorch mode")));
  const int64_t following = own.following + peers.following;
  return Card{"Guard",
              fmt::format("{} {} the reference", fmt::join(said, " and "), following == 1 ? "follows" : "follow"),
              following == own.all + peers.all ? Mood::good : Mood::bad, "the furthest: " + deviation_words(*worst)};
}

// The floor that is for the number of pairs nearest to the study's.
Card noise_floor(const Study& study, const std::vector<Noise>& noise) {
  const int64_t repeats = study.plan.repeats;
  const Noise* nearest = nullptr;
  const auto distance = [&](const Noise& one) { return std::abs(floor_at(one, repeats).pairs - repeats); };
  for (const Noise& one : noise) {
    if (one.floors.empty()) continue;
    if (nearest == nullptr || distance(one) <= distance(*nearest)) nearest = &one;
  }
  if (nearest == nullptr) {
    return {"Noise floor", "not measured", Mood::plain,
            "`ladder gate --calibrate --baselines DIR --save` measures what difference this machine shows in 95 % of "
            "studies; `--with` brings it here"};
  }
  const Floor& floor = floor_at(*nearest, repeats);
  const std::string own = floor.pairs == repeats ? "" : fmt::format(" (this study has {})", repeats);
  return {"Noise floor", percent(floor.floor), Mood::plain,
          fmt::format("a difference that {} of runs{} find here in 95 % of studies; smaller ones are found less often; "
                      "measured on {}",
                      number_of(floor.pairs, "pair"), own, files::shortened(nearest->label, 60))};
}

Card environment(const Study& study) {
  const Environment& known = study.environment;
  const auto or_unknown = [](const std::optional<std::string>& text) {
    return text && !text->empty() ? *text : std::string("unknown");
  };
  std::vector<std::string> said;
  if (study.device.kind == model::Device::cuda) {
    said.push_back("driver " + or_unknown(known.driver.value_or(std::nullopt)));
    said.push_back("CUDA " + or_unknown(known.cuda.value_or(std::nullopt)));
  }
  const bool has_changes = known.git_dirty == true;
  said.push_back(fmt::format("commit {}{}", or_unknown(known.git_commit).substr(0, 10),
                             has_changes ? ", with uncommitted changes" : ""));
  return {"Environment", "torch " + or_unknown(known.torch), has_changes ? Mood::warn : Mood::plain,
          fmt::format("{}", fmt::join(said, ", "))};
}

}  // namespace

std::vector<Card> trust_cards(const Study& study, const Runs& runs, const std::vector<Noise>& noise) {
  std::vector<Card> cards{completeness(study), proofs(study)};
  if (const std::optional<Card> guard = guards(study)) cards.push_back(*guard);
  cards.push_back(noise_floor(study, noise));
  cards.insert(disturbance_of_most(study) ? cards.begin() : cards.end(), disturbance(study, runs));
  cards.push_back(environment(study));
  return cards;
}

std::string disturbance_words(const Study& study, const Runs& runs) {
  const GoodRuns good = good_runs(study, runs);
  if (const auto disturbed = std::ssize(good.disturbed); disturbed > 0) {
    return fmt::format("{} of {} {} disturbed", disturbed, number_of(study.plan.runs_ok, "run"),
                       disturbed == 1 ? "was" : "were");
  }
  if (good.unwatched_on_gpu + good.unwatched_others > 0) return "";
  if (good.made_again.empty()) return "no run was disturbed";
  return fmt::format("no run counted is disturbed ({} made again)", good.made_again.size());
}

}  // namespace ablations
