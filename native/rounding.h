// From a sum to the bits of a result: the only place that rounds. Proved in
// docs/exactness.md#rounding-both-ends and #ties.
// May include enclosure.h and formats.h only.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "enclosure.h"
#include "formats.h"

namespace halfulp {

// Returns the bits of the value of `format` nearest to (m + f) * 2^e, ties to even, where
// 0 < f < 1 if `sticky` and f = 0 otherwise. IEEE 754-2019, 4.3.1: overflow goes to
// infinity, by comparing the rounded significand, not the value, with the range.
inline std::uint64_t round_to(const Format& format, std::uint64_t m, int e, bool sticky) {
  if (m == 0) return 0;  // f alone is never given: callers keep the leading bit in m
  const int zeros = __builtin_clzll(m);
  m <<= zeros;
  e -= zeros;
  const int exponent = e + 63;  // of the leading bit
  if (exponent > format.emax) return format.infinity();
  const bool normal = exponent >= format.emin;
  const int kept = format.precision - (normal ? 0 : format.emin - exponent);
  if (kept < 0) return 0;                // below half the least subnormal
  const std::uint64_t rest = m << kept;  // kept <= 53
  std::uint64_t q = kept == 0 ? 0 : m >> (64 - kept);
  const std::uint64_t half = std::uint64_t{1} << 63;
  if (rest > half || (rest == half && (sticky || (q & 1)))) ++q;
  // The leading bit of q adds one to the exponent field, and so does a carry out of it.
  const std::uint64_t field = normal ? static_cast<std::uint64_t>(exponent - format.emin) : 0;
  return (field << (format.precision - 1)) + q;
}

// Rounds the exact real value s + t, where s > 0 is a normal number and |t| < s / 4.
inline std::uint64_t round_pair(const Format& format, double s, double t) {
  const double d = s + t;
  const double z = d - s;
  const double r = (s - (d - z)) + (t - z);  // TwoSum: d + r = s + t exactly
  std::uint64_t bits;
  std::memcpy(&bits, &d, sizeof bits);
  const int field = static_cast<int>(bits >> 52);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  std::uint64_t m = (fraction | std::uint64_t{1} << 52) << 11;
  // The value lies within half an ulp of d, 2^10 units of m. No number or midpoint of the
  // format lies between it and m -+ 1/2, or both round to d: see the proof.
  if (r < 0) --m;
  return round_to(format, m, field - 1023 - 63, r != 0);
}

// An enclosure with its two numbers apart: |S - (s + t)| <= width, where s is s + t rounded to
// binary64.
struct Interval {
  double s;
  double t;
  double width;
};

// Below this, underflow of the products of a kernel may show in the last bits.
inline constexpr double kLeastDecidable = 0x1p-900;

// The width is widened by 2^-9 of the bound (see Enclosures) and by 2^-100 of s, which covers
// the roundings here and in decide. |lo| <= hi, so t is exact (Dekker).
inline Interval interval_of(double hi, double lo, double bound) {
  const double s = hi + lo;
  return {s, lo - (s - hi), bound * (1 + 0x1p-9) + s * 0x1p-100};
}

// A sum known to be a multiple of 4^g, of elements that are multiples of 2^g, is known
// exactly if the enclosure holds one such multiple only. Returns the least g for which it
// does; false if there is none.
inline bool grid_of(double hi, double lo, double bound, int* g) {
  const Interval sum = interval_of(hi, lo, bound);
  const bool usual = sum.s >= kLeastDecidable && sum.s < 0x1p1000;
  if (!(usual || (sum.s == 0 && bound < 0x1p-900))) return false;
  // 4^g > 2 * width. The elements, at most the root of 2s, are below 2^(51 + g).
  *g = (std::ilogb(sum.width) + 3) >> 1;
  return true;
}

// Returns whether the enclosure of one output determines the result of `format`, and if so the
// result. Both ends of the enclosure are rounded; rounding is monotone, so if they agree
// the exact sum rounds to the same.
//
// `infinite_is_final` says that an infinite hi means an infinite element or a sum beyond
// every format's range (docs/exactness.md#infinities-nan-and-zero). `grid`, if not 0, is a
// power of two of which S is a multiple.
inline bool decide(const Format& format, double hi, double lo, double bound,
                   bool infinite_is_final, double grid, std::uint64_t* result) {
  if (hi != hi) {
    *result = format.quiet_nan();
    return true;
  }
  if (hi > 0x1.fffffffffffffp1023) {
    *result = format.infinity();
    return infinite_is_final;
  }
  Interval sum = interval_of(hi, lo, bound);
  if (grid > 0 && sum.width < grid / 2) {
    const double s = std::rint(sum.s / grid) * grid;  // s itself from 2^52 grids on
    const double t = std::rint(((sum.s - s) + sum.t) / grid) * grid;
    sum = s > 0 ? Interval{s, t, 0} : Interval{t, 0, 0};
  }
  if (sum.s == 0) {
    *result = 0;
    return sum.width == 0;
  }
  if (!(sum.s >= kLeastDecidable && sum.width < sum.s * 0x1p-3)) return false;
  const std::uint64_t low = round_pair(format, sum.s, sum.t - sum.width);
  const std::uint64_t high = round_pair(format, sum.s, sum.t + sum.width);
  *result = low;
  return low == high;
}

// Rounds the non-negative integer of `size` 64-bit digits, least first, times 2^exponent:
// docs/exactness.md#the-exact-sum.
inline std::uint64_t round_digits(const Format& format, const std::uint64_t* digits, int size,
                                  int exponent) {
  int top = size - 1;
  while (top > 0 && digits[top] == 0) --top;
  std::uint64_t m = digits[top];
  if (m == 0) return 0;
  const int zeros = __builtin_clzll(m);
  bool sticky = false;
  if (top > 0) {
    const std::uint64_t next = digits[top - 1];
    if (zeros > 0) m = m << zeros | next >> (64 - zeros);
    sticky = next << zeros != 0;
    for (int i = top - 2; i >= 0; --i) sticky = sticky || digits[i] != 0;
  } else {
    m <<= zeros;
  }
  return round_to(format, m, exponent + 64 * top - zeros, sticky);
}

}  // namespace halfulp
