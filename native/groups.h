// Sums of groups: elements whose codes say where each belongs. Sums of floats are enclosed at
// first; what an enclosure leaves open, and integers, are summed exactly. Proved in
// docs/exactness.md#groups.
// May include dispatch.h, formats.h, results.h and terms.h only; its source enclosure.h,
// exact_sum.h, digits.h, modes.h and widen.h too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch.h"
#include "formats.h"
#include "results.h"
#include "terms.h"

namespace halfulp {

struct CodeRange {
  std::int64_t lowest;
  std::int64_t highest;
};

// The range of codes and of one more, which is -1.
CodeRange range_of(const std::int64_t* codes, std::int64_t n);

// What is known of one sum of floats: an enclosure of so many terms, of which the bound is in
// units of u, 2^-53. All zeros at first.
struct EnclosedGroup {
  double hi;
  double lo;
  double bound;
  std::uint64_t terms;
};

// n rows of `width` elements side by side, and the code of each row: a group, or below 0 where
// the row counts nowhere. Sum j of group g is the one at g * width + j; groups are so many.
struct GroupedRows {
  Type type;
  const std::byte* data;
  const std::int64_t* codes;
  std::int64_t n;
  std::int64_t width;
  std::int64_t groups;
};

// Adds the terms of floats to enclosures; returns whether there was a group of each code.
bool add_to_groups(Term term, const GroupedRows& rows, EnclosedGroup* groups);

// Sets the results of n sums of floats of type `input` that their enclosures determine, side by
// side, and open[i] to whether that of sum i is left; returns how many are. Sums that are left
// have some result.
std::int64_t round_groups(const Results& results, const Format& input, const Format& output,
                          const EnclosedGroup* groups, std::int64_t n, std::byte* to,
                          std::uint8_t* open);

// How many numbers of 64 bits an exact sum takes: how many terms it is of, then its digits.
inline int exact_group_size(Term term, const Format& format) {
  return 1 + sum_format(term, format).digits;
}

// Adds the terms of rows to exact sums: that of sum i is the one at places[i], or none where
// that is below 0; at i itself where `places` is null. Returns the same.
bool add_to_exact_groups(Term term, const GroupedRows& rows, const std::int64_t* places,
                         std::uint64_t* sums);

}  // namespace halfulp
