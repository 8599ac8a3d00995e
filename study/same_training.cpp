#include "study/same_training.h"

#include "files/printable.h"
#include "study/looks.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::field_or_null;
using files::Json;

namespace {

// How many times as far apart as the looks with rounding a parameter may be, and a quarter of all; after the first
// step, whose roundings later ones enlarge, twice as far. docs/same-training.md says how often honest flags are.
struct Multiples {
  double parameter = 8, quarter = 4;
};
Multiples limits_at(size_t step) { return step == 0 ? Multiples{} : Multiples{16, 8}; }
// Where rounding allows more than this of the whole gradient at the first step, nothing is compared.
constexpr double largest_allowed = 1;

double quotient(double value, double by) { return value == 0 ? 0 : value / by; }

double root_of_mean_square(std::span<const double> values) {
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// The distance of what two sketches are of. Infinite where a number of either is not finite.
double apart(const Sums& one, const Sums& other) {
  std::array<double, std::tuple_size_v<Sums> - 1> off{};
  for (size_t i = 0; i < off.size(); ++i) off[i] = one[i + 1] - other[i + 1];
  const double distance = root_of_mean_square(off);
  return std::isfinite(distance) && std::isfinite(one[0] - other[0]) ? distance : INFINITY;
}

double numbers_of(const SketchedParameter& parameter) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), 1.0, std::multiplies<>());
}

// A parameter of the first command, its counterparts, and how far apart they are at a step: of what is compared.
struct Compared {
  const SketchedParameter* first;
  std::vector<const SketchedParameter*> again;
  const SketchedParameter* other;
  double size = 0, off = 0;  // the norm of the first's, and the distance of the other's
  double by_rounding = 0;    // the distance of those with rounding, or more where known
  double allowed = 0;
  double gradient_error = 0;  // of its gradient at this step by rounding, relative
  bool gradients_agree = true;

  [[nodiscard]] bool is_by_name() const { return !first->name.empty() && first->name == other->name; }
};

using Steps = std::vector<Sums> SketchedParameter::*;

const Sums& at_step(const SketchedParameter& parameter, Steps which, size_t step) {
  static const Sums none{};  // it takes no part
  return step < (parameter.*which).size() ? (parameter.*which)[step] : none;
}

// The number that a share of all parameters do not exceed. NaN counts for none.
double quantile(const std::vector<Compared>& all, double share, auto number) {
  std::vector<double> numbers;
  for (const Compared& one : all) {
    if (const double value = number(one); !std::isnan(value)) numbers.push_back(value);
  }
  if (numbers.empty()) return 0;
  std::ranges::sort(numbers);
  return numbers[static_cast<size_t>(share * static_cast<double>(numbers.size() - 1))];
}

// Adam's first steps are as large for a gradient of 1e-9 as for one of 1, so rounding that turns a tiny gradient's sign
// changes the step by twice its size. Of so many numbers `expected` do by chance; a few more may.
double by_turned_signs(double size, double numbers, double gradient_error) {
  const double expected = numbers * std::min(1.0, gradient_error);
  const double most = 4 * expected + std::min(3.0, 1e5 * expected);
  return 2 * size * std::sqrt(most / numbers);
}

// What the steps before this one have changed.
Sums changed_before(const SketchedParameter& parameter, size_t step) {
  Sums sum{};
  for (size_t i = 0; i < std::min(step, parameter.changes.size()); ++i) {
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += parameter.changes[i][k];
  }
  return sum;
}

// How many times as far from the first's as those of its looks with rounding the other's weights are before a step; at
// least 1. A sign that was turned by chance moves all later gradients, as far as the weights are apart.
double weights_further_apart(const std::vector<Compared>& all, size_t step) {
  double of_other = 0, of_again = 0;
  for (const Compared& one : all) {
    const auto off = [&, own = changed_before(*one.first, step)](const SketchedParameter* its) {
      const double distance = apart(own, changed_before(*its, step));
      return distance * distance;
    };
    of_other += off(one.other);
    for (const SketchedParameter* its : one.again) of_again += off(its) / static_cast<double>(one.again.size());
  }
  const double ratio = std::sqrt(quotient(of_other, of_again));
  return std::isfinite(ratio) ? std::max(1.0, ratio) : 1;
}

