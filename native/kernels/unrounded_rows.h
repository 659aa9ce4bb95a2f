// Rows summed without rounding: see unrounded.h.
// May include rows.h, two_folds.h, unrounded.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include "rows.h"
#include "two_folds.h"
#include "unrounded.h"

namespace halfulp {
namespace {

// Sums of rows as two numbers each, the upper and the lower bits of those of their lanes, as
// many lanes add up to more bits than one number has.
struct TwoParts {
  Vector high{};
  Vector low{};

  // Sums of values, or of the upper parts of values and of what is below them.
  template <Type type>
  void add(const Vector* sums) {
    const Vector upper = upper_part(sums[0]);
    high += upper;
    low += sums[0] - upper;
    if (type == Type::float64) low += sums[1];
  }
  static TwoParts join(const TwoParts& a, const TwoParts& b) {
    return {a.high + b.high, a.low + b.low};
  }
  template <class Part>
  static TwoParts pick(const TwoParts& a, const TwoParts& b) {
    return {Part::of(a.high, b.high), Part::of(a.low, b.low)};
  }
};

template <Term term, Type type, class Second>
class SumRowsUnrounded {
 public:
  static constexpr std::size_t kSums = 8;
  static constexpr std::size_t kStride = kSums / kUnitSums<type> * kUnit<type>;
  // Elements that are summed again if anything was rounded.
  static constexpr std::size_t kChecked = 4096;
  static constexpr std::size_t kMaxColumns = 32 * kChecked;
  static_assert(kChecked % kStride == 0);

  // At most kWidth rows of at most kMaxColumns elements.
  void add(const std::byte* data, std::ptrdiff_t row_stride, std::size_t count, std::size_t n,
           const Enclosures& enclosures) {
    const bool together = n * kWidth <= kChecked;
    Vector sums[kWidth][kSums] = {};
    Inexact::clear();
    for (std::size_t i = 0; i < count; ++i) {
      const Bits<type>* x = row_of<type>(data, row_stride, i);
      if (together) {
        add_all(x, n, sums[i]);
      } else {
        sum(x, n, enclosures + i, sums[i]);
      }
    }
    TwoParts rows[kWidth];
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < kSums; j += kParts) rows[i].template add<type>(sums[i] + j);
    }
    TwoParts joined = join_rows(rows);
    settle(joined.high);
    settle(joined.low);
    if (!Inexact::raised()) {
      add_to_enclosures(enclosures, false, count, set_apart<term>(joined.high, joined.low),
                        Vector{});
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (together) {
        add_otherwise(row_of<type>(data, row_stride, i), n, enclosures + i);
      } else {
        add_each(sums[i], enclosures + i);
      }
    }
  }

 private:
  // Sums of values, or of parts of them.
  static constexpr std::size_t kParts = type == Type::float64 ? 2 : 1;

  Second second_;
  Patience patience_;

  // Adds the sums of a row to its enclosure, whatever is rounded.
  static void add_each(const Vector (&sums)[kSums], const Enclosures& enclosure) {
    Vector hi{}, lo{}, bound{};
    for (std::size_t j = 0; j < kSums; j += kParts) {
      const Vector lower = kParts == 2 ? sums[j + 1] : Vector{};
      const Compensated<term> lane = set_apart<term>(sums[j], lower);
      accumulate(hi, lo, bound, lane.s, lane.c, Vector{});
    }
    for (std::size_t i = 0; i < kWidth; ++i) {
      accumulate(*enclosure.hi, *enclosure.lo, *enclosure.bound, hi[i], lo[i], bound[i]);
    }
  }

