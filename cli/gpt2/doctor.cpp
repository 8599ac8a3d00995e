#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/profile/estimate.h"
#include "ablations/profile/rates.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/request.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "results/environment.h"
#include "text/figures.h"
#include "text/style.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::Json;

namespace {

struct DoctorFlags {
  bool json = false, peaks = false;
  std::string plan;               // a rung or a recipe, whose step's memory is asked for
  std::string ladder;             // whose rungs are shown, or that has the rung
  WorkloadFlags workload;         // its size
  std::optional<int64_t> memory;  // bytes of another device
};

void print_notes(const std::vector<std::string>& notes) {
  const Look& look = standard_output();
  for (const std::string& note : notes) {
    fmt::print("{}", look.painted(Style::caution, wrapped("to fix   " + note, "         ")));
  }
  if (notes.empty()) fmt::print("{}\n", look.painted(Style::good, "nothing disturbs measurements right now"));
}

bool has_data() {
  return (fs::exists(default_text()) && fs::exists(files::default_vocabulary())) || fs::exists(bundled_tokens());
}

// What disturbs a measurement here or leaves a part of it out.
std::vector<std::string> things_to_fix(const harness::Machine& machine) {
  std::vector<std::string> notes = harness::disturbances();
  if (!has_data()) notes.emplace_back("the default text or vocabulary is missing: `make data` fetches them");
  if (!machine.gpu) return notes;
  if (const harness::NvmlDevice device(harness::current_bus_id()); !device.unavailable().empty()) {
    notes.push_back("runs are not watched for throttling and sharing: " + device.unavailable());
  }
  std::ifstream driver("/proc/driver/nvidia/params");
  std::string parameters;
  std::getline(driver, parameters, '\0');
  if (parameters.find("RmProfilingAdminOnly: 1") != std::string::npos) {
    notes.emplace_back(
        "hardware counters are for root only; to permit them: options nvidia "
        "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d");
  }
  return notes;
}

// A ladder's prospect on this machine. Without the default data another file replaces it; its size does not matter.
Prospect prospect_of_ladder(const std::string& name) {
  StudyFlags flags;
  flags.ladder = name;
  if (!has_data()) flags.workload.data = ladder_file(name);
  try {
    return prospect_of(flags);
  } catch (const std::exception& error) {  // no rung applies
    Prospect none;
    none.plan.rungs = climb(load_ladder(name), harness::this_machine());
    none.refusal = error.what();
    return none;
  }
}

// Every rung of the ladders, and whether it can be measured here.
Json ladders_json(const std::vector<std::string>& names) {
  Json ladders = Json::object();
  for (const std::string& name : names) {
    const Prospect prospect = prospect_of_ladder(name);
    for (const Rung& rung : prospect.plan.rungs) {
      const bool is_refused = rung.status == Rung::Status::planned && !prospect.refusal.empty();
      ladders[name].push_back({{"rung", name_of(rung)},
                               {"status", is_refused ? "refused here" : status_text(rung)},
                               {"reason", is_refused ? prospect.refusal : rung.reason}});
    }
  }
  return ladders;
}

// Waits until nobody else measures on the devices.
Rates machine_rates(const harness::Machine& machine) {
  std::set<model::Device> devices{model::Device::cpu};
  if (machine.gpu) devices.insert(model::Device::cuda);
  const Occupied held = occupy(devices, "ladder doctor --peaks", fs::current_path(), true);
  return measure_rates();
}

// The memory that a step must fit into, and whose it is: --memory's, the GPU's, or the host's available memory.
std::pair<std::optional<double>, std::string> memory_for(const RunOptions& step, std::optional<int64_t> named) {
  using Known = std::pair<std::optional<double>, std::string>;
  const auto size = [](int64_t bytes) { return fmt::format("{:.2f} GiB", gib(bytes)); };
  const harness::Machine& machine = harness::this_machine();
  const bool assumes = step.recipe.device == model::Device::cuda && (named || !machine.gpu);
  const std::string assumed =
      assumes ? fmt::format(" (compute capability {:.1f} is assumed)", assumed_compute_capability / 10.0) : "";
  if (named) return Known(*named, fmt::format("--memory is {}{}", size(*named), assumed));
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
  const RunOptions step = planned_step(flags.plan, {.workload = flags.workload, .ladder = flags.ladder}, flags.memory);
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

void print_machine(const harness::Machine& machine) {
  const harness::Cpu& cpu = machine.cpu;
  fmt::print("CPU      {}, {}{}{}{}\n", cpu.model, number_of(cpu.online_cores, "core"),
             cpu.logical_cores < cpu.online_cores ? fmt::format(" ({} for this process)", cpu.logical_cores) : "",
             cpu.features.empty() ? "" : ", ", fmt::join(cpu.features, " "));
  if (machine.gpu) {
    const std::string driver = harness::software().driver_cuda;
    fmt::print("GPU      {}, compute capability {:.1f}, {:.1f} GiB, driver for CUDA {}\n", machine.gpu->name,
               machine.gpu->compute_capability / 10.0, gib(machine.gpu->memory_bytes), driver.empty() ? "?" : driver);
  } else {
    fmt::print("GPU      none: {}\n", machine.no_gpu_reason);
  }
  std::error_code unknown;
  const fs::space_info disk = fs::space(".", unknown);
  const std::optional<int64_t> memory = harness::available_memory();
  fmt::print("memory   {} available; disk {} free here\n", memory ? fmt::format("{:.1f} GiB", gib(*memory)) : "unknown",
             unknown ? "unknown" : fmt::format("{:.0f} GiB", gib(disk.available)));
  if (has_data()) {
    const bool has_text = fs::exists(default_text()) && fs::exists(files::default_vocabulary());
    fmt::print("data     {}\n", (has_text ? files::cache_folder() / "data" : bundled_tokens()).string());
  }
}

// A line for each ladder. Returns the command to begin with.
std::string print_ladders(const harness::Machine& machine) {
  std::string next = "ladder ablate --ladder tiny";
  fmt::print("ladders  (the least time; a study may take twice as long)\n");
  for (const std::string& name : ladder_names()) {
    const Prospect prospect = prospect_of_ladder(name);
    const bool is_refused = !prospect.refusal.empty();
    const bool needs_gpu = !machine.gpu && std::ranges::any_of(prospect.plan.rungs,
                                                               [](const Rung& rung) { return name_of(rung) == "gpu"; });
    const std::string words = !is_refused ? "ok, " + summary_of(prospect)
                              : needs_gpu ? "needs a GPU"
                                          : "no: " + files::printable(prospect.refusal);
    fmt::print("{}", standard_output().painted(is_refused ? Style::faint : Style::plain,
                                               wrapped(fmt::format("  {:<18} {}", name, words), std::string(21, ' '))));
    if (name == chosen_ladder("") && !is_refused) next = "ladder ablate --quick";
  }
  return has_data() ? next : "make data";
}

int doctor(const DoctorFlags& flags) {
  if (!flags.plan.empty()) return plan_memory(flags);
  const harness::Machine& machine = harness::this_machine();
  if (flags.json) {
    const auto names = flags.ladder.empty() ? ladder_names() : std::vector<std::string>{flags.ladder};
    Json found{{"environment", json_of(environment_here())},
               {"notes", things_to_fix(machine)},
               {"ladders", ladders_json(names)}};
    if (flags.peaks) found["peaks"] = to_json(machine_rates(machine));
    fmt::print("{}\n", files::ascii_text(found));
    return 0;
  }
  if (!flags.ladder.empty()) {
    const Prospect prospect = prospect_of_ladder(flags.ladder);
    if (prospect.plan.runs.empty()) throw std::invalid_argument(prospect.refusal);
    fmt::print("{}", rungs_text(prospect));
    fmt::print("{}", prospect.refusal.empty()
                         ? fmt::format("Next: ladder ablate --ladder {}\n", files::printable(flags.ladder))
                         : wrapped("refused here: " + prospect.refusal, "  "));
    return 0;
  }
  if (flags.peaks) {
    fmt::print("{}\n", rates_text(machine_rates(machine)));
    print_notes(things_to_fix(machine));
    return 0;
  }
  print_machine(machine);
  const std::string next = print_ladders(machine);
  print_notes(things_to_fix(machine));
  fmt::print("Next: {}\n", next);
  return 0;
}

}  // namespace

void add_doctor(CommandLine& line) {
  Command& command = line.add(
      {.name = "doctor",
       .about =
           "Shows the processor, the GPU, memory, and the data. Says for each ladder whether it can be measured here, "
           "for how long and with how much memory; then what to fix, and the command to begin with. Writes nothing.\n"
           "With --plan it says instead how much memory a step will take, part by part, and the largest batch that "
           "fits. Nothing is run. The exit status is 1 if the step does not fit, and 3 if its device is not here and "
           "--memory is not given.",
       .examples = {{"ladder doctor", "The machine, its ladders, and what to fix before measuring."},
                    {"ladder doctor --ladder gpt2", "Each rung of that ladder, and why some cannot be measured."},
                    {"ladder doctor --plan flash -B 8", "Does that rung fit at B=8? What is the largest B that does?"},
                    {"ladder doctor --plan graph --ladder gpt2 -B 64 --memory 80GiB",
                     "The same of a GPU with 80 GiB, which need not be here."},
                    {"ladder doctor --peaks", "Measured memory and matrix rates beside the maker's figures."}},
       .common = {"--ladder", "--plan", "--memory", "--model", "--batch", "--context", "--peaks", "--json"}});
  auto& flags = command.runs<DoctorFlags>(doctor);
  command.heading("What to print");
  command.add_flag("--peaks", flags.peaks,
                   "measure memory and matrix rates, and show them beside the maker's figures (some "
                   "seconds)");
  auto* plan = add_text(command, "--plan", flags.plan,
                        "the memory of this step: a rung of --ladder, or a recipe ('{\"autocast\": \"bf16\"}')",
                        "RUNG|FILE|JSON");
  command.add_flag("--json", flags.json, "print JSON, for programs");
  add_text(command, "--ladder", flags.ladder, "show each rung of this ladder; with --plan: where its rung is looked up",
           "NAME|FILE");
  command.exclude("--peaks", {"--plan", "--ladder"});
  command.heading("With --plan");
  add_bytes(command, "--memory", flags.memory,
            "a device with so much memory, as a GPU of compute capability 9.0 (default: this machine's)", 1000000,
            100000000000000)
      ->needs(plan);
  add_size_flags(command, flags.workload, "gpt2-124m, or the ladder's", "the ladder's, else 1 x 256 tokens");
  for (const std::string& flag : size_flags) command.get_option(flag)->needs(plan);
}

}  // namespace cli