// Distances and limits at a step. known: as of same_training().
void compare_at(std::vector<Compared>& all, Steps which, size_t step, double known) {
  const double further = weights_further_apart(all, step);
  const bool is_gradient = which == &SketchedParameter::gradients;
  for (Compared& one : all) {
    const Sums& own = at_step(*one.first, which, step);
    one.size = is_gradient ? own[0] : apart(own, {own[0]});
    one.off = apart(own, at_step(*one.other, which, step));
    std::vector<double> again;
    for (const SketchedParameter* each : one.again) again.push_back(apart(own, at_step(*each, which, step)));
    one.by_rounding = further * root_of_mean_square(again);
  }
  // By chance a parameter of few numbers may have been hardly rounded: so none is held to less than half of them are.
  const double usual =
      quantile(all, 0.5, [](const Compared& one) { return one.size > 0 ? one.by_rounding / one.size : NAN; });
  for (Compared& one : all) {
    one.by_rounding = std::max(one.by_rounding, usual * one.size);
    one.by_rounding = std::hypot(one.by_rounding, known * one.size);
    if (is_gradient) one.gradient_error = quotient(one.by_rounding, one.size);
    const double stored = std::max(unit_roundoff(one.first->type), unit_roundoff(one.other->type));
    one.by_rounding =
        std::hypot(one.by_rounding, stored * (is_gradient ? one.size : at_step(*one.first, which, step)[0]));
    one.allowed = limits_at(step).parameter * one.by_rounding;
    if (is_gradient) {
      one.gradients_agree = one.gradients_agree && one.off <= one.allowed;
    } else {
      const double turned = by_turned_signs(one.size, numbers_of(*one.first), one.gradient_error);
      one.allowed = std::hypot(one.allowed, turned);
    }
  }
}

// The root of the sum of squares of all, relative to their sizes'.
double of_all(const std::vector<Compared>& all, double Compared::*what) {
  double squares = 0, sizes = 0;
  for (const Compared& one : all) {
    squares += (one.*what) * (one.*what);
    sizes += one.size * one.size;
  }
  return quotient(std::sqrt(squares), std::sqrt(sizes));
}

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.1g}", value) : "not a finite number"; }

std::string name_of_parameter(const SketchedParameter& parameter) {
  if (!parameter.name.empty()) return files::shortened(files::printable(parameter.name), 80);
  return fmt::format("the unnamed parameter of shape ({})", fmt::join(parameter.shape, ", "));
}

// The parameter that differs first, in words; empty: none does.
std::string difference_at(const std::vector<Compared>& all, const std::string& what, size_t step,
                          const std::string& type) {
  const auto ratio = [](const Compared& one) { return quotient(one.off, one.by_rounding); };
  auto named = std::ranges::find_if(all, [](const Compared& one) { return one.off > one.allowed; });
  if (named == all.end()) {
    if (quantile(all, 0.75, ratio) <= limits_at(step).quarter) return "";
    named = std::ranges::max_element(all, {}, ratio);
    return fmt::format(
        "{} is further off than {} makes it in a quarter of all parameters: most in {}, {} of its norm, {} times as "
        "far",
        what, type, name_of_parameter(*named->first), figure(quotient(named->off, named->size)),
        text::digits3(ratio(*named)));
  }
  return fmt::format("{} is {} of its norm off in {} ({} allows {})", what, figure(quotient(named->off, named->size)),
                     name_of_parameter(*named->first), type, figure(quotient(named->allowed, named->size)));
}

