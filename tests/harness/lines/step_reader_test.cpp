#include "harness/lines/step_reader.h"

#include "files/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace step_reader_test {

namespace fs = std::filesystem;
using harness::StepLine;
using harness::StepReader;

// What remains for somebody who does as `restarts` says.
void keep(std::vector<StepLine>& steps, const std::vector<StepLine>& more) {
  for (const StepLine& step : more) {
    if (step.restarts) steps.clear();
    steps.push_back(step);
  }
}

std::vector<StepLine> steps_in(std::string_view text, const std::string& steps_from = "") {
  StepReader reader(steps_from);
  std::vector<StepLine> steps;
  keep(steps, reader.take(0, text, 1));
  keep(steps, reader.end());
  return steps;
}

std::string figure(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; }

// "3 2.5 1000 12.5": step, loss, tokens per second, milliseconds.
std::string said(const StepLine& step) {
  return fmt::format("{} {} {} {}", step.step, figure(step.loss), figure(step.tokens_per_s), figure(step.own_ms));
}

std::string said(const std::vector<StepLine>& steps) {
  std::string all;
  for (const StepLine& step : steps) all += (all.empty() ? "" : " | ") + said(step);
  return all;
}

// Steps and losses only: "3 2.5, 4 2.25".
std::string losses(std::string_view text, const std::string& steps_from = "") {
  std::string all;
  for (const StepLine& step : steps_in(text, steps_from)) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", step.step, figure(step.loss));
  }
  return all;
}

std::string unescaped(std::string text) {
  for (const auto& [escape, byte] : {std::pair("\\e", "\x1b"), {"\\r", "\r"}, {"\\t", "\t"}}) {
    for (size_t i; (i = text.find(escape)) != std::string::npos;) text.replace(i, 2, byte);
  }
  return text;
}

// formats/NAME.txt: what a project prints. Its first line names the project and the file of it that prints so, the
// second has what is to be found in the others.
struct Format {
  std::string name, source, expected, text;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = [] {
    std::vector<Format> read;
    for (const auto& entry : fs::directory_iterator(fs::path(__FILE__).parent_path() / "formats")) {
      const std::string text = files::read_file(entry.path());
      const size_t first = text.find('\n'), second = text.find('\n', first + 1);
      std::string name = entry.path().stem();
      std::ranges::replace_if(
          name, [](char c) { return c == '-' || c == '.'; }, '_');
      read.push_back({name, text.substr(2, first - 2), text.substr(first + 3, second - first - 3),
                      unescaped(text.substr(second + 1))});
    }
    std::ranges::sort(read, {}, &Format::name);
    return read;
  }();
  return all;
}

TEST(StepReader, HasAllFormats) { EXPECT_GE(formats().size(), 31U); }

class Formats : public testing::TestWithParam<Format> {};

TEST_P(Formats, HaveTheirSteps) {
  const Format& format = GetParam();
  const std::vector<StepLine> steps = steps_in(format.text);
  ASSERT_FALSE(steps.empty()) << format.source;
  EXPECT_EQ(said(steps) + (steps[0].numbered ? "" : " | unnumbered"), format.expected) << format.source;
}

// Wherever a read ends: the same steps, at the clock of the read that brought a line's last byte before its end.
TEST_P(Formats, DoNotDependOnReads) {
  const std::string& text = GetParam().text;
  const std::string whole = said(steps_in(text));
  for (size_t split = 0; split <= text.size(); ++split) {
    StepReader reader;
    std::vector<StepLine> steps;
    keep(steps, reader.take(0, std::string_view(text).substr(0, split), 1));
    keep(steps, reader.take(0, std::string_view(text).substr(split), 2));
    keep(steps, reader.end());
    ASSERT_EQ(said(steps), whole) << split;
    ASSERT_TRUE(std::ranges::is_sorted(steps, {}, &StepLine::seconds)) << split;
    EXPECT_TRUE(split > 0 || steps.front().seconds == 2);
    EXPECT_TRUE(split < text.size() || steps.back().seconds == 1);
  }
}

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

INSTANTIATE_TEST_SUITE_P(Projects, Formats, testing::ValuesIn(formats()), [](const auto& p) { return p.param.name; });

// Ways to write step 12 with the loss 2.5 (of 100 steps).
class Neighbours : public testing::TestWithParam<const char*> {};

