// The texts of each technique, for a page and for a report.
#pragma once

#include "ablations/techniques/technique.h"
#include "files/json_file.h"
#include "results/report.h"
#include "text/style.h"

#include <string>
#include <vector>

namespace plots {

// A text file's parts, which begin with "## TITLE".
std::vector<TextPart> parts_of(const std::string& file);

// docs/techniques.md: lists them all.
std::string techniques_page();

// Optimizations, and the fields of the recipe that none of them edits.
std::vector<std::string> technique_names();

// A screen about one of them, by its name or its title in tables; empty: there is none.
std::string technique_help(const std::string& name, const Look& look);

// For a report's section of a rung: its text, and the claims with what this study shows.
TechniqueText technique_text(const Optimization& optimization, const Study& study);

}  // namespace plots
