#include "study/trace/explain.h"

#include "files/printable.h"
#include "study/trace/divided_step.h"
#include "study/trace/kernel_name.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace study {

using files::Json;
using files::printable;
using files::shortened;

namespace {

// Below this share of the step a change is not worth a word.
constexpr double worth_telling = 0.005;

// Whether a step of one took as long as a step of the other. Two times five steps of the same length do not overlap in
// 1 of 126 cases (2 of the ways to choose 5 of 10). With two processes it is more (docs/explaining.md).
bool overlap(const StepTime& a, const StepTime& b) { return a.min_ms <= b.max_ms && b.min_ms <= a.max_ms; }

std::map<std::string, StepTime> by_phase(const TraceSummary& summary) {
  std::map<std::string, StepTime> result;
  for (const PhaseTime& row : summary.by_phase) result[row.phase] = row;
  return result;
}

// One entry for all instances of a template that a reader calls by one name.
std::map<std::string, StepTime> by_label(const TraceSummary& summary) {
  std::map<std::string, StepTime> result;
  for (const NameTime& row : summary.by_name) {
    StepTime& time = result[kernel_label(row.name)];
    time.ms += row.ms;
    time.count += row.count;
    time.min_ms += row.min_ms;
    time.max_ms += row.max_ms;
  }
  return result;
}

Change change_of(const StepTime& before, const StepTime& after) {
  if (before.count == 0) return Change::came;
  if (after.count == 0) return Change::went;
  if (overlap(before, after)) return Change::unclear;
  return after.ms < before.ms ? Change::shrank : Change::grew;
}

void visit_pairs(const std::map<std::string, StepTime>& before, const std::map<std::string, StepTime>& after,
                 const auto& visit) {
  for (const auto& [name, a] : before) {
    const auto b = after.find(name);
    visit(name, a, b == after.end() ? StepTime{} : b->second);
  }
  for (const auto& [name, b] : after) {
    if (!before.contains(name)) visit(name, StepTime{}, b);
  }
}

// A count: "1,412", "3".
std::string whole(auto count) {
  const auto value = static_cast<double>(count);
  return value < 99.5 ? fmt::format("{:.0f}", value) : number(std::round(value));
}

// NaN: not known.
double idle_percent(const TraceSummary& summary) { return 100 - busy_of(summary).percent.value_or(std::nan("")); }

// "softmax_warp_forward (12x, 9.31 ms)", the longest first, at most three.
std::string listed(const std::vector<Explanation::Name>& names, Change change, double least_ms) {
  std::vector<std::string> items;
  size_t left_out = 0;
  for (const Explanation::Name& name : names) {
    if (name.change != change) continue;
    const bool less = change == Change::went || change == Change::shrank;
    const double ms = less ? name.before_ms - name.after_ms : name.after_ms - name.before_ms;
    if (ms < least_ms || items.size() == 3) {
      ++left_out;
      continue;
    }
    items.push_back(fmt::format("{} ({}x, {} ms)", shortened(name.name, 40),
                                whole(less ? name.before_count : name.after_count), number(ms)));
  }
  if (items.empty()) return "";
  return fmt::format("{}: {}{}", results::name_of(change), fmt::join(items, ", "),
                     left_out > 0 ? fmt::format(" and {} smaller", left_out) : "");
}

std::string with_sign(double ms) { return fmt::format("{}{} ms", ms < 0 ? "\u2212" : "+", number(std::abs(ms))); }

// "matrix products −212 ms": the kinds of operations that took clearly more or less time, the largest change first.
std::vector<std::string> changed_kinds(const Explanation& explanation, double least_ms) {
  std::map<std::string, double> by_kind;
  for (const Explanation::Name& name : explanation.names) {
    if (name.change != Change::unclear) by_kind[operation_kind(name.name)] += name.after_ms - name.before_ms;
  }
  std::vector<std::pair<std::string, double>> kinds(by_kind.begin(), by_kind.end());
  std::erase_if(kinds, [&](const auto& kind) { return std::abs(kind.second) < least_ms; });
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& kind) { return std::abs(kind.second); });
  if (kinds.size() > 4) kinds.resize(4);
  std::vector<std::string> words;
  for (const auto& [kind, ms] : kinds) words.push_back(fmt::format("{} {}", kind, with_sign(ms)));
  return words;
}

