#include "ablations/gpt2/modes.h"

#include "ablations/gpt2/peer.h"
#include "ablations/techniques/step_table.h"
#include "ablations/techniques/techniques.h"
#include "files/nearest.h"
#include "model/config.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>

namespace ablations {

using harness::Machine;

namespace {

constexpr size_t most_factors_unasked = 4;
constexpr int64_t largest_value = 1 << 16;

struct PeerMode {
  const char *name, *title;
  int least_capability = 0;    // of the GPU, 89 for 8.9; 0: a CPU will do
  bool only_if_named = false;  // its numbers are less exact than those of the rung beside it
};
constexpr std::array<PeerMode, 5> known_peer_modes{{{"eager", "PyTorch eager"},
                                                    {"compile", "PyTorch compile"},
                                                    {"max-autotune", "PyTorch max-autotune", 10},
                                                    {"cuda-graphs", "PyTorch compile with CUDA graphs", 10},
                                                    {"fp8", "PyTorch fp8", 89, true}}};

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

void read_sweep(const std::string& text, Design& design) {
  const size_t equals = text.find('=');
  const auto& sizes = Names<Swept>::list;
  const auto size = std::ranges::find(sizes, text.substr(0, equals));
  if (equals == std::string::npos || size == sizes.end()) {
    refuse(fmt::format("--sweep must be WHAT=N,N,..., where WHAT is one of {}; got {}", fmt::join(sizes, ", "), text));
  }
  design.swept = static_cast<Swept>(size - sizes.begin());
  for (const std::string& item : list_of(text.substr(equals + 1), "--sweep " + text)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || end != item.data() + item.size() || value < 1 || value > largest_value) {
      refuse(
          fmt::format("--sweep {}: values must be whole numbers between 1 and {}, got {}", text, largest_value, item));
    }
    if (std::ranges::find(design.values, value) != design.values.end()) {
      refuse(fmt::format("--sweep {}: {} is given twice", text, value));
    }
    design.values.push_back(value);
  }
}

std::vector<std::string> read_peer_modes(const DesignFlags& flags, const Machine& machine) {
  if (flags.peer.empty()) {
    if (!flags.peer_modes.empty()) refuse("--peer-modes needs --with-peer pytorch");
    return {};
  }
  if (flags.peer != "pytorch") refuse(fmt::format("--with-peer must be pytorch, got {}", flags.peer));
  std::vector<std::string> here;
  const int capability = machine.gpu ? machine.gpu->compute_capability : 0;
  for (const PeerMode& peer : known_peer_modes) {
    const bool is_asked = !peer.only_if_named || !flags.peer_modes.empty();
    if (capability >= peer.least_capability && is_asked) here.emplace_back(peer.name);
  }
  if (flags.peer_modes.empty()) return here;
  std::vector<std::string> asked = list_of(flags.peer_modes, "--peer-modes " + flags.peer_modes);
  for (const std::string& mode : asked) {
    if (std::ranges::find(here, mode) != here.end()) continue;
    const auto known = std::ranges::find(known_peer_modes, mode, &PeerMode::name);
    const std::string why = known == known_peer_modes.end() ? "is unknown"
                            : machine.gpu
                                ? fmt::format("needs compute capability {:.1f}", known->least_capability / 10.0)
                                : "needs a CUDA device";
    refuse(fmt::format("--peer-modes {}: {} {}; this machine can run {}", flags.peer_modes, mode, why,
                       fmt::join(here, ", ")));
  }
  return asked;
}

// The base with these optimizations on, in the ladder's order. Or the reason why one of them is not possible. One that
// changes nothing beside the others is not on.
Rung with(const Rung& base, const Ladder& ladder, const std::vector<std::string>& names, const Machine& machine,
          const Choose& choose = nullptr) {
  Rung rung = base;
  rung.optimization.clear();
  for (const std::string& name : ladder.rungs) {
    if (std::ranges::find(names, name) == names.end()) continue;
    const files::Json before = rung.recipe;
    const std::string reason = put_on(rung, name, machine, choose);
    if (reason.empty()) {
      if (rung.recipe == before) rung.applied.pop_back();
      continue;
    }
    rung.status = Rung::Status::not_applicable;
    rung.reason = fmt::format("\"{}\": {}", name, reason);
    return rung;
  }
  return rung;
}

std::vector<std::string> without(std::vector<std::string> names, const std::string& name) {
  std::erase(names, name);
  return names;
}

std::vector<Rung> leave_one_out(const Ladder& ladder, const Rung& base, const std::vector<std::string>& candidates,
                                const Machine& machine, const Choose& choose) {
  Rung full = with(base, ladder, candidates, machine, choose);
  full.title = "everything on";
  full.name = "full";
  full.reference = 0;
  std::vector<Rung> rungs{base, full};
  for (const std::string& name : candidates) {
    Rung rung = with(base, ladder, without(candidates, name), machine, choose);
    rung.optimization = name;
    rung.title = "without " + find_optimization(name)->title;
    rung.name = "without-" + name;
    rung.reference = 0;
    rung.against = 1;
    if (rung.status == Rung::Status::planned && rung.recipe == full.recipe) {
      rung.status = Rung::Status::not_applicable;
      rung.reason = "a later optimization takes its place: leaving it out changes nothing";
    } else if (rung.status == Rung::Status::not_applicable) {
      rung.reason = "others need it: " + rung.reason;
    }
    rungs.push_back(rung);
  }
  return rungs;
}

std::vector<Rung> one_at_a_time(const Ladder& ladder, const Rung& base, const std::vector<std::string>& candidates,
                                const Machine& machine, const Choose& choose) {
  std::vector<Rung> rungs{base};
  for (const std::string& name : candidates) {
    Rung rung = with(base, ladder, {name}, machine, choose);
    rung.optimization = name;
    rung.title = find_optimization(name)->title;
    rung.reference = rung.against = 0;
    if (rung.status == Rung::Status::planned && rung.recipe == base.recipe) {
      rung.status = Rung::Status::not_applicable;
      rung.reason = "by itself it changes nothing";
    }
    rungs.push_back(rung);
  }
  return rungs;
}

std::vector<Rung> factorial(const Ladder& ladder, const Rung& base, const std::vector<std::string>& candidates,
                            std::vector<std::string> asked, const Machine& machine) {
  for (std::string& factor : asked) {
    for (const std::string& name : candidates) {
      if (matches_name(factor, name, find_optimization(name)->title)) factor = name;
    }
    if (std::ranges::find(candidates, factor) == candidates.end()) {
      refuse(fmt::format("--factors {}: no such optimization; on this machine ladder {} has {}", factor, ladder.name,
                         fmt::join(candidates, ", ")));
    }
  }
  if (asked.empty() && candidates.size() > most_factors_unasked) {
    refuse(fmt::format("--mode factorial: {} optimizations make {} subsets; choose with --factors among {}",
                       candidates.size(), size_t{1} << candidates.size(), fmt::join(candidates, ",")));
  }
  if (asked.size() > most_factors) {
    refuse(fmt::format("--factors must name at most {} optimizations, got {}, which have {} subsets", most_factors,
                       asked.size(), size_t{1} << asked.size()));
  }
  std::vector<std::string> factors;  // in the ladder's order
  for (const std::string& name : candidates) {
    if (asked.empty() || std::ranges::find(asked, name) != asked.end()) factors.push_back(name);
  }
  std::vector<Rung> rungs{base};
  for (size_t subset = 1; subset < size_t{1} << factors.size(); ++subset) {
    std::vector<std::string> names, titles;
    for (size_t i = 0; i < factors.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      names.push_back(factors[i]);
      titles.push_back(names.size() > 1 ? factors[i] : find_optimization(factors[i])->title);
    }
    if (names.size() > 1) titles.front() = names.front();
    Rung rung = with(base, ladder, names, machine);
    if (rung.status == Rung::Status::not_applicable) {
      refuse(fmt::format("--mode factorial: the subset {} cannot be measured: {}", fmt::join(names, ","), rung.reason));
    }
    rung.applied =
        base.applied;  // the whole subset: all orders are averaged over, also those in which one changes nothing
    rung.applied.insert(rung.applied.end(), names.begin(), names.end());
    if (names.size() == 1) rung.optimization = names.front();
    rung.title = fmt::format("{}", fmt::join(titles, " + "));
    rung.name = fmt::format("{}", fmt::join(names, "-"));
    rung.reference = 0;
    rungs.push_back(rung);
  }
  return rungs;
}

int64_t& swept_of(Shape& shape, Swept swept) {
  return swept == Swept::batch ? shape.B : swept == Swept::context ? shape.T : shape.accumulation;
}

std::vector<Rung> sweep(const Ladder& ladder, const std::vector<Rung>& ladder_rungs, const Design& design,
                        const Shape& shape) {
  std::vector<Rung> chosen;
  std::vector<std::string> seen;
  for (const Rung& rung : ladder_rungs) {
    if (design.rungs.empty() && rung.status == Rung::Status::planned) chosen = {rung};
  }
  for (const std::string& name : design.rungs) {
    Rung rung = ladder_rungs[find_rung(ladder_rungs, name, "--rung", ladder.name)];
    if (std::ranges::find(seen, name_of(rung)) != seen.end()) refuse(fmt::format("--rung {}: given twice", name));
    seen.push_back(name_of(rung));
    rung.status = Rung::Status::planned;  // also where it comes before the ladder's reference
    rung.reason.clear();
    chosen.push_back(rung);
  }
  Shape widest = shape;
  if (design.swept == Swept::context) {
    widest.positions = std::max(shape.positions, *std::ranges::max_element(design.values));
  }
  std::vector<Rung> rungs;
  for (const int64_t value : design.values) {
    const size_t first = rungs.size();
    for (Rung rung : chosen) {
      const char letter = design.swept == Swept::batch ? 'B' : design.swept == Swept::context ? 'T' : 'A';
      rung.name = fmt::format("{}-{}{}", name_of(rung), letter, value);
      rung.shape = widest;
      swept_of(*rung.shape, *design.swept) = value;
      if (rungs.size() > first) rung.reference = rung.against = first;
      rungs.push_back(rung);
    }
  }
  return rungs;
}

// The rungs with a twin of each mode. By default the last planned rung of each size.
std::set<size_t> with_every_peer(const std::vector<Rung>& rungs, const std::vector<std::string>& names,
                                 const std::string& ladder) {
  std::set<size_t> chosen;
  for (const std::string& name : names) {
    const size_t rung = find_rung(rungs, name, "--peer-rung", ladder);
    if (rungs[rung].status != Rung::Status::planned) {
      refuse(fmt::format("--peer-rung {}: this rung is not measured: {}", name, rungs[rung].reason));
    }
    if (!chosen.insert(rung).second) refuse(fmt::format("--peer-rung {}: given twice", name));
  }
  for (size_t i = 0; i < rungs.size() && names.empty(); ++i) {
    if (rungs[i].status != Rung::Status::planned) continue;
    std::erase_if(chosen, [&](size_t before) { return rungs[before].shape == rungs[i].shape; });
    chosen.insert(i);
  }
  return chosen;
}

// Twins of what is planned: the same recipe and size, run by PyTorch.
void add_peers(std::vector<Rung>& rungs, const Design& design, const std::string& ladder, const Shape& shape) {
  const size_t own = rungs.size();
  const std::set<size_t> chosen = with_every_peer(rungs, design.peer_rungs, ladder);
  std::vector<std::pair<std::string, std::string>> makers;  // modes, each with "2.15-" or ""
  for (const std::string& mode : design.peer_modes) {
    if (design.peer_torches.empty()) makers.emplace_back(mode, "");
    for (const std::string& torch : design.peer_torches) makers.emplace_back(mode, torch + "-");
  }
  for (size_t i = 0; i < own; ++i) {
    if (rungs[i].status != Rung::Status::planned) continue;
    for (const auto& [mode, torch] : makers) {
      const bool is_eager = mode == "eager" && recipe_of(rungs[i]).execution == model::Execution::eager;
      if (!is_eager && !chosen.contains(i)) continue;
      Rung peer = rungs[i];
      peer.peer = fmt::format("pytorch-{}{}", torch, mode);
      peer.title = peer_title(peer.peer);
      peer.name = name_of(rungs[i]) + "-" + peer.peer;
      peer.against = i;
      if (peer.shape && !peer.reference) peer.reference = i;  // a sweep of one rung: it guards its peer
      const Shape size = peer.shape.value_or(shape);
      peer.reason = peer_obstacle(recipe_of(peer), peer.peer, size.B * size.T);
      if (!peer.reason.empty()) peer.status = Rung::Status::not_applicable;
      rungs.push_back(peer);
    }
  }
}

std::string summary_of(const Rung& rung, const Rung& reference, Mode mode) {
  if (!rung.peer.empty()) return "The recipe of the rung it stands for, run by PyTorch.";
  if (rung.name == "full") return "Every optimization of the ladder that applies on this machine.";
  const Optimization* optimization = find_optimization(rung.optimization);
  if (&rung != &reference) {
    if (mode == Mode::factorial && rung.recipe == reference.recipe) {
      return "Without the others it changes nothing: the recipe is the reference's, and the ratio is noise.";
    }
    if (optimization == nullptr && !rung.applied.empty()) return "Several optimizations at once.";
  }
  return optimization != nullptr ? optimization->summary : "The recipe from which the ladder starts.";
}

ExpectedWork expected_work(const model::Recipe& recipe, const Ladder& ladder, const Shape& shape) {
  const model::Config config = model::with_positions(model::preset(ladder.workload.model), shape.positions);
  ExpectedWork work{.rate = rate_of(recipe), .operations = {}};
  for (const Cost& cost : step_costs(config, recipe, shape.B, shape.T, shape.accumulation)) {
    work.operations.push_back({cost.flops, cost.bytes});
  }
  return work;
}

// Adds what a study says of a rung and judges it by, so that it needs to know no technique.
void describe(std::vector<Rung>& rungs, const Ladder& ladder, const Shape& shape, Mode mode) {
  const Rung& reference = rungs[reference_rung(rungs)];
  for (Rung& rung : rungs) {
    rung.summary = summary_of(rung, reference, mode);
    if (find_optimization(rung.optimization) != nullptr) rung.text = text_file(rung.optimization);
    rung.losses = expected_losses(recipe_of(rung), !rung.peer.empty());
    const bool is_own = rung.status == Rung::Status::planned && rung.peer.empty();
    if (mode == Mode::cumulative && is_own) rung.work = expected_work(recipe_of(rung), ladder, shape);
    rung.losses->tolerance = std::max(rung.losses->tolerance, peer_tolerance(rung.peer));
  }
}

}  // namespace