// Which parameter of `other` each of `first` is: by name and shape, the rest by shape and order. nullptr: none.
std::vector<const SketchedParameter*> matched(const Sketch& first, const Sketch& other) {
  std::vector<const SketchedParameter*> matches(first.parameters.size());
  std::set<const SketchedParameter*> taken;
  const auto match = [&](bool by_name) {
    const auto key = [&](const SketchedParameter& one) { return std::pair(by_name ? one.name : "", one.shape); };
    std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<const SketchedParameter*>> left;
    for (const SketchedParameter& its : std::views::reverse(other.parameters)) {
      if (!taken.contains(&its)) left[key(its)].push_back(&its);
    }
    for (size_t i = 0; i < matches.size(); ++i) {
      if (matches[i] != nullptr || (by_name && first.parameters[i].name.empty())) continue;
      std::vector<const SketchedParameter*>& candidates = left[key(first.parameters[i])];
      if (candidates.empty()) continue;
      matches[i] = candidates.back();
      candidates.pop_back();
      taken.insert(matches[i]);
    }
  };
  match(true);
  match(false);
  return matches;
}

// The parameters that both have. `alone` gets the names of all others.
std::vector<Compared> counterparts(const Sketch& first, std::span<const Sketch> again, const Sketch& other,
                                   std::vector<std::string>& alone) {
  std::vector<std::vector<const SketchedParameter*>> matches{matched(first, other)};
  for (const Sketch& each : again) matches.push_back(matched(first, each));
  std::vector<Compared> all;
  for (size_t i = 0; i < first.parameters.size(); ++i) {
    Compared one{.first = &first.parameters[i], .again = {}, .other = matches[0][i]};
    for (size_t k = 1; k < matches.size(); ++k) one.again.push_back(matches[k][i]);
    if (one.other != nullptr && std::ranges::find(one.again, nullptr) == one.again.end()) {
      all.push_back(std::move(one));
    } else {
      alone.push_back(name_of_parameter(*one.first));
    }
  }
  const std::set<const SketchedParameter*> taken(matches[0].begin(), matches[0].end());
  for (const SketchedParameter& its : other.parameters) {
    if (!taken.contains(&its)) alone.push_back(name_of_parameter(its));
  }
  return all;
}

double weights_off(const SketchedParameter& one, const SketchedParameter& other) {
  return quotient(apart(one.weights, other.weights), one.weights[0]);
}

// Whether the first command begins with other weights each time. Sums in another order are no reason to say so.
bool is_other_again(const Compared& one) {
  return std::ranges::any_of(one.again,
                             [&](const SketchedParameter* its) { return !(weights_off(*one.first, *its) <= 1e-9); });
}

// The first parameter with which the second command begins otherwise, in words; empty: there is none.
std::string other_weights(const std::vector<Compared>& all) {
  for (const Compared& one : all) {
    const double off = weights_off(*one.first, *one.other);
    if (off <= std::max(unit_roundoff(one.first->type), unit_roundoff(one.other->type))) continue;
    return fmt::format("it begins with other weights: {} is {} of its norm off", name_of_parameter(*one.first),
                       figure(off));
  }
  return "";
}

// Of the matrices, each of which has a product: "; by product: attn.c_attn 12 of 12, ..." agree, those of all layers
// together. Only fp8 is chosen product by product.
std::string by_product(const std::vector<Compared>& all, const std::string& type) {
  if (!type.starts_with("float8")) return "";
  std::map<std::string, std::pair<int, int>> counts;
  for (const Compared& one : all) {
    if (one.first->shape.size() != 2 || one.first->name.empty()) continue;
    std::istringstream name(files::printable(one.first->name));
    std::vector<std::string> parts;
    for (std::string part; std::getline(name, part, '.');) {
      const bool is_number = part.find_first_not_of("0123456789") == std::string::npos;
      if (!is_number && part != "weight") parts.push_back(files::shortened(part, 40));
    }
    if (parts.size() > 2) parts.erase(parts.begin(), parts.end() - 2);
    auto& [agree, of] = counts[fmt::format("{}", fmt::join(parts, "."))];
    agree += one.gradients_agree ? 1 : 0;
    ++of;
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} {} of {}", name, count.first, count.second));
  return words.empty() ? "" : "; by product: " + text::first_of(words, 8);
}

