// The study's table, whatever stands in the study: 80 columns, bars as long as the times, colour that repeats the
// words.
#include "ablations/report/table.h"

#include "files/printable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>
#include <sstream>

namespace {

using namespace ablations;
using harness::Json;

Json speedup(double ratio) { return {{"ratio", ratio}, {"lo", ratio * 0.97}, {"hi", ratio * 1.04}}; }

Json rung(const std::string& label, double ms) {
  return {{"label", label},
          {"title", label},
          {"status", "measured"},
          {"reason", ""},
          {"ms_per_step", {{"median", ms}}},
          {"speedup_first", speedup(100 / ms)},
          {"speedup_previous", speedup(100 / ms)},
          {"tokens_per_s", {{"median", 1.64e6 / ms}}},
          {"peak_memory_bytes", 1 << 30}};
}

Json no_number(const std::string& label, const std::string& status, const std::string& reason) {
  Json shown = rung(label, 1);
  shown["status"] = status;
  shown["reason"] = reason;
  for (const char* field : {"ms_per_step", "speedup_first", "speedup_previous", "tokens_per_s", "peak_memory_bytes"}) {
    shown[field] = nullptr;
  }
  return shown;
}

Json study_of(const std::vector<Json>& rungs, const std::string& mode = "cumulative") {
  return {{"mode", mode},
          {"device", {{"name", "A device"}, {"kind", "cuda"}}},
          {"ladder", {{"title", "A ladder"}}},
          {"workload", {{"model", "tiny"}, {"batch", 1}, {"context", 16}, {"accumulation", 1}}},
          {"rungs", rungs},
          {"attribution", Json::array()},
          {"plan", {{"runs_ok", 1}, {"runs_planned", 1}, {"timed_steps", 1}, {"warmup_steps", 1}}},
          {"statistics", {{"center", "median"}, {"interval", "95 %"}}},
          {"headline", nullptr},
          {"warnings", {"a warning"}}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

// Eighths of a column that the bar of the row that begins with `label` has.
size_t eighths(const std::string& table, const std::string& label) {
  for (const std::string& line : lines_of(table)) {
    if (!line.starts_with(label)) continue;
    size_t sum = 0;
    for (size_t at = line.find("\xe2\x96"); at != std::string::npos; at = line.find("\xe2\x96", at + 1)) {
      sum += 0x90 - static_cast<size_t>(static_cast<unsigned char>(line[at + 2]));  // U+2588 is 8, U+258F 1
    }
    return sum;
  }
  return 0;
}

TEST(Table, BarsAreAsLongAsTheTimes) {
  const Json study = study_of({rung("slow", 200), rung("+ half", 100), rung("+ third", 66.7), rung("+ hardly", 0.01)});
  const std::string table = study_table(study, {.blocks = true});
  const double full = static_cast<double>(eighths(table, "slow"));
  EXPECT_GE(full, 64);
  EXPECT_EQ(static_cast<double>(eighths(table, "+ half")), std::round(full / 2));
  EXPECT_EQ(static_cast<double>(eighths(table, "+ third")), std::round(full * 66.7 / 200));
  EXPECT_EQ(eighths(table, "+ hardly"), 1U) << "what was measured shows";
  const std::string plain = study_table(study);
  EXPECT_EQ(plain.find("\xe2\x96"), std::string::npos);
  EXPECT_NE(plain.find(" " + std::string(static_cast<size_t>(full / 8), '#') + " "), std::string::npos);
  EXPECT_EQ(lines_of(plain).size(), lines_of(table).size());
  EXPECT_NE(plain.find(" vs prev     so far [95 %] tok/s   GiB\n"), std::string::npos) << plain;
}

TEST(Table, AStepThatMayBeNoneIsMarked) {
  Json study = study_of({rung("start", 10), rung("+ faster", 5), rung("+ perhaps", 4.9)});
  study["rungs"][1]["speedup_previous"] = {{"ratio", 2.0}, {"lo", 1.9}, {"hi", 2.1}};
  EXPECT_EQ(study_table(study).find('~'), std::string::npos);
  study["rungs"][2]["speedup_previous"] = {{"ratio", 1.02}, {"lo", 0.98}, {"hi", 1.06}};
  const std::string table = study_table(study);
  EXPECT_NE(table.find("   2.00x "), std::string::npos) << table;
  EXPECT_NE(table.find("  ~1.02x "), std::string::npos) << table;
  EXPECT_NE(table.find("\n~ no clear change: the interval includes 1.00x.\n"), std::string::npos) << table;
}

TEST(Table, ARatioWithoutAnIntervalIsMarked) {
  const Json alone{{"ratio", 1.5}, {"lo", nullptr}, {"hi", nullptr}};
  Json study = study_of({rung("start", 10), rung("+ faster", 5)});
  EXPECT_EQ(study_table(study).find('?'), std::string::npos);
  study["rungs"][0]["speedup_first"] = {{"ratio", 1.0}, {"lo", nullptr}, {"hi", nullptr}};
  study["rungs"][1]["speedup_first"] = study["rungs"][1]["speedup_previous"] = alone;
  const std::string table = study_table(study);
  EXPECT_NE(table.find("  ?1.50x            ?1.50x "), std::string::npos) << table;
  EXPECT_NE(table.find("             1.00x "), std::string::npos) << "the first beside itself" << table;
  EXPECT_NE(table.find("\n? no interval, as of one run"), std::string::npos) << table;
  study["mode"] = "one-at-a-time";  // has but one column of ratios
  EXPECT_NE(study_table(study).find("\n? no interval"), std::string::npos) << study_table(study);
}

TEST(Table, ABoundThatIsNotOneIsNotShownAsOne) {
  Json study = study_of({rung("start", 10), rung("+ faster", 5)});
  study["rungs"][1]["speedup_first"] = {{"ratio", 1.01}, {"lo", 1.003}, {"hi", 1.018}};
  study["rungs"][1]["speedup_previous"] = {{"ratio", 0.997}, {"lo", 0.99}, {"hi", 1.003}};
  const std::string table = study_table(study);
  EXPECT_NE(table.find(" [1.003-1.02]\n"), std::string::npos) << table;
  EXPECT_NE(table.find(" ~0.997x "), std::string::npos) << table;
}

TEST(Table, AnIntervalThatTellsNothingHasNoNumbers) {
  Json study = study_of({rung("start", 10), rung("+ faster", 5)});
  study["rungs"][1]["speedup_first"] = {{"ratio", 2.0}, {"lo", 0.05}, {"hi", 50.1}};
  EXPECT_NE(study_table(study).find("   2.00x [unknown] "), std::string::npos) << study_table(study);
  study["rungs"][1]["speedup_first"]["hi"] = 49.9;
  EXPECT_NE(study_table(study).find("[0.05-49.9]"), std::string::npos) << study_table(study);
}

TEST(Table, AWorthThatMayBeNoneIsMarked) {
  Json study = study_of({rung("start", 10)});
  study["attribution"] = {{{"method", "shapley"}, {"title", "a"}, {"ratio", 1.5}, {"lo", 1.4}, {"hi", 1.6}}};
  EXPECT_EQ(study_table(study).find('~'), std::string::npos);
  study["attribution"].push_back({{"method", "one_at_a_time"}, {"title", "b"}, {"ratio", 1}, {"lo", 0.9}, {"hi", 1.1}});
  EXPECT_EQ(study_table(study).find('~'), std::string::npos) << "is not shown";
  study["attribution"][1]["method"] = "shapley";
  const std::string table = study_table(study);
  EXPECT_NE(table.find(" ~1.00x [0.90-1.10]\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\n~ no clear change"), std::string::npos) << table;
}

TEST(Table, RungsWithoutNumberHaveAReasonAndNoBar) {
  const std::string table = study_table(
      study_of({rung("start", 10), no_number("+ graph", "not_applicable", "no CUDA device"),
                no_number("+ bf16", "failed", "run r1 was killed"), no_number("+ all", "void", "step 3 is off"),
                no_number("+ flash", "missing", "its runs have not been made yet")}));
  EXPECT_NE(table.find("\n+ graph                   not applicable: no CUDA device\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\n+ bf16                    failed: run r1 was killed\n"), std::string::npos);
  EXPECT_NE(table.find("\n+ flash                   not run yet: its runs have not been made yet\n"),
            std::string::npos);
  EXPECT_EQ(eighths(table, "+ bf16"), 0U);
}

TEST(Table, NothingMeasuredIsATable) {
  const std::string table = study_table(study_of({no_number("start", "failed", "out of luck")}), {.blocks = true});
  EXPECT_NE(table.find("failed: out of luck"), std::string::npos);
}

TEST(Table, ColourRepeatsTheWords) {
  Json study = study_of({rung("start", 10), no_number("+ graph", "not_applicable", "no CUDA device"),
                         no_number("+ bf16", "failed", "run r1 was killed"), rung("+ slower", 20)});
  study["rungs"][3]["speedup_previous"] = speedup(0.5);
  const std::string table = study_table(study, {.colour = true});
  EXPECT_NE(table.find("\x1b[31mfailed\x1b[0m: run r1"), std::string::npos);
  EXPECT_NE(table.find("\x1b[33mwarning:\x1b[0m a warning"), std::string::npos);
  EXPECT_NE(table.find("\x1b[33m  0.50x\x1b[0m"), std::string::npos) << table;
  EXPECT_NE(table.find("\x1b[1m10.0x\x1b[0m [9.70-10.4]"), std::string::npos) << table;
  EXPECT_EQ(without_colour(table), study_table(study)) << "nothing is said by colour alone, and nothing is moved";
}

// Names, numbers and intervals of any size, in every mode; more rungs than fit on a screen.
TEST(Table, FitsEightyColumnsWhateverTheContent) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-300, 300), share(0, 1);
  const std::vector<std::string> labels{"+ x", std::string(300, 'x'), "+ " + std::string(40, '-') + " \u00fcber",
                                        "+ a name of several words that does not end where the column ends", ""};
  std::vector<Json> rungs;
  for (size_t i = 0; i < 200; ++i) {
    const auto wild = [&] { return i % 2 == 0 ? std::pow(10, exponent(random)) : std::pow(10, exponent(random) / 40); };
    Json shown = i % 9 == 8 ? no_number(labels[i % labels.size()], "failed", std::string(200, 'y') + " and words")
                            : rung(labels[i % labels.size()], wild());
    if (i % 9 != 8) {
      for (const char* field : {"speedup_first", "speedup_previous"}) {
        shown[field] = {{"ratio", wild()}, {"lo", wild()}, {"hi", wild()}};
        if (i % 5 == 0) shown[field]["lo"] = shown[field]["hi"] = nullptr;
      }
      shown["tokens_per_s"] = {{"median", wild()}};
      shown["peak_memory_bytes"] = std::llround(9e18 * std::pow(share(random), 20));
      if (i % 7 == 0) shown["flags"] = {"shared"};
      if (i % 11 == 0) shown["peak_memory_bytes"] = nullptr;
    }
    rungs.push_back(shown);
  }
  for (const char* mode : {"cumulative", "leave-one-out", "one-at-a-time", "factorial", "sweep"}) {
    const Json study = study_of(rungs, mode);
    for (const Look look : {Look{}, Look{.blocks = true}, Look{.colour = true, .blocks = true}}) {
      const std::string table = study_table(study, look);
      for (const std::string& line : lines_of(without_colour(table))) EXPECT_LE(files::length(line), 80U) << line;
      EXPECT_EQ(table.find("nan"), std::string::npos);
      EXPECT_EQ(table.find("inf"), std::string::npos);
    }
  }
}

}  // namespace
