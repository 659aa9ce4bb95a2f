// Numbers in digits of 64 bits, and in two numbers of binary64. Includes nothing of halfulp.
#pragma once

#include <cstdint>

namespace halfulp {

__extension__ typedef unsigned __int128 uint128;  // as in terms.h

// An enclosure with its two numbers apart: |S - (s + t)| <= width, where s is s + t rounded to
// binary64. In fact it is less, by the slack of docs/exactness.md#rounding-both-ends.
struct Interval {
  double s;
  double t;
  double width;
};

// The non-negative integer of `size` 64-bit digits, least first, times 2^exponent.
struct Digits {
  const std::uint64_t* digits;
  int size;
  int exponent;
};

// The value (m + f) * 2^exponent, where 0 < f < 1 if `sticky` and f = 0 otherwise. It is 0, or
// the highest bit of m is set.
struct Leading {
  std::uint64_t m;
  int exponent;
  bool sticky;
};

// The highest digit that is not 0, or -1.
inline int highest_of(const std::uint64_t* digits, int size) {
  int top = size - 1;
  while (top >= 0 && digits[top] == 0) --top;
  return top;
}

// Whether any of the first `count` digits is not 0.
inline bool any_of_first(const std::uint64_t* digits, int count) {
  return highest_of(digits, count) >= 0;
}

// Divides digits by n in place, rounding down; returns whether anything is left.
inline bool divide(std::uint64_t* digits, int size, std::uint64_t n) {
  std::uint64_t rest = 0;
  for (int i = size - 1; i >= 0; --i) {
    const uint128 value = uint128{rest} << 64 | digits[i];
    const uint128 quotient = rest == 0 ? digits[i] / n : value / n;  // below 2^64: rest < n
    rest = static_cast<std::uint64_t>(value - quotient * n);
    digits[i] = static_cast<std::uint64_t>(quotient);
  }
  return rest != 0;
}

// Proved in docs/exactness.md#the-exact-sum.
inline Leading leading_of(const Digits& value) {
  const int top = highest_of(value.digits, value.size);
  if (top < 0) return {0, 0, false};
  std::uint64_t m = value.digits[top];
  const int zeros = __builtin_clzll(m);
  m <<= zeros;
  bool sticky = false;
  if (top > 0) {
    const std::uint64_t next = value.digits[top - 1];
    if (zeros > 0) m |= next >> (64 - zeros);
    sticky = next << zeros != 0 || any_of_first(value.digits, top - 1);
  }
  return {m, value.exponent + 64 * top - zeros, sticky};
}

// s - a * b, where that is a number of binary64 and a * b within 8u of s: Dekker's product,
// halves by Veltkamp; not finite where these overflow. Written out, as what this is compiled
// for may have no fused operation.
inline double rest_of_product(double s, double a, double b) {
  constexpr double kSplit = 0x1.0000002p27;
  const double a_scaled = a * kSplit;
  const double a_high = a_scaled - (a_scaled - a);
  const double a_low = a - a_high;
  const double b_scaled = b * kSplit;
  const double b_high = b_scaled - (b_scaled - b);
  const double b_low = b - b_high;
  const double p = a * b;
  const double e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return (s - p) - e;
}

}  // namespace halfulp
