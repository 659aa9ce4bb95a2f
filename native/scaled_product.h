// Products of floats as kernels make them, two numbers and an exponent apart: joined, and
// rounded where that is known. Proved in docs/exactness.md#products.
// May include enclosure.h, formats.h, rounding.h and terms.h only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "enclosure.h"
#include "formats.h"
#include "rounding.h"
#include "terms.h"

namespace halfulp {

// A product of n floats is known to within n * 2^kLogProductError of its size, of so many at
// most.
inline constexpr int kLogProductError = -98;
inline constexpr std::int64_t kMostFactors = std::int64_t{1} << 40;

// Multiplies product i, (hi + lo) * 2^residue, by product j of `more`.
inline void join_products(const Enclosures& products, std::int64_t i, const Enclosures& more,
                          std::int64_t j) {
  const double a = products.hi[i];
  const double b = more.hi[j];
  double p = a * b;
  double c = 0;
  std::int64_t exponent = 0;
  if (std::isfinite(p) && p != 0) {
    const double error = std::fma(a, b, -p) + (a * more.lo[j] + products.lo[i] * b);
    const double sum = p + error;
    const int power = std::ilogb(sum);
    c = std::ldexp(error - (sum - p), -power);
    p = std::ldexp(sum, -power);
    exponent = power;
  }
  products.hi[i] = p;
  products.lo[i] = c;
  products.residue[i] += more.residue[j] + static_cast<std::uint64_t>(exponent);
}

// The value of `format` nearest to (m + f) * 2^e, as round_to has it, for any e.
inline std::uint64_t round_scaled(const Format& format, std::uint64_t m, std::int64_t e,
                                  bool sticky) {
  constexpr std::int64_t kFar = 1 << 20;  // beyond the exponents of all formats
  return round_to(format, m, static_cast<int>(std::clamp(e, -kFar, kFar)), sticky);
}

// Rounds a product of so many floats, if what is known of it determines the result.
inline bool round_product(const Format& format, double hi, double lo, std::uint64_t residue,
                          std::int64_t factors, std::uint64_t* result) {
  const std::uint64_t sign = std::signbit(hi) ? format.sign() : 0;
  if (hi != hi) {
    *result = format.quiet_nan();
    return true;
  }
  if (hi == 0 || std::isinf(hi)) {
    *result = sign | (hi == 0 ? 0 : format.infinity());
    return true;
  }
  if (factors > kMostFactors) return false;
  double t;
  const double s = two_sum(std::abs(hi), sign ? -lo : lo, t);
  // In units of 2^-74 of an ulp of s, which is below 2^127 then; t is below 2^74, and cut by
  // less than one.
  const int ulp = std::ilogb(s) - 52;
  const auto whole = static_cast<uint128>(std::ldexp(s, -ulp)) << 74;
  const uint128 middle =
      whole + static_cast<uint128>(static_cast<int128>(std::ldexp(t, 74 - ulp)));
  const uint128 width = (static_cast<uint128>(factors) << (127 + kLogProductError)) + 2;
  const auto rounded = [&](uint128 m) {
    std::int64_t e = static_cast<std::int64_t>(residue) + ulp - 74 + 64;
    while (m >> 127 == 0) {
      m <<= 1;
      --e;
    }
    return round_scaled(format, static_cast<std::uint64_t>(m >> 64), e,
                        static_cast<std::uint64_t>(m) != 0);
  };
  *result = sign | rounded(middle - width);
  return *result == (sign | rounded(middle + width));
}

}  // namespace halfulp
