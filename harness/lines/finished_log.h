// What the log of a run tells that has ended: its steps and losses as of a run that is watched (step_reader.h), its
// times by its own clock.
//
// A clock is, in this order: a time that only goes up and says its unit ("train_time:1234ms", "elapsed 12.3 s", a bar's
// "[00:12<"), the stamps at the beginning of its lines, or what each step says that it took. A time that goes back, as
// after a restart, is none.
#pragma once

#include "harness/lines/step_format.h"
#include "harness/lines/step_reader.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct FinishedLog {
  std::vector<LogLine> lines;          // `seconds` by its clock: the last reading before the line's end
  std::vector<StepLine> steps;         // likewise
  std::optional<StepFormat> format;    // none: no step was found, or a pattern was given
  std::string clock;                   // what times are read of: "train time", "time stamps"; empty: it tells no time
  double resolution_s = 0;             // of its readings, as they are printed
  bool has_step_times = false;         // its lines tell times, and not only its end
  std::optional<double> seconds;       // of the whole run; none: its clock tells steps only
  std::map<std::string, double> last;  // the last number of each loss, validation's too: {"val loss": 3.28}
};

// `steps`: where its steps are; none: the lines decide. `clock`: a pattern with a group (?P<seconds>...) or
// (?P<ms>...), of a time that goes up; none: the lines decide.
FinishedLog finished_log(std::string_view text, const std::optional<StepPattern>& steps = {},
                         const std::optional<LinePattern>& clock = {});

}  // namespace harness
