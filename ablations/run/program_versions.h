// What a measured program is made of, by the files that its processes have loaded.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace ablations {

// Python and its packages with compiled code among these files: {"python": "3.11", "torch": "2.11.0"}. 50 at most.
std::map<std::string, std::string> versions_of(const std::set<std::filesystem::path>& code);

}  // namespace ablations
