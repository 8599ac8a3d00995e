#include "fuzz/mutate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace fuzz {
namespace {

using Json = nlohmann::json;

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& member : value) collect(member, all);
}

Json another_value(const std::vector<std::string>& words, Random& random) {
  switch (below(random, 12)) {
    case 0:
      return nullptr;
    case 1:
      return below(random, 2) == 0;
    case 2: {
      constexpr int64_t integers[] = {0, 1, 2, 3, -1, 100, 65536, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN};
      return integers[below(random, std::size(integers))];
    }
    case 3:
      return uint64_t{1} << 63;
    case 4: {
      constexpr double numbers[] = {0.5, -0.0, 1e-6, 1e-320, 1e12, 1e30, 1e100, 1.7e308, -1e300};
      return numbers[below(random, std::size(numbers))];
    }
    case 5:
      return std::string(below(random, 300), 'x');
    case 6:
      return "\x1b[31m\x07\r\n\u202e<b>|`../../x";
    case 7:
      return Json::array();
    case 8:
      return Json::object();
    default:
      return words.empty() ? Json("") : Json(words[below(random, words.size())]);
  }
}

void change(Json& document, const std::vector<std::string>& words, Random& random) {
  std::vector<Json*> all;
  collect(document, all);
  Json& value = *all[below(random, all.size())];
  if (value.is_structured() && !value.empty() && below(random, 3) > 0) {
    auto member = value.begin();
    std::advance(member, below(random, value.size()));
    switch (below(random, 3)) {
      case 0:
        value.erase(member);
        return;
      case 1:
        if (value.is_array()) {
          value.push_back(Json(*member));
        } else {
          value[words.empty() ? "x" : words[below(random, words.size())]] = Json(*member);
        }
        return;
      default:
        *member = another_value(words, random);
        return;
    }
  }
  if (value.is_number_integer() && below(random, 2) == 0) {
    const uint64_t step = below(random, 2) == 0 ? 1 : ~uint64_t{0};  // unsigned: the extremes wrap around
    value = static_cast<int64_t>(value.get<uint64_t>() + step);
  } else if (below(random, 3) == 0) {
    const Json copy = *all[below(random, all.size())];
    value = copy;
  } else {
    value = another_value(words, random);
  }
}

}  // namespace

std::string damaged_bytes(std::string bytes, Random& random) {
  const auto any_range = [&] {
    const size_t start = below(random, bytes.size() + 1);
    return std::pair(start, below(random, std::min<size_t>(bytes.size() - start, 64) + 1));
  };
  for (size_t times = 1 + below(random, 3); times > 0; --times) {
    const size_t at = below(random, bytes.size());
    const auto [start, count] = any_range();
    switch (below(random, 8)) {
      case 0:  // one bit
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(random, 8));
        break;
      case 1:  // one byte
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 2:  // cut short
        bytes.resize(at);
        break;
      case 3:  // a stretch taken out
        bytes.erase(start, count);
        break;
      case 4:  // a stretch put in elsewhere
        bytes.insert(at, bytes.substr(start, count));
        break;
      case 5: {  // a 4- or 8-byte number of an extreme value, often a length at the front
        constexpr uint64_t extremes[] = {0,          1,    0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                         1ULL << 63, ~0ULL};
        const uint64_t value = extremes[below(random, 8)];
        const size_t width = below(random, 2) == 0 ? 4 : 8;
        const size_t place = below(random, 2) == 0 ? below(random, 12) / 4 * 4 : at;
        for (size_t i = 0; i < width && place + i < bytes.size(); ++i) {
          bytes[place + i] = static_cast<char>(value >> 8 * i);
        }
        break;
      }
      case 6: {  // a digit run replaced by a number that may overflow
        const size_t digit = bytes.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const char* numbers[] = {
            "-1", "18446744073709551615", "9223372036854775807", "4611686018427387904", "1e9", "0.5", "0"};
        bytes.replace(digit, bytes.find_first_not_of("0123456789", digit) - digit, numbers[below(random, 7)]);
        break;
      }
      default:  // random bytes at the end
        for (size_t i = below(random, 16); i > 0; --i) bytes.push_back(static_cast<char>(random()));
    }
  }
  return bytes;
}

std::string damaged_json(const std::string& text, const std::vector<std::string>& words, Random& random) {
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return damaged_bytes(text, random);
  for (size_t times = 1 + below(random, 3); times > 0; --times) change(document, words, random);
  return document.dump();
}

}  // namespace fuzz
