// Earlier measurements that later ones are judged by: results/schemas/baseline.v1.json, noise.v1.json.
#pragma once

#include "results/fields.h"
#include "results/record.h"
#include "results/setting.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// The first fields of both.
struct Kept {
  std::string created, label, recipe_hash;
  files::Json recipe;  // as in the records
  Setting setting;
  std::optional<std::string> program;  // git commit

  LADDER_FIELDS(Kept, created, label, recipe_hash, recipe, setting, program)
};

// A session in which a baseline's program was measured.
struct Session {
  std::string started;  // of its first run; UTC, ISO 8601
  int64_t runs = 0;
  double median_ms = 0;  // over runs of their median step

  LADDER_FIELDS(Session, started, runs, median_ms)
};

// The records of one program's runs of one recipe on one device.
struct Baseline : Kept {
  static constexpr auto kind = "baseline";

  double median_ms = 0;
  std::optional<std::vector<Session>> sessions;  // the records' first; none: a file from before there were others
  std::vector<Record> records;

  LADDER_MORE_FIELDS(Kept, Baseline, median_ms, (sessions, absent), records)
};

struct Floor {
  int64_t pairs = 0;
  double floor = 0;

  LADDER_FIELDS(Floor, pairs, floor)
};

// How small a change one device can show: one program against itself.
struct Noise : Kept {
  static constexpr auto kind = "noise";

  int64_t pairs = 0;
  std::vector<double> differences;  // of the logarithms of paired runs' median steps
  double sd = 0;                    // root mean square of the differences
  std::vector<Floor> floors;

  LADDER_MORE_FIELDS(Kept, Noise, pairs, differences, sd, floors)
};

LADDER_COMPILED_ONCE(Baseline)
LADDER_COMPILED_ONCE(Noise)

}  // namespace ablations
