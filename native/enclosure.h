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

// s + r = a + b exactly (Knuth's TwoSum), of numbers or vectors.
template <class V>
inline V two_sum(V a, V b, V& r) {
  const V s = a + b;
  const V z = s - a;
  r = (a - (s - z)) + (b - z);
  return s;
}

// Adds a sum s + c known to within `bound` to one enclosure or to a vector of them.
//
// hi' + r = hi + s exactly. What the two additions into lo err by is known exactly too, so that
// a bound of 0 stays 0 while both numbers hold all of the sum. The bounds themselves are
// computed in binary64: each call loses at most 4u of them relatively, which 1 + 2^-10 covers
// for kMaxAdditions calls.
template <class V>
inline void accumulate(V& hi, V& lo, V& total, V s, V c, V bound) {
  V r, lost, more;
  hi = two_sum(hi, s, r);
  lo = two_sum(lo, c, lost);
  lo = two_sum(lo, r, more);
  total += bound + ((lost < 0.0 ? -lost : lost) + (more < 0.0 ? -more : more));
}

}  // namespace
}  // namespace halfulp
