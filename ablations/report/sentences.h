// What is said of a study and of its rungs, by the terminal and by the pages alike.
#pragma once

#include "ablations/documents/study.h"

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

// "typically 0.0021 nats off (one step 0.0034), 0.02 allowed"
std::string deviation_words(const RungGuard& guard);

// What stands behind a guard's verdict: the deviation, how many steps were compared, and what is wrong, if anything is.
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

// "2.61× faster", or "No valid speedup: no rung has a number (failed)".
std::string headline_words(const Study& study);

// What is to be known before any number: that they are a CPU's, of a quick look, of a study that is not finished.
std::vector<std::string> remarks_of(const Study& study);

// What the worths of a mode are; empty for the cumulative ladder and a sweep, which have none.
std::string worth_words(Mode mode);

// What the columns about batches are; empty where the study is not about them.
std::string batch_words(const Study& study);

// What the parts of a rung's memory are; empty where no rung's was counted.
std::string memory_words(const Study& study);

}  // namespace ablations
