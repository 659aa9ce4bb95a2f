// The logarithms of sums of exponentials: log(e^x + e^y + ...), rounded once.
// May include plan.h, parallel.h and reduce.h only; its source dispatch.h, enclosure.h,
// exact_exponentials.h, logarithm.h, read.h, results.h and schedule.h too.
#pragma once

#include "parallel.h"
#include "plan.h"
#include "reduce.h"

namespace halfulp {

// Writes every output that `plan` describes, as `reduce` does.
void reduce_exponentials(const Plan& plan, const Request& request, const Executor& executor);

}  // namespace halfulp