double launches(const TraceSummary& summary) {
  return static_cast<double>(summary.kernel_launches.value_or(0)) +
         static_cast<double>(summary.graph_launches.value_or(0));
}

// If the step did not clearly change, only counts are reported: a changed time would look like a cause.
std::string sentence(const Explanation& explanation, const TraceSummary& a, const TraceSummary& b, bool step_changed) {
  const double least = worth_telling * a.wall_ms;
  std::vector<std::string> clauses;
  if (!step_changed) clauses.emplace_back("no clear change of the step");
  if (step_changed) {
    const std::vector<std::string> kinds = changed_kinds(explanation, least);
    if (!kinds.empty()) clauses.push_back(fmt::format("{}", fmt::join(kinds, ", ")));
    std::vector<std::string> phases;
    for (const Explanation::Phase& phase : explanation.phases) {
      const double difference = phase.after_ms - phase.before_ms;
      if (phase.phase.empty() || !phase.clear || std::abs(difference) < least) continue;
      phases.push_back(fmt::format("{} {}", phase.phase, with_sign(difference)));
    }
    if (!phases.empty()) clauses.push_back(fmt::format("by phase: {}", fmt::join(phases, ", ")));
  }
  if (launches(a) != launches(b)) {
    clauses.push_back(fmt::format("{} launches became {}", whole(launches(a)), whole(launches(b))));
  }
  if (a.on_gpu() && step_changed && std::abs(idle_percent(a) - idle_percent(b)) >= 1) {
    clauses.push_back(fmt::format("idle {:.0f} % became {:.0f} %", idle_percent(a), idle_percent(b)));
  }
  const auto& [what, before, after] =
      a.on_gpu() ? std::tuple("kernels", a.kernels, b.kernels) : std::tuple("operations", a.operations, b.operations);
  if (before != after) clauses.push_back(fmt::format("{} {} became {}", whole(before), what, whole(after)));
  if (clauses.empty()) clauses.emplace_back("no kind of operation clearly changed");
  return capitalized(fmt::format("{}", fmt::join(clauses, "; "))) + ".";
}

// The names behind the sentence.
std::string names_in(const Explanation& explanation, double least_ms, bool step_changed) {
  std::vector<Change> changes{Change::went, Change::came};
  if (step_changed) changes.insert(changes.end(), {Change::shrank, Change::grew});
  std::vector<std::string> parts;
  for (const Change change : changes) {
    if (std::string text = listed(explanation.names, change, least_ms); !text.empty()) parts.push_back(std::move(text));
  }
  return capitalized(fmt::format("{}", fmt::join(parts, "; "))) + (parts.empty() ? "" : ".");
}

// Empty where neither trace was disturbed: then a difference has a cause in the two.
std::string disturbances(const TraceDocument& before, const TraceDocument& after) {
  std::vector<std::string> of;
  for (const TraceDocument* trace : {&before, &after}) {
    for (const std::string& flag : trace->flags.value_or(std::vector<std::string>{})) {
      of.push_back(fmt::format("the trace of \"{}\" was disturbed: {}", trace->title, flag));
    }
  }
  return of.empty() ? "" : fmt::format("Not usable: {}.", fmt::join(of, "; "));
}

void check_same(const char* field, const Json& before, const Json& after) {
  if (before == after) return;
  throw std::invalid_argument(fmt::format("traces of different {}: {} and {}", field, shortened(before.dump(), 400),
                                          shortened(after.dump(), 400)));
}

double copied_bytes(const TraceSummary& summary) {
  double bytes = 0;
  for (const TransferTime& transfer : summary.transfers) bytes += static_cast<double>(transfer.bytes);
  return bytes;
}

