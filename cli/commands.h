// The commands, as the command line calls them. Each returns its exit status and throws std::invalid_argument for input
// that cannot be used.
#pragma once

#include "cli/flags.h"

#include <string>

namespace ablations {

// Exit status 1 where the step of --plan does not fit, 3 where it is not known what it has to fit into.
int doctor(const DoctorFlags& flags);
int ablate(const AblateFlags& flags);

// Trains each rung with each seed until its steps are done, and says how long a validation loss took and whether the
// quality is the reference's. Returns the exit status: 1 where a training failed or diverged, 130 when interrupted.
int to_loss(const ToLossFlags& flags);
// Whether the folder holds such a study.
bool holds_to_loss(const std::string& folder);

int run(const RunFlags& flags);
int profile(const ProfileFlags& flags);
int compare(const CompareFlags& flags);

// Carries the gate out, writes its files and returns the exit status: 0 the same or faster, 1 slower, losses that
// differ, or a head that fails; 3 inconclusive, or a base that fails. Throws std::invalid_argument for what cannot be
// used, harness::Unfit where there is no baseline, or circumstances differ without --force. 130 when interrupted;
// --resume goes on.
int gate(const GateFlags& flags);

int report(const ReportFlags& flags);
int history(const HistoryFlags& flags);
int verify(const VerifyFlags& flags);
int merge(const MergeFlags& flags);
int train(const TrainFlags& flags);
int sample(const SampleFlags& flags);

// Trains once for each rate of flags.lr_sweep, and says which are too low, good and too high. Returns the exit status:
// 1 where all diverged, 130 when interrupted.
int lr_sweep(const TrainFlags& flags);

int tokenize(const TokenizeFlags& flags);

}  // namespace ablations
