// results/schemas is made of the structs. With LADDER_WRITE_SCHEMAS set, this test writes it.
#include "files/files.h"
#include "files/resources.h"
#include "results/bisected.h"
#include "results/ladder.h"
#include "results/ledger.h"
#include "results/plan.h"
#include "results/report.h"
#include "results/trace.h"
#include "results/training.h"
#include "tests/results/schema.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace schemas_test {

using namespace results;
using files::Json;

const std::filesystem::path folder = files::resource_root() / "results" / "schemas";

// Short objects, and lists, in one line.
std::string shown(const Json& json, size_t indent = 0) {
  if (!json.is_object() || json.dump().size() + indent < 120) return json.dump();
  std::string text, separator = "\n";
  for (const auto& [key, value] : json.items()) {
    text += separator + std::string(indent + 1, ' ') + Json(key).dump() + ": " + shown(value, indent + 1);
    separator = ",\n";
  }
  return "{" + text + "\n" + std::string(indent, ' ') + "}";
}

template <class T>
class Schema : public testing::Test {};
using Documents =
    testing::Types<Baseline, Bisection, Checkpoint, Comparison, CountersDocument, GateResult, History, Ladder, Ledger,
                   Noise, Plan, Record, Report, Study, TraceDocument, Training, TrainingReport, TrainingStep>;
TYPED_TEST_SUITE(Schema, Documents);

TYPED_TEST(Schema, FileFollowsFromTheStruct) {
  const std::filesystem::path file = folder / (std::string(TypeParam::kind) + ".v1.json");
  const std::string expected = shown(document_schema<TypeParam>()) + "\n";
  if (std::getenv("LADDER_WRITE_SCHEMAS") != nullptr) files::write_file(file, expected);
  EXPECT_EQ(files::read_file(file, 1 << 20), expected) << "stale: LADDER_WRITE_SCHEMAS=1 ablations_tests writes it";
}

TEST(Schemas, HaveNoOtherFiles) {
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 18);
}

}  // namespace schemas_test
