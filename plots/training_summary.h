// A training's report: few points of its log, and what is said of them.
#pragma once

#include "results/training.h"
#include "text/style.h"

#include <cstddef>
#include <string>
#include <vector>

namespace plots {

constexpr size_t most_stretches = 1000;  // as the schema of a training's report has it

constexpr size_t most_samples = 5;  // likewise

// "NVIDIA H200", "AMD EPYC, 2 threads".
NamedDevice trained_on(const Training& training);

// Divides all steps into at most `most` stretches. All but the last have the same number of steps.
std::vector<TrainingStretch> stretches_of(const std::vector<TrainingStep>& steps, size_t most = most_stretches);

// `source`: the name of the training's folder. `steps` not empty: those of its log.
TrainingReport training_report(const std::string& source, const Training& training,
                               const std::vector<TrainingStep>& steps);

// What a terminal shows of it.
std::string training_summary(const TrainingReport& report, const Look& look = {});

}  // namespace plots
