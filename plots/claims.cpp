#include "plots/claims.h"

#include "ablations/plan/ladder_file.h"
#include "ablations/techniques/techniques.h"
#include "files/printable.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace plots {

using files::Json;
using model::Device;

namespace {

using Bytes = Seen::Pair<double>;

// ---- In words

std::string name_of_kind(Device device) { return device == Device::cpu ? "CPU" : "GPU"; }

std::string bytes_in_words(const Bytes& bytes) {
  constexpr double mebi = 1024.0 * 1024.0;
  if (bytes.below < 1024 * mebi) return fmt::format("{:.0f} -> {:.0f} MiB", bytes.below / mebi, bytes.own / mebi);
  return fmt::format("{:.2f} -> {:.2f} GiB", gib(bytes.below), gib(bytes.own));
}

std::string ms_in_words(const Seen::Pair<double>& ms) { return fmt::format("{:.3g} -> {:.3g} ms", ms.below, ms.own); }

std::string step_in_words(const Seen& seen) {
  std::string text;
  if (seen.ms)
    text = seen.below_ms ? digits3(*seen.below_ms) + " -> " + in_ms(*seen.ms) : in_ms(*seen.ms) + " per step";
  if (!seen.ratio) return text;
  if (!text.empty()) text += ", ";
  return text + fmt::format("{:.2f}x {}", *seen.ratio,
                            seen.lo && seen.hi ? fmt::format("[{:.2f}-{:.2f}]", *seen.lo, *seen.hi) : "(no interval)");
}

// How many times less there is, from the least to the most that the data allow, beside what is claimed.
std::string beside(const Claim& claim, double least, double most) {
  if (most < 1 && claim.least >= 1) return "more, not less";
  if (most < claim.least) return "less than claimed";
  if (least > claim.most) return "more than claimed";
  return "as claimed";
}

template <class T>
std::string beside(const Claim& claim, const Seen::Pair<T>& figures) {
  if (claim.most == 0) return "";
  const double factor = static_cast<double>(figures.below) / static_cast<double>(figures.own);
  return ", " + beside(claim, factor, factor);
}

// Empty if the record does not have it.
std::string measured(const Claim& claim, const Seen& seen) {
  const auto sized = [&](const std::optional<Bytes>& bytes) {
    return bytes && bytes->own > 0 ? bytes_in_words(*bytes) + beside(claim, *bytes) : std::string();
  };
  switch (claim.about) {
    case Claim::About::step:
    case Claim::About::ladder:
      if (!seen.ratio || !seen.ms) return "";
      if (!seen.lo || !seen.hi) return step_in_words(seen);
      if (*seen.hi < 1 && claim.least >= 1) return step_in_words(seen) + ", slower, not faster";
      return fmt::format("{}, {}", step_in_words(seen), beside(claim, *seen.lo, *seen.hi));
    case Claim::About::milliseconds:
      return seen.ms ? in_ms(*seen.ms) + " per step" : "";
    case Claim::About::batch:
      return seen.batch && seen.batch->own > 0 ? ms_in_words(*seen.batch) + beside(claim, *seen.batch) : "";
    case Claim::About::kernels:
      if (!seen.kernels) return "";
      return fmt::format("{} -> {}{}", seen.kernels->below, seen.kernels->own, beside(claim, *seen.kernels));
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
  if (claim.command) return *claim.command;
  for (const Ladder& ladder : ladders_with(optimization)) {
    const bool has_gpu = std::ranges::find(ladder.rungs, "gpu") != ladder.rungs.end();
    if (has_gpu == (claim.device == Device::cuda)) return "ladder ablate --ladder " + ladder.name;
  }
  return "";
}

std::string table(const std::vector<Claim>& claims, const std::string& optimization, const std::vector<Seen>& seen,
                  std::map<Standing, size_t>& counts) {
  if (claims.empty()) return "\nNo published figure of it is known here.\n";
  std::string text = "\n| claimed | by | here | |\n|:--------|:---|:-----|:--|\n";
  for (const Claim& claim : claims) {
    const auto [standing, words] = checked(claim, optimization, seen);
    ++counts[standing];
    const ClaimSource& source = claim.source;
    text += fmt::format("| {} | {} | **{}** | {} |\n", claim.claim,
                        source.url.empty() ? source.name : fmt::format("[{}]({})", source.name, source.url),
                        name_of(standing), markdown_with_code(words));
  }
  return text;
}

std::string seen_line(const Seen& seen) {
  std::vector<std::string> parts;
  if (const std::string step = step_in_words(seen); !step.empty()) parts.push_back(step);
  if (seen.alone) parts.push_back("by itself " + ms_in_words(*seen.alone));
  if (seen.activations && seen.activations->below != seen.activations->own)
    parts.push_back("activations " + bytes_in_words(*seen.activations));
  if (seen.peak) parts.push_back("peak " + bytes_in_words(*seen.peak));
  if (seen.batch) parts.push_back("a batch " + ms_in_words(*seen.batch));
  if (seen.kernels) parts.push_back(fmt::format("{} -> {} kernels", seen.kernels->below, seen.kernels->own));
  if (seen.compile_s) parts.push_back(fmt::format("compiled in {} s at most", digits3(*seen.compile_s)));
  const std::string device = markdown(seen.device);
  return fmt::format("- {} ({}), {}: {}\n", seen.report.empty() ? device : fmt::format("[{}]({})", device, seen.report),
                     name_of_kind(seen.kind), markdown(seen.shape), fmt::join(parts, "; "));
}

std::string section(const std::string& head, const std::vector<Claim>& claims, const std::string& optimization,
                    const std::vector<Seen>& seen, std::map<Standing, size_t>& counts) {
  std::string text = head;
  if (!seen.empty()) text += "\n";
  for (const Seen& one : seen) text += seen_line(one);
  return text + table(claims, optimization, seen, counts);
}

std::string kernels_line(const std::vector<TraceDocument>& traces) {
  std::map<std::string, std::vector<std::pair<int64_t, std::string>>> by_device;
  for (const TraceDocument& trace : traces) {
    std::string title = files::printable(trace.title);
    if (title.starts_with("+ ")) title = title.substr(2);
    by_device[fmt::format("{} (GPU), B={} T={}, on {}", files::printable(trace.device.name), trace.workload.B,
                          trace.workload.T, files::printable(trace.created.substr(0, 10)))]
        .emplace_back(trace.summary.kernels, title);
  }
  std::string text;
  for (auto& [device, rungs] : by_device) {
    std::ranges::sort(rungs, std::greater{});
    std::vector<std::string> parts;
    for (const auto& [kernels, title] : rungs)
      parts.push_back(fmt::format("{} {}", title, number(static_cast<double>(kernels))));
    text += fmt::format("- {}, kernels of a traced step of ours: {}\n", markdown(device),
                        markdown(fmt::format("{}", fmt::join(parts, "; "))));
  }
  return text;
}

}  // namespace

CheckedClaim checked(const Claim& claim, const std::string& optimization, const std::vector<Seen>& seen) {
  if (!claim.wrong.empty()) return {Standing::contradicted, claim.wrong};
  if (!claim.shown.empty()) return {Standing::measured, claim.shown};
  const std::string note = claim.note.empty() ? "" : " " + claim.note;
  std::vector<std::string> found;
  for (const Seen& one : seen) {
    if (one.kind != claim.device) continue;
    if (const std::string words = measured(claim, one); !words.empty()) {
      found.push_back(fmt::format("{}, {}: {}.", one.device, one.shape, words));
    }
  }
  if (!found.empty()) return {Standing::measured, fmt::format("{}{}", fmt::join(found, " "), note)};
  const std::string command = command_for(claim, optimization);
  std::string words = command.empty() ? "" : fmt::format("`{}` measures it", command);
  if (!words.empty()) words += claim.device == Device::cuda ? " on a GPU." : ".";
  words += note;
  return {Standing::not_measured, words.starts_with(' ') ? words.substr(1) : words};
}

std::string claims_page(const Evidence& evidence) {
  std::map<Standing, size_t> counts;
  std::string sections;
  std::vector<Seen> compiled, ladders;
  for (const RecordedStudy& recorded : evidence.studies) {
    std::ranges::move(seen_compiled(recorded), std::back_inserter(compiled));
    for (const Claim& claim : other_claims()) {
      if (auto seen = seen_of_ladder(recorded.study, claim.until)) ladders.push_back(std::move(*seen));
    }
  }
  for (const Optimization& optimization : optimizations()) {
    std::vector<Seen> seen;
    for (const RecordedStudy& recorded : evidence.studies) {
      for (Seen& one : seen_in(recorded.study, optimization.name)) {
        one.report = "../results/evidence/" + recorded.folder.filename().string() + "/report.md";
        seen.push_back(std::move(one));
      }
    }
    for (const Json& micro : evidence.micro) {
      std::ranges::move(seen_alone(micro, optimization), std::back_inserter(seen));
    }
    sections += section(fmt::format("\n## `{0}`\n\n*{1}*; [how it works](../{2}).\n", optimization.name,
                                    optimization.title, text_file(optimization.name)),
                        optimization.claims, optimization.name, seen, counts);
  }
  const std::string kernels = kernels_line(evidence.traces);
  sections += section(
      "\n## torch.compile\n\n*A technique of the peer*, against PyTorch's eager mode; "
      "[how it works](../ablations/techniques/torch_compile.md).\n" +
          (kernels.empty() ? "" : "\n" + kernels),
      compile_claims(), "", compiled, counts);
  sections += "\n## Of no single technique\n" + table(other_claims(), "", ladders, counts);
  sections += "\n## Figures that arithmetic contradicts\n\nMore of them stand beside their techniques.\n" +
              table(contradicted_claims(), "", {}, counts);
  return fmt::format(R"(# What is claimed, and what is measured

Printed by `ladder help --claims` (`build/release/ladder help --claims > docs/claims.md`); a test fails when this page is
not what it prints.

What others have published of each [technique](techniques.md), beside what [results/evidence](../results/evidence) shows:
ladders, sweeps, factorials and micro benchmarks. {} claims are measured here, {} are contradicted, and {} are not
measured yet. Sources without a link are authors' notes, which are not public.

- **measured**: a record of the same kind of device has it. "As claimed" means that its interval reaches what is claimed;
  the machine and the sizes are other ones all the same.
- **not measured**: no record here tells. A CPU's figures stand above the table, and say nothing of a GPU.
- **contradicted**: it cannot be so, whatever is measured.

Each line: the time of a step without it and with it, and the ratio [95 % interval]. The model is GPT-2 124M, but for
`tiny`, which has two layers. "An older program": the technique's GPU code has been rewritten since. "By itself" are micro
benchmarks. Activations: what the forward pass leaves for the backward pass, with autocast's copies of the weights. Peak:
the most memory that a run had.
)",
                     counts[Standing::measured], counts[Standing::contradicted], counts[Standing::not_measured]) +
         sections;
}

}  // namespace plots
