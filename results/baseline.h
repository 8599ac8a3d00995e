// Earlier measurements that later ones are judged by: results/schemas/baseline.v1.json, noise.v1.json.
#pragma once

#include "results/fields.h"
#include "results/record.h"
#include "results/setting.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

// The first fields of both.
struct Kept {
  std::string created, label, recipe_hash;
  files::Json recipe;  // as in the records
  Setting setting;
  std::optional<std::string> program;  // git commit

  LADDER_FIELDS(Kept, created, label, (recipe_hash, {.pattern = "^[0-9a-f]{12}$"}), recipe, setting, program)
};

// A session in which a baseline's program was measured.
struct Session {
  std::string started;  // of its first run; UTC, ISO 8601
  int64_t runs = 0;
  double median_ms = 0;  // over runs of their median step

  LADDER_FIELDS(Session, started, (runs, from_1), (median_ms, {.least = 1e-6, .most = 1e12}))
};

// The records of one program's runs of one recipe on one device.
struct Baseline : Kept {
  static constexpr auto kind = "baseline";
  static constexpr auto about =
      "The records of one program's runs of one recipe on one device, to judge later programs by";

  double median_ms = 0;
  std::vector<Session> sessions;  // the records' first
  std::vector<Record> records;

  LADDER_MORE_FIELDS(Kept, Baseline, (median_ms, positive), (sessions, some), (records, some))
};

struct Floor {
  int64_t pairs = 0;
  double floor = 0;

  LADDER_FIELDS(Floor, (pairs, from_1), floor)
};

// How small a change one device can show: one program against itself.
struct Noise : Kept {
  static constexpr auto kind = "noise";
  static constexpr auto about = "How small a change one device can show: one program against itself";

  int64_t pairs = 0;
  std::vector<double> differences;  // of the logarithms of paired runs' median steps
  double sd = 0;                    // root mean square of the differences
  std::vector<Floor> floors;

  LADDER_MORE_FIELDS(Kept, Noise, (pairs, {.least = 6}), (differences, {.items = 6}), (sd, from_0), (floors, some))
};

LADDER_COMPILED_ONCE(Baseline)
LADDER_COMPILED_ONCE(Noise)

}  // namespace results
