// The texts of each technique, for a page and for the terminal.
#pragma once

#include "text/style.h"

#include <string>
#include <vector>

namespace cli {

// docs/techniques.md: lists them all.
std::string techniques_page();

// Optimizations, and the fields of the recipe that none of them edits.
std::vector<std::string> technique_names();

// A screen about one of them, by its name or its title in tables; empty: there is none.
std::string technique_help(const std::string& name, const Look& look);

}  // namespace cli
