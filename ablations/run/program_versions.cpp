#include "ablations/run/program_versions.h"

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;

// "Flash-Attn" is installed in flash_attn.
static std::string as_folder(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '-' ? '_' : std::tolower(c); });
  return name;
}

std::map<std::string, std::string> versions_of(const std::set<fs::path>& code) {
  std::map<std::string, std::string> versions;
  std::map<fs::path, std::set<std::string>> packages;  // by the folder that they are installed in
  for (const fs::path& file : code) {
    const std::string name = file.filename().string(), path = file.string();
    const size_t python = name.find("python3.");
    if (python == 0 || (python == 3 && name.starts_with("lib"))) {
      const size_t digits = name.find_first_not_of("0123456789", python + 8);
      versions["python"] = name.substr(python + 6, digits == std::string::npos ? digits : digits - python - 6);
    }
    for (const std::string folder : {"/site-packages/", "/dist-packages/"}) {
      const size_t at = path.find(folder), begin = at + folder.size();
      if (at == std::string::npos) continue;
      packages[path.substr(0, begin)].insert(as_folder(path.substr(begin, path.find('/', begin) - begin)));
    }
  }
  for (const auto& [folder, names] : packages) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {  // torch-2.11.0.dist-info
      const std::string stem = entry.path().stem().string();
      const size_t dash = stem.rfind('-');
      if (entry.path().extension() != ".dist-info" || dash == std::string::npos || versions.size() >= 50) continue;
      const std::string name = as_folder(stem.substr(0, dash));
      if (names.contains(name)) versions[name] = stem.substr(dash + 1);
    }
  }
  return versions;
}

}  // namespace ablations
