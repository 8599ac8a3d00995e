#include "ablations/run/client_log.h"

#include "files/files.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

namespace ablations {

using harness::StepLine;

static bool is_count(const files::Json& json) {
  return json.is_number_unsigned() && json.get<uint64_t>() < uint64_t{1} << 53;
}

// What has come from `at` on.
static std::string text_of(const std::filesystem::path& file, uint64_t at) try {
  const files::InputFile input(file);
  const uint64_t end = std::min(input.size(), uint64_t{64} << 20);
  std::string text(std::max(end, at) - at, '\0');
  input.read_at(at, text.data(), text.size());
  return text;
} catch (const std::invalid_argument&) {  // it is gone, or another kind of file
  return "";
}

std::vector<StepLine> ClientLog::read(double begun_s) {
  std::vector<StepLine> lines;
  const std::string text = has_begun() ? text_of(file_, at_) : "";
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() - begun_s;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    at_ += end + 1 - begin;
    const files::Json json = files::Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                                text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                                /*allow_exceptions=*/false);
    if (json.is_object()) take_words(json);
    if (!json.is_object() || !json.value("t", files::Json()).is_number() ||
        !is_count(json.value("step", files::Json()))) {
      continue;
    }
    const files::Json loss = json.value("loss", files::Json()), tokens = json.value("tokens", files::Json());
    const double seconds = json["t"].get<double>() + ahead_s_ - begun_s;
    last_s_ = seconds >= last_s_ && seconds <= now ? seconds : now;
    StepLine step{.seconds = last_s_, .step = json["step"].get<int64_t>()};
    if (loss.is_number()) step.loss = loss.get<double>();
    if (loss.is_string()) step.loss = NAN;  // JSON has no NaN
    if (is_count(tokens) && tokens > 0) tokens_ = tokens.get<int64_t>();
    lines.push_back(step);
  }
  return lines;
}

void ClientLog::take_words(const files::Json& line) {
  if (const auto clock = line.find("clock"); clock != line.end() && clock->is_number()) {
    const std::chrono::duration<double> own = std::chrono::system_clock::now().time_since_epoch(),
                                        monotonic = std::chrono::steady_clock::now().time_since_epoch();
    const double ahead_s = clock->get<double>() - (own - monotonic).count();
    ahead_s_ = std::abs(ahead_s) > 1 ? ahead_s : 0;  // else it is the same clock, read twice
  }
  if (const auto stated = line.find("stated"); stated != line.end() && stated->is_object()) {
    for (const auto& [name, value] : stated->items()) {
      if (value.is_string() && stated_.size() < 50) stated_[name] = value.get<std::string>();
    }
  }
  if (const auto proof = line.find("proof"); proof != line.end() && proofs_.size() < 50) {
    try {
      proofs_.push_back(value_from<Proof>(*proof, "proof"));
    } catch (const std::invalid_argument&) {  // not a line of the client's
    }
  }
}

}  // namespace ablations
