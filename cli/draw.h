// Shows a document: prints its table, and draws its pictures by a script of plots/.
#pragma once

#include "plots/report_document.h"
#include "results/comparison.h"
#include "results/report.h"
#include "study/archive/study_files.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

// The program's path as a shell finds it; `name` if PATH has none.
std::string on_path(const std::string& name);

// The Python that draws reports and, without --peer-python, runs the peers, with its flags. It is $LADDER_PYTHON, which
// PATH may find. Else an installed program has the Python beside it or the one on PATH, and a built one has the Python
// of the build. The latter ignores the user's packages and variables (PYTHONPATH, PYTHONHOME).
std::vector<std::string> python();
// The Python that has the user's packages: the same, but with a built program the one on PATH.
std::vector<std::string> users_python();

// Whether the path is a file with a document of that kind. A study.json stands for its folder.
bool is_document(const std::filesystem::path& path, const char* kind);
// The document of a kind, which is `path` itself or `name` in that folder. Empty if there is none.
std::filesystem::path document_at(const std::filesystem::path& path, const char* name, const char* kind);

// A study, computed from its records. Throws std::invalid_argument for a gate that has no verdict yet.
StudyFiles read_study(const StudyPlace& place);

// The result of drawing. Callers draw before they print. A reader may close the pipe early, and the study must still
// have its pictures.
struct Drawn {
  int exit_status = 1;  // the script's; standard error says why it is not 0
  std::string said;     // the script's last line: "Open FOLDER/report.html"
};

// Draws `document` into `out` by plots/render.py. `what`: the word for it in a message.
Drawn draw(std::string_view what, const std::filesystem::path& document, const std::filesystem::path& out);

// Whether a rung failed, was not proven or is void.
bool any_failed(const Study& study);

// How a study is printed. `verbose`: a table, with what changed from rung to rung, and how numbers were computed.
enum class Printed { table, verbose, markdown, json };
Printed printed_as(bool json, bool markdown, bool verbose);
// Prints a study. Returns exit status 1 if a rung failed, was not proven or is void, 3 if nothing follows from it.
int show_study(const Study& study, Printed as = Printed::table);

// Draws the verdict in OUT/gate.json into `out`, and prints it as a table, or as JSON.
Drawn show_gate(const GateResult& result, const std::filesystem::path& out, Printed as = Printed::table);

// Prints a report's notes on standard error.
void show_notes(const Report& report);

// Names of the files that a drawn report or gate leaves.
std::vector<std::string> files_of_report();
inline const std::vector<std::string> files_of_gate{"gate.json", "gate.html", "charts", "drawing.log"};
// The files of a training, by the name of its document.
std::vector<std::string> files_of_training_page(const std::string& document);

// Removes what an earlier verdict left there.
void remove_drawn_gate(const std::filesystem::path& out);

// Writes report.json and its exports into `out` and draws them. `lines`: one more line to say of each study.
Drawn draw_report(const Report& report, const std::filesystem::path& out, const std::vector<std::string>& lines = {});

// Writes the document of a training into OUT/NAME and draws it.
template <Document T>
Drawn draw_document(const T& document, const std::filesystem::path& out, const char* name) {
  std::filesystem::create_directories(out);
  write_document(out / name, with_printable_texts(document, files::printable_lines));
  return draw("report", out / name, out);
}

// Returns what `drawing` returns. Prints `failure` if it throws, because the measurements count even without a drawing.
Drawn try_draw(const char* failure, const std::function<Drawn()>& drawing);
// The same for the report of one study.
Drawn try_draw_report(const StudyFiles& study, const std::filesystem::path& out);

}  // namespace cli
