// Random programs whose time per step is known: what they print, how often, what they do between, and what stands
// between them and the reader. The reader may refuse one. It may not tell a wrong time.
#include "harness/lines/rank_steps.h"
#include "harness/lines/step_pace.h"
#include "harness/lines/step_reader.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace any_program_test {

using harness::StepLine;

struct State {
  int64_t step = 1, epoch = 0, of_epoch = 1, epoch_steps = 100;  // step and of_epoch from 1
  double loss = 3, ms = 20, share = 0;                           // share: of the whole training
  int64_t every = 1;                                             // steps from line to line
};

// What it prints of a step, by the names in text(), and what it counts in that.
enum Kind : unsigned {
  bar = 1,        // a thread may draw it
  ranks = 2,      // several processes may print it
  no_number = 4,  // its lines are the steps
  drawn = 8       // always by a thread
};
struct Style {
  const char* name;
  const char* line;
  unsigned kinds = 0;
  double units = 1;  // of what it counts, in one step
  std::string heading = "";
  const char* tenth = "";  // after each tenth step

  [[nodiscard]] bool is(Kind kind) const { return (kinds & kind) != 0; }
  [[nodiscard]] std::string text(const State& s) const {
    const auto with_numbers = [&](const char* format) {
      return fmt::format(fmt::runtime(format), fmt::arg("step", s.step), fmt::arg("loss", s.loss),
                         fmt::arg("epoch", s.epoch), fmt::arg("of", s.of_epoch), fmt::arg("steps", s.epoch_steps),
                         fmt::arg("ms", s.ms), fmt::arg("percent", 100 * s.of_epoch / s.epoch_steps),
                         fmt::arg("other", s.loss + 0.1), fmt::arg("half", s.loss / 2), fmt::arg("next", s.epoch + 1),
                         fmt::arg("ten", 10 * s.step), fmt::arg("thousandth", s.step / 1000),
                         fmt::arg("length", 20 + s.step % 7), fmt::arg("images", 64 * s.step),
                         fmt::arg("seen", 64 * (s.of_epoch - 1)), fmt::arg("all", 64 * s.epoch_steps),
                         fmt::arg("share", 100 * s.share),
                         fmt::arg("total", static_cast<int64_t>(s.ms * static_cast<double>(s.step))));
    };
    return with_numbers(line) + (*tenth != 0 && s.step % 10 == 0 ? with_numbers(tenth) : "");
  }
};

