// Calls of reductions that are maxima and minima, of elements or of their sizes.
// May include parallel.h, plan.h and reduce.h only; its source dispatch.h, read.h, rounding.h,
// schedule.h and watch.h too.
#pragma once

#include "parallel.h"
#include "plan.h"
#include "reduce.h"

namespace halfulp {

// As reduce, of at least one output. Of elements, outputs have the type that these have in
// memory; of sizes, the type that the request says.
void reduce_max_min(const Plan& plan, const Request& request, const Executor& executor);

}  // namespace halfulp
