// Whether one way to train ends as well as another: a non-inferiority test by confidence interval. Source: Piaggio et
// al. 2012, "Reporting of noninferiority and equivalence randomized trials: extension of the CONSORT 2010 statement",
// JAMA 308. A difference that is not significant may still exist. So a margin is stated first, and the interval of the
// difference is compared with it.
#pragma once

#include "harness/stats/stats.h"

#include <span>

namespace harness {

// `same`: the whole interval lies below the margin, so a loss that is higher by the margin is excluded. `worse`: the
// whole interval lies above it. `unclear`: the margin lies in the interval. `too_few`: one pair has no interval.
enum class Quality { same, worse, unclear, too_few };

struct QualityTest {
  Estimate difference;  // mean of loss minus reference, with Student's interval; above 0 is worse
  Quality quality = Quality::too_few;
};

// losses[i] and reference[i] are of one seed. Same length, at least 1. margin above 0, in the losses' unit.
QualityTest test_quality(std::span<const double> losses, std::span<const double> reference, double margin);

}  // namespace harness
