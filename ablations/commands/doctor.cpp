#include "ablations/commands/commands.h"
#include "ablations/commands/defaults.h"
#include "ablations/commands/request.h"
#include "ablations/documents/environment.h"
#include "ablations/plan/ladder.h"
#include "ablations/profile/estimate.h"
#include "ablations/profile/memory_plan.h"
#include "ablations/profile/rates.h"
#include "ablations/run/occupy.h"
#include "ablations/text/figures.h"
#include "ablations/text/style.h"
#include "ablations/text/text.h"
#include "files/json_file.h"
#include "files/resources.h"
#include "harness/gpu/monitor.h"
#include "harness/measure/environment.h"
#include "harness/measure/system_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using files::Json;

namespace {

void print_notes(const std::vector<std::string>& notes) {
  const Look& look = standard_output();
  for (const std::string& note : notes) fmt::print("{} {}\n", look.painted(Style::caution, "to fix:"), note);
  if (notes.empty()) fmt::print("{}\n", look.painted(Style::good, "nothing disturbs measurements right now"));
}

// What NVML reports of the GPU now; it also watches every run.
std::string monitor_text(const harness::Machine& machine) {
  if (!machine.gpu) return "no GPU to watch";
  const harness::NvmlDevice device(harness::current_bus_id());
  if (!device.unavailable().empty()) return "runs are not watched for throttling and sharing: " + device.unavailable();
  std::vector<std::string> seen;
  const auto add = [&](const harness::Reading& reading, const char* what) {
    seen.push_back(reading.value ? fmt::format("{} {:g}", what, *reading.value)
                                 : fmt::format("{} unknown ({})", what, reading.note));
  };
  const harness::GpuSample sample = device.sample();
  for (const auto& [name, what] :
       {std::pair("sm_clock_mhz", "SM clock (MHz)"), {"power_w", "power (W)"}, {"temperature_c", "temperature (C)"}}) {
    if (const auto reading = sample.find(name); reading != sample.end()) add(reading->second, what);
  }
  add(device.energy_j(), "energy counter (J)");
  add(device.other_processes({}), "processes that compute on it");
  return fmt::format("NVML: {}", fmt::join(seen, ", "));
}

// Who may read the GPU's counters, by the driver's settings.
const char* counters_text(const harness::Machine& machine) {
  std::ifstream driver("/proc/driver/nvidia/params");
  const std::string parameters(std::istreambuf_iterator<char>(driver), {});
  if (parameters.find("RmProfilingAdminOnly: 0") != std::string::npos) return "permitted for everybody";
  if (!parameters.empty()) {
    return "root only; to permit them: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d";
  }
  if (!machine.gpu) return "no NVIDIA driver is loaded";
  return "not known: no /proc/driver/nvidia/params here, as in some containers; `ladder profile --counters` tells";
}

const char* status_text(const Rung& rung) {
  switch (rung.status) {
    case Rung::Status::planned:
      return "can be measured";
    case Rung::Status::not_measured:
      return "not measured";
    case Rung::Status::not_applicable:
      return "not applicable here";
  }
  return "";
}

// Why `ladder ablate` would refuse the ladder as it is here; empty: it would not for want of memory or time.
std::string refusal_of(const std::string& name) {
  AblateFlags flags;
  flags.ladder = name;
  try {
    const Plan plan = make_plan(flags, OwnAre::as_listed);
    return hopeless_here(plan, estimate_of(plan, speeds_for(plan)));
  } catch (const std::exception&) {  // no rung applies, or there is no text: said elsewhere
    return "";
  }
}

// What is said of a rung, in a word or two and at length.
std::pair<std::string, std::string> said_of(const Rung& rung, const std::string& refusal) {
  if (rung.status != Rung::Status::planned || refusal.empty()) return {status_text(rung), rung.reason};
  return {"refused here", refusal};
}

// Of every ladder that comes with the program.
Json ladders_json(const harness::Machine& machine) {
  Json ladders = Json::object();
  for (const std::string& name : ladder_names()) {
    const std::string refusal = refusal_of(name);
    for (const Rung& rung : climb(load_ladder(name), machine)) {
      const auto [status, reason] = said_of(rung, refusal);
      ladders[name].push_back({{"rung", name_of(rung)}, {"status", status}, {"reason", reason}});
    }
  }
  return ladders;
}

// Waits until nobody else measures on the devices.
Rates rates_of(const harness::Machine& machine) {
  std::set<model::Device> devices{model::Device::cpu};
  if (machine.gpu) devices.insert(model::Device::cuda);
  const Occupied held = occupy(devices, "ladder doctor --peaks", fs::current_path(), true);
  return measure_rates();
}

// What a step has to fit into, and whose that is: what --memory names, the GPU's memory, or what the host has
// available.
std::pair<std::optional<double>, std::string> memory_for(const RunOptions& step, int64_t named) {
  using Known = std::pair<std::optional<double>, std::string>;
  const auto size = [](int64_t bytes) { return fmt::format("{:.2f} GiB", gib(bytes)); };
  const harness::Machine& machine = harness::this_machine();
  const bool assumes = step.recipe.device == model::Device::cuda && (named > 0 || !machine.gpu);
  const std::string assumed =
      assumes ? fmt::format(" (compute capability {:.1f} is assumed)", assumed_compute_capability / 10.0) : "";
  if (named > 0) return Known(named, fmt::format("--memory is {}{}", size(named), assumed));
  if (step.recipe.device == model::Device::cpu) {
    const std::optional<int64_t> available = harness::available_memory();
    if (available) return Known(*available, fmt::format("this machine has {} available", size(*available)));
    return {std::nullopt, "the kernel does not say what is available; --memory names another size"};
  }
  if (machine.gpu)
    return Known(machine.gpu->memory_bytes, machine.gpu->name + " has " + size(machine.gpu->memory_bytes));
  return {std::nullopt,
          machine.no_gpu_reason + "; --memory 80GiB, for instance, asks about another machine's" + assumed};
}

// Whether the step of --plan fits.
int plan_memory(const DoctorFlags& flags) {
  const RunOptions step = step_options(flags);
  const auto [limit, limit_of] = memory_for(step, flags.memory);
  const MemoryPlan plan = memory_plan(step, limit, limit_of);
  if (flags.json) {
    fmt::print("{}\n", files::ascii_text(to_json(plan)));
  } else {
    fmt::print("{}\n", parts_text(plan));
  }
  const std::string verdict = files::printable(verdict_text(plan));
  if (plan.fits()) {
    if (!flags.json) fmt::print("{}\n", verdict);
    return 0;
  }
  std::fflush(stdout);
  fmt::print(stderr, "ladder doctor: {}\n", verdict);
  return plan.limit ? 1 : 3;
}

}  // namespace

