#include "ablations/profile/trace_summary.h"

#include "study/trace/divided_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace ablations {

using harness::Activity;
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

// The gaps' parts that lie in this step.
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

// A step goes on until the next one's first activity, or until its own last one if that is later. A copy for the next
// step may run beside it.
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

constexpr size_t most_names = 400;

const Step& of_median_length(const std::vector<Step>& steps) {
  std::vector<const Step*> by_length;
  by_length.reserve(steps.size());
  for (const Step& step : steps) by_length.push_back(&step);
  std::ranges::stable_sort(by_length, {}, &Step::ns);
  return *by_length[(by_length.size() - 1) / 2];
}

// How long the device waited for the host in these gaps: in each until the call that ends the gap has been made.
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

// Rows from a list of sums: the step's, with the least and the most that any step took for the same. `name` puts into a
// row what it is of.
template <class Row>
std::vector<Row> rows(auto list, const Step& step, const std::vector<Step>& steps, const auto& name) {
  std::vector<Row> result;
  for (const auto& [key, sum] : step.*list) {
    int64_t least = sum.ns, most = sum.ns;
    for (const Step& other : steps) {
      const auto found = (other.*list).find(key);
      const int64_t ns = found == (other.*list).end() ? 0 : found->second.ns;
      least = std::min(least, ns);
      most = std::max(most, ns);
    }
    Row row;
    row.ms = ms(sum.ns);
    row.min_ms = ms(least);
    row.max_ms = ms(most);
    row.count = sum.count;
    name(row, key, sum);
    result.push_back(std::move(row));
  }
  return result;
}

template <class Row>
std::vector<Row> longest_first(std::vector<Row> list) {
  std::ranges::stable_sort(list, std::greater(), &Row::ms);
  return list;
}

// The step's times by phase, part, layer and name, and its copies.
void add_rows(TraceSummary& summary, const Step& step, const std::vector<Step>& steps) {
  summary.by_phase = longest_first(rows<PhaseTime>(
      &Step::by_phase, step, steps, [](PhaseTime& row, const std::string& phase, const Sum&) { row.phase = phase; }));
  summary.by_part =
      longest_first(rows<PartTime>(&Step::by_part, step, steps, [](PartTime& row, const Part& part, const Sum&) {
        std::tie(row.phase, row.part) = part;
      }));
  summary.by_layer = rows<LayerTime>(&Step::by_layer, step, steps,
                                     [](LayerTime& row, int64_t layer, const Sum&) { row.layer = layer; });
  summary.by_name = longest_first(rows<NameTime>(
      &Step::by_name, step, steps, [](NameTime& row, const std::string& name, const Sum&) { row.name = name; }));
  if (summary.by_name.size() > most_names) summary.by_name.resize(most_names);
  summary.transfers =
      rows<TransferTime>(&Step::by_copy, step, steps, [](TransferTime& row, const std::string& kind, const Sum& sum) {
        row.kind = kind;
        row.bytes = sum.bytes;
      });
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

TraceSummary summarize(const Trace& trace, double wall_ms) {
  if (trace.steps < 1) throw std::invalid_argument("a trace of no steps");
  const std::vector<const Activity*> work = work_of(trace);
  const std::vector<Gap> gaps = gaps_of(trace, work);
  const std::vector<Step> steps = steps_of(trace, work, gaps);
  const Step& step = of_median_length(steps);
  const auto [least_busy, most_busy] = std::ranges::minmax_element(steps, {}, &Step::busy_ns);
  const auto count_of = [&](Activity::Kind kind) { return step.kinds.contains(kind) ? step.kinds.at(kind) : 0; };
  TraceSummary summary{.steps = trace.steps,
                       .wall_ms = wall_ms,
                       .traced_wall_ms = ms(step.ns()),
                       .busy_ms = ms(step.busy_ns),
                       .least_busy_ms = ms(least_busy->busy_ns),
                       .most_busy_ms = ms(most_busy->busy_ns),
                       .operations = count_of(Activity::Kind::operation),
                       .kernels = count_of(Activity::Kind::kernel),
                       .copies = count_of(Activity::Kind::copy),
                       .sets = count_of(Activity::Kind::set),
                       .unlabelled_ms = ms(step.unlabelled_ns)};
  const std::vector<Gap> own_gaps = gaps_in(step, gaps);
  summary.gaps.count = static_cast<int64_t>(own_gaps.size());
  int64_t idle_ns = 0;
  for (const Gap& gap : own_gaps) {
    idle_ns += gap.ns();
    summary.gaps.largest_ms = std::max(summary.gaps.largest_ms, ms(gap.ns()));
  }
  summary.gaps.ms = ms(idle_ns);
  if (on_gpu(trace)) {
    summary.launch_bound_percent =
        step.ns() > 0 ? 100.0 * static_cast<double>(waiting_ns(trace, own_gaps)) / static_cast<double>(step.ns()) : 0.0;
    summary.kernel_launches = step.launches;
    summary.graph_launches = static_cast<int64_t>(step.graph_launches.size());
  }
  add_rows(summary, step, steps);
  const study::Busy busy = study::busy_of(summary);
  summary.busy_percent = busy.percent;
  summary.idle_ms = busy.idle_ms;
  return summary;
}

}  // namespace ablations
