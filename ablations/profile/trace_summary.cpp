#include "ablations/profile/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace ablations {

using harness::Activity;
using harness::Json;
using harness::Trace;

namespace {

struct Sum {
  int64_t ns = 0, count = 0;
};

bool on_gpu(const Trace& trace) { return std::ranges::any_of(trace.activities, &Activity::on_device); }

// What a step is made of: the device's activities, or a CPU's operations. By their beginning.
std::vector<const Activity*> work_of(const Trace& trace) {
  const bool gpu = on_gpu(trace);
  std::vector<const Activity*> work;
  for (const Activity& activity : trace.activities) {
    if (gpu ? activity.on_device() : activity.kind == Activity::Kind::operation) work.push_back(&activity);
  }
  return work;
}

struct Gap {
  int64_t begin_ns, end_ns;
  const Activity* next;
};

// The times between the first and the last activity in which nothing runs, on whichever stream or thread.
std::vector<Gap> gaps_of(const std::vector<const Activity*>& work) {
  std::vector<Gap> gaps;
  int64_t busy_until = work.empty() ? 0 : work.front()->begin_ns;
  for (const Activity* activity : work) {
    if (activity->begin_ns > busy_until) gaps.push_back({busy_until, activity->begin_ns, activity});
    busy_until = std::max(busy_until, activity->end_ns);
  }
  return gaps;
}

double percent(double part, double whole) { return whole > 0 ? 100.0 * part / whole : 0.0; }

constexpr size_t most_names = 400;

}  // namespace

Json summarize(const Trace& trace, const TracedSteps& traced) {
  const auto steps = static_cast<double>(traced.steps);
  const auto ms = [&](int64_t ns) { return static_cast<double>(ns) / 1e6 / steps; };
  const auto times = [&](int64_t count) { return static_cast<double>(count) / steps; };
  const bool gpu = on_gpu(trace);
  const std::vector<const Activity*> work = work_of(trace);
  const std::vector<Gap> gaps = gaps_of(work);

  std::map<std::string, Sum> by_phase, by_name, copies;
  std::map<std::pair<std::string, std::string>, Sum> by_part;
  std::map<int64_t, Sum> by_layer;
  std::map<std::string, int64_t> bytes_of, kinds;
  std::set<uint64_t> graph_launches;  // by the call's correlation
  int64_t last_end = 0, busy_ns = 0, unlabelled_ns = 0, launches = 0;
  const auto add = [](Sum& sum, const Activity& activity) {
    sum.ns += activity.ns();
    ++sum.count;
  };
  for (const Activity* activity : work) {
    const auto& label = activity->label;
    add(by_phase[label.phase], *activity);
    add(by_part[{label.phase, label.part}], *activity);
    if (label.layer >= 0) add(by_layer[label.layer], *activity);
    add(by_name[activity->name], *activity);
    if (label.phase.empty()) unlabelled_ns += activity->ns();
    if (activity->kind == Activity::Kind::copy) {
      add(copies[activity->name], *activity);
      bytes_of[activity->name] += activity->bytes;
    }
    last_end = std::max(last_end, activity->end_ns);
    // Each kernel outside a graph was launched by itself; calls are not counted, because one may be made of others.
    if (activity->in_graph) {
      graph_launches.insert(activity->correlation);
    } else if (activity->kind == Activity::Kind::kernel) {
      ++launches;
    }
    ++kinds[activity->kind == Activity::Kind::kernel ? "kernels"
            : activity->kind == Activity::Kind::copy ? "copies"
            : activity->kind == Activity::Kind::set  ? "sets"
                                                     : "operations"];
  }
  int64_t idle_ns = 0, largest_gap_ns = 0;
  for (const Gap& gap : gaps) {
    idle_ns += gap.end_ns - gap.begin_ns;
    largest_gap_ns = std::max(largest_gap_ns, gap.end_ns - gap.begin_ns);
  }
  if (!work.empty()) busy_ns = last_end - work.front()->begin_ns - idle_ns;

  // A gap counts as waiting for the host as long as the call that ends it has not been made.
  std::unordered_map<uint64_t, int64_t> call_end;
  int64_t waiting_ns = 0;
  for (const Activity& activity : trace.activities) {
    if (activity.kind != Activity::Kind::call) continue;
    if (activity.correlation != 0) call_end[activity.correlation] = activity.end_ns;
  }
  for (const Gap& gap : gaps) {
    const auto call = call_end.find(gap.next->correlation);
    if (call == call_end.end() || gap.next->correlation == 0) continue;
    waiting_ns += std::clamp<int64_t>(call->second - gap.begin_ns, 0, gap.end_ns - gap.begin_ns);
  }
  const double traced_ms = ms(trace.end_ns - trace.begin_ns);
  const double busy_ms = ms(busy_ns);

  Json phases = Json::array(), parts = Json::array(), layers = Json::array(), names = Json::array(),
       transfers = Json::array();
  for (const auto& [phase, sum] : by_phase) {
    phases.push_back({{"phase", phase}, {"ms", ms(sum.ns)}, {"count", times(sum.count)}});
  }
  for (const auto& [key, sum] : by_part) {
    parts.push_back({{"phase", key.first}, {"part", key.second}, {"ms", ms(sum.ns)}, {"count", times(sum.count)}});
  }
  for (const auto& [layer, sum] : by_layer) {
    layers.push_back({{"layer", layer}, {"ms", ms(sum.ns)}, {"count", times(sum.count)}});
  }
  for (const auto& [name, sum] : by_name) {
    names.push_back({{"name", name}, {"ms", ms(sum.ns)}, {"count", times(sum.count)}});
  }
  for (const auto& [name, sum] : copies) {
    transfers.push_back({{"kind", name},
                         {"ms", ms(sum.ns)},
                         {"count", times(sum.count)},
                         {"bytes", static_cast<double>(bytes_of[name]) / steps}});
  }
  const auto longest_first = [](const Json& a, const Json& b) { return a.at("ms") > b.at("ms"); };
  for (Json* list : {&phases, &parts, &names}) std::stable_sort(list->begin(), list->end(), longest_first);
  if (names.size() > most_names) names.erase(names.begin() + most_names, names.end());

  return {{"steps", traced.steps},
          {"wall_ms", traced.wall_ms},
          {"traced_wall_ms", traced_ms},
          {"busy_ms", busy_ms},
          {"busy_percent", std::min(100.0, percent(busy_ms, traced.wall_ms))},
          {"idle_ms", std::max(0.0, traced.wall_ms - busy_ms)},
          {"gaps",
           {{"count", times(std::ssize(gaps))},
            {"ms", ms(idle_ns)},
            {"largest_ms", static_cast<double>(largest_gap_ns) / 1e6}}},
          {"launch_bound_percent", gpu ? Json(percent(ms(waiting_ns), traced_ms)) : Json()},
          {"operations", times(kinds["operations"])},
          {"kernels", times(kinds["kernels"])},
          {"copies", times(kinds["copies"])},
          {"sets", times(kinds["sets"])},
          {"kernel_launches", gpu ? Json(times(launches)) : Json()},
          {"graph_launches", gpu ? Json(times(std::ssize(graph_launches))) : Json()},
          {"unlabelled_ms", ms(unlabelled_ns)},
          {"by_phase", phases},
          {"by_part", parts},
          {"by_layer", layers},
          {"by_name", names},
          {"transfers", transfers}};
}