const std::vector<Style>& styles() {
  static const std::vector<Style> all{
      {"plain", "step {step} loss {loss:.4f}\n", ranks},
      {"own time", "iter {step}: loss {loss:.4f}, time {ms:.2f}ms\n", ranks},
      {"epoch and batch", "Epoch {epoch} [{of}/{steps}] loss: {loss:.4f}\n"},
      {"brackets", "[{next}, {of:5d}] loss: {loss:.3f}\n"},
      {"logger", "I1128 03:04:05.678901 140012345678 writer.py:48] [{step}] accuracy=0.1234, loss={loss:.5f}\n"},
      {"verb", "finished step {step} cost {loss:.4f}\n", ranks},
      {"round", "Round {step}: train nll {loss:.4f}\n"},
      {"csv", "{step},0.001,{loss:.4f}\n", 0, 1, "step,lr,loss\n"},
      {"table", "{epoch:3d} {step:7d} {loss:13.2f}    0.54\n", 0, 1,
       "E    #       LOSS TEXT    SCORE\n---  ------  -----------  -----\n"},
      {"markdown", "| {step} | {loss:.4f} | 0.1 |\n", 0, 1, "| step | loss | lr |\n|---|---|---|\n"},
      {"block",
       "----------\n| rollout/ | |\n| ep_len | {length} |\n| iterations | {step} |\n| train/ | |\n| loss | {loss:.3f} "
       "|\n----------\n"},
      {"two lines", "[batch={step}/100000]:\n\t Train loss/train/total: {loss:.4f}\n"},
      {"bar with loss", "\rEpoch {epoch}: {percent}%|##   | {of}/{steps} [00:01<00:09, 9.90it/s, loss={loss:.3f}]",
       bar},
      {"bar and dictionary", "\r{thousandth}%|##   | {step}/100000 [00:01<00:09, 9.90it/s]", bar, 1, "",
       "\n{{'loss': {loss:.3f}, 'lr': 4e-05, 'epoch': 0.02}}\n"},
      {"bar without loss", "\r\x1b[2KEpoch {epoch}/19 ━━━━╸━━━━━ {of}/{steps} 0:00:00 • 0:00:01 98.76it/s v_num: 0.000",
       bar},
      {"boosting", "[{step}]\ttrain-logloss:{loss:.5f}\ttest-logloss:{other:.5f}\n"},
      {"learn",
       "{step}:\tlearn: {loss:.7f}\ttest: {other:.7f}\tbest: {loss:.7f} ({step})\ttotal: {total}ms\tremaining: 1.2s\n"},
      {"train and val", "Epoch {step}, train_loss={loss:.4f}, val_loss={other:.4f}\n"},
      {"epoch heading", "Epoch {step}/8000\n40/40 - 0s - 5ms/step - loss: {loss:.4f} - val_loss: {other:.4f}\n"},
      {"json", "{{\"step\":{step},\"loss\":{loss:.4f},\"lr\":0.001}}\n", ranks},
      {"logfmt", "time=2026-11-28T03:04:05Z level=info msg=\"step\" step={step} loss={loss:.4f}\n"},
      {"thousands", "iter {ten}k loss {loss:.4f}\n", 0, 10000},
      {"cost after", "Cost after iteration {step}: {loss:.4f}\n"},
      {"colon", "{step}: {loss:.6f}, {loss:.6f} avg, 0.001000 rate, 0.020000 seconds, {images} images\n"},
      {"epoch and update",
       "[2026-11-28 03:04:05] Ep. {next} : Up. {step} : Sen. {step:},234 : Cost {loss:.8f} * 1,234 : 1234.56 "
       "words/s\n"},
      {"samples", "Train Epoch: {epoch} [{seen}/{all} ({percent}%)]\tLoss: {loss:.6f}\n", 0, 64},
      {"two losses", "[{epoch}/20][{of}/{steps}] Loss_D: {loss:.4f} Loss_G: {half:.4f} D(x): 0.5\n"},
      {"detector",
       "\r\x1b[K{next:8d}/20         0G      {loss:.3f}      1.268       1.14          8         64: {percent}% ━━─ "
       "{of}/{steps} 13.4it/s 2.2s<0.6s",
       bar},
      {"loss only", "loss: {loss:.4f}\n", no_number},
      {"percentage", "\rProgress: {share:5.1f}% words/sec/thread: 12345 lr: 0.05 avg.loss: {loss:.6f} ETA: 0h 0m 1s",
       bar | drawn, 0},
  };
  return all;
}

struct Event {
  double seconds = 0;
  int stream = 0;
  std::string bytes;
};

struct Program {
  const Style* style = nullptr;
  double step_s = 0, jitter = 0.05;
  int64_t every = 1, epoch_steps = 100;
  int64_t eval_every = 0;  // steps; 0: no evaluation
  double eval_s = 0;
  bool eval_prints = true;
  double flush_s = 0;       // a collector hands lines on so often; 0: at once
  int64_t flush_lines = 0;  // or so many together
  double apart_s = 0;       // lines of a burst
  bool by_thread = false;   // a bar is drawn every 100 ms
  int64_t ranks = 1;
  bool tells_rank = false;
  double share_of_step = 0;  // of the training
  int stream = 0;

  [[nodiscard]] double units() const { return style->units > 0 ? style->units : 1000 * share_of_step; }
  [[nodiscard]] std::string said() const {
    return fmt::format(
        "{}: {:.3g} ms, every {}, epochs of {}, evaluation {} steps {:.3g} s{}, flush {:.3g} s {} lines {:.2g} s "
        "apart, thread {}, ranks {}{}",
        style->name, 1000 * step_s, every, epoch_steps, eval_every, eval_s, eval_prints ? "" : " silent", flush_s,
        flush_lines, apart_s, by_thread, ranks, tells_rank ? " told" : "");
  }
};

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  double between(double least, double most) {
    return least + (most - least) * std::generate_canonical<double, 53>(random_);
  }
  bool chance(double share) { return between(0, 1) < share; }
  int64_t one_of(std::vector<int64_t> values) { return values[random_() % values.size()]; }

 private:
  std::mt19937_64 random_;
};

