#include "ablations/report/origin.h"

#include "ablations/text/figures.h"
#include "ablations/text/list.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace ablations {

using files::shortened;

namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string day_of(const std::string& created) { return files::valid_utf8(created.substr(0, 10)); }

// A word of a device's name that does not tell it from others.
bool is_filler(const std::string& word) {
  const std::string lower = in_lower_case(word);
  return lower == "cpu" || lower == "processor" ||
         (lower.ends_with("-core") && is_digits(std::string_view(lower).substr(0, lower.size() - 5)));
}

bool is_thread_count(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos || !is_digits(text.substr(0, blank))) return false;
  return text.substr(blank) == " thread" || text.substr(blank) == " threads";
}

std::string without_trademarks(std::string name) {
  for (const std::string_view sign : {"(r)", "(tm)", "(c)"}) {
    for (size_t at = 0; (at = in_lower_case(name).find(sign)) != std::string::npos;) name.replace(at, sign.size(), " ");
  }
  return name.substr(0, name.find('@'));
}

// Whether its name is said with a vowel first: "an AMD EPYC", "an Intel Xeon", "a Tesla T4".
bool takes_an(const std::string& name) {
  constexpr std::string_view vowels = "AEIO", said_as_vowels = "AEFHILMNORSX";
  const std::string first = name.substr(0, name.find(' '));
  const bool is_spelled = std::ranges::none_of(first, [](unsigned char c) { return std::islower(c) != 0; });
  const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(first[0])));
  return vowels.find(letter) != std::string_view::npos ||
         (is_spelled && said_as_vowels.find(letter) != std::string_view::npos);
}

std::string machine_words(const NamedDevice& device) {
  std::string name = device.name, threads;
  if (const size_t comma = name.rfind(", "); comma != std::string::npos && is_thread_count(name.substr(comma + 2))) {
    threads = fmt::format(" ({})", name.substr(comma + 2));
    name.resize(comma);
  }
  std::istringstream words(without_trademarks(shortened(name, 200)));
  std::vector<std::string> kept;
  for (std::string word; words >> word;) {
    if (!is_filler(word)) kept.push_back(word);
  }
  if (!kept.empty()) name = fmt::format("{}", fmt::join(kept, " "));
  if (name.empty()) return "an unknown device" + threads;
  return fmt::format("{} {}{}", takes_an(name) ? "an" : "a", shortened(name, 40), threads);
}

// "B=16 T=1024 × 4 micro-steps", without the size that a sweep varies. `work`: a workload, or settings of a training.
std::string sizes_words(const auto& work, std::optional<Swept> swept = {}) {
  std::vector<std::string> sizes;
  if (swept != Swept::batch) sizes.push_back(fmt::format("B={}", work.B));
  if (swept != Swept::context) sizes.push_back(fmt::format("T={}", work.T));
  if (swept != Swept::accumulation && work.accumulation != 1) {
    sizes.push_back(fmt::format("\u00d7 {} micro-steps", work.accumulation));
  }
  return fmt::format("{}", fmt::join(sizes, " "));
}

// `what`: what was measured, in parts; `more`: to be known of it.
std::string source_line(std::vector<std::string> what, const NamedDevice& device, const std::string& created,
                        const std::string& more = "") {
  what.push_back(shortened(device.name, 70));
  what.push_back(day_of(created));
  if (device.kind == model::Device::cpu) what.emplace_back("CPU figures, not comparable with a GPU's");
  if (!more.empty()) what.push_back(more);
  return fmt::format("{}", fmt::join(what, " \u00b7 "));
}

// "Warnings: one; another (and 3 more)"
std::string listed_warnings(const std::vector<std::string>& warnings, size_t most) {
  if (warnings.empty()) return "";
  return fmt::format("Warning{}: {}", warnings.size() == 1 ? "" : "s", first_of(warnings, most));
}