int doctor(const DoctorFlags& flags) {
  if (!flags.plan.empty()) return plan_memory(flags);
  const harness::Machine& machine = harness::this_machine();
  const auto notes = harness::disturbances();
  if (flags.json) {
    Json found{{"environment", json_of(environment_here())}, {"notes", notes}, {"ladders", ladders_json(machine)}};
    if (flags.peaks) found["peaks"] = to_json(rates_of(machine));
    fmt::print("{}\n", files::ascii_text(found));
    return 0;
  }
  if (flags.peaks) {
    fmt::print("{}\n", rates_text(rates_of(machine)));
    print_notes(notes);
    return 0;
  }
  fmt::print("CPU      {}, {}{}{}{}\n", machine.cpu.model, number_of(machine.cpu.online_cores, "core"),
             machine.cpu.logical_cores < machine.cpu.online_cores
                 ? fmt::format(", of which this process may use {}", machine.cpu.logical_cores)
                 : "",
             machine.cpu.features.empty() ? "" : ": ", fmt::join(machine.cpu.features, " "));
  if (machine.gpu) {
    fmt::print("GPU      {}, compute capability {:.1f}, {:.1f} GiB\n", machine.gpu->name,
               machine.gpu->compute_capability / 10.0, gib(machine.gpu->memory_bytes));
  } else {
    fmt::print("GPU      none: {}\n", machine.no_gpu_reason);
  }
  const harness::Software software = harness::software();
  fmt::print("software torch {}, CUDA {}, driver for CUDA {}, {}\n", software.torch,
             software.cuda.empty() ? "?" : software.cuda, software.driver_cuda.empty() ? "none" : software.driver_cuda,
             software.onednn);
  const Look& look = standard_output();
  fmt::print("counters {}\n", counters_text(machine));
  fmt::print("monitor  {}\n", monitor_text(machine));
  fmt::print("data     {}\n", fs::exists(default_text()) && fs::exists(files::default_vocabulary())
                                  ? files::cache_folder().string() + "/data"
                              : fs::exists(bundled_tokens())
                                  ? bundled_tokens().string() + "; to read texts, name a vocabulary with --vocab"
                                  : "the default text or vocabulary is missing: `make data` fetches them");
  for (const std::string& name : ladder_names()) {
    const Ladder ladder = load_ladder(name);
    fmt::print("\nladder {} ({}, B={} T={})\n", look.painted(Style::strong, name), ladder.workload.model,
               ladder.workload.B, ladder.workload.T);
    const std::string refusal = refusal_of(name);
    if (!refusal.empty()) fmt::print("{}", look.painted(Style::caution, wrapped("  refused here: " + refusal, "  ")));
    for (const Rung& rung : climb(ladder, machine)) {
      const bool planned = rung.status == Rung::Status::planned;
      const std::string line = fmt::format("  {:<14} {}{}\n", name_of(rung), said_of(rung, refusal).first,
                                           planned ? "" : ": " + rung.reason);
      fmt::print("{}", look.painted(planned ? Style::plain : Style::faint, line));
    }
  }
  fmt::print("\n");
  print_notes(notes);
  return 0;
}

}  // namespace ablations
