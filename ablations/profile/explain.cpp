#include "ablations/profile/explain.h"

#include "ablations/profile/kernel_name.h"
#include "ablations/profile/trace_summary.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ablations {

using files::shortened;
using harness::Json;

namespace {

// Below this share of the step a change is not worth a word.
constexpr double worth_telling = 0.005;

struct Entry {
  double ms = 0;
  int64_t count = 0;
  double least_ms = 0, most_ms = 0;  // of the traced steps
};

Entry entry_of(const Json& row) {
  return {.ms = row.at("ms"), .count = row.at("count"), .least_ms = row.at("min_ms"), .most_ms = row.at("max_ms")};
}

// Not told apart where a step of the one took as long as a step of the other. Two times five steps of the same length
// do not overlap in 1 of 126 cases (2 of the ways to choose 5 of 10), of two processes in more (docs/explaining.md).
bool overlap(const Entry& a, const Entry& b) { return a.least_ms <= b.most_ms && b.least_ms <= a.most_ms; }

std::map<std::string, Entry> phases_of(const Json& summary) {
  std::map<std::string, Entry> result;
  for (const Json& phase : summary.at("by_phase")) result[phase.at("phase")] = entry_of(phase);
  return result;
}

// One entry for all instances of a template that a reader calls by one name.
std::map<std::string, Entry> names_of(const Json& summary) {
  std::map<std::string, Entry> result;
  for (const Json& name : summary.at("by_name")) {
    Entry& entry = result[kernel_label(name.at("name"))];
    const Entry one = entry_of(name);
    entry.ms += one.ms;
    entry.count += one.count;
    entry.least_ms += one.least_ms;
    entry.most_ms += one.most_ms;
  }
  return result;
}

Json change_of(const std::string& name, const Entry& a, const Entry& b) {
  const char* change = a.count == 0    ? "came"
                       : b.count == 0  ? "went"
                       : overlap(a, b) ? "unclear"
                       : b.ms < a.ms   ? "shrank"
                                       : "grew";
  return {{"name", name},     {"change", change},        {"before_ms", a.ms},
          {"after_ms", b.ms}, {"before_count", a.count}, {"after_count", b.count}};
}

template <class Visitor>
void visit_pairs(const std::map<std::string, Entry>& before, const std::map<std::string, Entry>& after,
                 Visitor&& visit) {
  for (const auto& [name, a] : before) {
    const auto b = after.find(name);
    visit(name, a, b == after.end() ? Entry{} : b->second);
  }
  for (const auto& [name, b] : after) {
    if (!before.contains(name)) visit(name, Entry{}, b);
  }
}

std::string arrow(const std::string& before, const std::string& after) { return before + " -> " + after; }

// A count: "1,412", "3".
std::string whole(double value) { return value < 99.5 ? fmt::format("{:.0f}", value) : number(std::round(value)); }

Entry work_of(const Json& summary) {
  return {.ms = summary.at("busy_ms"), .least_ms = summary.at("least_busy_ms"), .most_ms = summary.at("most_busy_ms")};
}

// NaN: not known.
double idle_percent(const Json& summary) {
  const Json busy = busy_of(summary).percent;
  return busy.is_null() ? std::nan("") : 100 - busy.get<double>();
}

// "softmax_warp_forward (12, 9.31 ms)", the longest first, at most three.
std::string listed(const Json& names, const std::string& change, double least_ms) {
  std::vector<std::string> items;
  size_t left_out = 0;
  for (const Json& name : names) {
    if (name.at("change") != change) continue;
    const bool went = change == "went" || change == "shrank";
    const double ms = went ? name.at("before_ms").get<double>() - name.at("after_ms").get<double>()
                           : name.at("after_ms").get<double>() - name.at("before_ms").get<double>();
    if (ms < least_ms || items.size() == 3) {
      ++left_out;
      continue;
    }
    items.push_back(fmt::format("{} ({}x, {} ms)", name.at("name").get<std::string>(),
                                whole(name.at(went ? "before_count" : "after_count")), number(ms)));
  }
  if (items.empty()) return "";
  return fmt::format("{} {}{}", change, fmt::join(items, ", "),
                     left_out > 0 ? fmt::format(" and {} smaller", left_out) : "");
}

// The work and the phases that took clearly more or less time, by at least this.
std::vector<std::string> slower_and_faster(const Json& explanation, const Json& a, const Json& b, double least_ms) {
  std::vector<std::string> clauses, phases;
  const Entry work_a = work_of(a), work_b = work_of(b);
  if (std::abs(work_a.ms - work_b.ms) < least_ms || overlap(work_a, work_b)) {
    clauses.push_back(fmt::format("no clear change of the work ({} ms)", number(work_b.ms)));
  } else {
    clauses.push_back(fmt::format("work {} ms", arrow(number(work_a.ms), number(work_b.ms))));
  }
  for (const Json& phase : explanation.at("phases")) {
    const double difference = phase.at("after_ms").get<double>() - phase.at("before_ms").get<double>();
    if (phase.at("phase") == "" || !phase.at("clear") || std::abs(difference) < least_ms) continue;
    phases.push_back(fmt::format("{} {}{} ms", phase.at("phase").get<std::string>(), difference < 0 ? "-" : "+",
                                 number(std::abs(difference))));
  }
  if (!phases.empty()) clauses.push_back(fmt::format("{}", fmt::join(phases, ", ")));
  return clauses;
}

// Where the step did not clearly change, only what ran is told: what took more or less time would seem to be a cause.
std::string paragraph(const Json& explanation, const Json& a, const Json& b, bool step_changed) {
  const bool gpu = !a.at("kernel_launches").is_null();
  const double step = a.at("wall_ms"), least = worth_telling * step;
  std::vector<std::string> clauses{
      step_changed ? fmt::format("step {} ms", arrow(number(step), number(b.at("wall_ms").get<double>())))
                   : "no clear change of the step"};
  if (gpu) {
    const auto launches = [](const Json& summary) {
      return summary.at("kernel_launches").get<double>() + summary.at("graph_launches").get<double>();
    };
    if (std::abs(launches(a) - launches(b)) >= 1) {
      clauses.push_back(fmt::format("{} launches became {}", whole(launches(a)), whole(launches(b))));
    }
    if (step_changed && std::abs(idle_percent(a) - idle_percent(b)) >= 1) {
      clauses.push_back(fmt::format("idle {:.0f} % -> {:.0f} %", idle_percent(a), idle_percent(b)));
    }
  }
  const char* what = gpu ? "kernels" : "operations";
  if (std::abs(a.at(what).get<double>() - b.at(what).get<double>()) >= 1) {
    clauses.push_back(fmt::format("{} {} became {}", whole(a.at(what)), what, whole(b.at(what))));
  }
  std::vector<const char*> changes{"went", "came"};
  if (step_changed) changes.insert(changes.end(), {"shrank", "grew"});
  for (const char* change : changes) {
    const std::string text = listed(explanation.at("names"), change, least);
    if (!text.empty()) clauses.push_back(text);
  }
  if (step_changed) std::ranges::move(slower_and_faster(explanation, a, b, least), std::back_inserter(clauses));
  return fmt::format("{}: {}.", explanation.at("after").get<std::string>(), fmt::join(clauses, "; "));
}

// Empty where neither trace was disturbed.
std::string disturbances(const Json& before, const Json& after) {
  std::string text;
  for (const Json* trace : {&before, &after}) {
    for (const Json& flag : trace->value("flags", Json::array())) {
      text += fmt::format(" The trace of \"{}\" was disturbed, which may be what is seen: {}.",
                          trace->at("title").get<std::string>(), flag.get<std::string>());
    }
  }
  return text;
}

}  // namespace

