// From sums of exponentials to the results of their logarithms. Knows no kernel but that of
// powers. Proved in docs/exactness.md#log-sum-exp. May include exact_exponentials.h,
// exponential_sums.h, formats.h, logarithm.h, results.h and rounding.h only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "exact_exponentials.h"
#include "exponential_sums.h"
#include "formats.h"
#include "logarithm.h"
#include "results.h"
#include "rounding.h"

namespace halfulp {

// e^-700 = (high + low) * 2^-1010.
inline constexpr TwoNumbers kFarAway = {0x1.14f2b0fb9307fp+0, 0x1.57961a567de7ap-57};
inline constexpr double kFarShift = -700;
inline constexpr int kFarScale = -1010;

// What an integer is less than another: 0 or below, in binary64, if that matters.
inline double less_than(int128 x, int128 greatest) {
  const int128 difference = x - greatest;
  return difference < -1024 ? -kInfinity : static_cast<double>(difference);
}

// How sums become results, of inputs of one type and of another type.
class LogResults {
 public:
  LogResults(const Format& input, const Format& output) : input_(input), output_(output) {}

  // The result of so many elements, if what is known determines it; of integers `greatest` is
  // the greatest.
  bool decide(const ExponentialSum& sum, int128 greatest, std::int64_t terms,
              std::uint64_t* result) const {
    if (!std::isfinite(sum.shift)) {
      *result = sum.shift == kInfinity    ? output_.infinity()
                : sum.shift == -kInfinity ? nothing()
                                          : output_.quiet_nan();
      return true;
    }
    if (terms == 1) {
      *result = round(input_.is_float ? Scaled::of(sum.shift) : Scaled::of(greatest));
      return true;
    }
    const Interval log = log_of(interval_of(sum.high, sum.low, sum.bound));
    if (!(log.width < 1)) return false;
    if (!output_.is_float) {
      // The logarithm of two exponentials or more is above 0, and no whole number.
      const double width = log.width + 0x1p-40;
      const double least = std::floor(std::max(0.0, log.s - width));
      const bool negative = greatest + static_cast<std::int64_t>(least) < 0;
      *result =
          static_cast<std::uint64_t>(greatest) + static_cast<std::uint64_t>(least) + negative;
      return least == std::floor(log.s + width);
    }
    if (input_.is_float) return round_sum(sum.shift, 0, log, result);
    const auto near = static_cast<double>(greatest);
    return round_sum(near, static_cast<double>(greatest - static_cast<int128>(near)), log,
                     result);
  }

  // The result of elements that are finite: visit(f) calls f(x, near) for each, where `near` is
  // x in binary64.
  template <class Visit>
  std::uint64_t decide_exactly(Visit visit) const {
    std::int64_t finite = 0;
    double near_greatest = -kInfinity;
    Scaled greatest = {0, 0};
    visit([&](const Scaled& x, double near) {
      ++finite;
      const bool more = input_.is_float ? near > near_greatest : x.m > greatest.m;
      if (finite > 1 && !more) return;
      near_greatest = near;
      greatest = x;
    });
    if (finite == 1) return round(greatest);
    std::uint64_t result;
    if (output_.is_float && decide_by_others(visit, greatest, near_greatest, &result)) {
      return result;
    }
    return log_of_exponentials(greatest, output_, [&](auto f) {
      visit([&](const Scaled& x, double near) {
        f(x, input_.is_float ? near_greatest - near : static_cast<double>(greatest.m - x.m));
      });
    });
  }

 private:
  std::uint64_t nothing() const {
    if (output_.is_float) return output_.infinity() | output_.sign();
    return output_.is_signed ? ~std::uint64_t{0} << (8 * output_.bytes - 1) : 0;
  }

  // A number that is known: 0 without a sign.
  std::uint64_t round(const Scaled& x) const {
    const bool negative = x.m < 0;
    const auto size = static_cast<uint128>(negative ? -x.m : x.m);
    if (!output_.is_float) return static_cast<std::uint64_t>(x.m);
    const std::uint64_t digits[] = {static_cast<std::uint64_t>(size),
                                    static_cast<std::uint64_t>(size >> 64)};
    const Leading value = leading_of({digits, 2, x.exponent});
    return round_to(output_, value.m, value.exponent, value.sticky) |
           (negative ? output_.sign() : 0);
  }

  // The result shift + shift_low + log, if that is known.
  bool round_sum(double shift, double shift_low, const Interval& log,
                 std::uint64_t* result) const {
    double rest, t;
    const double near = add_exactly(shift, log.s, rest);
    const double s = add_exactly(near, rest + (log.t + shift_low), t);
    const double lost = (std::abs(shift) + std::abs(log.s) + std::abs(near)) * 0x1p-103;
    const bool negative = s < 0;
    const Interval value = {std::abs(s), negative ? -t : t,
                            (log.width + lost) * (1 + 0x1p-8) + std::abs(s) * 0x1p-100};
    const bool same = round_ends(output_, value, result);
    if (negative) *result |= output_.sign();
    return same;
  }

  // Adds e^(x - shift) of the elements that are not the greatest, and sets the shift to the
  // greatest of these. False if two are the greatest.
  template <class Visit>
  bool sum_others(Visit visit, const Scaled& greatest, double near_greatest, double shift,
                  const ExponentialSum& sum) const {
    constexpr std::int64_t kFew = 64;
    double few[kFew];
    std::int64_t n = 0;
    std::int64_t as_great = 0;
    const auto flush = [&] {
      if (n > 0) add_powers(sum, few, n, shift);
      n = 0;
    };
    visit([&](const Scaled& x, double near) {
      const double other = input_.is_float ? near : less_than(x.m, greatest.m);
      if (other == (input_.is_float ? near_greatest : 0)) {
        ++as_great;
        return;
      }
      few[n++] = other;
      sum.shift = std::max(sum.shift, other);
      if (n == kFew) flush();
    });
    flush();
    return as_great == 1;
  }

  // The result, where one element is the greatest by far: the logarithm of 1 and the others'
  // exponentials less the greatest, which that sum has no place for.
  template <class Visit>
  bool decide_by_others(Visit visit, const Scaled& greatest, double near_greatest,
                        std::uint64_t* result) const {
    double most = -kInfinity, high = 0, low = 0, bound = 0;
    const double shift = input_.is_float ? near_greatest : 0;
    if (!sum_others(visit, greatest, near_greatest, shift, {most, high, low, bound})) {
      return false;
    }
    if (high > 0x1p-7) return false;
    if (near_greatest != 0 || high > 0x1p-700) {
      const Interval others = interval_of(high, low, bound);
      if (!(others.s >= 0x1p-860 && others.width < others.s)) return false;
      const Interval log = log_of_1_plus(others);
      const double shift_low =
          input_.is_float
              ? 0
              : static_cast<double>(greatest.m - static_cast<int128>(near_greatest));
      return round_sum(near_greatest, shift_low, log, result);
    }
    // Of so little the logarithm is itself, and what is too little has no place in any type.
    if (most < -800) {
      *result = 0;
      return true;
    }
    high = low = bound = 0;
    sum_others(visit, greatest, near_greatest, kFarShift, {most, high, low, bound});
    const double product = high * kFarAway.high;
    const double rest = -rest_of_product(product, high, kFarAway.high);
    const double error = bound * 1.25 + product * 0x1p-98;
    const Interval value =
        interval_of(product, rest + (high * kFarAway.low + low * kFarAway.high), error);
    return round_ends(output_, value, result, kFarScale);
  }

  const Format& input_;
  const Format& output_;
};

}  // namespace halfulp
