// The strings of documents, which may come from strangers, made printable (files/printable.h).
#pragma once

#include "files/printable.h"
#include "results/fields.h"

namespace plots {

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
