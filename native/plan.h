// From shape, strides and axes to loops. May include dispatch.h only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch.h"

namespace halfulp {

inline constexpr int kMaxRank = 64;  // NumPy's

// Strides are in bytes and, for `input`, never negative: such a loop runs from its other
// end, which is allowed because the sum does not depend on the order.
struct Loop {
  std::int64_t count;
  std::ptrdiff_t input;
  std::ptrdiff_t output;  // 0 in a reduced loop
};

// Loops of one kind, the greatest input stride first. There is always an innermost one,
// if only of count 1.
struct Loops {
  int size = 0;
  Loop loops[kMaxRank];

  const Loop& innermost() const { return loops[size - 1]; }
  std::int64_t count() const;
};

struct Plan {
  Loops kept;
  Loops reduced;
  std::ptrdiff_t input_offset = 0;   // of the first element visited
  std::ptrdiff_t output_offset = 0;  // of its output
  Layout layout = Layout::rows;
};

// Describes the reduction of an array of `rank` axes over those marked in `is_reduced`.
// The output is C-contiguous in the kept axes' order. Axes of one element vanish and
// adjacent ones of a kind merge, so that arrays which differ only in notation share a plan.
Plan make_plan(int rank, const std::int64_t* shape, const std::ptrdiff_t* strides,
               const bool* is_reduced, int input_bytes, int output_bytes);

}  // namespace halfulp
