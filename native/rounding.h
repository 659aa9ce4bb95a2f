// From what is known of a value to the bits of a result: the only place that rounds. Proved in
// docs/exactness.md#rounding-both-ends.
// May include enclosure.h, finish.h and formats.h only.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "enclosure.h"
#include "finish.h"
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

// Rounds the exact real value (s + t) * 2^scale, where s > 0 is a normal number and |t| < s
// / 4.
inline std::uint64_t round_pair(const Format& format, double s, double t, int scale) {
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
  return round_to(format, m, field - 1023 - 63 + scale, r != 0);
}

// Whether both ends of an interval, s + t -+ width, times 2^scale, round to the same, and if so
// that: rounding is monotone, so all between them does. `width` has slack for the roundings of
// the ends.
inline bool round_ends(const Format& format, const Interval& value, std::uint64_t* result,
                       int scale = 0) {
  const auto [s, t, width] = value;
  if (!(s >= kLeastDecidable && width + std::abs(t) < s * 0x1p-3)) return false;
  const std::uint64_t low = round_pair(format, s, t - width, scale);
  const std::uint64_t high = round_pair(format, s, t + width, scale);
  *result = low;
  return low == high;
}

}  // namespace halfulp
