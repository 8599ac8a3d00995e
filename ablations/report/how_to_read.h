// What the words and numbers of a study's page mean.
#pragma once

#include "ablations/documents/study.h"

#include <string>
#include <vector>

namespace ablations {

struct Term {
  std::string term, words;  // a sentence: it begins with the term and goes on with the words

  static void fields(auto&& field) {
    field("term", &Term::term);
    field("words", &Term::words);
  }
};

std::vector<Term> how_to_read(const Study& study);

}  // namespace ablations
