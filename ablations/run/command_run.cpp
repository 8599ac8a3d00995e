#include "ablations/run/command_run.h"

#include "ablations/run/command_files.h"
#include "ablations/run/command_process.h"
#include "ablations/run/command_trial.h"
#include "ablations/run/run.h"
#include "ablations/run/study_folder.h"
#include "harness/machine/machine.h"
#include "harness/machine/nvml.h"
#include "harness/process/utc.h"

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using harness::ChildResult;

Environment environment_of_commands() {
  Environment here = environment_of_program();
  here.kernel_switches = harness::kernel_switches(/*with_threads=*/true);
  const harness::VisibleGpus visible = harness::visible_gpus();
  if (!visible.gpus.empty()) {
    const harness::VisibleGpu& first = visible.gpus.front();
    here.gpu = Environment::Gpu{.name = first.name, .compute_capability = {}, .memory_bytes = first.memory_bytes};
    here.driver = visible.driver;
  }
  return here;
}

harness::Occupied occupy_for_commands(const std::string& command, const fs::path& at, bool wait) {
  std::set<std::string> devices{"cpu"};
  for (const harness::VisibleGpu& gpu : harness::visible_gpus().gpus) devices.insert("gpu-" + gpu.bus_id);
  return harness::occupy(devices, command, at, wait);
}

RunMaker commands(const Plan& plan, const fs::path& folder) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) (void)command_of(plan, i);
  const Environment here = environment_of_commands();
  return {.make = [&plan, folder, here](const PlannedRun& run,
                                        const std::function<void(std::string_view)>& on_line) -> std::optional<Record> {
            check_has_its_files(plan, folder);
            const Rung& rung = plan.rungs[run.rung];
            const std::string started = harness::utc_now();
            const harness::SinceBoot begun = harness::since_boot();
            CommandProcess process(plan, *rung.command, run.id, folder);
            process.make(on_line);
            const ChildResult& child = process.child();
            if (child.end == ChildResult::End::interrupted) return std::nullopt;
            const std::string fault = process.fault();
            const FailureKind kind = child.end == ChildResult::End::signaled      ? FailureKind::signal
                                     : child.end == ChildResult::End::timed_out   ? FailureKind::timeout
                                     : child.end == ChildResult::End::not_started ? FailureKind::spawn
                                                                                  : FailureKind::exit;
            Record record = fault.empty() ? process.record(run, rung.applied, here)
                                          : failed_record(run.id, kind, fault, started, child.seconds);
            if (record.command && !rung.program.empty()) record.command->commit = rung.program;
            record.started = started;
            record.duration_s = child.seconds;
            if (!begun.boot.empty()) record.since_boot = BootTime{begun.boot, begun.seconds};
            return record;
          },
          .here = here};
}

}  // namespace ablations
