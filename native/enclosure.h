// What is known of each output so far: an enclosure of the sum, or its residue. Proved in
// docs/exactness.md#the-enclosure.
// Includes nothing of halfulp. Internal linkage: see simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp {

// Unit roundoffs of binary64 and binary32.
inline constexpr double kU = 0x1p-53;
inline constexpr double kU32 = 0x1p-24;

// What is known of the outputs of a tile, an entry each.
//
// Floats, an enclosure: |S - (hi + lo)| <= bound * (1 + 2^-10), where S is the exact sum of the
// terms added so far. hi is the sum of floating-point arithmetic: unless a finite sum
// overflowed, NaN iff one of the terms was or two were infinite and of different signs, else
// infinite iff one of them was, and then as it; lo and bound mean nothing then. It is never -0.
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

// The unit of elements that are all 0.
inline constexpr double kGreatestUnit = 0x1p500;

// Additions to one enclosure for which the factor 1 + 2^-10 holds.
inline constexpr std::int64_t kMaxAdditions = std::int64_t{1} << 40;

namespace {

// Adds a sum s + c known to within `bound` to one enclosure or to a vector of them.
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
