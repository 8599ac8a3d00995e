// The rates that this machine reaches in a large copy, a large update in place and large matrix products, beside the
// maker's peaks. They use random numbers, because zeros would use less power and let a GPU clock higher.
#pragma once

#include "files/json_file.h"
#include "harness/machine/peaks.h"
#include "model/recipe.h"
#include "results/trace.h"

#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct Rate {
  // "copy", "update"; "fp32", "TF32", "bf16", "fp16"; on a CPU also: "oneDNN", "packed", "packed bf16"
  std::string what;
  std::string size;             // "1024 MiB", "8192^3"
  double measured = 0;          // memory: bytes read and written per second; else FLOP/s; median of at least nine
  std::optional<double> table;  // the maker's figure
};

struct Rates {
  std::string device;
  std::string source;  // of the table's figures; empty: see reason
  std::string reason;
  std::vector<Rate> rates;
};

// Of the CUDA device where there is one, else of the CPU with all its threads. Takes a few seconds. Throws c10::Error
// where the device has no 4 GiB to spare.
Rates measure_rates();

// The same for what a CPU's steps take, in a fraction of a second and so only about right. It counts processor time, so
// other work does not matter. Products are made as this recipe makes them (FLOP/s). The update is in place (bytes read
// and written per second).
double rough_product_rate(const model::Recipe& recipe);
double rough_update_rate();

files::Json to_json(const Rates& rates);

// At most 80 columns, unless the device's name is longer.
std::string rates_text(const Rates& rates);

// What the machine reached; none where the recipe's kind of product was not measured.
std::optional<Limits> limits_from_rates(const model::Recipe& recipe, const Rates& rates);

// The device's data sheet in place of a measured rate; none: it is not known.
std::optional<Limits> limits_from_data_sheet(const model::Recipe& recipe, const std::string& gpu);

}  // namespace ablations
