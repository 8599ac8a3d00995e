// The strings of documents, which may come from strangers, made printable (files/printable.h).
#pragma once

#include "files/printable.h"
#include "results/fields.h"

namespace ablations {

// Every string of the document; keys stay the schema's.
files::Json with_printable_texts(const files::Json& document);

template <HasFields T>
T with_printable_texts(T document) {
  each_text(
      document, [](std::string& text) { text = files::printable(text); },
      [](files::Json& json) { json = with_printable_texts(json); });
  return document;
}

}  // namespace ablations
