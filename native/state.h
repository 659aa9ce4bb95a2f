// What a kernel knows of one output so far: an enclosure of the sum, or its residue.
// May include formats.h only.
#pragma once

#include <cstdint>

namespace halfulp {

// Unit roundoff of binary64.
inline constexpr double kU = 0x1p-53;

// For floats: |S - (hi + lo)| <= bound * (1 + 2^-10), where S is the exact sum of the
// squares added so far. hi is NaN iff one of them was NaN, provided lo and bound are
// ignored then; it is infinite if one of them was, or if a finite sum overflowed binary64.
// For integers: S modulo 2^64.
struct State {
  double hi;
  double lo;
  double bound;
  std::uint64_t residue;
};

inline constexpr std::int64_t kMaxAdditions = std::int64_t{1} << 40;

// Adds a sum s + c known to within `bound`, s >= 0.
//
// TwoSum (Knuth) gives hi' + r = hi + s exactly. The two additions into lo each err by at
// most u times their result. The bounds themselves are computed in binary64: each call loses
// at most 4u of them relatively, which the factor 1 + 2^-10 of the enclosure covers for
// kMaxAdditions calls.
static inline void add(State& state, double s, double c, double bound) {
  const double hi = state.hi + s;
  const double z = hi - state.hi;
  const double r = (state.hi - (hi - z)) + (s - z);
  const double lo1 = state.lo + c;
  const double lo2 = lo1 + r;
  const double rounding = kU * ((lo1 < 0 ? -lo1 : lo1) + (lo2 < 0 ? -lo2 : lo2));
  state.hi = hi;
  state.lo = lo2;
  state.bound += bound + rounding;
}

}  // namespace halfulp
