#include "plots/printable_texts.h"

namespace plots {

files::Json with_printable_texts(const files::Json& document, Shown shown) {
  if (document.is_string()) return shown(document.get_ref<const std::string&>());
  files::Json result = document;
  for (files::Json& member : result) {
    if (member.is_string() || member.is_structured()) member = with_printable_texts(member, shown);
  }
  return result;
}

}  // namespace plots
