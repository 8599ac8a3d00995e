#include "ablations/report/how_to_read.h"

#include "ablations/text/figures.h"

#include <fmt/format.h>

#include <algorithm>

namespace ablations {

namespace {

const char* what_a_rung_is(Mode mode) {
  if (mode == Mode::cumulative) {
    return "is the recipe after all edits up to and including this one. \u201cvs previous\u201d compares it with the "
           "rung before it, where that has a number, \u201cso far\u201d with the reference rung. Above 1\u00d7 is "
           "faster.";
  }
  if (mode == Mode::sweep) {
    return "is a recipe at one size. Rungs of unequal size are never compared with each other, nor are their losses. "
           "Above 1\u00d7 is faster than the first rung of the same size.";
  }
  return "is the reference with some of the ladder's optimizations on. Above 1\u00d7 is faster.";
}

const std::vector<Term>& of_explanations() {
  static const std::vector<Term> terms{
      {"A \u201cwhy\u201d",
       "comes from one traced process of each of the two rungs: of two equal ones about one name in six looks changed. "
       "Where the study shows no clear change of the step, it tells only what ran."},
      {"Went and came",
       "name what only the rung before, or only this rung, ran: how often in a step, and for how long."},
      {"Shrank and grew", "name what took less or more time than before, and by how much."},
      {"Work", "is the time of a step in which at least one operation ran."},
      {"A clear change",
       "of a time is reported only if the two rungs' sets of traced step times do not overlap. A trace's numbers are "
       "those of its step of median length."}};
  return terms;
}

}  // namespace

std::vector<Term> how_to_read(const Study& study) {
  const StudyPlan& plan = study.plan;
  const Statistics& statistics = study.statistics;
  std::vector<Term> terms{
      {"A rung", what_a_rung_is(study.mode)},
      {"A run",
       fmt::format("is one fresh process that trains one recipe: {}, then {}{} timed. The run is the unit of all "
                   "statistics, never the step.",
                   number_of(plan.warmup_steps, "warm-up step"), plan.least_window_s > 0 ? "at least " : "",
                   plan.timed_steps)},
      {"The number", fmt::format("of a rung is: {}.", statistics.center)},
      {"Tokens/s", "are a step's tokens divided by that time: those of the median step, not of a whole run."},
      {"A ratio",
       "is the centre of the ratios within each repeat, of the two rungs' runs in it. It is not the quotient of the "
       "two medians: noise makes the two differ."},
      {"The interval",
       fmt::format("({:.4g} % confidence) is: {}. Where it includes 1\u00d7 the rung made no clear difference. Of "
                   "comparisons with nothing to find, about {:.3g} in 100 show a clear difference by chance. A single "
                   "run has no interval.",
                   100 * statistics.confidence, statistics.interval, 100 * (1 - statistics.confidence))},
      {"The guard",
       "compares a rung's losses with the reference rung's. A single step may be far off, since training amplifies "
       "rounding. Where the median over the first 16 steps is further off than the number types explain, the rung "
       "computes something else, and its speedup is void."}};
  if (statistics.attribution) {
    terms.push_back({"The worth", fmt::format("of an optimization is computed from: {} (L. S. Shapley, 1953).",
                                              *statistics.attribution)});
  }
  terms.push_back({"A proof",
                   "is what a run observed that shows the optimization really took effect; a flag that was set is no "
                   "proof. A rung whose proof fails is unproven and has no number."});
  terms.push_back({"Disturbed runs",
                   "are those during which the GPU was throttled, something else used the GPU or the processor, or "
                   "memory ran short. Such a run is made once again, and the second record counts, disturbed or not. "
                   "Where most runs are disturbed, none is made again, and nothing is claimed."});
  const auto is_explained = [](const StudyRung& rung) { return rung.explanation.has_value(); };
  if (std::ranges::any_of(study.rungs, is_explained)) {
    terms.insert(terms.end(), of_explanations().begin(), of_explanations().end());
  }
  return terms;
}

}  // namespace ablations
