// The logarithms of sums of exponentials: log(e^x + e^y + ...), rounded once.
// May include plan.h, parallel.h and reduce.h only; its source dispatch.h,
// exponential_sums.h, log_results.h, read.h and schedule.h too.
#pragma once

#include "parallel.h"
#include "plan.h"
#include "reduce.h"

namespace halfulp {

// Writes every output that `plan` describes, as `reduce` does.
void reduce_exponentials(const Plan& plan, const Request& request, const Executor& executor);

}  // namespace halfulp
