#include "model/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace model {

namespace {

// None where it is not set.
std::optional<int64_t> number_in_environment(const char* name, int64_t least, int64_t most) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most) return value;
  throw std::invalid_argument(fmt::format("{} in the environment must be a whole number between {} and {}, got \"{}\"",
                                          name, least, most, text));
}

[[noreturn]] void refuse_missing(const char* missing, const char* given) {
  throw std::invalid_argument(
      fmt::format("{} is missing in the environment, where {} is set; torchrun sets both", missing, given));
}

}  // namespace

Ranks ranks_of_environment() {
  constexpr int64_t most_ranks = 65536;
  Ranks ranks;
  const auto size = number_in_environment("WORLD_SIZE", 1, most_ranks);
  if (!size) {
    if (std::getenv("RANK") != nullptr) refuse_missing("WORLD_SIZE", "RANK");
    return ranks;
  }
  ranks.size = *size;
  const auto rank = number_in_environment("RANK", 0, ranks.size - 1);
  const char* const address = std::getenv("MASTER_ADDR");
  const auto port = number_in_environment("MASTER_PORT", 1, 65535);
  if (ranks.size > 1) {
    if (!rank) refuse_missing("RANK", "WORLD_SIZE");
    if (address == nullptr) refuse_missing("MASTER_ADDR", "WORLD_SIZE");
    if (!port) refuse_missing("MASTER_PORT", "WORLD_SIZE");
  }
  ranks.rank = rank.value_or(0);
  if (address != nullptr) ranks.address = address;
  ranks.port = static_cast<uint16_t>(port.value_or(0));
  ranks.local_size = number_in_environment("LOCAL_WORLD_SIZE", 1, ranks.size).value_or(1);
  const auto local_rank = number_in_environment("LOCAL_RANK", 0, ranks.size - 1);
  if (ranks.size > 1 && !local_rank) refuse_missing("LOCAL_RANK", "WORLD_SIZE");
  ranks.local_rank = local_rank.value_or(0);
  const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  ranks.has_agent = agent != nullptr && std::string_view(agent) == "True";
  ranks.timeout = std::chrono::seconds(number_in_environment("LADDER_RANK_TIMEOUT", 1, 86400).value_or(30));
  return ranks;
}

void choose_gpu(const Ranks& ranks) {
  if (ranks.size == 1) return;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> gpus;
  std::istringstream list(visible == nullptr ? "" : visible);
  for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
  std::string chosen = std::to_string(ranks.local_rank);
  if (visible != nullptr) {
    if (gpus.size() < 2) return;
    if (ranks.local_rank >= static_cast<int64_t>(gpus.size())) {
      throw std::invalid_argument(
          fmt::format("CUDA_VISIBLE_DEVICES names {} GPUs, and LOCAL_RANK is {}: one GPU for each "
                      "rank of this machine is needed",
                      gpus.size(), ranks.local_rank));
    }
    chosen = gpus[static_cast<size_t>(ranks.local_rank)];
  }
  ::setenv("CUDA_VISIBLE_DEVICES", chosen.c_str(), 1);
}

}  // namespace model
