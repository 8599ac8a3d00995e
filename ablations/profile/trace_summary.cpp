#include "ablations/profile/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>

namespace ablations {

using harness::Activity;
using harness::Json;
using harness::Trace;

namespace {

struct Sum {
  int64_t ns = 0, count = 0, bytes = 0;
};

using Part = std::pair<std::string, std::string>;  // of a phase

// What the code of one step asked for, and when that ran.
struct Step {
  std::map<std::string, Sum> by_phase, by_name, by_copy;
  std::map<Part, Sum> by_part;
  std::map<int64_t, Sum> by_layer;
  std::map<Activity::Kind, int64_t> kinds;
  std::set<uint64_t> graph_launches;  // by the call's correlation
  int64_t unlabelled_ns = 0, launches = 0;
  int64_t begin_ns = 0, end_ns = 0, busy_ns = 0;

  [[nodiscard]] int64_t ns() const { return end_ns - begin_ns; }
};

// A time in which nothing runs, on whichever stream or thread.
struct Gap {
  int64_t begin_ns, end_ns;
  const Activity* next;  // null: the trace ends

  [[nodiscard]] int64_t ns() const { return end_ns - begin_ns; }
};

std::vector<Gap> gaps_of(const Trace& trace, const std::vector<const Activity*>& work) {
  std::vector<Gap> gaps;
  int64_t busy_until = trace.begin_ns;
  for (const Activity* activity : work) {
    if (activity->begin_ns > busy_until) gaps.push_back({busy_until, activity->begin_ns, activity});
    busy_until = std::max(busy_until, activity->end_ns);
  }
  if (trace.end_ns > busy_until) gaps.push_back({busy_until, trace.end_ns, nullptr});
  return gaps;
}

// The gaps' parts in this step.
std::vector<Gap> gaps_in(const Step& step, const std::vector<Gap>& gaps) {
  std::vector<Gap> result;
  for (const Gap& gap : gaps) {
    const int64_t begin = std::max(gap.begin_ns, step.begin_ns), end = std::min(gap.end_ns, step.end_ns);
    if (end > begin) result.push_back({begin, end, gap.next});
  }
  return result;
}

void add(Step& step, const Activity& activity) {
  const auto to = [&](Sum& sum) {
    sum.ns += activity.ns();
    sum.bytes += activity.bytes;
    ++sum.count;
  };
  const harness::Label& label = activity.label;
  to(step.by_phase[label.phase]);
  to(step.by_part[{label.phase, label.part}]);
  if (label.layer >= 0) to(step.by_layer[label.layer]);
  to(step.by_name[activity.name]);
  if (activity.kind == Activity::Kind::copy) to(step.by_copy[activity.name]);
  if (label.phase.empty()) step.unlabelled_ns += activity.ns();
  // Each kernel outside a graph was launched by itself; calls are not counted, because one may be made of others.
  if (activity.in_graph) {
    step.graph_launches.insert(activity.correlation);
  } else if (activity.kind == Activity::Kind::kernel) {
    ++step.launches;
  }
  ++step.kinds[activity.kind];
}

// A step goes on until the next one's first activity, or until its own last one where that is later: a copy for the
// next step may run beside it.
std::vector<Step> steps_of(const Trace& trace, const std::vector<const Activity*>& work, const std::vector<Gap>& gaps) {
  std::vector<Step> steps(static_cast<size_t>(trace.steps));
  std::vector<int64_t> last_end(steps.size(), trace.begin_ns);
  for (const Activity* activity : work) {
    const auto index = static_cast<size_t>(activity->step);
    Step& step = steps.at(index);
    if (step.by_phase.empty()) step.begin_ns = activity->begin_ns;
    last_end[index] = std::max(last_end[index], activity->end_ns);
    add(step, *activity);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t free_from = i == 0 ? trace.begin_ns : last_end[i - 1];
    steps[i].begin_ns = std::max(steps[i].begin_ns, free_from);
    steps[i].end_ns = trace.end_ns;
    if (i > 0) steps[i - 1].end_ns = steps[i].begin_ns;
  }
  for (Step& step : steps) {
    step.busy_ns = step.ns();
    for (const Gap& gap : gaps_in(step, gaps)) step.busy_ns -= gap.ns();
  }
  return steps;
}

double percent(double part, double whole) { return whole > 0 ? 100.0 * part / whole : 0.0; }

constexpr size_t most_names = 400;

const Step& of_median_length(const std::vector<Step>& steps) {
  std::vector<const Step*> by_length;
  by_length.reserve(steps.size());
  for (const Step& step : steps) by_length.push_back(&step);
  std::ranges::stable_sort(by_length, {}, &Step::ns);
  return *by_length[(by_length.size() - 1) / 2];
}

// How long the device waited for the host in these gaps: in each until the call that ends it has been made.
int64_t waiting_ns(const Trace& trace, const std::vector<Gap>& gaps) {
  std::unordered_map<uint64_t, int64_t> call_end;
  for (const Activity& activity : trace.activities) {
    if (activity.kind == Activity::Kind::call && activity.correlation != 0) {
      call_end[activity.correlation] = activity.end_ns;
    }
  }
  int64_t waiting = 0;
  for (const Gap& gap : gaps) {
    const auto call = gap.next == nullptr ? call_end.end() : call_end.find(gap.next->correlation);
    if (call != call_end.end()) waiting += std::clamp<int64_t>(call->second - gap.begin_ns, 0, gap.ns());
  }
  return waiting;
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Of a list of sums, the step's, with the least and the most that any of the steps took for the same. `named` puts into
// a row what it is of.
Json rows(auto list, const Step& step, const std::vector<Step>& steps, const auto& named) {
  Json result = Json::array();
  for (const auto& [key, sum] : step.*list) {
    int64_t least = sum.ns, most = sum.ns;
    for (const Step& other : steps) {
      const auto found = (other.*list).find(key);
      const int64_t ns = found == (other.*list).end() ? 0 : found->second.ns;
      least = std::min(least, ns);
      most = std::max(most, ns);
    }
    Json row{{"ms", ms(sum.ns)}, {"min_ms", ms(least)}, {"max_ms", ms(most)}, {"count", sum.count}};
    named(row, key, sum);
    result.push_back(row);
  }
  return result;
}

// The step's times by phase, part, layer and name, and its copies.
Json lists_of(const Step& step, const std::vector<Step>& steps) {
  const auto list = [&](auto member, const auto& named) { return rows(member, step, steps, named); };
  Json lists{
      {"by_phase",
       list(&Step::by_phase, [](Json& row, const std::string& phase, const Sum&) { row["phase"] = phase; })},
      {"by_part", list(&Step::by_part,
                       [](Json& row, const Part& part, const Sum&) {
                         row["phase"] = part.first;
                         row["part"] = part.second;
                       })},
      {"by_layer", list(&Step::by_layer, [](Json& row, int64_t layer, const Sum&) { row["layer"] = layer; })},
      {"by_name", list(&Step::by_name, [](Json& row, const std::string& name, const Sum&) { row["name"] = name; })},
      {"transfers", list(&Step::by_copy, [](Json& row, const std::string& kind, const Sum& sum) {
         row["kind"] = kind;
         row["bytes"] = sum.bytes;
       })}};
  const auto longest_first = [](const Json& a, const Json& b) { return a.at("ms") > b.at("ms"); };
  for (const char* name : {"by_phase", "by_part", "by_name"}) {
    std::stable_sort(lists[name].begin(), lists[name].end(), longest_first);
  }
  Json& names = lists["by_name"];
  if (names.size() > most_names) names.erase(names.begin() + most_names, names.end());
  return lists;
}

}  // namespace

bool on_gpu(const Trace& trace) { return std::ranges::any_of(trace.activities, &Activity::on_device); }

std::vector<const Activity*> work_of(const Trace& trace) {
  const bool gpu = on_gpu(trace);
  std::vector<const Activity*> work;
  for (const Activity& activity : trace.activities) {
    if (gpu ? activity.on_device() : activity.kind == Activity::Kind::operation) work.push_back(&activity);
  }
  return work;
}

Json summarize(const Trace& trace, double wall_ms) {
  if (trace.steps < 1) throw std::invalid_argument("a trace of no steps");
  const bool gpu = on_gpu(trace);
  const std::vector<const Activity*> work = work_of(trace);
  const std::vector<Gap> gaps = gaps_of(trace, work);
  const std::vector<Step> steps = steps_of(trace, work, gaps);
  const Step& step = of_median_length(steps);
  const std::vector<Gap> own_gaps = gaps_in(step, gaps);
  int64_t idle_ns = 0, largest_gap_ns = 0;
  for (const Gap& gap : own_gaps) {
    idle_ns += gap.ns();
    largest_gap_ns = std::max(largest_gap_ns, gap.ns());
  }
  const auto [least_busy, most_busy] = std::ranges::minmax_element(steps, {}, &Step::busy_ns);
  const auto count_of = [&](Activity::Kind kind) { return step.kinds.contains(kind) ? step.kinds.at(kind) : 0; };
  Json summary{{"steps", trace.steps},
               {"wall_ms", wall_ms},
               {"traced_wall_ms", ms(step.ns())},
               {"busy_ms", ms(step.busy_ns)},
               {"least_busy_ms", ms(least_busy->busy_ns)},
               {"most_busy_ms", ms(most_busy->busy_ns)},
               {"gaps", {{"count", own_gaps.size()}, {"ms", ms(idle_ns)}, {"largest_ms", ms(largest_gap_ns)}}},
               {"launch_bound_percent", gpu ? Json(percent(ms(waiting_ns(trace, own_gaps)), ms(step.ns()))) : Json()},
               {"operations", count_of(Activity::Kind::operation)},
               {"kernels", count_of(Activity::Kind::kernel)},
               {"copies", count_of(Activity::Kind::copy)},
               {"sets", count_of(Activity::Kind::set)},
               {"kernel_launches", gpu ? Json(step.launches) : Json()},
               {"graph_launches", gpu ? Json(step.graph_launches.size()) : Json()},
               {"unlabelled_ms", ms(step.unlabelled_ns)}};
  summary.update(lists_of(step, steps));
  const Busy busy = busy_of(summary);
  summary.update({{"busy_percent", busy.percent}, {"idle_ms", busy.idle_ms}});
  return summary;
}

Busy busy_of(const Json& summary) {
  const double busy_ms = summary.at("busy_ms");
  if (summary.at("kernel_launches").is_null()) {
    return {.percent = percent(busy_ms, summary.at("traced_wall_ms")), .idle_ms = summary.at("gaps").at("ms")};
  }
  if (!slower_when_traced(summary).empty()) return {};
  const double wall_ms = summary.at("wall_ms");
  return {.percent = std::min(100.0, percent(busy_ms, wall_ms)), .idle_ms = std::max(0.0, wall_ms - busy_ms)};
}

Json divided(const Json& summary, double clean_ms) {
  const Json idle = busy_of(summary).idle_ms;
  double traced_ms = idle.is_null() ? 0.0 : idle.get<double>();
  for (const Json& row : summary.at("by_phase")) traced_ms += row.at("ms").get<double>();
  const double scale = traced_ms > 0 ? clean_ms / traced_ms : 0.0;
  Json phases = Json::array();
  for (const Json& row : summary.at("by_phase")) {
    phases.push_back({{"phase", row.at("phase")}, {"ms", scale * row.at("ms").get<double>()}});
  }
  return {{"ms", clean_ms},
          {"traced_ms", traced_ms},
          {"idle_ms", idle.is_null() ? Json() : Json(scale * idle.get<double>())},
          {"by_phase", phases}};
}

std::string slower_when_traced(const Json& summary) {
  const double wall_ms = summary.at("wall_ms"), busy_ms = summary.at("busy_ms");
  if (summary.at("kernel_launches").is_null() || busy_ms <= 1.02 * wall_ms) return "";
  return fmt::format(
      "the GPU was slower while traced: {:.4g} ms of work, a step without tracing takes {:.4g} ms; how "
      "busy it was is not known",
      busy_ms, wall_ms);
}

}  // namespace ablations
