#include "ablations/report/claims.h"

#include "ablations/plan/ladder.h"
#include "ablations/techniques/techniques.h"
#include "ablations/text/markdown.h"
#include "files/printable.h"
#include "files/resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using model::Device;

namespace {

std::string name_of_kind(Device device) { return device == Device::cpu ? "CPU" : "GPU"; }

std::optional<Seen::Bytes> bytes_of(std::optional<double> below, std::optional<double> own) {
  return below && own ? std::optional(Seen::Bytes{.below = *below, .own = *own}) : std::nullopt;
}

std::string in_words(const Seen::Bytes& bytes) {
  constexpr double mebi = 1024.0 * 1024.0;
  return fmt::format("{:.0f} -> {:.0f} MiB", bytes.below / mebi, bytes.own / mebi);
}

std::string in_words(const Seen::Milliseconds& ms) { return fmt::format("{:.3g} -> {:.3g} ms", ms.below, ms.own); }

std::string ratio_in_words(const Seen& seen) {
  const std::string interval =
      seen.lo && seen.hi ? fmt::format("[{:.2f}-{:.2f}]", *seen.lo, *seen.hi) : "(no interval)";
  return fmt::format("{:.2f}x {}", seen.ratio, interval);
}

// How many times less there is, from the least to the most that the data allow, beside what is claimed.
std::string beside(const Claim& claim, double least, double most) {
  if (most < 1 && claim.least >= 1) return "more, not less";
  if (most < claim.least) return "less than claimed";
  if (least > claim.most) return "more than claimed";
  return "as claimed";
}

std::string beside(const Claim& claim, double factor) { return beside(claim, factor, factor); }

// Empty if the study does not have it.
std::string measured(const Claim& claim, const Seen& seen) {
  const auto sized = [&](const std::optional<Seen::Bytes>& bytes) {
    if (!bytes || bytes->own <= 0) return std::string();
    const double factor = bytes->below / bytes->own;
    return fmt::format("{}, {}", in_words(*bytes), beside(claim, factor));
  };
  switch (claim.about) {
    case Claim::About::step:
      if (!seen.lo || !seen.hi) return ratio_in_words(seen);
      if (*seen.hi < 1 && claim.least >= 1) return ratio_in_words(seen) + ", slower, not faster";
      return fmt::format("{}, {}", ratio_in_words(seen), beside(claim, *seen.lo, *seen.hi));
    case Claim::About::batch:
      if (!seen.batch || seen.batch->own <= 0) return "";
      return fmt::format("{}, {}", in_words(*seen.batch), beside(claim, seen.batch->below / seen.batch->own));
    case Claim::About::activations:
      return sized(seen.activations);
    case Claim::About::peak:
      return sized(seen.peak);
    case Claim::About::other:
      break;
  }
  return "";
}

std::string command_for(const Claim& claim, const std::string& optimization) {
  if (!claim.command.empty()) return claim.command;
  for (const Ladder& ladder : ladders_with(optimization)) {
    const bool has_gpu = std::ranges::find(ladder.rungs, "gpu") != ladder.rungs.end();
    if (has_gpu == (claim.device == Device::cuda)) return "ladder ablate --ladder " + ladder.name;
  }
  return "";
}

std::string table(const std::vector<Claim>& claims, const std::string& optimization, const std::vector<Seen>& seen,
                  std::map<Standing, size_t>& counts) {
  std::string text = "\n| claimed | by | here | |\n|:--------|:---|:-----|:--|\n";
  for (const Claim& claim : claims) {
    const auto [standing, words] = checked(claim, optimization, seen);
    ++counts[standing];
    text += fmt::format("| {} | {} | **{}** | {} |\n", claim.claim, claim.source, name_of(standing),
                        markdown_with_code(words));
  }
  return text;
}

std::string seen_line(const Seen& seen) {
  std::string text = fmt::format("- {} ({}), {}: {}", markdown(seen.device), name_of_kind(seen.kind),
                                 markdown(seen.shape), ratio_in_words(seen));
  if (seen.activations) text += "; activations " + in_words(*seen.activations);
  if (seen.peak) text += "; peak " + in_words(*seen.peak);
  if (seen.batch) text += "; a batch " + in_words(*seen.batch);
  return text + "\n";
}

}  // namespace