Program program_of(uint64_t seed) {
  Random random(seed);
  Program program;
  program.style = &styles()[seed % styles().size()];
  program.step_s = std::exp(random.between(std::log(0.0004), std::log(0.25)));
  program.jitter = random.chance(0.3) ? 0.003 : 0.03;
  program.every = random.chance(0.5) ? 1 : random.one_of({2, 5, 10, 50});
  program.epoch_steps = program.every * random.one_of({25, 40, 1000});
  program.stream = random.chance(0.3) ? 1 : 0;
  program.share_of_step = std::min(0.01, program.step_s / 30);
  if (random.chance(0.3)) {
    program.eval_every = program.every * random.one_of({10, 20, 50});
    program.eval_s = program.step_s * static_cast<double>(program.every) * random.between(1, 12);
    program.eval_prints = random.chance(0.7);
  }
  const double way = random.between(0, 1);
  if (way < 0.12) program.flush_s = random.between(0.1, 0.5);
  if (way > 0.12 && way < 0.2) program.flush_lines = random.one_of({5, 20, 50});
  if (random.chance(0.7)) program.apart_s = random.between(2e-6, 1e-4);
  program.by_thread = program.style->is(drawn) || (program.style->is(bar) && random.chance(0.3));
  if (program.by_thread) program.every = 1;
  if (program.style->is(ranks) && random.chance(0.3)) {
    program.ranks = random.one_of({2, 4});
    program.tells_rank = random.chance(0.5);
  }
  return program;
}

// What comes out of one run of it.
std::vector<Event> events_of(const Program& program, uint64_t seed, double seconds) {
  Random random(seed);
  std::vector<Event> printed{{0.5, 0, "config: batch_size 12, seed 1337\nloading data ...\n" + program.style->heading}};
  double now = 0.6, draw = 0.6;
  State state{.epoch_steps = program.epoch_steps, .ms = 1000 * program.step_s, .every = program.every};
  if (program.style == styles().data()) printed.front().bytes += "loaded 3 files\n";
  for (; now < seconds && printed.size() < 60000; ++state.step) {
    state.of_epoch = (state.step - 1) % program.epoch_steps + 1;
    state.epoch = (state.step - 1) / program.epoch_steps;
    const double begun = now;
    now += program.step_s * (1 + program.jitter * random.between(-1.7, 1.7));
    const State before = state;
    state.loss = 1 + 2 * std::exp(-static_cast<double>(state.step) / 400) + random.between(-0.05, 0.05);
    state.share = std::min(0.999, static_cast<double>(state.step) * program.share_of_step);
    if (program.by_thread) {
      for (; draw < now; draw += 0.1 + random.between(0, 3e-4)) {
        if (draw >= begun && before.step > 1) printed.push_back({draw, program.stream, program.style->text(before)});
      }
    } else if (state.step % program.every == 0) {
      for (int64_t rank = 0; rank < program.ranks; ++rank) {
        State of_rank = state;
        of_rank.loss += 0.01 * static_cast<double>(rank);
        const std::string tag = program.tells_rank ? fmt::format("[rank{}]: ", rank) : "";
        printed.push_back({now + program.step_s * random.between(0, program.ranks > 1 ? 0.05 : 1e-3), program.stream,
                           tag + program.style->text(of_rank)});
      }
    }
    if (program.eval_every > 0 && state.step % program.eval_every == 0) {
      now += program.eval_s;
      if (program.eval_prints)
        printed.push_back({now, program.stream, fmt::format("\nvalidation: loss {:.4f}\n", state.loss)});
    }
  }
  std::ranges::stable_sort(printed, {}, &Event::seconds);
  if (program.flush_s == 0 && program.flush_lines == 0) return printed;
  double last = 0;
  for (size_t i = 0; i < printed.size();) {  // what comes together
    size_t end = i + 1;
    double when = 0;
    if (program.flush_s > 0) {
      when = program.flush_s * std::ceil(printed[i].seconds / program.flush_s);
      while (end < printed.size() && printed[end].seconds <= when) ++end;
    } else {
      end = std::min(i + static_cast<size_t>(program.flush_lines), printed.size());
      when = printed[end - 1].seconds;
    }
    when = std::max(when, last);
    for (; i < end; ++i, when += program.apart_s) printed[i].seconds = when;
    last = when;
  }
  return printed;
}