std::string peer_title(const std::string& peer) {
  const auto [torch, name] = peer_name(peer);
  const auto mode = std::ranges::find(known_peer_modes, name, &PeerMode::name);
  return mode == known_peer_modes.end() ? peer : with_version(mode->title, torch);
}

Design design_of(const DesignFlags& flags, const Machine& machine) {
  Design design;
  if (!flags.sweep.empty()) design.mode = Mode::sweep;
  if (!flags.mode.empty()) design.mode = mode_of(flags.mode, "--mode");
  if (design.mode == Mode::sweep && flags.sweep.empty()) refuse("--mode sweep needs --sweep, such as batch=16,32,64");
  if (design.mode != Mode::sweep && !flags.sweep.empty()) {
    refuse(fmt::format("--sweep is a mode of its own and cannot be combined with --mode {}", flags.mode));
  }
  if (design.mode != Mode::sweep && !flags.rungs.empty()) {
    refuse("--rung needs --sweep; to measure some rungs only: --sweep batch=N --rung A,B");
  }
  if (design.mode != Mode::factorial && !flags.factors.empty()) refuse("--factors needs --mode factorial");
  if (!flags.peer.empty() && design.mode != Mode::cumulative && design.mode != Mode::sweep) {
    refuse(fmt::format("--with-peer needs --mode cumulative or sweep, got {}", name_of(design.mode)));
  }
  if (!flags.factors.empty()) design.factors = list_of(flags.factors, "--factors " + flags.factors);
  if (!flags.sweep.empty()) read_sweep(flags.sweep, design);
  design.rungs = flags.rungs;
  if (!flags.peer_rungs.empty() && (flags.peer.empty() || design.mode != Mode::cumulative)) {
    refuse("--peer-rung needs --with-peer and --mode cumulative");
  }
  design.peer_rungs = flags.peer_rungs;
  design.peer_modes = read_peer_modes(flags, machine);
  design.peer_torches = flags.peer_torches;
  return design;
}