// Rows that are 0 both before and after are left out.
std::vector<Explanation::Total> totals_of(const TraceDocument& before, const TraceDocument& after) {
  std::vector<Explanation::Total> totals;
  const auto add = [&](const char* what, std::optional<double> a, std::optional<double> b, Unit unit) {
    if (a && b && (*a != 0 || *b != 0)) totals.push_back({what, *a, *b, unit});
  };
  const TraceSummary &a = before.summary, &b = after.summary;
  add("step", a.wall_ms, b.wall_ms, Unit::ms);
  add("work", a.busy_ms, b.busy_ms, Unit::ms);
  add("busy", busy_of(a).percent, busy_of(b).percent, Unit::percent);
  add("waiting for the host", a.launch_bound_percent, b.launch_bound_percent, Unit::percent);
  add("operations", a.operations, b.operations, Unit::count);
  add("kernels", a.kernels, b.kernels, Unit::count);
  add("kernel launches", a.kernel_launches, b.kernel_launches, Unit::count);
  add("graph launches", a.graph_launches, b.graph_launches, Unit::count);
  add("copies", a.copies, b.copies, Unit::count);
  add("copied and set", copied_bytes(a), copied_bytes(b), Unit::bytes);
  add("peak memory", before.memory.peak_bytes, after.memory.peak_bytes, Unit::bytes);
  return totals;
}

// Counts and bytes get no decimal point, unless no double holds them exactly.
Json number_json(double value, Unit unit) {
  const bool is_whole = (unit == Unit::count || unit == Unit::bytes) && std::abs(value) < 9e15;
  return is_whole ? Json(std::llround(value)) : Json(value);
}

}  // namespace

Explanation explain(const TraceDocument& before, const TraceDocument& after, bool step_changed) {
  check_same("device", json_of(before.device), json_of(after.device));
  check_same("workload", json_of(before.workload), json_of(after.workload));
  const TraceSummary &a = before.summary, &b = after.summary;
  Explanation explanation{.before = before.title, .after = after.title, .words = disturbances(before, after)};
  if (!explanation.words.empty()) return explanation;
  explanation.totals = totals_of(before, after);
  visit_pairs(by_phase(a), by_phase(b), [&](const std::string& phase, const StepTime& x, const StepTime& y) {
    explanation.phases.push_back({.phase = phase, .before_ms = x.ms, .after_ms = y.ms, .clear = !overlap(x, y)});
  });
  visit_pairs(by_label(a), by_label(b), [&](const std::string& name, const StepTime& x, const StepTime& y) {
    explanation.names.push_back({.name = name,
                                 .change = change_of(x, y),
                                 .before_ms = x.ms,
                                 .after_ms = y.ms,
                                 .before_count = x.count,
                                 .after_count = y.count});
  });
  std::ranges::stable_sort(explanation.names, std::greater(),
                           [](const Explanation::Name& name) { return std::abs(name.after_ms - name.before_ms); });
  explanation.words = sentence(explanation, a, b, step_changed);
  explanation.changed = names_in(explanation, worth_telling * a.wall_ms, step_changed);
  return explanation;
}

Json to_json(const Explanation& explanation) {
  Json totals = Json::array(), phases = Json::array(), names = Json::array();
  for (const auto& [what, before, after, unit] : explanation.totals) {
    totals.push_back({{"what", what},
                      {"before", number_json(before, unit)},
                      {"after", number_json(after, unit)},
                      {"unit", results::name_of(unit)}});
  }
  for (const auto& [phase, before_ms, after_ms, clear] : explanation.phases) {
    phases.push_back({{"phase", phase}, {"before_ms", before_ms}, {"after_ms", after_ms}, {"clear", clear}});
  }
  for (const auto& [name, change, before_ms, after_ms, before_count, after_count] : explanation.names) {
    names.push_back({{"name", name},
                     {"change", results::name_of(change)},
                     {"before_ms", before_ms},
                     {"after_ms", after_ms},
                     {"before_count", before_count},
                     {"after_count", after_count}});
  }
  return {{"before", explanation.before},
          {"after", explanation.after},
          {"totals", totals},
          {"phases", phases},
          {"names", names},
          {"words", explanation.words},
          {"changed", explanation.changed}};
}

