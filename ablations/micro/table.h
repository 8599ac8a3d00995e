// The printed table, 80 columns, and the JSON file: Google Benchmark's own, written only when all is done, so that the
// file is complete.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ablations::micro {

class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(std::string heading) : heading_(std::move(heading)) { json_.SetOutputStream(&text_); }
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  [[nodiscard]] std::string json() const { return text_.str(); }

 private:
  std::string heading_;
  std::ostringstream text_;
  benchmark::JSONReporter json_;
  std::map<std::string, int> skipped_;  // how many, by reason
};

}  // namespace ablations::micro
