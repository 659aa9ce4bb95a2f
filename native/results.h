// From sums to results: the finish, and then the one rounding. Knows no kernel. Proved in
// docs/exactness.md#rounding-both-ends, #finishes and #ties.
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

// Sums are never below 0: |lo| <= hi, and infinite sums are of one sign.
static_assert(!any_is_signed());

// The width is widened by 2^-9 of the bound (see Enclosures) and by 2^-100 of s, which covers
// the roundings here and in round_ends. |lo| <= hi, so t is exact (Dekker).
inline Interval interval_of(double hi, double lo, double bound) {
  const double s = hi + lo;
  return {s, lo - (s - hi), bound * (1 + 0x1p-9) + s * 0x1p-100};
}

// A sum known to be a multiple of 2^dg, of elements that are multiples of 2^g and terms of
// degree d, is known exactly if the enclosure holds one such multiple only. Returns the least
// g for which it does; false if there is none.
inline bool grid_of(int degree, double hi, double lo, double bound, int* g) {
  const Interval sum = interval_of(hi, lo, bound);
  const bool usual = sum.s >= kLeastDecidable && sum.s < 0x1p1000;
  if (!(usual || (sum.s == 0 && bound < 0x1p-900))) return false;
  // 2^dg > 2 * width
  const int twice = std::ilogb(sum.width) + 2;
  *g = degree == 1 ? twice : (twice + 1) >> 1;
  return true;
}

// How sums of so many terms each become results of one type.
class Results {
 public:
  Results(Term term, Finish finish, std::int64_t terms, const Format& format)
      : term_(term), finish_(finish), terms_(terms), format_(format) {}

  // The result, if the enclosure of one output determines it. Both ends of the enclosure are
  // finished and rounded; both are monotone, so if they agree the exact sum gives the same.
  //
  // `infinite_is_final` says that an infinite hi means an infinite element
  // (docs/exactness.md#infinities-nan-and-zero). `unit`, if not 0, is a power of two of which S
  // is a multiple.
  bool decide(double hi, double lo, double bound, bool infinite_is_final, double unit,
              std::uint64_t* result) const {
    if (hi != hi) {
      *result = format_.quiet_nan();
      return true;
    }
    if (hi > 0x1.fffffffffffffp1023) {
      *result = format_.infinity();
      return infinite_is_final;
    }
    const Interval sum = interval_of(hi, lo, bound);
    if (unit > 0 && sum.width < unit / 2) {
      const double s = std::rint(sum.s / unit);  // sum.s / unit itself from 2^52 on
      const double t = std::rint(((sum.s - s * unit) + sum.t) / unit);
      const auto whole = static_cast<uint128>(static_cast<int128>(s) + static_cast<int128>(t));
      const std::uint64_t digits[] = {static_cast<std::uint64_t>(whole),
                                      static_cast<std::uint64_t>(whole >> 64)};
      *result = of_digits({digits, 2, std::ilogb(unit)});
      return true;
    }
    if (sum.s == 0) {
      const std::uint64_t zero = 0;
      *result = of_digits({&zero, 1, 0});
      return sum.width == 0;
    }
    if (!(sum.s >= kLeastDecidable)) return false;
    return with_finish(finish_, [&](auto finish) {
      return round_ends(format_, finish.of(sum, terms_), result);
    });
  }

  // The result, of a float type, of a sum that is known exactly.
  std::uint64_t of_digits(const Digits& sum) const {
    return with_finish(finish_, [&](auto finish) {
      if (finish.kNeedsTerms && terms_ == 0) return format_.quiet_nan();
      const Leading value = finish.of(sum, terms_);
      return round_to(format_, value.m, value.exponent, value.sticky);
    });
  }

  // Makes an exact sum of integers, of at most three digits, the exact result of an integer
  // type; that of no terms is 0.
  void finish_whole(std::uint64_t* digits, int size) const {
    with_finish(finish_, [&](auto finish) {
      if (!(finish.kNeedsTerms && terms_ == 0)) finish.whole(digits, size, terms_);
    });
  }

  // The result of an exact sum of elements of `input`, which has `size` digits, for floats as
  // many as its format; of integers as an integer type, modulo 2^64.
  std::uint64_t of_exact_sum(const Format& input, const std::uint64_t* digits, int size) const {
    if (!input.is_float) {
      if (format_.is_float) return of_digits({digits, size, 0});
      std::uint64_t whole[3];
      std::copy_n(digits, size, whole);
      finish_whole(whole, size);
      return whole[0];
    }
    const SumFormat sum = sum_format(term_, input);
    const std::uint64_t flags = flags_of(sum, digits);
    if (flags != 0) return flags & kNan ? format_.quiet_nan() : format_.infinity();
    return of_digits({digits, sum.digits, sum.exponent});
  }

  // Sets the results of n outputs, side by side, where `rounder`, that of the format, finds
  // them easy, else open[i] to kOpen; returns whether it set any.
  bool of_tile(const Rounder& rounder, const Enclosures& sums, std::int64_t n,
               std::byte* results, std::uint8_t* open) const {
    return with_finish(finish_, [&](auto finish) {
      if constexpr (!finish.kChanges) {
        return rounder.function(sums, n, results, open);
      } else {
        constexpr std::int64_t kFew = 64;
        static_assert(kFew % kPadding == 0);
        double hi[kFew], lo[kFew], bound[kFew];
        bool any = false;
        for (std::int64_t i = 0; i < n; i += kFew) {
          const std::int64_t few = std::min(kFew, n - i);
          // For types of at most 24 bits the rounder takes sums for less exact.
          if (format_.precision <= 24) {
            finish_few(sums + i, few, hi, lo, bound,
                       [&](const Interval& sum) { return finish.near(sum, terms_); });
          } else {
            finish_few(sums + i, few, hi, lo, bound,
                       [&](const Interval& sum) { return finish.of(sum, terms_); });
          }
          any |= rounder.function({hi, lo, bound, nullptr}, few, results + i * format_.bytes,
                                  open + i);
        }
        return any;
      }
    });
  }

 private:
  template <class Of>
  static void finish_few(const Enclosures& sums, std::int64_t n, double* hi, double* lo,
                         double* bound, Of of) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Interval finished = of(interval_of(sums.hi[i], sums.lo[i], sums.bound[i]));
      hi[i] = finished.s;
      lo[i] = finished.t;
      bound[i] = finished.width;
    }
  }

  const Term term_;
  const Finish finish_;
  const std::int64_t terms_;
  const Format& format_;
};

}  // namespace halfulp
