#include "ablations/profile/chrome_trace.h"

#include "ablations/profile/trace_summary.h"
#include "files/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace ablations {

using files::Json;
using harness::Activity;
using harness::Trace;

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
