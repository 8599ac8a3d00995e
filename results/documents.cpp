// Reading and writing of the structs that headers declare as LADDER_COMPILED_ONCE.
#include "results/ladder.h"
#include "results/ledger.h"
#include "results/report.h"
#include "results/trace.h"
#include "results/training.h"

namespace results {

#define LADDER_COMPILED(Struct)                \
  template files::Json json_of(const Struct&); \
  template Struct value_from(const files::Json&, const std::string&, const Rules&);

LADDER_COMPILED(Baseline)
LADDER_COMPILED(Noise)
LADDER_COMPILED(Comparison)
LADDER_COMPILED(CountersDocument)
LADDER_COMPILED(Environment)
LADDER_COMPILED(GateResult)
LADDER_COMPILED(History)
LADDER_COMPILED(Ladder)
LADDER_COMPILED(Ledger)
LADDER_COMPILED(Mfu)
LADDER_COMPILED(MonitorSummary)
LADDER_COMPILED(Observations)
LADDER_COMPILED(Plan)
LADDER_COMPILED(Rung)
LADDER_COMPILED(Record)
LADDER_COMPILED(Report)
LADDER_COMPILED(Roofline)
LADDER_COMPILED(Setting)
LADDER_COMPILED(Study)
LADDER_COMPILED(StudyRung)
LADDER_COMPILED(TraceDocument)
LADDER_COMPILED(Training)
LADDER_COMPILED(TrainingStep)
LADDER_COMPILED(Checkpoint)
LADDER_COMPILED(TrainingReport)
LADDER_COMPILED(Workload)

}  // namespace results
