// What is said of a study and of its rungs, by the terminal and by the pages alike.
#pragma once

#include "ablations/documents/study.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// A status in words: "not applicable", "out of memory".
std::string status_words(const StudyRung& rung);

// Why a rung has no number that counts: "failed: exit status 3".
std::string why_no_number(const StudyRung& rung);

// How far a rung's losses are from the reference's, in nats. None: a loss is not finite.
std::optional<double> judged_deviation(const RungGuard& guard);

// "median difference 0.0021 nats (limit 0.02); largest single step 0.0034 (limit 0.5)"
std::string deviation_words(const RungGuard& guard);

// A guard's verdict, and what stands behind it: the deviation, how many steps were compared, and what is wrong, if
// anything is.
std::string guard_words(const RungGuard& guard);

// Which way a ratio goes, as far as its interval tells.
enum class Direction { unknown, unclear, slower, faster };
Direction direction_of(const Ratio& speedup);

// What a ratio without an interval shows; empty: it has one.
std::string no_interval(const Ratio& ratio);

// "B=16 " in a sweep, which measures rungs at several sizes; otherwise empty.
std::string swept_words(const Study& study, const StudyRung& rung);

// What a study leads with.
struct Lead {
  const StudyRung *rung, *reference;  // the study's
  const Ratio* speedup;
  bool is_replaced;  // the planned reference has no valid number, and `reference` took its place
};

// None: the study has no valid speedup.
std::optional<Lead> lead_of(const Study& study);

// The fastest of the programs beside a ladder's last rung, where that is clearly slower: this is said before anything
// else. None: there is no such program, or it is not faster.
struct FasterPeer {
  const StudyRung *own, *peer;
  const PeerRatio* ratio;  // its time / ours
};
std::optional<FasterPeer> faster_peer_of(const Study& study);

// "2.61× faster", or "No valid speedup: no rung has a number (failed)".
std::string headline_words(const Study& study);

// What stands behind the headline's speedup: "95 % confidence interval 2.59× – 2.64×, 5 pairs of runs". Empty without
// one.
std::string evidence_words(const Study& study);

// "From 1,512 ms per step (float32) to 579 ms (fused AdamW), 1.77K tokens/s." Empty without a speedup.
std::string change_words(const Study& study);

// Heads of the columns of a rung's speedups. Empty: a study of that mode has none against the rung before.
std::string vs_previous_words(Mode mode);
std::string vs_first_words(const Study& study);

// What a rung's number is of: "median of 5 runs".
std::string runs_words(const Study& study);

// What the intervals of a page are.
std::string range_words(const Statistics& statistics);

// "1,785 of 1,980 MHz": the SM clock of a rung at the GPU's power limit, of the highest that the study saw. Empty: it
// is not at the limit.
std::string clock_words(const Study& study, const StudyRung& rung);

// How the MFU is computed, or why there is none. Empty: an older study.
std::vector<std::string> mfu_words(const Study& study);

// What rungs of another program are; empty: there are none.
std::string peer_words(const Study& study);

// What was planned, and before the command that makes it again.
std::string plan_words(const StudyPlan& plan);

// What is to be known before any number: that they are a CPU's, of a quick look, of a study that is not finished.
std::vector<std::string> remarks_of(const Study& study);

// What the worths of a mode are; empty for the cumulative ladder and a sweep, which have none.
std::string worth_words(Mode mode);

// The method by which a mode tells an optimization's worth; none: it tells none, or a ladder's order does.
std::optional<Method> method_of(Mode mode);

// In what order an optimization is switched on whose worth a method tells: "on top of all others (leave-one-out)". By
// the names of the methods of a study's worths, and of its mode's.
std::map<std::string, std::string> method_words(const Study& study);

// What the columns about batches are; empty where the study is not about them.
std::string batch_words(const Study& study);

// What the peak of memory and its parts are; empty where no rung's was counted.
std::string memory_words(const Study& study);

// What stands behind a rung's number: runs, steps, how they are spread. Empty: it has none.
std::string figure_words(const StudyRung& rung);

// Places of a rung's proofs that are about what it changes: all of them if one failed, or if it changes nothing.
std::vector<size_t> own_proofs(const StudyRung& rung);

}  // namespace ablations
