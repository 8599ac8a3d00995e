#include "results/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>

namespace results {

PeerName peer_name(const std::string& peer) {
  constexpr size_t begin = std::string_view("pytorch-").size();
  if (peer.size() <= begin) return {};
  const std::string rest = peer.substr(begin);
  const size_t end = rest.front() >= '0' && rest.front() <= '9' ? rest.find('-') : std::string::npos;
  return end == std::string::npos ? PeerName{"", rest} : PeerName{rest.substr(0, end), rest.substr(end + 1)};
}

std::string short_version(const std::string& torch) {
  const std::string version = torch.substr(0, torch.find('+'));
  return version.ends_with(".0") && std::ranges::count(version, '.') == 2 ? version.substr(0, version.size() - 2)
                                                                          : version;
}

std::string with_version(const std::string& title, const std::string& torch) {
  constexpr std::string_view program = "PyTorch ";
  if (torch.empty() || !title.starts_with(program)) return title;
  return fmt::format("{}{} {}", program, torch, title.substr(program.size()));
}

static std::optional<LineColumn> line_column(const std::optional<harness::Column>& column) {
  return column ? std::optional(LineColumn{*column}) : std::nullopt;
}

LineFormat line_format(const harness::StepFormat& format) {
  return {.step = line_column(format.step),
          .loss = line_column(format.loss),
          .rank = line_column(format.rank),
          .loss_is_apart = format.loss_is_apart,
          .is_of_epoch = format.is_of_epoch,
          .unit = format.unit,
          .of_rank = format.of_rank,
          .per_line = format.per_line,
          .copies = format.copies};
}

harness::StepFormat step_format(const LineFormat& format) {
  return {.step = format.step,
          .loss = format.loss,
          .loss_is_apart = format.loss_is_apart,
          .is_of_epoch = format.is_of_epoch,
          .unit = format.unit,
          .rank = format.rank,
          .of_rank = format.of_rank,
          .per_line = format.per_line,
          .copies = format.copies,
          .shape = ""};
}

namespace {

void check_rungs(const Plan& plan, const std::string& where) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    for (const auto& other : {rung.against, rung.reference}) {
      if (other && (*other >= plan.rungs.size() || *other == i)) {
        throw std::invalid_argument(
            fmt::format("{}: rung {} must be compared with another rung of the plan, got {}", where, i, *other));
      }
    }
    if (plan.gate ? rung.program.empty() || !rung.peer.empty() : !rung.program.empty()) {
      throw std::invalid_argument(fmt::format("{}: rung {} {}", where, i,
                                              plan.gate ? "has no \"program\", which a gate's plan needs"
                                                        : "has a \"program\", which only a gate's plan may have"));
    }
    if (rung.command.has_value() != rung.recipe.is_null()) {
      throw std::invalid_argument(fmt::format("{}: rung {} must have either a recipe or a command", where, i));
    }
    if (const files::Json device = files::field_or_null(rung.recipe, "device");
        !device.is_null() && device != "cpu" && device != "cuda") {
      throw std::invalid_argument(fmt::format("{}: rung {}: recipe field \"device\" must be one of cpu, cuda, got {}",
                                              where, i, device.dump()));
    }
    if (!rung.command && !rung.losses) {
      throw std::invalid_argument(fmt::format(
          "{}: rung {} has no \"losses\": the plan is an older program's, and only that program reads it", where, i));
    }
    if (std::set(rung.applied.begin(), rung.applied.end()).size() != rung.applied.size()) {
      throw std::invalid_argument(fmt::format("{}: rung {} has an optimization on twice", where, i));
    }
  }
  if (plan.reference >= plan.rungs.size()) {
    throw std::invalid_argument(fmt::format("{}: reference {} is not a rung", where, plan.reference));
  }
}

void check_runs(const Plan& plan, const std::string& where) {
  std::set<std::string> ids;
  std::set<size_t> measured;
  for (const PlannedRun& run : plan.runs) {
    if (run.rung >= plan.rungs.size() || run.repeat >= plan.repeats || !ids.insert(run.id).second) {
      throw std::invalid_argument(
          fmt::format("{}: run \"{}\" appears twice, or its rung or repeat is not in the plan", where, run.id));
    }
    measured.insert(run.rung);
  }
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    if (plan.rungs[i].status == Rung::Status::planned && !measured.contains(i)) {
      throw std::invalid_argument(fmt::format("{}: rung {} is planned but has no run", where, i));
    }
  }
}

// What whole_plan takes for granted.
void check_quick(const Plan& plan, const std::string& where) {
  if (!plan.quick) return;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: quick: {}", where, why));
  };
  if (plan.mode != Mode::cumulative || plan.shard || plan.gate) refuse("only a whole, cumulative ladder can be quick");
  if (plan.quick->repeats <= plan.repeats) refuse("the whole ladder must have more repeats");
  for (const size_t rung : plan.quick->left_out) {
    if (rung < plan.rungs.size() && plan.rungs[rung].status == Rung::Status::not_measured) continue;
    refuse(fmt::format("rung {} was not left out", rung));
  }
}

// What the analysis of each mode takes for granted (modes.cpp plans it so, a file may say anything).
void check_mode(const Plan& plan, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: mode {}: {}", where, name_of(plan.mode), why));
  };
  if (plan.mode == Mode::sweep && !plan.swept) refuse("\"swept\" is missing");
  if (plan.mode == Mode::leave_one_out && plan.rungs.size() < 2) refuse("rung 1, with everything on, is missing");
  if (plan.mode == Mode::leave_one_out || plan.mode == Mode::one_at_a_time) {
    for (size_t i = 0; i < plan.rungs.size(); ++i) {
      if (plan.rungs[i].against && plan.rungs[i].optimization.empty()) {
        refuse(fmt::format("rung {} is compared with another, but names no optimization", i));
      }
    }
  }
  if (plan.mode != Mode::factorial) return;
  const std::vector<std::string>& base = plan.rungs[plan.reference].applied;
  std::set<std::set<std::string>> subsets;
  std::set<std::string> factors;
  for (const Rung& rung : plan.rungs) {
    std::set<std::string> subset(rung.applied.begin(), rung.applied.end());
    for (const std::string& name : base) subset.erase(name);
    factors.insert(subset.begin(), subset.end());
    subsets.insert(subset);
    if (subset.size() + base.size() != rung.applied.size()) refuse("a rung lacks what the reference has on");
  }
  if (subsets.size() != plan.rungs.size() || factors.size() > most_factors ||
      subsets.size() != size_t{1} << factors.size()) {
    refuse(fmt::format("{} rungs, {} optimizations; each of their subsets once is needed, of at most {}",
                       plan.rungs.size(), factors.size(), most_factors));
  }
}

}  // namespace

void Plan::check(const std::string& where) const {
  if (shard && shard->index > shard->count) {
    throw std::invalid_argument(fmt::format("{}: there is no shard {} of {}", where, shard->index, shard->count));
  }
  check_rungs(*this, where);
  check_runs(*this, where);
  check_mode(*this, where);
  check_quick(*this, where);
  if (commands && commands->expects && rungs.size() != 2) {
    throw std::invalid_argument(where + ": an experiment has two commands, base and head");
  }
}

}  // namespace results
