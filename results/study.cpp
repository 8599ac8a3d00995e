#include "results/study.h"

#include "harness/stats/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace results {

void Study::check(const std::string& where) const {
  const auto refuse = [&](const std::string& what) { throw std::invalid_argument(where + ": " + what); };
  const auto check_refers = [&](const std::string& who, size_t rung) {
    if (rung < rungs.size()) return;
    refuse(fmt::format("{} refers to rung {}; there are {}, counted from 0", who, static_cast<int64_t>(rung),
                       rungs.size()));
  };
  if (!hashes) refuse("field \"hashes\" is missing");
  if (!sha256) refuse("field \"sha256\" is missing");
  for (size_t i = 0; i < rungs.size(); ++i) {
    const StudyRung& rung = rungs[i];
    const std::string who = fmt::format("field [rungs][{}]", i);
    if (rung.index != i) refuse(fmt::format("{} has the index {}", who, static_cast<int64_t>(rung.index)));
    if (rung.ms_per_step && !rung.tokens_per_s && !rung.command) refuse(who + " has a time and no \"tokens_per_s\"");
    if (rung.mfu && rung.mfu->value && !(rung.mfu->peak_flops && rung.mfu->peak_source)) {
      refuse(who + " has an MFU without its peak");
    }
    if (swept && !rung.workload) refuse(who + " of a sweep has no \"workload\"");
    if (rung.against) check_refers(who, *rung.against);
    if (rung.peer && (!rung.against || rungs[*rung.against].peer)) {
      refuse(who + " is a peer's, and \"against\" is no rung of this program");
    }
    if (rung.guard) check_refers(who, rung.guard->guarded_by);
    if (!rung.peers) continue;
    for (const PeerRatio& peer : *rung.peers) check_refers(who, peer.rung);
  }
  if (headline) {
    const std::string who = "field [headline]";
    check_refers(who, headline->first);
    check_refers(who, headline->last);
    if (headline->planned) check_refers(who, *headline->planned);
    if (headline->fastest) {
      check_refers(who, *headline->fastest);
      const StudyRung& fastest = rungs[*headline->fastest];
      if (!fastest.speedup_first) refuse(who + " calls a rung the fastest that has no speedup");
      if (!fastest.ms_per_step) refuse(who + " calls a rung the fastest that has no time");
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string who = fmt::format("field [runs][{}]", i);
    check_refers(who, runs[i].rung);
    if (runs[i].repeat < 0) refuse(fmt::format("{}: \"repeat\" is {}", who, runs[i].repeat));
    if (runs[i].position < 0) refuse(fmt::format("{}: \"position\" is {}", who, runs[i].position));
  }
}

namespace {

// As gpu_monitor.h, processor_time.h and run/memory.h begin them.
bool has_flag(const std::string& flags, const char* kind) { return flags.find(kind) != std::string::npos; }
constexpr const char *shared = "shared: ", *throttled = "throttled: ", *paused = "paused: ";

}  // namespace

std::string remedy_for(const std::vector<std::string>& flags) {
  const auto any = [&](const char* kind) {
    return std::ranges::any_of(flags, [&](const std::string& of) { return has_flag(of, kind); });
  };
  if (any(shared)) return "stop the other work";
  if (any(throttled)) return "let the GPU cool";
  return any(paused) ? "let it run without a pause" : "take a smaller batch";
}

std::optional<Unusable> why_unusable(const Study& study) {
  if (study.unusable) return study.unusable;
  std::vector<std::string> disturbed;
  for (const StudyRung& rung : study.rungs) {
    if (rung.flags) disturbed.insert(disturbed.end(), rung.flags->begin(), rung.flags->end());
  }
  if (!disturbed.empty() && harness::are_most(std::ssize(disturbed), study.plan.runs_ok)) {
    const auto all = [&](const char* kind) {
      return std::ranges::all_of(disturbed, [&](const std::string& of) { return has_flag(of, kind); });
    };
    const std::string runs = fmt::format("{} of {} runs", disturbed.size(), study.plan.runs_ok);
    return Unusable{.what = all(shared)      ? "other work ran during " + runs
                            : all(throttled) ? "the GPU was throttled during " + runs
                                             : runs + " were disturbed",
                    .remedy = remedy_for(disturbed)};
  }
  if (study.judgment) return std::nullopt;  // which counts with few pairs, too
  std::vector<std::string> reasons;
  bool any = false;
  const auto look = [&](const Bounds& bounds, int64_t pairs) {
    // An interval of two logs on each side says by its width how little they tell.
    const int64_t enough = study.from_logs ? harness::fewest_pairs : pairs;
    const std::string why = harness::why_unusable(enough, bounds.lo, bounds.hi);
    if (why.empty()) any = true;
    reasons.push_back(why);
  };
  if (study.headline) look(study.headline->speedup, study.headline->speedup.pairs);
  for (const StudyRung& rung : study.rungs) {
    if (study.headline) break;
    const bool is_reference = rung.speedup_first && rung.speedup_first->ratio == 1;  // compared with itself
    if (rung.speedup_first && !is_reference) look(*rung.speedup_first, rung.speedup_first->pairs);
    for (const PeerRatio& peer : rung.peers.value_or(std::vector<PeerRatio>{})) {
      if (peer.ratio) look(peer, peer.pairs.value_or(0));
    }
  }
  if (any || reasons.empty()) return std::nullopt;
  return Unusable{
      .what = reasons.front(),
      .remedy = study.from_logs ? "read two logs of each side, or more" : "take more repeats on a quiet machine"};
}

bool is_about_batches(const Study& study) {
  return std::ranges::any_of(study.rungs, [](const StudyRung& rung) { return rung.batches.has_value(); });
}

int64_t swept_size(Swept swept, const StudyRung& rung) {
  switch (swept) {
    case Swept::batch:
      return rung.workload->B;
    case Swept::context:
      return rung.workload->T;
    case Swept::accumulation:
      break;
  }
  return rung.workload->accumulation;
}

}  // namespace results
