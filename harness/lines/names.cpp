#include "harness/lines/names.h"

#include <algorithm>
#include <initializer_list>

namespace harness {

namespace {

using Words = std::initializer_list<std::string_view>;

bool is_one(std::string_view word, Words list) { return std::ranges::find(list, word) != list.end(); }

template <typename Function>
void for_each_word(std::string_view key, Function function) {
  for (size_t begin = 0; begin < key.size();) {
    const size_t end = std::min(key.find(' ', begin), key.size());
    if (end > begin) function(key.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool has_any(std::string_view key, Words list) {
  bool any = false;
  for_each_word(key, [&](std::string_view word) { any = any || is_one(word, list); });
  return any;
}

bool has_only(std::string_view key, Words list) {
  bool all = true;
  for_each_word(key, [&](std::string_view word) { all = all && is_one(word, list); });
  return all;
}

const Words filler_words = {"the", "is", "was", "info", "debug", "warning"};
const Words training_words = {"train", "training"};
const Words step_words = {"step",   "steps",   "iter",  "iters",     "iteration", "iterations", "it",
                          "update", "updates", "batch", "minibatch", "round",     "rounds"};

// How a word beside "loss" makes it another one.
int rank_beside_loss(std::string_view word) {
  static const Words no_loss = {"z",        "aux",       "scale",       "scaler", "weight", "lb",       "load",
                                "balance",  "balancing", "best",        "min",    "max",    "last",     "prev",
                                "previous", "target",    "threshold",   "delta",  "change", "improved", "improvement",
                                "tol",      "coef",      "coefficient", "factor", "ratio",  "moe"};
  static const Words parts = {"total", "lm",      "step", "batch", "minibatch", "global",  "current",
                              "cur",   "nll",     "ce",   "mlm",   "iter",      "reduced", "crossentropy",
                              "cross", "entropy", "bce",  "mse",   "log",       "softmax", "objective"};
  static const Words means = {"avg", "average", "mean", "running", "smooth", "smoothed", "moving", "ema"};
  if (word == "loss" || word == "s" || is_one(word, filler_words)) return 10;
  if (is_one(word, no_loss)) return 0;
  if (is_one(word, training_words)) return 9;
  if (is_one(word, parts)) return 8;
  if (is_one(word, means)) return 7;
  return word == "epoch" ? 6 : 5;
}

// Objectives that have names of their own.
int rank_of_objective(std::string_view key) {
  static const Words names = {"nll",       "xent", "ce",      "bce",       "crossentropy", "mse",    "rmse",     "mae",
                              "l1",        "l2",   "logloss", "mlogloss",  "error",        "merror", "deviance", "elbo",
                              "objective", "obj",  "cost",    "criterion", "bpb",          "bpc"};
  static const Words beside = {"train", "training", "learn", "lm", "mean", "avg",     "average", "binary", "multi",
                               "cross", "entropy",  "log",   "s",  "cur",  "current", "the",     "is"};
  int found = 0;
  bool others = false;
  for_each_word(key, [&](std::string_view word) {
    if (is_one(word, names)) {
      found = std::max(found, 4);
    } else if (is_one(word, {"perplexity", "ppl"})) {
      found = std::max(found, 2);
    } else if (!is_one(word, beside)) {
      others = true;
    }
  });
  if (others) return 0;
  if (found == 0 && has_any(key, {"cross"}) && has_any(key, {"entropy"})) return 4;
  return found == 0 && (key == " train " || key == " learn ") ? 3 : found;
}

}  // namespace

static char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

void add_words(std::string& key, std::string_view text) {
  const auto is_letter = [](char c) { return small_letter(c) >= 'a' && small_letter(c) <= 'z'; };
  std::string word;
  const auto end_word = [&] {
    const size_t last = key.size() < 2 ? std::string::npos : key.rfind(' ', key.size() - 2);
    const bool again =
        last != std::string::npos && std::string_view(key).substr(last + 1, key.size() - last - 2) == word;
    if (key.empty()) key = " ";
    if (!word.empty() && !again) key += word + " ";
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool parts = c == '_' || c == '/' || c == '.' || c == '-';
    const bool hump =
        i > 0 && small_letter(text[i - 1]) == text[i - 1] && is_letter(text[i - 1]) && small_letter(c) != c;
    if (parts || hump) end_word();
    if (!parts) word += small_letter(c);
    if (word.size() > 4 && word.ends_with("loss") && word != "logloss" && word != "mlogloss") {  // "nllloss"
      const std::string before = word.substr(0, word.size() - 4);
      word = before;
      end_word();
      word = "loss";
    }
  }
  end_word();
}

int loss_rank(std::string_view key) {
  if (!has_any(key, {"loss"})) return rank_of_objective(key);
  int rank = 10;
  for_each_word(key, [&](std::string_view word) { rank = std::min(rank, rank_beside_loss(word)); });
  return rank;
}

int step_rank(std::string_view key) {
  int rank = 0, others = 0;
  for_each_word(key, [&](std::string_view word) {
    const int here = is_one(word, {"step", "steps"})                                                         ? 50
                     : is_one(word, {"iter", "iters", "iteration", "iterations", "it", "update", "updates"}) ? 40
                     : is_one(word, {"batch", "minibatch", "round", "rounds"})                               ? 30
                                                                                                             : 0;
    if (here > 0 && rank == 0) {
      rank = here;
    } else if (word == "global" || (word == "num" && rank == 0 && has_any(key, {"updates"}))) {
      others += 100;
    } else if (!(rank > 0 ? is_one(word, {"num", "number", "idx"})
                          : is_one(word, {"train", "training", "completed", "current", "optimizer"})) &&
               !is_one(word, filler_words)) {
      others -= 1000;
    }
  });
  return rank == 0 || others < 0 ? 0 : rank + others;
}

bool has_step_word(std::string_view key) { return has_any(key, step_words); }

bool is_epoch(std::string_view key) {
  return has_any(key, {"epoch", "epochs", "ep"}) &&
         has_only(key, {"epoch", "epochs", "ep", "train", "training", "current", "info", "num"});
}

bool is_rank(std::string_view key) {
  return has_only(key, {"rank", "global", "local", "worker", "process"}) && has_any(key, {"rank", "worker", "process"});
}

bool is_validation(std::string_view key) {
  return has_any(key, {"val", "valid", "validation", "validate", "validating", "eval", "evaluation", "evaluate",
                       "evaluating", "test", "testing", "sanity", "predicting"});
}

bool counts_samples(std::string_view key) {
  return has_any(key, {"sample",    "samples", "image", "images",   "example",   "examples", "token",     "tokens",
                       "tok",       "word",    "words", "sentence", "sentences", "sen",      "sequences", "timestep",
                       "timesteps", "frames",  "bytes", "consumed", "seen",      "env"});
}

bool is_no_counter(std::string_view key) {
  return has_any(key, {"time",  "timestamp", "ts",     "elapsed", "eta",    "remaining", "left",  "ms",   "s",
                       "sec",   "secs",      "second", "seconds", "min",    "minutes",   "hours", "lr",   "rate",
                       "seed",  "port",      "pid",    "memory",  "mem",    "max",       "total", "size", "warmup",
                       "every", "per",       "best",   "line",    "lineno", "fps",       "sps",   "acc",  "accuracy"});
}

bool is_data_bar(std::string_view key) {
  return has_any(key, {"map",        "filter",     "load",     "loading", "download", "downloading", "tokenizing",
                       "generating", "extracting", "fetching", "saving",  "writing",  "packing",     "building",
                       "resolving",  "checkpoint", "shards",   "split",   "upload",   "uploading"});
}

bool is_token_rate(std::string_view key) {
  int place = 0;  // 1: after "tokens", 2: after "tokens per second"
  for_each_word(key, [&](std::string_view word) {
    if (place == 0 && is_one(word, {"tok", "toks", "token", "tokens"})) {
      place = 1;
    } else if ((place == 1 && is_one(word, {"s", "sec", "second"})) || (place == 0 && word == "tps")) {
      place = 2;
    } else if (place < 2 && !(place == 0 ? is_one(word, {"train", "training", "perf"}) : word == "per")) {
      place = 3;
    }
  });
  return place == 2;
}

std::optional<double> step_ms(std::string_view key, std::string_view unit, double value) {
  static const Words words = {"time", "dt", "took", "iter", "iteration", "step", "batch",  "avg",    "elapsed",
                              "per",  "in", "ms",   "msec", "s",         "sec",  "second", "seconds"};
  const std::string_view of_time = unit.empty() ? key : unit;
  const double factor = has_any(of_time, {"ms", "msec"})                              ? 1
                        : has_any(of_time, {"s", "sec", "secs", "second", "seconds"}) ? 1000
                                                                                      : 0;
  const bool good = has_only(unit, {"ms", "msec", "s", "sec", "secs", "second", "seconds", "step", "it", "iter"}) &&
                    has_only(key, words) && (!key.empty() || factor == 1);
  if (factor == 0 || !good || !(value >= 0 && value * factor < 1e8)) return std::nullopt;
  return value * factor;
}

}  // namespace harness