Json explain(const Json& before, const Json& after, bool step_changed) {
  for (const char* field : {"device", "workload"}) {
    if (before.at(field) != after.at(field)) {
      throw std::invalid_argument(fmt::format("traces of different {}: {} and {}", field,
                                              shortened(before.at(field).dump(), 400),
                                              shortened(after.at(field).dump(), 400)));
    }
  }
  const Json& a = before.at("summary");
  const Json& b = after.at("summary");
  Json totals = Json::array(), names = Json::array(), phases = Json::array();
  const auto total = [&](const char* what, const Json& x, const Json& y, const char* unit) {
    if (x.is_null() || y.is_null() || (x == 0 && y == 0)) return;
    totals.push_back({{"what", what}, {"before", x}, {"after", y}, {"unit", unit}});
  };
  total("step", a.at("wall_ms"), b.at("wall_ms"), "ms");
  total("work", a.at("busy_ms"), b.at("busy_ms"), "ms");
  total("busy", busy_of(a).percent, busy_of(b).percent, "%");
  for (const auto& [field, what, unit] :
       {std::array{"launch_bound_percent", "waiting for the host", "%"}, std::array{"operations", "operations", ""},
        std::array{"kernels", "kernels", ""}, std::array{"kernel_launches", "kernel launches", ""},
        std::array{"graph_launches", "graph launches", ""}, std::array{"copies", "copies", ""}}) {
    total(what, a.at(field), b.at(field), unit);
  }
  const auto copied = [](const Json& summary) {
    double bytes = 0;
    for (const Json& kind : summary.at("transfers")) bytes += kind.value("bytes", 0.0);
    return Json(bytes);
  };
  total("copied and set", copied(a), copied(b), "bytes");
  total("peak memory", before.at("memory").at("peak_bytes"), after.at("memory").at("peak_bytes"), "bytes");
  visit_pairs(phases_of(a), phases_of(b), [&](const std::string& phase, const Entry& x, const Entry& y) {
    phases.push_back({{"phase", phase}, {"before_ms", x.ms}, {"after_ms", y.ms}, {"clear", !overlap(x, y)}});
  });
  visit_pairs(names_of(a), names_of(b),
              [&](const std::string& name, const Entry& x, const Entry& y) { names.push_back(change_of(name, x, y)); });
  std::stable_sort(names.begin(), names.end(), [](const Json& x, const Json& y) {
    const auto change = [](const Json& n) {
      return std::abs(n.at("after_ms").get<double>() - n.at("before_ms").get<double>());
    };
    return change(x) > change(y);
  });
  Json explanation{{"before", before.at("title")},
                   {"after", after.at("title")},
                   {"totals", totals},
                   {"phases", phases},
                   {"names", names}};
  explanation["words"] = paragraph(explanation, a, b, step_changed) + disturbances(before, after);
  return explanation;
}

