// Text in tables and messages: as wide as the terminal, wrapped, numbers shortened, the strings of documents made
// printable.
#pragma once

#include "ablations/documents/fields.h"
#include "ablations/text/style.h"
#include "files/json_file.h"
#include "files/printable.h"

#include <string>

namespace ablations {

// Of every table and message: those of the terminal on standard output, from 60 to 140; 80 where there is none.
size_t columns();

// The document with every string in it made printable (files/printable.h), for tables. Keys are unchanged: they are the
// schema's.
files::Json with_printable_texts(const files::Json& document);

template <HasFields T>
T with_printable_texts(T document) {
  each_text(
      document, [](std::string& text) { text = files::printable(text); },
      [](files::Json& json) { json = with_printable_texts(json); });
  return document;
}

// At most columns() wide, broken at spaces, and within a word that is longer than a line; continuation lines begin with
// `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "");

// With a capital letter first.
std::string capitalized(std::string text);

double gib(auto bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

// "1,493" "61.2" "0.84": three significant digits or more.
std::string number(double value);

}  // namespace ablations
