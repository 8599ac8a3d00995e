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

  static void fields(auto&& field) {
    field("created", &Kept::created);
    field("label", &Kept::label);
    field("recipe_hash", &Kept::recipe_hash);
    field("recipe", &Kept::recipe);
    field("setting", &Kept::setting);
    field("program", &Kept::program);
  }
};

// A session in which a baseline's program was measured.
struct Session {
  std::string started;  // of its first run; UTC, ISO 8601
  int64_t runs = 0;
  double median_ms = 0;  // over runs of their median step

  static void fields(auto&& field) {
    field("started", &Session::started);
    field("runs", &Session::runs);
    field("median_ms", &Session::median_ms);
  }
};

// The records of one program's runs of one recipe on one device.
struct Baseline : Kept {
  static constexpr auto kind = "baseline";

  double median_ms = 0;
  std::optional<std::vector<Session>> sessions;  // the records' first; none: a file from before there were others
  std::vector<Record> records;

  static void fields(auto&& field) {
    Kept::fields(field);
    field("median_ms", &Baseline::median_ms);
    field("sessions", &Baseline::sessions, None::absent);
    field("records", &Baseline::records);
  }
};

struct Floor {
  int64_t pairs = 0;
  double floor = 0;

  static void fields(auto&& field) {
    field("pairs", &Floor::pairs);
    field("floor", &Floor::floor);
  }
};

// How small a change one device can show: one program against itself.
struct Noise : Kept {
  static constexpr auto kind = "noise";

  int64_t pairs = 0;
  std::vector<double> differences;  // of the logarithms of paired runs' median steps
  double sd = 0;                    // root mean square of the differences
  std::vector<Floor> floors;

  static void fields(auto&& field) {
    Kept::fields(field);
    field("pairs", &Noise::pairs);
    field("differences", &Noise::differences);
    field("sd", &Noise::sd);
    field("floors", &Noise::floors);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Baseline&);
extern template Baseline value_from(const files::Json&, const std::string&);
extern template files::Json json_of(const Noise&);
extern template Noise value_from(const files::Json&, const std::string&);

}  // namespace ablations