TEST_P(Neighbours, AreStepTwelve) { EXPECT_EQ(losses(unescaped(GetParam())), "12 2.5"); }

INSTANTIATE_TEST_SUITE_P(
    Lines, Neighbours,
    testing::Values(
        "step 12 loss 2.5", "Step 12: Loss 2.5", "STEP=12 LOSS=2.5", "step:12,loss:2.5", "step: 12 | loss: 2.5",
        "[step 12] loss = 2.5", "(step 12) (loss 2.5)", "step #12 loss 2.5", "step 12/100, loss 2.5",
        "step 12 / 100, loss 2.5", "step [12/100] loss 2.5", "[12/100] loss: 2.5", "12/100 loss: 2.5",
        "it: 12 loss: 2.5", "Iter 12, loss 2.5", "iteration 12 of 100, loss 2.5", "batch 12: loss 2.5",
        "global_step=12 loss=2.5", "globalStep: 12, trainLoss: 2.5", "train/step 12 train/loss 2.5",
        "train_step=12 train_loss=2.5", "loss 2.5 step 12", "loss: 2.5; step: 12", "{'step': 12, 'loss': 2.5}",
        "{'step': '12', 'loss': '2.5'}", R"({"iter": 12, "loss": 2.5})", R"({"loss":2.5,"step":12})",
        "step 12\\tloss 2.5", "  step   12   loss   2.5  ", "INFO:root:step 12 loss 2.5",
        "2025-03-04 12:00:01,123 - INFO - step 12 - loss 2.5", "[2025/03/04 12:00:01] step 12 loss 2.5",
        "03/04 12:00:01 loss 2.5 step 12", "[rank0]: step 12 loss 2.5", "[rank 0] step 12 loss 2.5",
        "0: step 12 loss 2.5", "\\e[1;31mstep\\e[0m 12 \\e]0;title\\e\\loss 2.5", "step 12 loss 2.5e+00",
        "step 12 loss +2.5", "step 00012 loss 2.500000", "step 12 | training loss 2.5", "step 12 | total_loss 2.5",
        "step 12 | loss/train 2.5", "step 12 | avg_loss 2.5", "step 12 loss 2.5 (2.7)", "step 12 (12.00%) loss 2.5",
        "12%|#2   | 12/100 [00:05<00:37, 2.37it/s, loss=2.5]",
        "train: 12%|█▏   | 12/100 [00:05<00:37, 2.37s/it, loss=2.5, lr=0.1]", "12it [00:05, 2.37it/s, loss=2.5]",
        "Epoch 1 step 12 loss 2.5", "Epoch [1/10], Step [12/100], Loss: 2.5", "epoch 12 loss 2.5",
        "epoch 12/100, loss 2.5", "update 12 loss 2.5", "iter_num 12 loss 2.5", "step 12 · loss 2.5",
        "step 12 → loss 2.5", "step 12 the loss is 2.5",
        // Other numbers beside it.
        "step 12 loss_scale 65536 loss 2.5", "step 12 z_loss 0.1 loss 2.5 aux_loss 0.2",
        "step 12 moving loss 2.7 loss 2.5 avg loss 2.6", "step 12 grad norm 1.5 loss 2.5", "lr 6e-4 step 12 loss 2.5",
        "step 12 loss 2.5 lr 6e-4 epoch 3", "Step 12, Minibatch Loss= 2.5, Accuracy= 0.1",
        "step 12 loss scale: 1.0 | loss: 2.5", "step 12 acc 45% loss 2.5 | loss 50%",
        "step 12 loss 2.5 max_steps 100 eval_every 10", "step 12 loss 2.5, best step 3",
        "batch 7 iter 8 step 12 loss 2.5", "batch_size=64 step=12 loss=2.5", "step 12 loss 2.5 val_acc 0.3",
        "step 12 val_acc 0.3 loss 2.5", "/home/me/test/train.py:7 step 12 loss 2.5",
        "torch 2.11.0 on 10.0.0.1:80 step 12 loss 2.5", "step 12 loss 2.5 7f3a9c1",
        "step 12 perplexity 12.18 loss 2.5 ppl 12.18", "warmup steps 5 step 12 loss 2.5"));

// What is no step line, or one of a validation.
class Others : public testing::TestWithParam<const char*> {};

