// From sums to results: the finish, and then the one rounding. Knows no kernel. Proved in
// docs/exactness.md#rounding-both-ends, #finishes and #which-multiple.
// May include dispatch.h, enclosure.h, exact_sum.h, finish.h, formats.h, rounding.h and terms.h
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "dispatch.h"
#include "enclosure.h"
#include "exact_sum.h"
#include "finish.h"
#include "formats.h"
#include "rounding.h"
#include "terms.h"

namespace halfulp {

// The width is widened by 2^-9 of the bound (see Enclosures) and by 2^-100 of |s|, which covers
// the roundings here and in round_ends. t is exact, by TwoSum: after terms cancelled, lo may be
// larger than hi.
inline Interval interval_of(double hi, double lo, double bound) {
  double t;
  const double s = two_sum(hi, lo, t);
  return {s, t, bound * (1 + 0x1p-9) + std::abs(s) * 0x1p-100};
}

// Makes an enclosure, as of one output, of a sum of integers in at most three digits.
inline void enclose(const SumFormat& sum, const std::uint64_t* digits, int size, double& hi,
                    double& lo, double& bound) {
  // Digits above the others that go on with the sign say nothing more than that.
  const std::uint64_t above = is_negative(sum, digits, size) ? ~std::uint64_t{0} : 0;
  while (size > 1 && digits[size - 1] == above) --size;
  hi = lo = bound = 0;
  const auto top = static_cast<std::int64_t>(digits[size - 1]);
  constexpr std::int64_t kMostTop = std::int64_t{1} << 62;
  if (size == 2 && (top < 0) == (above != 0) && -kMostTop < top && top < kMostTop) {
    const auto rounded = static_cast<double>(top);
    const std::int64_t rest = top - static_cast<std::int64_t>(rounded);  // at most 2^8 in size
    const auto upper = static_cast<std::int64_t>(digits[0] >> 32);
    const auto lower = static_cast<double>(digits[0] & 0xffffffff);
    hi = rounded * 0x1p64;
    lo = static_cast<double>(rest * (std::int64_t{1} << 32) + upper) * 0x1p32;
    if (std::abs(rounded) < 0x1p20) {
      hi += lo;  // exactly
      lo = lower;
    } else {
      bound = lower;
    }
    return;
  }
  constexpr double kUnits[] = {1, 0x1p64, 0x1p128};
  for (int i = size - 1; i >= 0; --i) {
    // Both halves are numbers of binary64.
    const bool has_sign = i == size - 1 && above != 0;
    const auto low = static_cast<std::int64_t>(digits[i] & 0xffffffff);
    const auto high =
        static_cast<std::int64_t>(digits[i] >> 32) - (has_sign ? std::int64_t{1} << 32 : 0);
    const double upper = static_cast<double>(high) * 0x1p32 * kUnits[i];
    const double lower = static_cast<double>(low) * kUnits[i];
    if (size == 1) {
      hi = upper;
      lo = lower;
    } else {
      accumulate(hi, lo, bound, upper, 0.0, 0.0);
      accumulate(hi, lo, bound, lower, 0.0, 0.0);
    }
  }
}

// How sums become results of one type.
class Results {
 public:
  Results(Term term, Finish finish, const Format& format)
      : term_(term),
        is_signed_(facts_of(term).is_signed),
        finish_(finish),
        is_odd_(with_finish(finish, [](auto f) { return f.kIsOdd; })),
        format_(format) {}

