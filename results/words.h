// What is said of a study, a gate, a training and so on: one headline, and remarks. It is made once, in
// ablations/report; the terminal, pages and Markdown print the same.
#pragma once

#include "results/fields.h"

#include <array>
#include <string>
#include <vector>

namespace results {

enum class Severity { info, good, warn, bad };
template <>
struct Names<Severity> {
  static constexpr std::array list{"info", "good", "warn", "bad"};
};

struct Remark {
  Severity severity = Severity::info;
  std::string code;  // the same for all remarks of its kind: "disturbed"
  std::string text;  // sentences, with `code`
  std::string fix;   // what to do about it; may be empty

  bool operator==(const Remark&) const = default;

  LADDER_FIELDS(Remark, severity, code, text, fix)
};

struct Said {
  std::string title;               // what, where and when: "GPT-2 124M on NVIDIA H200 · B=16 T=1024 · 2026-11-26"
  std::string headline;            // "12.3× faster than float32 on the same GPU"
  std::vector<std::string> lines;  // the figures behind it, with `code`
  std::vector<Remark> remarks;     // the worst first
  std::string command;             // that makes it again; may be empty

  LADDER_FIELDS(Said, title, headline, lines, remarks, command)
};

struct RungSaid {
  std::string reason;  // why it has no number; empty: it has one
  std::string guard;   // empty: its losses were not compared

  LADDER_FIELDS(RungSaid, reason, guard)
};

struct StudySaid : Said {
  std::vector<RungSaid> rungs;     // one for each of the study's
  std::vector<std::string> alone;  // commands that run and trace its last rung by itself

  LADDER_MORE_FIELDS(Said, StudySaid, rungs, (alone, absent))
};

}  // namespace results