TEST_P(Others, AreNoSteps) { EXPECT_EQ(losses(unescaped(GetParam())), ""); }

INSTANTIATE_TEST_SUITE_P(
    Lines, Others,
    testing::Values("", "\\r", "loss", "loss: cross_entropy", "step", "steps to go", "2.5", "12/100", "12%", "loss 50%",
                    "loss_scale 65536", "z_loss 0.1", "aux_loss=0.1", "loss weight 0.1", "val loss 2.5",
                    "val_loss: 2.5", "step 12 val loss 2.5", "step 12 | validation loss 2.5", "step 12 eval_loss 2.5",
                    "Validation step 12 loss 2.5", "validate step: 12 loss: 2.5", "Validation: loss 2.5",
                    "test loss 2.5", "Test: [12/100] loss 2.5", "step 12 test/loss 2.5", "eval/loss 2.5 step 12",
                    "step 12 train loss 2.4 val loss 2.5",
                    "Evaluating: 12%|#2   | 12/100 [00:05<00:37, 2.37it/s, loss=2.5]", "Evaluation: step 12 loss 2.5",
                    "{'eval_loss': 2.5, 'epoch': 1.0}", "max_steps 100", "warmup_steps=5", "12 steps per second",
                    "saving checkpoint at step 12", "tokens per step: 12", "epoch 12", "correct 45/100",
                    "2025-03-04 12:00:01"));

TEST(StepReader, ReadsLargeNumbersAndOddLosses) {
  EXPECT_EQ(losses("step 1,000/10,000 loss 1,234.5\nstep 1,001 loss .5\nstep 1002 loss 2.\nstep 1003 loss -1e-3\n"),
            "1000 1234.5, 1001 0.5, 1002 2, 1003 -0.001");
  EXPECT_EQ(losses("step 1 loss nan\nstep 2 loss: NaN\nstep 3 loss=inf\nstep 4 loss -inf\nstep 5 loss: Infinity\n"
                   "step 6 loss 1e999\nstep 7 loss 1e-999\n"),
            "1 nan, 2 nan, 3 inf, 4 -inf, 5 inf, 6 inf, 7 0");
  // With a decimal comma. In a list, and before three digits, a comma is none.
  EXPECT_EQ(losses("step 1 loss 3,9876\nstep 2 loss 3,1, acc 0,95\nstep 3 loss 0,123\nstep 4 loss 2,5e-1\n"),
            "1 3.9876, 2 3.1, 3 0.123, 4 0.25");
  EXPECT_EQ(losses("step 5 [1,2,3] loss 2,5\nstep 6,0.5 loss 2,25\n"), "5 2.5, 6 2.25");
  StepReader commas;
  (void)commas.take(0, "step 1 loss 12,345\nstep 2 loss 1,234.5\nstep 3 loss 2\n", 1);
  EXPECT_TRUE(commas.has_commas());
  StepReader points;
  (void)points.take(0, "step 1,000 loss 1,234.5\nstep 1,001 loss 0,950 12,345 tok/s\n", 1);
  EXPECT_FALSE(points.has_commas());
  EXPECT_EQ(losses("step 99999999999999999999 loss 1\nstep 1.5 loss 2"), "0 1, 1 2");  // no step numbers
  EXPECT_EQ(said(steps_in("step 1 loss 2 12.5 s 170K tok/s\nstep 2 loss 1, step time 0.5s, 1.5M tokens/sec\nstep 3 "
                          "loss 0 perf/tokens_per_sec 9")),
            "1 2 170000 - | 2 1 1500000 500 | 3 0 9 -");
}

TEST(StepReader, EndsLinesAtBothEnds) {
  EXPECT_EQ(losses("step 1 loss 3\r\nstep 2 loss 2\rstep 3 loss 1\n\n\rstep 4 loss 0"), "1 3, 2 2, 3 1, 4 0");
  StepReader reader;
  EXPECT_TRUE(reader.take(0, "step 1 lo", 1).empty());
  EXPECT_TRUE(reader.take(1, "a warning\n", 2).empty());  // the other stream
  EXPECT_TRUE(reader.take(0, "ss 3", 3).empty());
  const auto steps = reader.take(0, "\n", 9);  // a bar's line ends when it is redrawn
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].seconds, 3);
  EXPECT_EQ(reader.take(0, "step 2 loss 2\nstep 3 loss 1", 10).size(), 1U);
  EXPECT_EQ(reader.end().at(0).seconds, 10);
}