// "Warnings: 1 of 42 runs was disturbed; repeat 2 was interrupted for 7.1 hours": each without its explanation.
std::string warnings_by_name(const std::vector<std::string>& warnings) {
  std::vector<std::string> names;
  names.reserve(warnings.size());
  for (const std::string& text : warnings) {
    names.push_back(shortened(text.starts_with("rung ") ? text : text.substr(0, text.find(": ")), 90));
  }
  return listed_warnings(names, 3);
}

}  // namespace

std::string subject_words(const std::string& model, const NamedDevice& device) {
  const bool is_gpt2 = model.starts_with("gpt2-") && model.ends_with("m") && model.size() > 6 &&
                       is_digits(std::string_view(model).substr(5, model.size() - 6));
  const std::string name = is_gpt2 ? fmt::format("GPT-2 {}M", model.substr(5, model.size() - 6))
                                   : fmt::format("the {} model", shortened(model, 30));
  return fmt::format("Training {} on {}", name, machine_words(device));
}

Origin origin_of(const Study& study) {
  const Workload& work = study.workload;
  const std::string unfinished =
      study.finished ? "" : fmt::format("unfinished: {} of {} runs", study.plan.runs_ok, study.plan.runs_planned);
  return {.subject = subject_words(work.model, study.device),
          .source = source_line({shortened(study.ladder.title, 70),
                                 fmt::format("{}, {}", shortened(work.model, 40), sizes_words(work, study.swept))},
                                study.device, study.created, unfinished),
          .warnings = warnings_by_name(study.warnings)};
}

Origin origin_of(const TraceDocument& trace) {
  return {.subject = subject_words(trace.workload.model, trace.device),
          .source = source_line({shortened(trace.title, 80), sizes_words(trace.workload)}, trace.device, trace.created),
          .warnings = ""};
}

Origin origin_of(const Training& training, const NamedDevice& device) {
  const TrainingSettings& settings = training.settings;
  return {.subject = subject_words(settings.model, device),
          .source = source_line({fmt::format("{}, {}", shortened(settings.model, 40), sizes_words(settings)),
                                 shortened(settings.data.source, 50)},
                                device, training.created),
          .warnings = ""};
}

Origin origin_of(const GateResult& result) {
  std::set<std::string> models;
  std::vector<std::string> devices;  // one, unless differing circumstances were compared by force
  const auto look_at = [&](const Setting& setting) {
    if (setting.model) models.insert(*setting.model);
    if (setting.device && std::ranges::find(devices, *setting.device) == devices.end()) {
      devices.push_back(*setting.device);
    }
  };
  if (result.comparison) {
    for (const ComparedRecipe& entry : result.comparison->entries) look_at(entry.setting);
  }
  for (const Noise& noise : result.calibration) look_at(noise.setting);
  std::vector<std::string> source;
  source.reserve(devices.size() + 4);
  for (const std::string& device : devices) source.push_back(shortened(device, 70));
  if (result.subject) source.push_back(shortened(*result.subject, 70));
  source.push_back(day_of(result.created));
  source.push_back(fmt::format("against a {}", name_of(result.against)));
  source.push_back(fmt::format("{} of runs", number_of(result.pairs, "pair")));
  std::vector<std::string> warnings;
  warnings.reserve(result.warnings.size());
  for (const std::string& text : result.warnings) warnings.push_back(shortened(text, 90));
  return {
      .subject = models.size() == 1 && devices.size() == 1 ? subject_words(*models.begin(), {.name = devices[0]}) : "",
      .source = fmt::format("{}", fmt::join(source, " \u00b7 ")),
      .warnings = listed_warnings(warnings, 2)};
}

std::string measured_words(const Study& study) {
  const std::string tokens =
      study.swept ? "" : fmt::format(", {} per step", number_of(study.workload.tokens_per_step, "token"));
  return fmt::format("Measured on {} ({}), {}: {}, {}, {}{}.", study.device.name,
                     study.device.kind == model::Device::cpu ? "CPU" : "CUDA GPU", day_of(study.created),
                     study.workload.model, number_of(study.workload.parameters, "parameter"),
                     sizes_words(study.workload, study.swept), tokens);
}

}  // namespace ablations