  // The result, if the enclosure of a sum of so many terms determines it. Both ends of the
  // enclosure are finished and rounded; both are monotone, so if they agree the exact sum gives
  // the same.
  //
  // `infinite_is_final` says that an infinite hi means an infinite element or a sum beyond
  // every format's range, and that no sum of finite terms is NaN
  // (docs/exactness.md#infinities-nan-and-zero). `unit`, if not 0, is a power of two of which S
  // is a multiple.
  bool decide(double hi, double lo, double bound, std::int64_t terms, bool infinite_is_final,
              double unit, std::uint64_t* result) const {
    if (hi != hi) {
      *result = format_.quiet_nan();
      return infinite_is_final || !is_signed_;
    }
    if (std::abs(hi) > 0x1.fffffffffffffp1023) {
      *result = of_infinity(false, hi < 0);
      return infinite_is_final;
    }
    const Interval sum = interval_of(hi, lo, bound);
    if (!is_odd_ && decide_interval(sum, result)) return true;
    if (unit > 0 && sum.width < unit / 2) {
      const double s = std::rint(sum.s / unit);  // sum.s / unit itself from 2^52 on
      const double t = std::rint(((sum.s - s * unit) + sum.t) / unit);
      const int128 whole = static_cast<int128>(s) + static_cast<int128>(t);
      const auto size = static_cast<uint128>(whole < 0 ? -whole : whole);
      const std::uint64_t digits[] = {static_cast<std::uint64_t>(size),
                                      static_cast<std::uint64_t>(size >> 64)};
      *result = of_digits({digits, 2, std::ilogb(unit)}, whole < 0, terms);
      return true;
    }
    if (sum.s == 0) {
      const std::uint64_t zero = 0;
      *result = of_digits({&zero, 1, 0}, false, terms);
      return sum.width == 0;
    }
    if (!is_odd_) return false;
    const bool negative = sum.s < 0;
    const Interval size = negative ? Interval{-sum.s, -sum.t, sum.width} : sum;
    if (!(size.s >= kLeastDecidable && size.width < size.s)) return false;
    const bool same = with_finish(finish_, [&](auto finish) {
      return round_ends(format_, finish.of(size, terms), result);
    });
    *result = with_sign(*result, negative);
    return same;
  }

  // The result, of a float type, of a sum that is known exactly, by its size.
  std::uint64_t of_digits(const Digits& sum, bool negative, std::int64_t terms) const {
    return with_finish(finish_, [&](auto finish) {
      if (finish.kNeedsTerms && terms == 0) return format_.quiet_nan();
      if constexpr (finish.kIsOdd) {
        return with_sign(rounded(finish.of(sum, terms)), negative);
      } else {
        if (highest_of(sum.digits, sum.size) < 0) return with_sign(format_.infinity(), true);
        if (negative) return format_.quiet_nan();
        const Sized value = finish.of(sum, terms);
        return with_sign(rounded(value.size), value.negative);
      }
    });
  }

  // Makes an exact sum of integers, of at most three digits, the exact result of an integer
  // type; that of no terms is 0. Below 0 it is what it is of the size, so towards zero; where
  // there is none, the least value of the type.
  void finish_whole(const SumFormat& sum, std::uint64_t* digits, int size,
                    std::int64_t terms) const {
    const bool negative = is_negative(sum, digits, size);
    if (!is_odd_ && (negative || highest_of(digits, size) < 0)) {
      std::fill_n(digits, size, 0);
      if (format_.is_signed) {
        digits[0] = std::uint64_t{1} << (8 * format_.bytes - 1);
        negate(digits, size);
      }
      return;
    }
    if (negative) negate(digits, size);
    with_finish(finish_, [&](auto finish) {
      if (!(finish.kNeedsTerms && terms == 0)) finish.whole(digits, size, terms);
    });
    if (negative) negate(digits, size);
  }

  // Whether an integer type holds a whole number in three digits of two's complement.
  bool holds(const std::uint64_t* digits) const {
    // What is above these bits is the sign, which numbers without one do not have.
    const bool negative = format_.is_signed && digits[2] >> 63 != 0;
    const std::uint64_t above = negative ? ~std::uint64_t{0} : 0;
    const int bits = 8 * format_.bytes - (format_.is_signed ? 1 : 0);
    return digits[1] == above && digits[2] == above &&
           (bits == 64 || (digits[0] ^ above) >> bits == 0);
  }