TEST(StepReader, CountsAStepOnce) {
  EXPECT_EQ(losses("step 1 loss 3\nstep 1 loss 3.5\nstep 2 loss 2\nstep 1 loss 9\nstep 3 loss 1\n"), "1 3, 2 2, 3 1");
  // A bar and a log of the same steps, in either order.
  std::string log_first, bar_first;
  for (int step = 1; step <= 9; ++step) {
    const std::string bar = fmt::format("\r{0}/9 [00:01<00:01, 1it/s, loss={1}.5]", step, step);
    const std::string log = fmt::format("\nstep {} train loss {}.25\n", step, step);
    log_first += log + bar;
    bar_first += bar + log;
  }
  EXPECT_EQ(losses(log_first), "1 1.25, 2 2.25, 3 3.25, 4 4.25, 5 5.25, 6 6.25, 7 7.25, 8 8.25, 9 9.25");
  EXPECT_EQ(losses(bar_first), "1 1.5, 2 2.5, 3 3.5, 4 4.5, 5 5.5, 6 6.5, 7 7.5, 8 8.5, 9 9.5");
}

TEST(StepReader, KeepsTheBestKind) {
  // A remark before or after does not decide; nor do bars that load something.
  EXPECT_EQ(losses("restored step 7, step 7 loss 9\nstep 1 lr 1 loss 3\n"), "7 9");
  EXPECT_EQ(losses("iter 7 loss 9\nstep 1 loss 4\nstep 2 loss 3\nstep 3 loss 2\n"), "2 3, 3 2");
  EXPECT_EQ(
      losses("loading: 50%|# | 1/2 [0:01<0:01]\rloading: 100%|##| 2/2 [0:01<0:01]\nstep 1 loss 3\nfinal loss 9\n"),
      "1 3");
  EXPECT_EQ(losses("step 1 lr 1\nstep 2 lr 1\nfinal loss 9\n"), "1 -, 2 -");
  EXPECT_EQ(losses("step 1 lr 1\nloss 3\nstep 2 lr 1\nloss 2\nloss 1\n"), "0 2, 1 1");
  const auto steps = StepReader().take(0, "steps: 100\nstep 1 loss 3\nstep 2 loss 2\n", 1);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_TRUE(steps[0].restarts && steps[1].restarts && !steps[2].restarts);
}

TEST(StepReader, CountsOnFromOneEpochToTheNext) {
  EXPECT_EQ(
      losses("epoch 0 step 0/3 loss 9\nepoch 0 step 2/3 loss 8\nepoch 1 step 0/3 loss 7\nepoch 1 step 1/3 loss 6\n"),
      "0 9, 2 8, 3 7, 4 6");
  EXPECT_EQ(losses("epoch 1 step 1 loss 9\nepoch 1 step 2 loss 8\nepoch 2 step 1 loss 7\n"), "1 9, 2 8, 3 7");
  EXPECT_EQ(losses("epoch 1 [3/3] loss 9\nepoch 2 [3/3] loss 8\n"), "3 9, 6 8");
  EXPECT_EQ(losses("epoch 1 step 5 loss 9\nepoch 2 step 6 loss 8\n"), "5 9, 6 8");  // they count on themselves
}

// As tqdm does: the number is drawn before its loss is known.
TEST(StepReader, WaitsForTheNewLossOfABar) {
  StepReader reader;
  EXPECT_EQ(said(reader.take(0, "1/9 [0:01, loss=3.5]\r", 1)), "1 3.5 - -");
  EXPECT_EQ(said(reader.take(0, "2/9 [0:01, loss=3.5]\r", 2)), "");
  const auto second = reader.take(0, "2/9 [0:01, loss=2.5]\r", 3);
  EXPECT_EQ(said(second), "2 2.5 - -");
  EXPECT_EQ(second.at(0).seconds, 3);
  EXPECT_EQ(said(reader.take(0, "3/9 [0:01, loss=2.5]\r", 4)), "");
  const auto fourth = reader.take(0, "4/9 [0:01, loss=1.5]\r", 5);  // the loss of step 3 really was that of step 2
  EXPECT_EQ(said(fourth), "3 2.5 - - | 4 1.5 - -");
  EXPECT_EQ(fourth.at(0).seconds, 4);
  EXPECT_EQ(said(reader.take(0, "5/9 [0:01, loss=1.5]", 6)), "");
  EXPECT_EQ(said(reader.end()), "5 1.5 - -");
}

