#include "results/setting.h"

#include <fmt/format.h>

namespace results {

namespace {

std::optional<std::string> text_of(const std::string& value) { return value; }
std::optional<std::string> text_of(int64_t value) { return std::to_string(value); }

template <class T>
std::optional<std::string> text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : std::nullopt;
}

// Whether a side that does not say it may mean `value`.
bool may_be_unknown(const std::string& name, const std::optional<std::string>& value) {
  return name == "cores" || name == "cpu_capability" || (name == "kernel_switches" && value == "none");
}

}  // namespace

Facts Setting::facts() const {
  Facts facts;
  fields([&](const char* name, auto member, const Rules& /*rules*/) { facts[name] = text_of(this->*member); });
  return facts;
}

void Setting::fill_from(const Setting& other) {
  fields([&](const char* /*name*/, auto member, const Rules& /*rules*/) {
    if (!text_of(this->*member)) this->*member = other.*member;
  });
}

std::string Setting::device_slug() const {
  if (!device) return "unknown-device";
  std::string text = *device;
  if (const auto count = threads.value_or(std::nullopt)) text += fmt::format(" {} threads", *count);
  std::string slug;
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      slug += c;
    } else if (c >= 'A' && c <= 'Z') {
      slug += static_cast<char>(c - 'A' + 'a');
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "unknown-device" : slug;
}

std::vector<std::string> differences(const Facts& facts, const Facts& others) {
  const auto fact = [](const Facts& of, const std::string& name) {
    const auto found = of.find(name);
    return found == of.end() ? std::nullopt : found->second;
  };
  Facts all = facts;
  all.insert(others.begin(), others.end());
  std::vector<std::string> lines;
  for (const auto& [name, ignored] : all) {
    const auto here = fact(facts, name), there = fact(others, name);
    const bool unknown = (!here && may_be_unknown(name, there)) || (!there && may_be_unknown(name, here));
    if (here != there && !unknown) {
      const char* const unsaid = name == "page_cache" ? "as it was" : name == "windows" ? "consecutive" : "not known";
      lines.push_back(fmt::format("{}: {} against {}", name, here.value_or(unsaid), there.value_or(unsaid)));
    }
  }
  return lines;
}

std::vector<std::string> differences(const Setting& setting, const Setting& other) {
  return differences(setting.facts(), other.facts());
}

}  // namespace results
