// One call of a reduction: memory and shares for the ladder, or for exact sums.
// May include finish.h, operations.h, parallel.h, plan.h, terms.h and watch.h only; its source
// exact_outputs.h, exact_sum.h, ladder.h, log_sum_exp.h, max_min.h, moments.h, products.h,
// read.h, schedule.h and workspace.h too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "finish.h"
#include "operations.h"
#include "parallel.h"
#include "plan.h"
#include "terms.h"
#include "watch.h"

namespace halfulp {

// What the results say of how far values lie apart, if it is that.
enum class Spread { none, variance, deviation };

// The most that ddof may be, in size: a number of terms that is one of binary64.
inline constexpr std::int64_t kMostDdof = std::int64_t{1} << 53;

struct Request {
  Operation operation;
  Term term;
  Finish finish;
  const std::byte* input;
  std::byte* output;
  Type input_type;
  Type output_type;   // for a float type as input_type, a float type
  bool byte_swapped;  // the input; the output is in native order
  bool checked;       // throw if an integer sum does not fit
  // The elements, if these are small integers: read as input_type, see SmallFormat.
  const SmallFormat* small = nullptr;
  // Where the mask is that says which elements count, if there is one; others are read as 0.
  const std::byte* mask = nullptr;
  Counted counted = Counted::all;
  // Whether the outputs are exact sums as SumSquare stores them, to which the terms are added.
  // The output type and the finish mean nothing then.
  bool adds = false;
  // What these sums are before, laid out as they are; null if it is what they hold.
  const std::byte* sums_before = nullptr;
  // If results are of this kind, the term is the square, and the finish divides by terms.
  Spread spread = Spread::none;
  std::int64_t ddof = 0;   // how many terms fewer a variance is divided by, at most kMostDdof
  Watch* watch = nullptr;  // what may end the call early, if anything
};

// A checked result that does not fit: of those found, the first in the order of the plan's
// loops, whatever the number of threads. It is exactly sum[0] + 2^64 sum[1] + 2^128 sum[2], in
// two's complement.
struct SumOverflow {
  std::uint64_t sum[3];
  std::ptrdiff_t output;  // bytes from the first output to its
};

// Reads what the environment says, which the first call does otherwise. A process that forks
// while one of its threads is at it has a child that waits for ever.
void read_environment();

// Whether a reduction may take longer than some tens of milliseconds.
bool is_long(const Plan& plan);

// Writes every output that `plan` describes. Scratch memory is at most 1 MiB up to 16
// threads, and 64 KiB for each more.
void reduce(const Plan& plan, const Request& request, const Executor& executor);

}  // namespace halfulp
