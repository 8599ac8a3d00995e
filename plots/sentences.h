// Words for parts of a study, which its table, its pages and its remarks share.
#pragma once

#include "results/common.h"
#include "results/study.h"
#include "results/training.h"
#include "text/style.h"

#include <optional>
#include <string>
#include <vector>

namespace plots {

// A rung of ours with a number that counts.
bool has_number(const StudyRung& rung);

// It was to have no number: nothing failed.
bool is_left_out(const StudyRung& rung);

// Those that should have one and do not, other programs' too.
std::vector<const StudyRung*> rungs_without_number(const Study& study);

std::string in_quotes(const std::string& name);

// Whether it is of commands (`ladder measure`), not of recipes.
bool of_commands(const Study& study);
// Of a side of logs: "val loss 3.28 [3.277 - 3.283], seconds 79.7 [79.5 - 79.8]", but for what is compared. Else empty.
std::string last_numbers(const Study& study, const StudyRung& rung);
// Commands that are compared with the first, none of which adds to the one before.
bool are_independent(const Study& study);
// What a time is of: "step", or what all commands' numbers count in its place: "line", "sample", "0.1 %".
std::string timed_unit(const Study& study);

// Whether it compares a number that commands print, not a time.
bool is_of_value(const Study& study);
// The number that it compares, of a rung with one, and what that is: "ms per step", "s per run", "val_loss".
double compared_number(const Study& study, const StudyRung& rung);
std::string compared_unit(const Study& study);

// A share; none: not known.
std::optional<double> mfu_of(const StudyRung& rung);

// A status in words: "not applicable", "out of memory".
std::string status_words(const StudyRung& rung);

// Why a rung has no number that counts: "failed: exit status 3".
std::string why_no_number(const StudyRung& rung);

// How far a rung's losses are from the reference's, in nats. None: a loss is not finite.
std::optional<double> judged_deviation(const RungGuard& guard);

// "passed, median difference 0.0021 nats (limit 0.02); largest single step 0.0034 (limit 0.5), 24 steps"
std::string guard_words(const RungGuard& guard);

// Which way a ratio goes, as far as its interval tells.
enum class Direction { unknown, unclear, slower, faster };
Direction direction_of(const Ratio& speedup);

// The size that a sweep varies; none: the study has one size only.
std::optional<Swept> varied_size(const Study& study);

// "B=16 " in a sweep, which measures rungs at several sizes; otherwise empty.
std::string swept_words(const Study& study, const StudyRung& rung);

// What a study leads with.
struct Lead {
  const StudyRung *rung, *reference;  // the study's
  const Ratio* speedup;
};

// The rungs that the study leads with; none if it has no valid speedup.
std::optional<Lead> lead_of(const Study& study);

// The method by which a mode tells an optimization's worth; none: it tells none, or a ladder's order does.
std::optional<Method> method_of(Mode mode);

// A study most of whose runs were disturbed, without ratios, worths, headline and explanations: nothing follows from
// its times. Any other as it is.
Study without_claims(Study study);

// "1,785 of 1,980 MHz": the SM clock of a rung at the GPU's power limit, of the highest that the study saw. Empty: it
// is not at the limit.
std::string clock_words(const Study& study, const StudyRung& rung);

// "GPT-2 124M on NVIDIA H200 · B=16 T=1024 · 2026-11-26", without the size that a sweep varies. "GPT-2 124M on NVIDIA
// H200" alone is the subject.
std::string title_of(const Study& study);
std::string title_of(const Training& training, const NamedDevice& device);
std::string model_on_device(const std::string& model, const std::string& device);
std::string short_device(const std::string& device);  // "AMD EPYC 9B14, 2 threads"

// The worst first; those of one severity stay in their order.
std::vector<Remark> sorted(std::vector<Remark> remarks);

// Without signs that an old terminal lacks: "2.45x", "1,324 -> 553 ms".
std::string ascii_words(std::string text);

// What was found, for the beginning of a terminal's output.
std::string found_text(const std::vector<Found>& found, const Look& look);
// The same as remarks, before all others.
std::vector<Remark> found_remarks(const std::vector<Found>& found);
constexpr const char* headline_of_found = "Not true as measured: see what was found";

// Those that doubt, and those that say what to do: for a terminal, and as a list in Markdown.
std::string remarks_text(const std::vector<Remark>& remarks, const Look& look);
std::string remarks_markdown(const std::vector<Remark>& remarks);

// What is said, for the end of a terminal's output: remarks with what to do, then the headline and its lines.
std::string said_text(const Said& said, const Look& look);

}  // namespace plots
