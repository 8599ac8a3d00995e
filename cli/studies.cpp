// What can be said of stored studies: `ladder verify`, `ladder merge`, `ladder history` and `ladder compare`.
#include "ablations/run/study_folder.h"
#include "cli/command.h"
#include "cli/draw.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/stats/verdict.h"
#include "plots/comparison_text.h"
#include "plots/history_table.h"
#include "plots/ledger_text.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "study/archive/history_points.h"
#include "study/archive/merge.h"
#include "study/archive/study_files.h"
#include "study/archive/verify.h"
#include "study/gate/compare.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace cli {

namespace fs = std::filesystem;
using files::Json;
using files::printable;

namespace {

struct VerifyFlags {
  std::string study;
  bool json = false;
};

bool is_of_recipes(const fs::path& folder) {
  try {
    return !open_study(folder).commands;
  } catch (const std::exception&) {  // verify_study says what is wrong
    return false;
  }
}

int verify(const CommandLine& line, const VerifyFlags& flags) {
  const StudyPlace place(flags.study);
  if (line.other && harness::can_train() && is_of_recipes(place.folder())) return line.other();
  const Verification seen = verify_study(place.folder(), line.gpt2.compute_again);
  if (flags.json) {
    Json findings = Json::array();
    for (const Finding& finding : seen.findings) {
      findings.push_back({{"file", finding.file},
                          {"field", finding.field},
                          {"stored", finding.stored},
                          {"expected", finding.expected}});
    }
    fmt::print("{}\n", files::ascii_text({{"findings", findings},
                                          {"unchecked", seen.unchecked},
                                          {"records", seen.records},
                                          {"files", seen.files},
                                          {"values", seen.values}}));
  } else {
    for (const Finding& finding : seen.findings) {
      fmt::print("{}{}: {}; expected {}\n", printable(finding.file),
                 finding.field.empty() ? "" : " " + printable(finding.field), printable(finding.stored),
                 printable(finding.expected));
    }
  }
  std::fflush(stdout);
  for (const std::string& note : seen.unchecked) fmt::print(stderr, "note: {}\n", note);
  if (!seen.findings.empty()) {
    if (!seen.made_by.empty()) {
      fmt::print(stderr,
                 "note: the study was made by commit {}, this program is another one: that may explain a difference\n",
                 seen.made_by);
    }
    fmt::print(stderr, "ladder: {}: {} difference{}\n", printable(flags.study), seen.findings.size(),
               seen.findings.size() == 1 ? "" : "s");
    return 1;
  }
  if (!flags.json) {
    fmt::print("OK: {}, {}, {} hash{}\n", number_of(static_cast<int64_t>(seen.records), "record"),
               number_of(static_cast<int64_t>(seen.values), "value"), seen.files, seen.files == 1 ? "" : "es");
  }
  return 0;
}

struct MergeFlags {
  std::string out;
  std::vector<std::string> shards;  // folders
  bool group_by_device = false;
};

// Ledgers of several machines, into the file --out.
int merge_ledgers(const MergeFlags& flags) {
  if (flags.group_by_device) throw std::invalid_argument("--group-by-device: ledgers have no such parts");
  const fs::path out = fs::absolute(flags.out);
  if (fs::exists(out)) throw std::invalid_argument(fmt::format("{}: exists; name another file", out.string()));
  auto all = read_document<Ledger>(flags.shards.front());
  for (size_t i = 1; i < flags.shards.size(); ++i) all = merged(all, read_document<Ledger>(flags.shards[i]));
  write_document(out, all);
  fmt::print("{}{}\n", ledger_table(all, standard_output()), printable(out.string()));
  return 0;
}

int merge(const MergeFlags& flags) {
  const auto is_ledger = [](const std::string& path) { return is_document(path, Ledger::kind); };
  if (std::ranges::all_of(flags.shards, is_ledger)) return merge_ledgers(flags);
  const std::vector<MergedStudy> studies =
      merge_studies(files::named_folder(flags.out), {flags.shards.begin(), flags.shards.end()}, flags.group_by_device);
  int status = 0;
  for (const auto& [folder, plan, missing] : studies) {
    const StudyFiles study = computed_study(plan, folder);
    write_document(folder / "study.json", study.study);
    const Drawn drawn = try_draw_report(study, folder);
    status = std::max(status, show_study(study.study));
    fmt::print("{}", drawn.said);
    std::fflush(stdout);
    if (drawn.exit_status != 0) {
      fmt::print(stderr, "the study is saved; draw it with: ladder report {}\n", printable(folder.string()));
    }
    if (missing.empty()) continue;
    std::set<int64_t> repeats;
    for (const PlannedRun& run : missing) repeats.insert(run.repeat + 1);
    fmt::print(stderr,
               "{}: {} of {} runs are missing, in repeats {}; merge their shard, too, or make them here: "
               "ladder ablate --resume --out {}\n",
               printable(folder.string()), missing.size(), plan.runs.size(), fmt::join(repeats, ", "),
               printable(folder.string()));
  }
  return status;
}

struct HistoryFlags {
  std::string folder, out;
  double min_effect = harness::usual_min_effect;
  bool json = false, fail_on_slowdown = false;
};

int history(const HistoryFlags& flags) {
  const fs::path out = files::named_folder(flags.out);
  if (!out.empty()) {
    check_draws_over_own(out, "history.json", "history",
                         {"history.json", "history.svg", "history.png", "history.vl.json"});
  }
  const History history = history_of(flags.folder, flags.min_effect);
  for (const auto& [file, reason] : history.skipped)
    fmt::print(stderr, "skipped: {}: {}\n", printable(file), printable(reason));
  std::string said;
  if (!out.empty()) {
    try {
      fs::create_directories(out);
      write_document(out / "history.json", with_printable_texts(history, files::printable_lines));
      said = draw("history", out / "history.json", out).said;  // what cannot be drawn changes no exit status
    } catch (const std::system_error& error) {
      if (!flags.fail_on_slowdown) throw;  // else the verdict still counts
      fmt::print(stderr, "ladder: the history was not written: {}\n", printable(error.what()));
    }
  }
  if (flags.json) {
    fmt::print("{}\n", files::ascii_text(json_of(history)));
  } else if (history.studies == 1) {
    fmt::print("1 study: a history begins with two; six show a drift, ten a jump\n");
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  fmt::print("{}", said);
  // A rung that fails tonight has no time that could be judged: exit status 3.
  return !flags.fail_on_slowdown ? 0 : history.slower != 0 ? 1 : history.missed != 0 ? 3 : 0;
}

struct CompareFlags {
  std::string base, head;
  double min_effect = harness::usual_min_effect;
  bool force = false, json = false, markdown = false;
};

int print_comparison(const CompareFlags& flags) {
  const Comparison comparison = compare_sides(read_side(flags.base), read_side(flags.head),
                                              {.min_effect = flags.min_effect, .force = flags.force});
  const std::vector<Remark> remarks = remarks_of(comparison, sides_of_programs);
  const Look& look = standard_output();
  fmt::print("{}\n", flags.json       ? files::ascii_text(json_of(comparison))
                     : flags.markdown ? comparison_markdown(comparison) + "\n" + remarks_markdown(remarks)
                                      : comparison_table(comparison, look) + remarks_text(remarks, look));
  const auto is_usable = [](const ComparedRecipe& entry) { return entry.unusable.empty(); };
  return std::ranges::any_of(comparison.entries, is_usable) ? 0 : 3;
}

}  // namespace

void add_verify(CommandLine& line) {
  Command& command = line.add(
      {.name = "verify",
       .about = "Checks that a study follows from its records. Computes again every number and text of study.json, the "
                "summary, sizes and proofs of each record, and the SHA-256 of each file. Names what differs, with both "
                "values. Writes nothing. The exit status is 1 if something differs.",
       .examples = {{"ladder verify study", "Names each file and field that is not what it should be."}}});
  auto& flags = command.runs<VerifyFlags>([&line](const VerifyFlags& given) { return verify(line, given); });
  command.heading("Arguments");
  add_text(command, "study", flags.study, "a study's folder", "PATH")->required();
  command.heading("What to print");
  command.add_flag("--json", flags.json, "print the findings as JSON");
}

void add_merge(CommandLine& line) {
  Command& command = line.add(
      {.name = "merge",
       .about =
           "Each machine measures a part of the repeats with `ladder ablate --shard i/n` and the same other "
           "flags. This command joins the parts into one study in --out, says which runs are missing, and draws the "
           "study. It refuses parts with different plans, programs, texts or kinds of device.\n"
           "Ledgers of `ladder gate --ledger` become one ledger, whose error is the sum of theirs.",
       .examples = {
           {"ladder merge shard-1 shard-2 --out whole", "Joins two shards into one study in the folder whole."},
           {"ladder merge --group-by-device shard-* --out whole", "One study for each kind of device."},
           {"ladder merge night-1.json night-2.json --out both.json", "Two machines' nights of experiments."}}});
  auto& flags = command.runs<MergeFlags>(merge);
  command.heading("Arguments");
  command.add_option("shards", flags.shards, "folders of ladder ablate --shard, or ledgers")
      ->type_name("PATH")
      ->required();
  command.heading("What to join");
  command.add_flag("--group-by-device", flags.group_by_device,
                   "make one study for each kind of device, in a folder of --out (default: refuse different devices)");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder of the study; may already hold a part; of ledgers a file", "PATH")
      ->required();
}

void add_history(CommandLine& line) {
  Command& command = line.add(
      {.name = "history",
       .about = "Lines up studies made under equal circumstances, rung by rung, and says where the time changed: at a "
                "jump, named with its study and commits, or by a drift of small changes. It takes ten studies to find "
                "a jump and six to find a drift. Writes nothing unless --out names a folder.",
       .examples = {{"ladder history studies", "Every study in that folder and below."},
                    {"ladder history studies --out drawn", "The same, and history.json with its chart."},
                    {"ladder history studies --fail-on-slowdown",
                     "For a nightly job: exit status 1 if a rung got slower, 3 if a rung fails."}}});
  auto& flags = command.runs<HistoryFlags>(history);
  command.heading("Arguments");
  add_text(command, "folder", flags.folder, "folder of studies; every study.json in it and below counts", "FOLDER")
      ->required();
  command.heading("What counts as slower");
  add_min_effect_flag(command, flags.min_effect, "difference");
  command.add_flag(
      "--fail-on-slowdown", flags.fail_on_slowdown,
      "exit status 1 if a rung is slower than at its best; else 3 if the newest study has no time for a rung");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "write history.json and draw history.svg, history.png here", "FOLDER");
  command.add_flag("--json", flags.json, "print the history as JSON");
  command.exclude("--json", {"--out"});
}