// Whether an optimizer of the same class has another value there, beside other arithmetic.
bool sets_otherwise(const SketchedParameter& parameter, const std::string& name, const std::vector<double>& values) {
  const auto its = parameter.settings.numbers.find(name);
  return its != parameter.settings.numbers.end() &&
         !std::ranges::equal(values, its->second, [](double one, double other) {
           return std::abs(one - other) <= 1e-6 * std::max(std::abs(one), std::abs(other));
         });
}

// What the optimizers are set to otherwise, in words; empty: nothing, or they are of different classes. Rounding may
// hide what a weight decay or a beta does in three steps. A rate that time decides differs in the first's own looks.
std::string other_settings(const std::vector<Compared>& all) {
  std::map<std::string, std::vector<const Compared*>> of_setting;
  for (const Compared& one : all) {
    const auto& [optimizer, numbers] = one.first->settings;
    if (optimizer != one.other->settings.optimizer) continue;
    for (const auto& [name, values] : numbers) {
      const auto differs = [&](const SketchedParameter* its) { return sets_otherwise(*its, name, values); };
      if (differs(one.other) && std::ranges::none_of(one.again, differs)) of_setting[name].push_back(&one);
    }
  }
  if (of_setting.empty()) return "";
  const auto& [name, those] = *of_setting.begin();
  const Compared& one = *those.front();
  return fmt::format("its optimizer has {} {:.6g} in place of {:.6g} for {}{}", files::printable(name),
                     fmt::join(one.other->settings.numbers.at(name), ", "),
                     fmt::join(one.first->settings.numbers.at(name), ", "), name_of_parameter(*one.first),
                     those.size() == 1 ? "" : fmt::format(" and {} more", those.size() - 1));
}

size_t most_steps(const std::vector<Compared>& all) {
  size_t steps = 0;
  for (const Compared& one : all) steps = std::max(steps, one.first->gradients.size());
  return steps;
}

}  // namespace

SameTraining same_training(const Sketch& first, std::span<const Sketch> again, const Sketch& other,
                           const std::string& type, double known) {
  using enum Sameness;
  std::vector<std::string> alone;
  std::vector<Compared> all = counterparts(first, again, other, alone);
  if (all.empty()) return {unknown, "not compared: no parameter of one has a counterpart in the other"};
  if (std::ranges::any_of(all, is_other_again)) {
    return {unknown, "not compared: the reference begins with other weights when it runs again; seed it"};
  }
  const auto by_order = std::ranges::count(all, false, &Compared::is_by_name);
  if (by_order > 0 && !alone.empty()) {  // then an order proves nothing
    return {unknown, fmt::format("not compared: {} have other names in the second command, and no counterpart has {}",
                                 text::number_of(by_order, "parameter"), text::first_of(alone, 3))};
  }
  std::string found = other_weights(all);
  double agree_to = 0, allowed = 0;
  const size_t steps = most_steps(all);
  for (size_t step = 0; step < steps; ++step) {
    compare_at(all, &SketchedParameter::gradients, step, known);
    const double most = of_all(all, &Compared::allowed);
    if (!(most <= largest_allowed)) {
      if (step > 0) break;
      return {unknown, fmt::format("not compared: {} allows the reference's gradient to be {} of its norm off, "
                                   "as far as its own looks are apart; seed it, or compare in a more exact type",
                                   type, figure(most))};
    }
    agree_to = std::max(agree_to, of_all(all, &Compared::off));
    allowed = std::max(allowed, most);
    const std::string at = fmt::format("at step {}", step + 1);
    if (found.empty()) found = difference_at(all, "its gradient " + at, step, type);
    compare_at(all, &SketchedParameter::changes, step, known);
    if (found.empty()) found = difference_at(all, "what it changes " + at, step, type);
  }
  if (steps == 0) return {unknown, "not compared: no step was seen"};
  const auto agreeing = std::ranges::count(all, true, &Compared::gradients_agree);
  const auto skipped = first.skipped_steps + other.skipped_steps;
  const std::string settings = skipped > 0 ? "" : other_settings(all);  // a schedule may change them step by step
  if (!found.empty() && settings.empty()) {
    if (skipped > 0) {
      return {unknown, "not compared: a gradient scaler skipped a step, so the steps are of other batches"};
    }
    if (std::ranges::any_of(again, &Sketch::has_dropout)) {
      return {unknown, "not compared: dropout may draw other random numbers; set it to 0 to compare"};
    }
  }
  if (!settings.empty()) found = settings;
  if (!found.empty()) {
    const std::string matched_so =
        by_order == 0 ? "" : fmt::format("; {} matched by shape and order", text::number_of(by_order, "parameter"));
    return {another, fmt::format("another training: {}; {} of {} gradients agree{}{}", found, agreeing, all.size(),
                                 matched_so, by_product(all, type))};
  }
  const std::string agree = fmt::format("{} of {} gradients agree to {} ({} allows {})", agreeing, all.size(),
                                        figure(agree_to), type, figure(allowed)) +
                            by_product(all, type);
  if (alone.empty()) return {same, "the same training: " + agree};
  return {unknown, fmt::format("not all compared: {}; no counterpart has {}", agree, text::first_of(alone, 3))};
}

