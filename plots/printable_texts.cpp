#include "plots/printable_texts.h"

namespace plots {

files::Json with_printable_texts(const files::Json& document, Shown shown) {
  if (document.is_string()) return shown(document.get_ref<const std::string&>());
  if (!document.is_structured()) return document;
  files::Json result = document.is_array() ? files::Json::array() : files::Json::object();
  for (const auto& [key, member] : document.items()) {
    (document.is_array() ? result.emplace_back() : result[shown(key)]) = with_printable_texts(member, shown);
  }
  return result;
}

}  // namespace plots
