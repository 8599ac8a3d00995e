#include "plots/printable_texts.h"

namespace ablations {

files::Json with_printable_texts(const files::Json& value) {
  if (value.is_string()) return files::printable(value.get_ref<const std::string&>());
  files::Json shown = value;
  for (files::Json& member : shown) {
    if (member.is_string() || member.is_structured()) member = with_printable_texts(member);
  }
  return shown;
}

}  // namespace ablations