std::optional<Seen> seen_in(const Study& study, const std::string& optimization) {
  if (study.mode != Mode::cumulative) return std::nullopt;
  const StudyRung* below = nullptr;
  for (const StudyRung& rung : study.rungs) {
    if (rung.peer || !rung.is_measured()) continue;
    if (rung.optimization == optimization && below != nullptr && rung.speedup_against) {
      const auto activations = [](const StudyRung& of) -> std::optional<double> {
        const RunMemory memory = of.memory.value_or(RunMemory{});
        if (!memory.activations_bytes) return std::nullopt;
        // Older records count the copies among them.
        return static_cast<double>(*memory.activations_bytes + memory.weight_copies_bytes.value_or(0));
      };
      return Seen{.device = files::printable(study.device.name),
                  .shape = fmt::format("B={} T={}", study.workload.B, study.workload.T),
                  .kind = study.device.kind,
                  .ratio = rung.speedup_against->ratio,
                  .lo = rung.speedup_against->lo,
                  .hi = rung.speedup_against->hi,
                  .activations = bytes_of(activations(*below), activations(rung)),
                  .peak = bytes_of(below->peak_memory_bytes, rung.peak_memory_bytes),
                  .batch = below->batches && rung.batches
                               ? std::optional(Seen::Milliseconds{below->batches->ms.median, rung.batches->ms.median})
                               : std::nullopt};
    }
    below = &rung;
  }
  return std::nullopt;
}

CheckedClaim checked(const Claim& claim, const std::string& optimization, const std::vector<Seen>& seen) {
  if (!claim.wrong.empty()) return {Standing::contradicted, claim.wrong};
  const std::string note = claim.note.empty() ? "" : " " + claim.note;
  std::vector<std::string> found;
  for (const Seen& one : seen) {
    if (one.kind != claim.device) continue;
    if (const std::string words = measured(claim, one); !words.empty()) {
      found.push_back(fmt::format("{}: {}.", one.device, words));
    }
  }
  if (!found.empty()) return {Standing::measured, fmt::format("{}{}", fmt::join(found, " "), note)};
  const std::string command = command_for(claim, optimization);
  std::string words = command.empty() ? "" : fmt::format("`{}` measures it", command);
  if (!words.empty()) words += claim.device == Device::cuda ? " on a GPU." : ".";
  words += note;
  return {Standing::not_measured, words.starts_with(' ') ? words.substr(1) : words};
}

std::string claims_page(const std::vector<Study>& studies) {
  std::map<Standing, size_t> counts;
  std::string tables;
  for (const Optimization& optimization : optimizations()) {
    if (optimization.claims.empty()) continue;
    tables +=
        fmt::format("\n## `{0}`\n\n*{1}*; [how it works](techniques.md#{0}).\n", optimization.name, optimization.title);
    std::vector<Seen> seen;
    for (const Study& study : studies) {
      if (const std::optional<Seen> one = seen_in(study, optimization.name)) seen.push_back(*one);
    }
    if (!seen.empty()) tables += "\n";
    for (const Seen& one : seen) tables += seen_line(one);
    tables += table(optimization.claims, optimization.name, seen, counts);
  }
  tables += "\n## Techniques that are not here yet\n" + table(claims_not_here(), "", {}, counts);
  return fmt::format(R"(# What is claimed, and what is measured

Printed by `ladder help --claims` (`build/release/ladder help --claims > docs/claims.md`); a test fails when this page is
not what it prints.

What others have published of each [technique](techniques.md), beside what the studies in
[results/evidence](../results/evidence) show. {} claims are measured here, {} are contradicted, and {} are not measured yet.

- **measured**: a study on the same kind of device has this rung. "As claimed" means that its interval reaches what is
  claimed; the machine and the sizes are other ones all the same.
- **not measured**: no study here tells. A CPU's figures stand above the table, and say nothing of a GPU.
- **contradicted**: it cannot be so, whatever is measured.

A ratio is the time of a step on the rung below, divided by the time with this technique on; in brackets is its 95 %
interval. Activations: what the forward pass leaves for the backward pass, with autocast's copies of the weights. Peak: the
most memory that a run had.
)",
                     counts[Standing::measured], counts[Standing::contradicted], counts[Standing::not_measured]) +
         tables;
}

std::vector<Study> recorded_studies() {
  const fs::path folder = files::resource_root() / "results" / "evidence";
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (fs::path file = entry.path() / "study.json"; fs::exists(file)) files.push_back(std::move(file));
    }
  }
  if (files.empty()) {
    throw std::invalid_argument(
        fmt::format("{}: no studies are here; a clone of the repository has them", files::printable(folder.string())));
  }
  std::ranges::sort(files);
  std::vector<Study> studies;
  studies.reserve(files.size());
  for (const fs::path& file : files) studies.push_back(read_document<Study>(file));
  return studies;
}

}  // namespace ablations