std::string chrome_trace(const Trace& trace) {
  const bool gpu = on_gpu(trace);
  constexpr int host = 1, device = 2;
  constexpr uint64_t phase_track = 0;
  std::set<std::pair<int, uint64_t>> tracks;
  std::string events;
  const auto add = [&](const Json& event) {
    events += (events.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const auto slice = [&](const std::string& name, const char* category, int process, uint64_t thread, int64_t begin_ns,
                         int64_t end_ns, const Json& arguments) {
    tracks.insert({process, thread});
    add({{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", process},
         {"tid", thread},
         {"ts", static_cast<double>(begin_ns - trace.begin_ns) / 1e3},
         {"dur", static_cast<double>(end_ns - begin_ns) / 1e3},
         {"args", arguments}});
  };
  constexpr std::array categories{"operation", "kernel", "copy", "set", "call"};
  for (const Activity& activity : trace.activities) {
    Json arguments{{"phase", activity.label.phase}, {"part", activity.label.part}};
    if (activity.label.layer >= 0) arguments["layer"] = activity.label.layer;
    if (activity.bytes > 0) arguments["bytes"] = activity.bytes;
    if (activity.correlation != 0) arguments["correlation"] = activity.correlation;
    slice(activity.name, categories[static_cast<size_t>(activity.kind)], activity.on_device() ? device : host,
          activity.lane + 1, activity.begin_ns, activity.end_ns, arguments);
  }
  // One slice for each stretch of the same phase.
  const std::vector<const Activity*> work = work_of(trace);
  for (size_t i = 0; i < work.size();) {
    size_t j = i;
    int64_t end = work[i]->end_ns;
    while (j < work.size() && work[j]->label.phase == work[i]->label.phase) end = std::max(end, work[j++]->end_ns);
    const int64_t stop = j < work.size() ? std::min(end, work[j]->begin_ns) : end;  // stretches do not overlap
    if (!work[i]->label.phase.empty() && stop > work[i]->begin_ns) {
      slice(work[i]->label.phase, "phase", gpu ? device : host, phase_track, work[i]->begin_ns, stop, Json::object());
    }
    i = j;
  }
  std::set<int> processes;
  for (const auto& [process, thread] : tracks) {
    if (processes.insert(process).second) {
      add({{"ph", "M"},
           {"name", "process_name"},
           {"pid", process},
           {"tid", 0},
           {"args", {{"name", process == host ? "host" : "device"}}}});
    }
    const std::string name = thread == phase_track ? "phases"
                             : process == host     ? fmt::format("thread {}", thread - 1)
                                                   : fmt::format("stream {}", thread - 1);
    add({{"ph", "M"}, {"name", "thread_name"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  }
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace ablations
