// Sums of exponentials to any precision, for what binary64 leaves open. Proved in
// docs/exactness.md#log-sum-exp.
// May include digits.h, formats.h, logarithm.h, reals.h and rounding.h only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "digits.h"
#include "formats.h"
#include "logarithm.h"
#include "reals.h"
#include "rounding.h"

namespace halfulp {

// The number m * 2^exponent: an element, whatever its type.
struct Scaled {
  __int128 m;
  int exponent;

  static Scaled of(double x) {
    int exponent;
    const double fraction = std::frexp(x, &exponent);
    return {static_cast<__int128>(std::ldexp(fraction, 53)), exponent - 53};
  }
  static Scaled of(__int128 x) { return {x, 0}; }
};

// Digit `i` of the number, whose digits are in units of 2^-unit, in two's complement, rounded
// down if i is 0.
inline std::uint64_t digit_of(const Scaled& x, std::int64_t unit, int i) {
  const std::int64_t shift = x.exponent + unit - 64 * std::int64_t{i};
  if (shift >= 64) return 0;
  if (shift >= 0) return static_cast<std::uint64_t>(x.m) << shift;
  return static_cast<std::uint64_t>(x.m >> std::min<std::int64_t>(-shift, 127));
}

// The result, of a format, of the exact logarithm of a sum of exponentials, of at least two
// elements that are finite, of which `greatest` is the greatest. visit(f) calls f(x, less) for
// each that is finite, where `less` is about greatest - x, and may be infinite.
template <class Visit>
std::uint64_t log_of_exponentials(const Scaled& greatest, const Format& format, Visit visit) {
  for (int places = 4;; places *= 2) {
    const std::int64_t unit = 64 * std::int64_t{places};
    const Real log2 = log_of_2(places);
    Real sum(places);
    // Beyond that an exponential is below a unit.
    const double most = 0.694 * static_cast<double>(unit);
    visit([&](const Scaled& x, double less) {
      if (less > most) {
        sum.error += 1;
        return;
      }
      Real difference(places);
      for (int i = 0; i < difference.size(); ++i) {
        difference.digits[i] = digit_of(greatest, unit, i);
      }
      Real subtracted(places);
      for (int i = 0; i < difference.size(); ++i) {
        subtracted.digits[i] = digit_of(x, unit, i);
      }
      difference.subtract(subtracted);  // modulo 2^128, as both are
      if (difference.is_zero() && x.m == greatest.m && x.exponent == greatest.exponent) {
        sum.add(Real(places, 1));
        return;
      }
      difference.error = 1;
      Exponential exponential = exp_of_minus(difference, log2);
      exponential.power.shift_right(exponential.halvings);
      sum.add(exponential.power);
    });
    const double near_sum = static_cast<double>(sum.digits[places]) +
                            static_cast<double>(sum.digits[places - 1]) * 0x1p-64;
    const Real log = log_of(sum, below_log_of(std::max(near_sum, 1.0)), log2);

    // Both ends, greatest + log -+ error, in two's complement: the lower not below greatest.
    const int fraction = std::max(places, 18);  // 2^-1074 is a multiple of the unit
    const int size = fraction + 18;
    std::vector<std::uint64_t> low(size), high(size);
    for (int i = 0; i < size; ++i) {
      low[i] = high[i] = digit_of(greatest, 64 * std::int64_t{fraction}, i);
    }
    Real error(places);
    error.digits[0] = static_cast<std::uint64_t>(log.error);
    error.digits[1] = static_cast<std::uint64_t>(log.error >> 64);
    Real least = log;
    if (!least.subtract(error)) std::fill(least.digits.begin(), least.digits.end(), 0);
    Real largest = log;
    largest.add(error);
    const auto add = [&](std::vector<std::uint64_t>& to, const Real& more) {
      std::uint64_t carry = 0;
      for (int i = fraction - places; i < size; ++i) {
        const int j = i - (fraction - places);
        const uint128 digit = uint128{to[i]} + (j < more.size() ? more.digits[j] : 0) + carry;
        to[i] = static_cast<std::uint64_t>(digit);
        carry = static_cast<std::uint64_t>(digit >> 64);
      }
    };
    add(low, least);
    add(high, largest);
    const bool negative = low[size - 1] >> 63 != 0;
    if (negative != (high[size - 1] >> 63 != 0)) continue;
    const auto negate = [](std::vector<std::uint64_t>& digits) {
      bool carry = true;
      for (std::uint64_t& digit : digits) {
        digit = ~digit + carry;
        carry = carry && digit == 0;
      }
    };
    if (negative) {
      negate(low);
      negate(high);
      std::swap(low, high);
    }
    // The size is above `low` and below `high`, of which the last unit is taken.
    for (std::uint64_t& digit : high) {
      if (digit-- != 0) break;
    }
    const auto rounded = [&](const std::vector<std::uint64_t>& digits) {
      if (!format.is_float) {
        const auto whole = digits[fraction];
        return negative ? 0 - whole : whole;
      }
      const Leading value = leading_of({digits.data(), size, -64 * fraction});
      return round_to(format, value.m, value.exponent, true) | (negative ? format.sign() : 0);
    };
    const std::uint64_t result = rounded(low);
    if (result == rounded(high)) return result;
  }
}

}  // namespace halfulp
