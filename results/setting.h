// The circumstances of a measurement. Two times are comparable only if these are equal. A change may be in everything
// else: the program, and the recipe's optimizations.
#pragma once

#include "results/fields.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

// Known facts, by name, as text; none: the source does not say.
using Facts = std::map<std::string, std::optional<std::string>>;

struct Setting {
  // A field that not every setting has, as it belongs to the other kind of device. A value of none: the source does not
  // say.
  template <class T>
  using Maybe = std::optional<std::optional<T>>;

  std::optional<std::string> model;
  std::optional<int64_t> batch, context, accumulation, positions;
  std::optional<std::string> dtype, torch, device;
  Maybe<int64_t> threads, cores;                 // of a CPU; cores that the process may use
  Maybe<std::string> cpu_capability;             // of a CPU: the instructions of ATen's kernels
  Maybe<std::string> driver, driver_cuda, cuda;  // of a GPU
  Maybe<std::string> kernel_switches;  // by which libraries choose kernels: "none", "MKL_CBWR=COMPATIBLE, ..."
  Maybe<std::string> page_cache;       // "cold" where the run's data were taken out of it
  Maybe<std::string> windows;          // "random" where each sequence begins anywhere

  [[nodiscard]] bool is_of_cpu() const { return threads.has_value(); }

  // "nvidia-h200", "amd-epyc-2-threads": the device, to be part of a file's name.
  [[nodiscard]] std::string device_slug() const;

  [[nodiscard]] Facts facts() const;

  // Copies missing facts from the other one.
  void fill_from(const Setting& other);

  LADDER_FIELDS(Setting, model, batch, context, accumulation, positions, dtype, torch, device, (threads, absent),
                (cores, absent), (cpu_capability, absent), (driver, absent), (driver_cuda, absent), (cuda, absent),
                (kernel_switches, absent), (page_cache, absent), (windows, absent))
};

// One line for each fact that differs: "batch: 16 against 64". Empty: comparable. A side may not say its cores,
// instructions or switches. They are then unknown and not different, unless the other side has switches.
std::vector<std::string> differences(const Facts& facts, const Facts& others);
std::vector<std::string> differences(const Setting& setting, const Setting& other);

LADDER_COMPILED_ONCE(Setting)

}  // namespace results
