// What a run of one command does to the runs of another, as far as it can be seen after it: to the other's files, and
// to this process, from which the other inherits processors and priority.
#pragma once

#include "results/common.h"
#include "results/plan.h"

#include <sched.h>

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace ablations {

// The processors and the nice value that this process was begun with: what is there at the first call.
struct Inherited {
  cpu_set_t processors{};
  int nice = 0;
};
const Inherited& inherited();

// Gives this process these again. Returns what somebody had changed.
std::vector<Found> put_back();

class Meddling {
 public:
  // `code`: what each rung's trial read; empty: not known.
  Meddling(const Plan& plan, std::filesystem::path folder, std::vector<std::set<std::filesystem::path>> code)
      : plan_(plan), folder_(std::move(folder)), code_(std::move(code)) {}

  void begin();  // a run of some rung
  // Returns what the run of that rung did to others.
  [[nodiscard]] std::vector<Found> end(size_t rung);

 private:
  void find_in_folders(size_t rung, std::vector<Found>& found);

  const Plan& plan_;
  std::filesystem::path folder_;
  std::vector<std::set<std::filesystem::path>> code_;
  double since_s_ = 0;
};

}  // namespace ablations