std::string explanation_table(const Explanation& explanation) {
  const std::string line = std::string(columns(), '-') + "\n";
  std::string text = fmt::format("\n{}{}\n", wrapped(printable(explanation.words)),
                                 explanation.changed.empty() ? "" : wrapped(printable(explanation.changed)));
  if (explanation.totals.empty()) return text;
  text += fmt::format("{:<30} {:>15} {:>15}\n", "in a step", shortened(printable(explanation.before), 15),
                      shortened(printable(explanation.after), 15)) +
          line;
  for (const Explanation::Total& total : explanation.totals) {
    const auto value = [&](double plain) {
      return total.unit == Unit::count ? whole(plain) : number(total.unit == Unit::bytes ? gib(plain) : plain);
    };
    text += fmt::format("{:<30} {:>15} {:>15} {}\n", total.what, value(total.before), value(total.after),
                        total.unit == Unit::bytes ? "GiB" : results::name_of(total.unit));
  }
  text += "\n" + fmt::format("{:<45} {:>7} {:>12} {:>12}\n", "what changed most", "", "before ms", "after ms") + line;
  for (size_t i = 0; i < std::min<size_t>(15, explanation.names.size()); ++i) {
    const Explanation::Name& name = explanation.names[i];
    text += fmt::format("{:<45} {:>7} {:>12} {:>12}\n", shortened(printable(name.name), 45),
                        results::name_of(name.change), name.before_count == 0 ? "-" : number(name.before_ms),
                        name.after_count == 0 ? "-" : number(name.after_ms));
  }
  return text;
}

std::string trace_table(const TraceDocument& trace) {
  const TraceSummary& summary = trace.summary;
  const bool gpu = summary.on_gpu();
  std::string text = "\n" + wrapped(printable(fmt::format("{}, {}", trace.title, trace.device.name)));
  for (const std::string& flag : trace.flags.value_or(std::vector<std::string>{})) {
    text += wrapped(printable("disturbed: " + flag));
  }
  const std::optional<double> busy = busy_of(summary).percent;
  const std::string work =
      fmt::format("{} ms of work{}", number(summary.busy_ms), busy ? ", " + number(*busy) + " % of it" : "");
  const std::string traced = fmt::format("traced, a step takes {} ms", number(summary.traced_wall_ms));
  text += wrapped(fmt::format("step {} ms; {}; {}", number(summary.wall_ms), gpu ? work : traced, gpu ? traced : work));
  if (gpu) {
    text += wrapped(fmt::format(
        "{} kernels, {} copies, {} sets; {} kernel launches, {} graph launches; waiting for the "
        "host {} % of the traced time",
        whole(summary.kernels), whole(summary.copies), whole(summary.sets), whole(summary.kernel_launches.value()),
        whole(summary.graph_launches.value()), number(summary.launch_bound_percent.value())));
  } else {
    text += fmt::format("{} operations\n", whole(summary.operations));
  }
  using Rows = std::vector<std::pair<std::string, StepTime>>;
  // Rows and their sum are of the same step: on a CPU tracing makes both longer.
  const double all = gpu ? summary.wall_ms : summary.traced_wall_ms;
  const auto table = [&](const char* title, const Rows& rows, size_t most) {
    text +=
        "\n" + fmt::format("{:<50} {:>8} {:>10} {:>9}\n{}\n", title, "count", "ms", "%", std::string(columns(), '-'));
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
      const auto& [name, time] = rows[i];
      text += fmt::format("{:<50} {:>8} {:>10} {:>9.1f}\n", shortened(printable(name), 50), whole(time.count),
                          number(time.ms), 100 * time.ms / all);
    }
  };
  const auto or_none = [](const std::string& name) { return name.empty() ? std::string("(no label)") : name; };
  Rows phases, parts;
  for (const PhaseTime& row : summary.by_phase) phases.emplace_back(or_none(row.phase), row);
  for (const PartTime& row : summary.by_part) {
    const std::string phase = or_none(row.phase);
    parts.emplace_back(row.part.empty() ? phase : fmt::format("{} / {}", phase, row.part), row);
  }
  const std::map<std::string, StepTime> labels = by_label(summary);
  Rows names(labels.begin(), labels.end());
  std::ranges::stable_sort(names, std::greater(), [](const auto& row) { return row.second.ms; });
  table("phase", phases, 10);
  table("part", parts, 20);
  table(gpu ? "kernel" : "operation", names, 15);
  return text;
}

}  // namespace study
