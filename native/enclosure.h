// What is known of each output so far: an enclosure of the sum, or its residue. Proved in
// docs/exactness.md#the-enclosure.
// May include terms.h only. Internal linkage: see simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "terms.h"

namespace halfulp {

// Unit roundoffs of binary64 and binary32.
inline constexpr double kU = 0x1p-53;
inline constexpr double kU32 = 0x1p-24;

// What is known of the outputs of a tile, an entry each.
//
// Floats, an enclosure: |S - (hi + lo)| <= bound * (1 + 2^-10), where S is the exact sum of the
// terms added so far. hi is NaN iff one of them was, and infinite if one of them was or if a
// finite sum overflowed; lo and bound mean nothing then.
// Integers: residue is S modulo 2^64.
struct Enclosures {
  double* hi;
  double* lo;
  double* bound;
  std::uint64_t* residue;

  Enclosures operator+(std::ptrdiff_t i) const {
    return {hi + i, lo + i, bound + i, residue + i};
  }
};

// Below this, underflow of the products of a kernel may show in the last bits of a sum.
inline constexpr double kLeastDecidable = 0x1p-900;

// Additions to one enclosure for which the factor 1 + 2^-10 holds.
inline constexpr std::int64_t kMaxAdditions = std::int64_t{1} << 40;

namespace {

static_assert(!any_is_signed(),
              "|lo| <= hi, and NaN and infinity are final, as no term is below 0");

// Adds a sum s + c known to within `bound`, s >= 0, to one enclosure or to a vector of them.
//
// TwoSum (Knuth) gives hi' + r = hi + s exactly. The two additions into lo each err by at
// most u times their result. The bounds themselves are computed in binary64: each call
// loses at most 4u of them relatively, which 1 + 2^-10 covers for kMaxAdditions calls.
template <class V>
inline void accumulate(V& hi, V& lo, V& total, V s, V c, V bound) {
  const V sum = hi + s;
  const V z = sum - hi;
  const V r = (hi - (sum - z)) + (s - z);
  const V lo1 = lo + c;
  const V lo2 = lo1 + r;
  const V size = (lo1 < 0.0 ? -lo1 : lo1) + (lo2 < 0.0 ? -lo2 : lo2);
  hi = sum;
  lo = lo2;
  total += bound + kU * size;
}

}  // namespace
}  // namespace halfulp
