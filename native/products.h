// One call of a product: enclosed, rounded, and multiplied in more digits where that is open.
// May include parallel.h, plan.h and reduce.h only; its source dispatch.h, read.h, schedule.h,
// sum.h, whole_product.h and workspace.h too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel.h"
#include "plan.h"
#include "reduce.h"

namespace halfulp {

// A checked product that does not fit: of those found, the first in the order of the plan's
// loops. Its size is at least 2^power.
struct ProductOverflow {
  bool negative;
  std::int64_t power;
  std::ptrdiff_t output;  // bytes from the first output to its
};

// Writes every output that `plan` describes: see `reduce`.
void reduce_products(const Plan& plan, const Request& request, const Executor& executor);

}  // namespace halfulp