fs::path rounding_file(const fs::path& folder, const Rung& rung, const NumberType& type, int again) {
  return fs::path(look_file(folder, rung)).replace_extension(fmt::format("{}-{}.json", type.name, again));
}

namespace {

// A rung's reference, both sketches, and the number type by which they are compared.
struct Pair {
  size_t reference = 0;
  Sketch first, other;
  std::optional<NumberType> type;
};

std::optional<Sketch> sketch_in(const std::optional<Json>& look) {
  const Json sketch = look ? field_or_null(*look, "sketch") : Json();
  if (!sketch.is_object()) return std::nullopt;
  try {
    return sketch_of(sketch);
  } catch (const std::invalid_argument&) {  // the program may have written anything
    return std::nullopt;
  }
}

std::optional<Pair> pair_in(const fs::path& folder, const Plan& plan, size_t rung) {
  const auto reference = reference_of(plan, rung);
  if (!reference || *reference == rung) return std::nullopt;
  const std::optional<Json> look = look_from(look_file(folder, plan.rungs[*reference])),
                            its = look_from(look_file(folder, plan.rungs[rung]));
  std::optional<Sketch> first = sketch_in(look), other = sketch_in(its);
  if (!first || !other) return std::nullopt;
  return Pair{*reference, std::move(*first), std::move(*other), least_exact_type(*look, *its)};
}

}  // namespace

std::vector<NeededLook> needed_looks(const Plan& plan, size_t rung, const fs::path& folder) {
  std::vector<NeededLook> needed;
  const std::optional<Pair> pair = pair_in(folder, plan, rung);
  for (int again = 1; pair && pair->type && again <= looks_with_rounding; ++again) {
    needed.push_back({pair->reference, *pair->type, again});
  }
  return needed;
}

std::optional<SameTraining> same_training_in(const fs::path& folder, const Plan& plan, size_t rung) {
  const std::optional<Pair> pair = pair_in(folder, plan, rung);
  if (!pair) return std::nullopt;
  if (!pair->type) return SameTraining{Sameness::unknown, "not compared: of a number type no roundoff is known here"};
  std::vector<Sketch> again;
  for (int i = 1; i <= looks_with_rounding; ++i) {
    const auto sketch = sketch_in(look_from(rounding_file(folder, plan.rungs[pair->reference], *pair->type, i)));
    if (!sketch) return SameTraining{Sameness::unknown, "not compared: the reference's look with rounding failed"};
    again.push_back(*sketch);
  }
  const auto offset_of = [&](size_t one) { return plan.rungs[one].losses.value_or(ExpectedLosses()).offset; };
  const double known = -std::expm1(-std::abs(offset_of(rung) - offset_of(pair->reference)));
  return same_training(pair->first, again, pair->other, pair->type->name, known);
}

}  // namespace study