TEST(StepReader, SeesBursts) {
  StepReader reader;
  const auto steps = reader.take(0, "step 1 loss 3\nstep 2 loss 2\na word\nstep 3 loss 1\n", 1);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_TRUE(reader.bursts());
  for (int step = 4; step < 8; ++step) (void)reader.take(0, fmt::format("step {} loss 0.{}\n", step, step), step);
  EXPECT_FALSE(reader.bursts());
  EXPECT_FALSE(StepReader().bursts());
}

TEST(StepReader, ShowsShapes) {
  StepReader reader;
  EXPECT_EQ(reader.shape(), "");
  (void)reader.take(0, "loaded 12 files\niter 10: loss 3.1234, time 123.45ms\nloaded 1,234 files\n\x1b[2J\xff\xfeodd\n",
                    1);
  EXPECT_EQ(reader.shape(), "iter N: loss N, time Nms");
  const auto shapes = reader.frequent_shapes();
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes[0], std::pair(std::string("loaded N files"), int64_t{2}));
  EXPECT_EQ(shapes[2], std::pair(std::string("\\xff\\xfeodd"), int64_t{1}));
  EXPECT_EQ(reader.frequent_shapes(1).size(), 1U);
  StepReader unnumbered;
  (void)unnumbered.take(0, "loss 3.1\nloss 2.9\n", 1);
  EXPECT_EQ(unnumbered.shape(), "each line a step: loss N");
}

size_t resident_bytes() {
  size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(StepReader, NeedsLittleMemory) {
  StepReader reader;
  (void)reader.take(0, "a line\na line\nstep 1 loss 9\n", 1);
  const size_t before = resident_bytes();
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 1000; ++i) (void)reader.take(0, block, 1);  // a line of 1 GB
  for (int i = 0; i < 50'000; ++i) {                              // as many shapes
    std::string word;
    for (int rest = i; rest > 0; rest /= 26) word += static_cast<char>('a' + rest % 26);
    (void)reader.take(1, std::string(1000, '!') + word + "\n" + word + "\na line\n", 1);
  }
  EXPECT_LT(resident_bytes(), before + (16 << 20));
  EXPECT_EQ(reader.frequent_shapes(1).at(0).first, "a line");
  EXPECT_EQ(said(reader.take(0, " loss 5\nstep 2 loss 8\n", 2)), "2 8 - -");
  EXPECT_EQ(losses(std::string(4096 - 13, ' ') + "step 1 loss 3"), "1 3");
  EXPECT_EQ(losses(std::string(4096 - 12, ' ') + "step 1 loss 3"), "1 -");  // cut
}

TEST(StepReader, TakesARegularExpression) {
  const std::string pattern = R"(^\[(?P<step>[\d,]+)\] L=(?P<loss>\S+)(?: (?P<tokens_per_s>\d+) t)?)";
  const std::string text = "step 1 loss 9\n[1,000] L=2.5 77 t\n[1,001] L=nan\n[1,002] L=-inf\n[1,003] L=odd\n";
  EXPECT_EQ(said(steps_in(text, pattern)), "1000 2.5 77 - | 1001 nan - - | 1002 -inf - -");
  EXPECT_EQ(losses("val 3\nval 2\n", "val (?P<loss>.*)"), "0 3, 1 2");
  EXPECT_EQ(losses("at 3\nat 4\nat 4\n", "at (?P<step>.*)"), "3 -, 4 -");
  EXPECT_EQ(losses("epoch 1\n1 loss\n2 loss\nepoch 2\n1 loss\n", R"(^(?P<step>\d+) loss)"), "1 -, 2 -, 3 -");
  EXPECT_EQ(losses(std::string(4000, 'a') + "\n", "^(a+)+(?P<step>x)$"), "");  // exponential time, were there no limit
  EXPECT_EQ(losses("\xff step 7\n", "\xff step (?P<step>.*)"), "7 -");
  for (const char* bad : {"(", "loss (.*)", "(?P<lass>.*)", "(?P<step>"}) {
    EXPECT_THROW(StepReader{bad}, std::invalid_argument) << bad;
  }
}

}  // namespace step_reader_test
