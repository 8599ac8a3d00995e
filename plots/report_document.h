// Makes the report (results/report.h) of one study, or of two beside each other. What draws it computes no number
// again.
#pragma once

#include "files/printable.h"
#include "results/fields.h"
#include "results/report.h"
#include "study/archive/study_files.h"

#include <filesystem>
#include <vector>

namespace plots {

// The document of one or two studies, and of what is kept with them. `with`: more of that, verdicts, histories, noise
// floors, traces, and what Google Benchmark wrote. Throws std::invalid_argument for one of these that is of another
// kind or cannot be read.
Report report_document(const std::vector<StudyFiles>& studies, const std::vector<std::filesystem::path>& with = {});

// The parts of a technique's text, each of which begins with "## TITLE". `file`: below files::resource_root(). Throws
// std::invalid_argument if it cannot be read.
std::vector<TextPart> parts_of(const std::string& file);

// The strings of documents, which may come from strangers, made printable (files/printable.h).

using Shown = std::string (*)(std::string_view);

// Every string and key of the document.
files::Json with_printable_texts(const files::Json& document, Shown shown = files::printable);

// `shown`: files::printable_lines, where a text may have several lines.
template <HasFields T>
T with_printable_texts(T document, Shown shown = files::printable) {
  each_text(
      document, [&](std::string& text) { text = shown(text); },
      [&](files::Json& json) { json = with_printable_texts(json, shown); });
  return document;
}

}  // namespace plots
