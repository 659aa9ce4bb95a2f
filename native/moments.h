// Variances and standard deviations of the outputs of a tile: from the sum S of the values and
// the sum Q of the squares of n terms, (Q - S^2 / n) / (n - ddof), or the root of that. Proved
// in docs/exactness.md#variances.
// May include exact_outputs.h, ladder.h, plan.h, read.h, reduce.h, schedule.h, sum.h and
// workspace.h only; its source exact_sum.h, finish.h, results.h and
// rounding.h too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exact_outputs.h"
#include "ladder.h"
#include "plan.h"
#include "read.h"
#include "reduce.h"
#include "schedule.h"
#include "sum.h"
#include "workspace.h"

namespace halfulp {

// The result of so many terms of type `input` whose exact sums of values and of squares have
// these digits, as many as the formats of the sums.
std::uint64_t spread_of_exact_sums(const Format& input, const Format& output, Spread spread,
                                   std::int64_t ddof, const std::uint64_t* values,
                                   const std::uint64_t* squares, std::int64_t terms);

class Moments {
 public:
  // By which sums are made before they are made exactly, in their order.
  struct Methods {
    Method method[2];
    int count;
  };

  // The request is for squares; `ladder` counts the terms of outputs that have a number of
  // their own; `squares` and workspaces are as it has them.
  Moments(const Plan& plan, const Request& request, const Reader& reader,
          const Schedule& schedule, const Ladder& ladder, const ExactOutputs& squares,
          std::int64_t exact_outputs_at_once, const Workspaces& parts);

  // Sets n outputs, neighbours along the innermost kept loop.
  void climb(Place input, std::byte* output, std::int64_t n, Workspace& workspace) const;

 private:
  void sum(Method method, Place input, std::int64_t begin, std::int64_t end,
           Workspace& workspace) const;
  void decide(bool near, std::int64_t begin, std::int64_t end, const Terms& terms,
              Workspace& workspace) const;
  void resolve(Place input, std::int64_t begin, std::int64_t end, const Terms& terms,
               Workspace& workspace) const;

  const Request& request_;
  const Loop& kept_;
  const Format& input_format_;
  const Format& output_format_;
  const std::int64_t terms_;  // of an output, those included that do not count
  const Methods methods_;
  const Ladder& ladder_;
  const TileSums values_;
  const TileSums squares_;
  const ExactOutputs exact_values_;
  const ExactOutputs& exact_squares_;
  const std::int64_t exact_outputs_at_once_;
  const Rounder& rounder_;
};

}  // namespace halfulp