void add_compare(CommandLine& line) {
  Command& command = line.add(
      {.name = "compare",
       .about =
           "Pairs the runs of two sides. For each recipe it gives the ratio of a step's time, HEAD over BASE, with "
           "an interval and a verdict: REGRESSION, IMPROVEMENT, SAME or INCONCLUSIVE against the least difference that "
           "matters. Compares losses and memory, too. Measures and writes nothing. The exit status is 0 even if there "
           "are differences, and 3 if nothing can be compared: fewer than 4 pairs, half of the runs disturbed, or an "
           "interval whose ends are ten-fold apart. Refuses sides measured under different circumstances, such as on "
           "another GPU.",
       .examples = {
           {"ladder compare before after", "Two studies, rung by rung."},
           {"ladder compare --min-effect 5 before/records after/records", "Only differences of 5 % or more matter."},
           {"ladder compare --markdown before after", "The table for a pull request."}}});
  auto& flags = command.runs<CompareFlags>(print_comparison);
  command.heading("Arguments");
  add_text(command, "base", flags.base, "the old side: a record, a study or a folder of records", "PATH")->required();
  add_text(command, "head", flags.head, "the new side", "PATH")->required();
  command.heading("How to compare");
  add_min_effect_flag(command, flags.min_effect, "difference");
  command.add_flag("--force", flags.force, "compare even if the circumstances differ, and say so");
  command.heading("What to print");
  command.add_flag("--json", flags.json, "for programs");
  command.add_flag("--markdown", flags.markdown, "for a page");
  command.exclude("--json", {"--markdown"});
}

}  // namespace cli