  // Adds n elements to sums, without those that are added to the enclosure. What is left over
  // by strides comes first, where it lies too: rows are read from their beginning to their end.
  void sum(const Bits<type>* x, std::size_t n, const Enclosures& enclosure,
           Vector (&sums)[kSums]) {
    std::size_t rest = n % kStride;
    n -= rest;
    const Bits<type>* const first = x;
    add_rest(first, rest, sums);
    x += rest;
    Vector s[kSums];
    for (std::size_t i = 0; i < kSums; ++i) s[i] = sums[i];
    for (std::size_t some; n > 0; n -= some, x += some) {
      some = n < kChecked ? n : kChecked;
      if (!patience_.has_none()) {
        add_strides(x, some, s);
        for (Vector& v : s) settle(v);
        if (!Inexact::raised()) {
          for (std::size_t i = 0; i < kSums; ++i) sums[i] = s[i];
          rest = 0;
          patience_.regain();
          continue;
        }
        patience_.lose();
      }
      add_otherwise(x, some, enclosure);
      add_otherwise(first, rest, enclosure);
      for (std::size_t i = 0; i < kSums; ++i) s[i] = rest > 0 ? sums[i] = Vector{} : sums[i];
      rest = 0;
      Inexact::clear();
    }
    if (rest == 0) return;
    for (Vector& v : sums) settle(v);
    if (!Inexact::raised()) return;
    for (Vector& v : sums) v = Vector{};
    add_otherwise(first, rest, enclosure);
    Inexact::clear();
  }

  static void add_all(const Bits<type>* x, std::size_t n, Vector (&sums)[kSums]) {
    const std::size_t rest = n % kStride;
    add_rest(x, rest, sums);
    Vector s[kSums];
    for (std::size_t i = 0; i < kSums; ++i) s[i] = sums[i];
    add_strides(x + rest, n - rest, s);
    for (std::size_t i = 0; i < kSums; ++i) sums[i] = s[i];
  }

  static inline __attribute__((always_inline)) void add_strides(const Bits<type>* x,
                                                                std::size_t n,
                                                                Vector (&sums)[kSums]) {
    const Prefetch prefetch;
    for (const Bits<type>* const end = x + n; x != end; x += kStride) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kSums; i += kUnitSums<type>) {
        const std::size_t first = i / kUnitSums<type> * kUnit<type>;
        prefetch(x, first);
        add_unit<type>(x + first, sums + i);
      }
    }
  }

  static void add_rest(const Bits<type>* x, std::size_t n, Vector (&sums)[kSums]) {
    for (std::size_t i = 0; n > 0; i += kUnitSums<type>, x += kUnit<type>) {
      if (n < kUnit<type>) {
        const Padded<kUnit<type>, Bits<type>> padded(x, n);
        add_unit<type>(padded.elements, sums + i);
        break;
      }
      add_unit<type>(x, sums + i);
      n -= kUnit<type>;
    }
  }

  void add_otherwise(const Bits<type>* x, std::size_t n, const Enclosures& enclosure) {
    for (std::size_t some; n > 0; n -= some, x += some) {
      some = n < Second::kMaxColumns ? n : Second::kMaxColumns;
      typename Second::Lane lanes[kWidth] = {};
      double absolute;
      lanes[0] = second_(x, some, absolute);
      const auto joined = join_rows(lanes);
      add_to_enclosures(enclosure, false, 1, joined, joined.bound(1, Vector{} + absolute));
    }
  }
};

// By `otherwise` where the flag is not kept.
template <Term term, Type type, class Second, Function otherwise>
void sum_rows_unrounded(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                        std::size_t columns, const Enclosures& enclosures, bool fresh,
                        void* scratch) {
  if (!Inexact::is_kept()) {
    return otherwise(data, row_stride, rows, columns, enclosures, fresh, scratch);
  }
  using Sum = SumRowsUnrounded<term, type, Second>;
  Sum sum;
  if (fresh) make_zero(enclosures, rows);
  for (std::size_t row = 0; row < rows; row += kWidth) {
    const std::size_t count = rows - row < kWidth ? rows - row : kWidth;
    for (std::size_t begin = 0; begin < columns; begin += Sum::kMaxColumns) {
      const std::size_t left = columns - begin;
      sum.add(reinterpret_cast<const std::byte*>(row_of<type>(data, row_stride, row) + begin),
              row_stride, count, left < Sum::kMaxColumns ? left : Sum::kMaxColumns,
              enclosures + row);
    }
  }
}

}  // namespace
}  // namespace halfulp