std::string explanation_table(const Json& as_written) {
  const Json explanation = with_printable_texts(as_written);
  std::string text = fmt::format("\n{}\n", wrapped(explanation.at("words")));
  text += fmt::format("{:<30} {:>15} {:>15}\n{}\n", "in a step", shortened(explanation.at("before"), 15),
                      shortened(explanation.at("after"), 15), std::string(columns, '-'));
  for (const Json& total : explanation.at("totals")) {
    const bool bytes = total.at("unit") == "bytes";
    const double scale = bytes ? gib(1) : 1.0;
    const std::string unit = bytes ? "GiB" : total.at("unit").get<std::string>();
    const auto value = [&](const char* of) {
      const double plain = total.at(of).get<double>();
      return unit.empty() ? whole(plain) : number(plain * scale);
    };
    text += fmt::format("{:<30} {:>15} {:>15} {}\n", total.at("what").get<std::string>(), value("before"),
                        value("after"), unit);
  }
  text += "\n" + fmt::format("{:<45} {:>7} {:>12} {:>12}\n{}\n", "what changed most", "", "before ms", "after ms",
                             std::string(columns, '-'));
  size_t shown = 0;
  for (const Json& name : explanation.at("names")) {
    if (++shown > 15) break;
    text += fmt::format("{:<45} {:>7} {:>12} {:>12}\n", shortened(name.at("name").get<std::string>(), 45),
                        name.at("change").get<std::string>(),
                        name.at("before_count") == 0 ? "-" : number(name.at("before_ms")),
                        name.at("after_count") == 0 ? "-" : number(name.at("after_ms")));
  }
  return text;
}

std::string trace_table(const Json& as_written) {
  const Json trace = with_printable_texts(as_written);
  const Json& summary = trace.at("summary");
  const bool gpu = !summary.at("kernel_launches").is_null();
  const double step = summary.at("wall_ms");
  std::string text = "\n" + wrapped(fmt::format("{}, {}", trace.at("title").get<std::string>(),
                                                trace.at("device").at("name").get<std::string>()));
  for (const Json& flag : trace.value("flags", Json::array())) {
    text += wrapped(fmt::format("disturbed: {}", flag.get<std::string>()));
  }
  const Json busy = busy_of(summary).percent;
  const std::string work = fmt::format("{} ms of work{}", number(summary.at("busy_ms")),
                                       busy.is_null() ? "" : ", " + number(busy) + " % of it");
  const std::string traced = fmt::format("traced, a step takes {} ms", number(summary.at("traced_wall_ms")));
  text += wrapped(fmt::format("step {} ms; {}; {}", number(step), gpu ? work : traced, gpu ? traced : work));
  if (gpu) {
    text +=
        wrapped(fmt::format("{} kernels, {} copies, {} sets; {} kernel launches, {} graph launches; waiting for the "
                            "host {} % of the traced time",
                            whole(summary.at("kernels")), whole(summary.at("copies")), whole(summary.at("sets")),
                            whole(summary.at("kernel_launches")), whole(summary.at("graph_launches")),
                            number(summary.at("launch_bound_percent"))));
  } else {
    text += fmt::format("{} operations\n", whole(summary.at("operations")));
  }
  using Rows = std::vector<std::pair<std::string, Entry>>;
  // What was traced, of the step that was traced: on a CPU tracing makes both longer.
  const double all = gpu ? step : summary.at("traced_wall_ms").get<double>();
  const auto table = [&](const char* title, const Rows& rows, size_t most) {
    text += "\n" + fmt::format("{:<50} {:>8} {:>10} {:>9}\n{}\n", title, "count", "ms", "%", std::string(columns, '-'));
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
      const auto& [name, entry] = rows[i];
      text += fmt::format("{:<50} {:>8} {:>10} {:>9.1f}\n", shortened(name, 50),
                          whole(static_cast<double>(entry.count)), number(entry.ms), 100 * entry.ms / all);
    }
  };
  const auto or_none = [](const std::string& name) { return name.empty() ? std::string("(no label)") : name; };
  Rows phases, parts;
  for (const Json& row : summary.at("by_phase")) phases.push_back({or_none(row.at("phase")), entry_of(row)});
  for (const Json& row : summary.at("by_part")) {
    const std::string phase = or_none(row.at("phase")), part = row.at("part");
    parts.push_back({part.empty() ? phase : fmt::format("{} / {}", phase, part), entry_of(row)});
  }
  const std::map<std::string, Entry> by_name = names_of(summary);
  Rows names(by_name.begin(), by_name.end());
  std::ranges::stable_sort(names, std::greater(), [](const auto& row) { return row.second.ms; });
  table("phase", phases, 10);
  table("part", parts, 20);
  table(gpu ? "kernel" : "operation", names, 15);
  return text;
}

}  // namespace ablations