std::vector<Rung> rungs_of(const Ladder& ladder, const Design& design, const Shape& shape, const Machine& machine,
                           const Choose& choose) {
  // A factorial is asked for what its factors are worth, whatever that is.
  std::vector<Rung> rungs = climb(ladder, machine, design.mode == Mode::factorial ? nullptr : choose);
  const size_t reference = reference_rung(rungs);
  if (rungs[reference].status != Rung::Status::planned) {  // nothing applies
    describe(rungs, ladder, shape, design.mode);
    return rungs;
  }
  std::vector<std::string> candidates;
  for (size_t i = reference + 1; i < rungs.size(); ++i) {
    if (rungs[i].status == Rung::Status::planned) candidates.push_back(rungs[i].optimization);
  }
  const bool subsets = design.mode != Mode::cumulative && design.mode != Mode::sweep;
  if (subsets && candidates.empty()) {
    refuse(fmt::format("--mode {}: no optimization of ladder {} applies on this machine", name_of(design.mode),
                       ladder.name));
  }
  const Rung base = rungs[reference];
  switch (design.mode) {
    case Mode::cumulative:
      break;
    case Mode::leave_one_out:
      rungs = leave_one_out(ladder, base, candidates, machine, choose);
      break;
    case Mode::one_at_a_time:
      rungs = one_at_a_time(ladder, base, candidates, machine, choose);
      break;
    case Mode::factorial:
      rungs = factorial(ladder, base, candidates, design.factors, machine);
      break;
    case Mode::sweep:
      rungs = sweep(ladder, rungs, design, shape);
      break;
  }
  add_peers(rungs, design, ladder.name, shape);
  describe(rungs, ladder, shape, design.mode);
  return rungs;
}

}  // namespace ablations
