#include "cli/gpt2/prospect.h"

#include "cli/gpt2/request.h"
#include "files/printable.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cli {

Prospect prospect_of(const StudyFlags& flags) {
  Prospect prospect{.plan = make_plan(flags, OwnAre::as_listed), .estimate = {}, .refusal = ""};
  prospect.estimate = estimate_of(prospect.plan, speeds_for(prospect.plan));
  prospect.refusal = reason_against_running_here(prospect.plan, prospect.estimate);
  return prospect;
}

const char* status_text(const Rung& rung) {
  return rung.status == Rung::Status::planned        ? "can be measured"
         : rung.status == Rung::Status::not_measured ? "not measured"
                                                     : "not applicable here";
}

std::string summary_of(const Prospect& prospect) {
  const Plan& plan = prospect.plan;
  const auto planned = std::ranges::count(plan.rungs, Rung::Status::planned, &Rung::status);
  const std::string rungs = number_of(std::ssize(plan.rungs), "rung");
  return fmt::format("{}{}, {}", planned == std::ssize(plan.rungs) ? "" : fmt::format("{} of ", planned), rungs,
                     estimate_text(prospect.estimate, plan.runs));
}

std::string rungs_text(const Prospect& prospect) {
  const Plan& plan = prospect.plan;
  const Shape shape = shape_of(plan);
  std::string text =
      wrapped(fmt::format("ladder {} ({}, B={} T={}): {} if nothing else runs", files::printable(plan.ladder.name),
                          plan.workload.model, shape.B, shape.T, summary_of(prospect)),
              "  ");
  size_t width = 0;
  for (const Rung& rung : plan.rungs) width = std::max(width, name_of(rung).size());
  const size_t rest = width < 40 ? 52 - width : 12;  // of 80 columns
  text += fmt::format("{:>80}\n", "runs      each     memory");
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    const std::string begin = fmt::format("  {:<{}} ", name_of(rung), width);
    if (rung.status != Rung::Status::planned) {
      text += wrapped(begin + status_text(rung) + (rung.reason.empty() ? "" : ": " + rung.reason),
                      std::string(begin.size(), ' '));
      continue;
    }
    const double seconds = prospect.estimate.run_s[i];
    text += fmt::format("{}{:<{}} {:>3} x {:>7} {:>6.1f} GiB\n", begin, files::shortened(label_of(rung), rest), rest,
                        std::ranges::count(plan.runs, i, &PlannedRun::rung), seconds > 0 ? clock_time(seconds) : "-",
                        gib(prospect.estimate.bytes[i]));
  }
  return text;
}

}  // namespace cli