constexpr int64_t warmup = 5, timed = 20;

// Milliseconds of what it counts, as a run of it is measured; none: refused.
struct Told {
  std::optional<double> ms;
  std::string why;
  bool has_all = false;  // with what the program does between its steps
  double window = 1;     // of what it counts
};
Told measured(const Program& program, uint64_t seed) {
  std::optional<harness::TrialLines::Learned> learned;
  harness::PaceFound pace;
  for (double trial_s = 0.6 + std::max(3.5, 40 * program.step_s * static_cast<double>(program.every)); trial_s < 200;
       trial_s *= 2) {
    harness::TrialLines trial;
    for (const Event& event : events_of(program, seed, trial_s)) trial.take(event.stream, event.bytes, event.seconds);
    learned = trial.learned();
    if (!learned) return {{}, "no step found"};
    pace = harness::pace_of(learned->steps);
    if (!pace.needs_more) break;
  }
  if (!learned) return {{}, "its lines are too far apart for a trial"};
  if (!pace.doubt.empty()) return {{}, pace.doubt};
  if (learned->format->unit == "line" && !program.style->is(no_number))
    return {{}, "counts lines: " + learned->format->shape};
  harness::RankReader reader(*learned->format);
  harness::StepWindow window(warmup, timed, pace.pace, /*counts_lines=*/false);
  harness::LineSplitter lines;
  const double run_s = 100 * program.step_s * static_cast<double>(program.every) + 60;
  for (const Event& event : events_of(program, seed + 1'000'000, run_s)) {
    for (const auto& line : lines.take(event.stream, event.bytes, event.seconds)) {
      for (const StepLine& step : reader.take(line)) window.take(step);
    }
    if (window.is_full()) break;
  }
  const std::string& shape = learned->format->shape;
  if (!window.is_full()) return {{}, fmt::format("too few lines: {} of [{}]", window.lines().size(), shape)};
  return {harness::median(window.timed_ms()),
          fmt::format("{} [{}] burst {:.3g} block {:.3g}", learned->format->unit, shape, pace.pace.burst_s,
                      pace.pace.block_s),
          pace.pace.has_all(),
          static_cast<double>(window.lines().back().step - window.lines()[window.first_timed()].step)};
}

TEST(AnyProgram, NeverTellsAWrongTime) {
  const char* const one = std::getenv("PROGRAM");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 0;
  int64_t right = 0, wrong = 0;
  std::map<std::string, int64_t> refused;
  const uint64_t programs = one != nullptr ? 1 : 2000;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    const Program program = program_of(seed);
    const Told told = measured(program, seed);
    if (!told.ms) {
      ++refused[program.style->name];
      if (std::getenv("REFUSED") != nullptr) fmt::print("{} refused {}: {}\n", seed, program.said(), told.why);
      continue;
    }
    const double truth = 1000 * program.step_s /
                         (!program.style->is(no_number) ? program.units() : 1.0 / static_cast<double>(program.every));
    const double between =
        program.eval_every > 0 ? program.eval_s / static_cast<double>(program.eval_every) / program.step_s : 0;
    const bool may_have_all = told.has_all || program.by_thread;
    const double most = may_have_all
                            ? truth * (1 + between) + 1000 * program.eval_s * harness::least_intervals / told.window
                            : truth;  // one more in each
    const double off = *told.ms < truth ? *told.ms / truth - 1 : std::max(*told.ms / most - 1, 0.0);
    ++(std::abs(off) < 0.05 ? right : wrong);
    EXPECT_LT(std::abs(off), 0.05) << "PROGRAM=" << seed << " " << program.said() << "\n  told " << *told.ms
                                   << ", true " << truth << " to " << most << " by " << told.why;
  }
  int64_t refusals = 0;
  for (const auto& [name, times] : refused) refusals += times;
  fmt::print("{} right, {} wrong, {} refused\n", right, wrong, refusals);
  for (const auto& [name, times] : refused) fmt::print("  {:4} {}\n", times, name);
  EXPECT_TRUE(one != nullptr || right > 1600) << "most are read";
}

}  // namespace any_program_test
