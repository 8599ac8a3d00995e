// `ladder verify`: checks that a study follows from its records, and that its files are unchanged.
#include "study/archive/verify.h"

#include "cli/command.h"
#include "files/printable.h"
#include "study/archive/study_files.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <cstdio>

namespace cli {

using files::Json;
using files::printable;

namespace {

struct VerifyFlags {
  std::string study;
  bool json = false;
};

int verify(const VerifyFlags& flags) {
  const StudyPlace place(flags.study);
  const Verification seen = verify_study(place.folder());
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
  for (const std::string& line : seen.unchecked) fmt::print(stderr, "note: {}\n", line);
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

}  // namespace

void add_verify(CommandLine& line) {
  Command& command = line.add(
      {.name = "verify",
       .about = "Checks that a study follows from its records. Computes again every number and text of study.json, the "
                "summary, sizes and proofs of each record, and the SHA-256 of each file. Names what differs, with both "
                "values. Writes nothing. The exit status is 1 if something differs.",
       .examples = {{"ladder verify study", "Names each file and field that is not what it should be."}}});
  auto& flags = command.runs<VerifyFlags>(verify);
  command.heading("Arguments");
  add_text(command, "study", flags.study, "a study's folder", "PATH")->required();
  command.heading("What to print");
  command.add_flag("--json", flags.json, "print the findings as JSON");
}

}  // namespace cli