  // The result of an exact sum of elements of `input`, which has `size` digits, for floats as
  // many as its format; of integers as an integer type, modulo 2^64.
  std::uint64_t of_exact_sum(const Format& input, const std::uint64_t* digits, int size,
                             std::int64_t terms) const {
    const SumFormat sum = sum_format(term_, input);
    if (!input.is_float) {
      if (format_.is_float) return of_sum(sum, digits, size, terms);
      std::uint64_t whole[3];
      std::copy_n(digits, size, whole);
      finish_whole(sum, whole, size, terms);
      return whole[0];
    }
    const std::uint64_t flags = flags_of(sum, digits);
    if (flags != 0) {
      return of_infinity(flags & kNan, flags & kNegativeInfinite);
    }
    return of_sum(sum, digits, sum.digits, terms);
  }

  // Sets the results of n outputs, side by side, where `rounder`, that of the format, finds
  // them easy, else open[i] to kOpen; returns whether it set any.
  bool of_tile(const Rounder& rounder, const Enclosures& sums, const Terms& terms,
               std::int64_t n, std::byte* results, std::uint8_t* open) const {
    if (is_odd_) return rounder.function(finish_, sums, terms, n, results, open);
    return with_finish(finish_, [&](auto finish) {
      constexpr std::int64_t kFew = 64;
      static_assert(kFew % kPadding == 0);
      double hi[kFew], lo[kFew], bound[kFew];
      bool any = false;
      for (std::int64_t i = 0; i < n; i += kFew) {
        const std::int64_t few = std::min(kFew, n - i);
        for (std::int64_t j = 0; j < few; ++j) {
          const Interval sum = interval_of(sums.hi[i + j], sums.lo[i + j], sums.bound[i + j]);
          const Interval finished = finish.of(sum, terms[i + j]);
          hi[j] = finished.s;
          lo[j] = finished.t;
          // No result is known without an error.
          bound[j] = finished.width > 0 ? finished.width : 0x1p-1074;
        }
        any |= rounder.function(Finish::none, {hi, lo, bound, nullptr}, terms, few,
                                results + i * format_.bytes, open + i);
      }
      return any;
    });
  }

 private:
  std::uint64_t rounded(const Leading& value) const {
    return round_to(format_, value.m, value.exponent, value.sticky);
  }

  // The result of a sum that is infinite, or NaN.
  std::uint64_t of_infinity(bool is_nan, bool negative) const {
    const bool none = is_nan || (!is_odd_ && negative);
    return none ? format_.quiet_nan() : with_sign(format_.infinity(), negative);
  }

  // The same of the interval of a sum, where it decides, for a finish of one sign alone.
  bool decide_interval(const Interval& sum, std::uint64_t* result) const {
    if (sum.s < -sum.width) {
      *result = format_.quiet_nan();
      return true;
    }
    return with_finish(finish_, [&](auto finish) {
      const Interval value = finish.of(sum, 1);
      const bool negative = value.s < 0;
      const Interval size = negative ? Interval{-value.s, -value.t, value.width} : value;
      const bool same = round_ends(format_, size, result);
      *result = with_sign(*result, negative);
      return same;
    });
  }

  std::uint64_t with_sign(std::uint64_t bits, bool negative) const {
    return negative ? bits | format_.sign() : bits;
  }

  // The result of a sum of `size` digits, without flags.
  std::uint64_t of_sum(const SumFormat& sum, const std::uint64_t* digits, int size,
                       std::int64_t terms) const {
    if (!is_negative(sum, digits, size)) {
      return of_digits({digits, size, sum.exponent}, false, terms);
    }
    std::uint64_t negated[kMostDigits];
    std::copy_n(digits, size, negated);
    negate(negated, size);
    return of_digits({negated, size, sum.exponent}, true, terms);
  }

  const Term term_;
  const bool is_signed_;
  const Finish finish_;
  const bool is_odd_;
  const Format& format_;
};

}  // namespace halfulp
