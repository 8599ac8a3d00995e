#include "ablations/run/client_log.h"

#include <cmath>
#include <stdexcept>

namespace ablations {

using harness::StepLine;

static bool is_count(const files::Json& json) {
  return json.is_number_unsigned() && json.get<uint64_t>() < uint64_t{1} << 53;
}

std::vector<StepLine> ClientLog::read(double begun_s) {
  std::vector<StepLine> lines;
  std::ifstream stream(file_);
  stream.seekg(at_);
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    at_ = stream.tellg();
    const files::Json json = files::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) take_words(json);
    if (!json.is_object() || !json.value("t", files::Json()).is_number() ||
        !is_count(json.value("step", files::Json()))) {
      continue;
    }
    const files::Json loss = json.value("loss", files::Json()), tokens = json.value("tokens", files::Json());
    const double seconds = json["t"].get<double>() - begun_s;
    if (seconds < 0) continue;  // of another clock
    StepLine step{.seconds = seconds, .step = json["step"].get<int64_t>()};
    if (loss.is_number()) step.loss = loss.get<double>();
    if (loss.is_string()) step.loss = NAN;  // JSON has no NaN
    if (is_count(tokens)) tokens_ = tokens.get<int64_t>();
    lines.push_back(step);
  }
  return lines;
}

void ClientLog::take_words(const files::Json& line) {
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
