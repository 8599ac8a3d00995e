// The study's table, whatever stands in the study: 80 columns, bars as long as the times, colour that repeats the
// words.
#include "plots/study_table.h"

#include "files/printable.h"
#include "tests/study/made_up_study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <regex>
#include <sstream>

namespace study_table_test {

using namespace plots;

using made_up::ratio;

Ratio speedup(double times) { return ratio(times, times * 0.97, times * 1.04); }

StudyRung rung(const std::string& label, double ms) {
  StudyRung shown = made_up::rung(0, label, ms);
  shown.speedup_first = shown.speedup_against = speedup(100 / ms);
  shown.tokens_per_s = Median{{}, 1.64e6 / ms};
  shown.peak_memory_bytes = 1 << 30;
  return shown;
}

StudyRung no_number(const std::string& label, RungStatus status, const std::string& reason) {
  StudyRung shown = made_up::rung(0, label, 0);
  made_up::lose_number(shown, status, reason);
  return shown;
}

Study study_of(const std::vector<StudyRung>& rungs, Mode mode = Mode::cumulative) {
  Study study = made_up::study();
  study.mode = mode;
  study.rungs = rungs;
  study.headline.reset();
  study.warnings = {"a warning"};
  return study;
}

Worth worth(Method method, const std::string& title, const Ratio& of) {
  Worth shown;
  static_cast<Bounds&>(shown) = of;
  shown.method = method;
  shown.title = title;
  shown.ratio = of.ratio;
  return shown;
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
  const Study study = study_of({rung("slow", 200), rung("+ half", 100), rung("+ third", 66.7), rung("+ hardly", 0.01)});
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

TEST(Table, MarksWhatIsDoubtfulAndHasAReasonInPlaceOfANumber) {
  Study study = study_of({rung("start", 200), rung("+ half", 100), rung("+ perhaps", 98), rung("+ once", 90),
                          rung("+ hardly", 89), rung("+ any", 88),
                          no_number("+ graph", RungStatus::not_applicable, "no CUDA device"),
                          no_number("+ bf16", RungStatus::failed, "run r1 was killed"),
                          no_number("+ all", RungStatus::voided, "step 3 is off"),
                          no_number("+ flash", RungStatus::missing, "its runs have not been made yet")});
  const std::string plain = study_table(study_of({rung("start", 10), rung("+ faster", 5)}));
  EXPECT_EQ(plain.find_first_of("~?"), std::string::npos) << plain;
  study.rungs[0].speedup_first = ratio(1.0, {}, {});  // beside itself
  study.rungs[2].speedup_against = ratio(1.02, 0.98, 1.06);
  study.rungs[3].speedup_first = study.rungs[3].speedup_against = ratio(1.5, {}, {});
  study.rungs[4].speedup_first = ratio(1.01, 1.003, 1.018);  // bounds that are not one are not shown as one
  study.rungs[4].speedup_against = ratio(0.997, 0.99, 1.003);
  study.rungs[5].speedup_first = ratio(2.0, 0.05, 50.1);  // tells nothing
  study.rungs[5].speedup_against = ratio(2.0, 1.5, 14.9);
  const std::string table = study_table(study);
  EXPECT_EQ(table.substr(0, table.find("\n~")), R"(
                          ms/step          vs prev     so far [95 %] tok/s   GiB
--------------------------------------------------------------------------------
start                         200 ########   0.50x             1.00x 8.20K  1.00
+ half                        100 ####      ~1.00x 1.00x [0.97-1.04] 16.4K  1.00
+ perhaps                    98.0 ####      ~1.02x 1.02x [0.99-1.06] 16.7K  1.00
+ once                       90.0 ####      ?1.50x            ?1.50x 18.2K  1.00
+ hardly                     89.0 ####     ~0.997x             1.01x 18.4K  1.00
                                                                    [1.003-1.02]
+ any                        88.0 ####       2.00x   2.00x [unknown] 18.6K  1.00
+ bf16                    failed: run r1 was killed
+ all                     void: step 3 is off
+ flash                   not run yet: its runs have not been made yet
--------------------------------------------------------------------------------
Left out: + graph (not applicable: no CUDA device).)");
  EXPECT_NE(table.find("\n~ no clear change   ? one run, no interval"), std::string::npos) << table;
  study.mode = Mode::one_at_a_time;  // has but one column of ratios
  EXPECT_NE(study_table(study).find("? one run, no interval"), std::string::npos) << study_table(study);
}

TEST(Table, RatiosThatAreNoQuotientsOfTheTimesAreSaidToBePaired) {
  Study study = study_of({rung("start", 100), rung("+ same", 100)});
  study.headline = Headline{.first = 0, .last = 1, .speedup = ratio(0.96, 0.95, 0.97), .fastest = {}, .planned = {}};
  study.rungs[1].speedup_first = study.headline->speedup;
  EXPECT_EQ(study_table(study).find("paired"), std::string::npos);
  study.rungs[1].speedup_first = ratio(0.9, 0.89, 0.91);
  EXPECT_NE(study_table(study).find("ratios are paired within repeats"), std::string::npos) << study_table(study);
}

TEST(Table, AWorthThatMayBeNoneIsMarked) {
  Study study = study_of({rung("start", 10)});
  std::vector<Worth>& worths = study.attribution;
  worths = {worth(Method::shapley, "a", ratio(1.5, 1.4, 1.6))};
  EXPECT_EQ(study_table(study).find('~'), std::string::npos);
  worths.push_back(worth(Method::one_at_a_time, "b", ratio(1, 0.9, 1.1)));
  EXPECT_EQ(study_table(study).find('~'), std::string::npos) << "is not shown";
  worths[1].method = Method::shapley;
  const std::string table = study_table(study);
  EXPECT_NE(table.find(" ~1.00x [0.90-1.10]\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\n~ no clear change"), std::string::npos) << table;
}

TEST(Table, ColourRepeatsTheWords) {
  Study study = study_of({rung("start", 10), no_number("+ graph", RungStatus::not_applicable, "no CUDA device"),
                          no_number("+ bf16", RungStatus::failed, "run r1 was killed"), rung("+ slower", 20)});
  study.rungs[3].speedup_against = speedup(0.5);
  const std::string table = study_table(study, {.colour = true});
  EXPECT_NE(table.find("\x1b[31mfailed\x1b[0m: run r1"), std::string::npos);
  EXPECT_NE(table.find("\x1b[33m! A warning"), std::string::npos) << table;
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
  std::vector<StudyRung> rungs;
  for (size_t i = 0; i < 200; ++i) {
    const auto wild = [&] { return i % 2 == 0 ? std::pow(10, exponent(random)) : std::pow(10, exponent(random) / 40); };
    StudyRung shown =
        i % 9 == 8 ? no_number(labels[i % labels.size()], RungStatus::failed, std::string(200, 'y') + " and words")
                   : rung(labels[i % labels.size()], wild());
    if (i % 9 != 8) {
      for (auto* speedup : {&shown.speedup_first, &shown.speedup_against}) {
        *speedup = ratio(wild(), wild(), wild());
        if (i % 5 == 0) *speedup = ratio(wild(), {}, {});
      }
      shown.tokens_per_s = Median{{}, wild()};
      shown.peak_memory_bytes = std::llround(9e18 * std::pow(share(random), 20));
      if (i % 7 == 0) shown.flags = std::vector<std::string>{"shared"};
      if (i % 11 == 0) shown.peak_memory_bytes.reset();
      shown.page_faults_per_step = wild();
      shown.batches = RungBatches{.ms = {{}, wild()}, .share = wild(), .bytes_read = wild(), .major_faults = wild()};
      if (i % 4 == 0) {
        shown.batches->resident_bytes = shown.batches->cached_before = std::llround(9e18 * share(random));
        shown.batches->file_bytes = std::llround(9e18 * share(random));
        shown.batches->cached_after = 0;
      }
    }
    rungs.push_back(shown);
  }
  rungs[3].peer = "pytorch-max-autotune";
  rungs[3].title = "PyTorch compile with CUDA graphs";
  rungs[3].against = 1;
  rungs[1].peers = {PeerRatio{{{}, {}}, "pytorch-max-autotune", 3, 1e300, 5}};
  for (const Mode mode : {Mode::cumulative, Mode::leave_one_out, Mode::one_at_a_time, Mode::factorial, Mode::sweep}) {
    Study study = study_of(rungs, mode);
    study.ladder.title = std::string(120, 'x');
    for (const Look look : {Look{}, Look{.blocks = true}, Look{.colour = true, .blocks = true}}) {
      const std::string table = study_table(study, look);
      for (const std::string& line : lines_of(without_colour(table))) EXPECT_LE(files::length(line), 80U) << line;
      EXPECT_NE(table.find(" compile with CUDA graphs"), std::string::npos) << table;
      EXPECT_EQ(table.find("nan"), std::string::npos);
      EXPECT_EQ(table.find("inf"), std::string::npos);
    }
  }
}

}  // namespace study_table_test
