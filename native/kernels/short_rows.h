// Kernels of Layout::rows for short rows, which have one lane each, as many at once as a vector
// has numbers; and of Layout::columns for few rows. Most of such sums are exact, as the
// processor tells: then the bound is 0, so that ties, and sums that cancel, are known at once.
// Proved in docs/exactness.md#sums-without-rounding. May include columns.h, inexact.h, rows.h
// and what they include only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "columns.h"
#include "inexact.h"
#include "rows.h"

namespace halfulp {
namespace {

// All elements of a vector of `width` but the first, or the last, `count` become zeros.
template <std::size_t width, class V>
inline V keep(V x, bool first, std::size_t count) {
  constexpr std::size_t kBytes = sizeof(V) / width;
  struct Window {
    std::uint8_t bytes[3 * sizeof(V)] = {};
    constexpr Window() {
      for (std::size_t i = sizeof(V); i < 2 * sizeof(V); ++i) bytes[i] = 0xff;
    }
  };
  static constexpr Window kWindow;
  const std::size_t skipped = (width - count) * kBytes;
  const std::uint8_t* mask = kWindow.bytes + sizeof(V) + (first ? skipped : -skipped);
  return (V)((Wide)x & load_vector<Wide>(mask));
}

// A matrix of short rows.
struct ShortRows {
  const std::byte* data;
  std::ptrdiff_t row_stride;
  std::size_t rows;
  std::size_t columns;

  // Row i, or the last one where there are less.
  template <Type type>
  const Bits<type>* row(std::size_t i) const {
    return row_of<type>(data, row_stride, i < rows ? i : rows - 1);
  }
  // Whether `width` elements from the start of row i on lie within the matrix.
  bool has(std::size_t i, std::size_t width, std::size_t bytes) const {
    return row_stride >= 0 && static_cast<std::ptrdiff_t>(width * bytes) <=
                                  static_cast<std::ptrdiff_t>(columns * bytes) +
                                      static_cast<std::ptrdiff_t>(rows - 1 - i) * row_stride;
  }
};

// Loads as objects, which are always inlined.
template <Type type>
struct Load {
  Vector operator()(const Bits<type>* x) const { return load<type>(x); }
};
template <Type type>
struct LoadNarrow {
  Narrow operator()(const Bits<type>* x) const { return load_narrow<type>(x); }
};

// The sums of rows that lie side by side, `vectors` of them in all.
template <Type type, class Lane, std::size_t width, std::size_t vectors, class LoadOf>
inline __attribute__((always_inline)) Lane sum_packed(const Bits<type>* x, const Lane& start,
                                                      LoadOf load) {
  Lane lanes[vectors];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < vectors; ++i) {
    lanes[i] = start;
    lanes[i].step(load(x + i * width));
  }
  return join_packed(lanes);
}

// The sum of one row of at least `width` elements.
template <Type type, class Lane, std::size_t width, class LoadOf>
inline __attribute__((always_inline)) Lane sum_row(const Bits<type>* x, std::size_t columns,
                                                   const Lane& start, LoadOf load) {
  const std::size_t rest = columns % width;
  Lane lane = start;
  for (const Bits<type>* const end = x + (columns - rest); x != end; x += width) {
    lane.step(load(x));
  }
  // The last elements, less those that were summed before.
  if (rest > 0) lane.step(keep<width>(load(x + rest - width), false, rest));
  return lane;
}

// The sums of `group` rows from `row` on, `width` elements to a step. Lanes begin as `start`.
template <Type type, class Lane, std::size_t group, std::size_t width, class LoadOf>
inline __attribute__((always_inline)) Lane sum_group(const ShortRows& matrix, std::size_t row,
                                                     const Lane& start, LoadOf load) {
  const std::size_t columns = matrix.columns;
  Lane lanes[group];
#pragma GCC unroll 16
  for (Lane& lane : lanes) lane = start;
  if (columns >= width) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < group; ++i) {
      lanes[i] = sum_row<type, Lane, width>(matrix.row<type>(row + i), columns, start, load);
    }
  } else if (matrix.has(row + group - 1, width, sizeof(Bits<type>))) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < group; ++i) {
      lanes[i].step(keep<width>(load(matrix.row<type>(row + i)), true, columns));
    }
  } else {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < group; ++i) {
      const Padded<width, Bits<type>> padded(matrix.row<type>(row + i), columns);
      lanes[i].step(load(padded.elements));
    }
  }
  return join_rows(lanes);
}

// Calls add(row, count, lane) for all rows, `group` at a time.
template <Type type, class Lane, std::size_t group, std::size_t width, class LoadOf, class Add>
inline void sum_groups(const ShortRows& matrix, const Lane& start, LoadOf load, Add add) {
  const std::size_t columns = matrix.columns;
  const std::size_t all = columns * group;
  const bool side_by_side =
      matrix.row_stride == static_cast<std::ptrdiff_t>(columns * sizeof(Bits<type>));
  std::size_t row = 0;
  const auto add_packed = [&](auto vectors) {
    constexpr std::size_t kVectors = decltype(vectors)::value;
    if (!(side_by_side && all == kVectors * width)) return;
    for (; row + group <= matrix.rows; row += group) {
      add(row, group,
          sum_packed<type, Lane, width, kVectors>(matrix.row<type>(row), start, load));
    }
  };
  if (columns < width) {
    add_packed(std::integral_constant<std::size_t, 1>());
    add_packed(std::integral_constant<std::size_t, 2>());
    if constexpr (group > 4) add_packed(std::integral_constant<std::size_t, 4>());
    if constexpr (group > 8) add_packed(std::integral_constant<std::size_t, 8>());
  }
  for (; row < matrix.rows; row += group) {
    const std::size_t count = matrix.rows - row < group ? matrix.rows - row : group;
    add(row, count, sum_group<type, Lane, group, width>(matrix, row, start, load));
  }
}

// Sums of terms in one number each, of types of at most 24 bits, as long as nothing is rounded.
template <Term term>
struct Unrounded {
  Vector s{};

  void step(Vector x) { s = TermVectors<term>::add(x, s); }
  Vector high() const { return s; }
  Vector low() const { return Vector{}; }
  static Unrounded join(const Unrounded& a, const Unrounded& b) { return {a.s + b.s}; }
  template <class Part>
  static Unrounded pick(const Unrounded& a, const Unrounded& b) {
    return {Part::of(a.s, b.s)};
  }
};

// The same of float64 in two, of the upper 27 bits of terms and of what is left of them.
template <Term term>
struct UnroundedParts {
  static_assert(TermOf<term>::kDegree == 1);
  Vector s{};
  Vector c{};

  void step(Vector x) {
    Vector p, e;
    TermVectors<term>::split(x, p, e);
    const auto upper = (Vector)((Wide)p & 0xfffffffffc000000);
    s += upper;
    c += p - upper;
  }
  Vector high() const { return s; }
  Vector low() const { return c; }
  static UnroundedParts join(const UnroundedParts& a, const UnroundedParts& b) {
    return {a.s + b.s, a.c + b.c};
  }
  template <class Part>
  static UnroundedParts pick(const UnroundedParts& a, const UnroundedParts& b) {
    return {Part::of(a.s, b.s), Part::of(a.c, b.c)};
  }
};

// Elements that are summed again if anything was rounded.
constexpr std::size_t kChecked = 4096;

// Each element passes the steps of its lane, and those that join its numbers.
template <class Lane>
double factor_of_short(std::size_t columns) {
  return Lane::factor((columns - 1) / kWidth + 1 + ilog2(kWidth));
}

template <Type type, class Lane>
__attribute__((noinline)) void sum_short_rows_bounded(const ShortRows& matrix,
                                                      const Enclosures& enclosures,
                                                      bool fresh) {
  const double factor = factor_of_short<Lane>(matrix.columns);
  const Vector underflow = Vector{} + Lane::underflow(matrix.columns);
  sum_groups<type, Lane, kWidth, kWidth>(
      matrix, Lane(), Load<type>(), [&](std::size_t row, std::size_t count, const Lane& sum) {
        add_to_enclosures(enclosures + row, fresh, count, sum, sum.bound(factor, underflow));
      });
}

// Sums of which the bound is 0 as long as nothing is rounded. Else lanes of another kind, which
// have bounds, sum again; or, if there is no other kind, these have.
template <Type type, class Lane, class Second>
void sum_checked_rows(const ShortRows& matrix, const Enclosures& enclosures) {
  Inexact::clear();
  sum_groups<type, Lane, kWidth, kWidth>(
      matrix, Lane(), Load<type>(), [&](std::size_t row, std::size_t count, const Lane& sum) {
        add_to_enclosures(enclosures + row, true, count, sum, Vector{});
      });
  settle_memory();
  if (!Inexact::raised() && Inexact::is_kept()) return;
  if constexpr (std::is_same_v<Lane, Second>) {
    // Of terms that are not negative a sum is its mass.
    const double factor = factor_of_short<Lane>(matrix.columns);
    for (std::size_t i = 0; i < matrix.rows; ++i) {
      enclosures.bound[i] = enclosures.hi[i] * factor + Lane::underflow(matrix.columns);
    }
  } else {
    sum_short_rows_bounded<type, Second>(matrix, enclosures, true);
  }
}

template <Type type, class Lane, class Second>
void sum_short_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                    std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  constexpr std::size_t kRows = 256;
  const std::size_t wanted = kChecked / columns / kWidth * kWidth;
  const std::size_t most = wanted < kWidth ? kWidth : wanted < kRows ? wanted : kRows;
  for (std::size_t row = 0; row < rows; row += most) {
    const std::size_t some = rows - row < most ? rows - row : most;
    const auto* const first =
        reinterpret_cast<const std::byte*>(row_of<type>(data, row_stride, row));
    const ShortRows matrix = {first, row_stride, some, columns};
    if (fresh) {
      sum_checked_rows<type, Lane, Second>(matrix, enclosures + row);
      continue;
    }
    double hi[kRows], lo[kRows], bound[kRows];
    sum_checked_rows<type, Lane, Second>(matrix, {hi, lo, bound, nullptr});
    const Enclosures own = enclosures + row;
    for (std::size_t i = 0; i < some; ++i) {
      accumulate(own.hi[i], own.lo[i], own.bound[i], hi[i], lo[i], bound[i]);
    }
  }
}

// Sums of terms that are not negative, each of which is cut where a head above all sums of the
// row cuts it: into a multiple of q = 2^-52 of the head, and a rest of at most q. Proved in
// docs/exactness.md#one-head-for-some-rows.
template <Term term>
struct CutTerms {
  static_assert(!TermOf<term>::kIsSigned);
  Vector head{};
  Vector s{};
  Vector c{};

  void step(Vector x) { s += add_to_head<term>(x, head, c) - head; }
  Vector high() const { return s; }
  Vector low() const { return c; }
  static CutTerms join(const CutTerms& a, const CutTerms& b) {
    return {a.head, a.s + b.s, a.c + b.c};
  }
  template <class Part>
  static CutTerms pick(const CutTerms& a, const CutTerms& b) {
    return {a.head, Part::of(a.s, b.s), Part::of(a.c, b.c)};
  }

  // Whether the head was above each sum, and not so far that bits are lacking.
  bool fits() const { return !has_any(~((Mask)(s < head) & (Mask)(s >= head * 0x1p-20))); }
  // Of n terms, the rests of which pass at most h additions each.
  Vector bound(std::size_t n, std::size_t h) const {
    const double errors = static_cast<double>((h + 2) * n) * kU;
    return head * (errors * 0x1p-52) + TermVectors<term>::kUnderflow * static_cast<double>(n);
  }
};

// One head for some rows after another, until it does not fit: these are summed as others are,
// and of their sums comes the next.
template <Term term, Type type>
void sum_short_rows_cut(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                        std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  using Biased = SumRowBiased<term, type>;
  const std::size_t additions = (columns - 1) / kWidth + 1 + ilog2(kWidth);
  CutTerms<term> start;  // no head, which fits nothing
  const ShortRows matrix = {data, row_stride, rows, columns};
  const auto add = [&](std::size_t row, std::size_t count, const CutTerms<term>& sum) {
    if (sum.fits()) {
      add_to_enclosures(enclosures + row, fresh, count, sum, sum.bound(columns, additions));
      return;
    }
    const auto* const first = reinterpret_cast<const std::byte*>(matrix.row<type>(row));
    sum_short_rows_bounded<type, Compensated<term>>({first, row_stride, count, columns},
                                                    enclosures + row, fresh);
    double most = 0;
    for (std::size_t i = row; i < row + count; ++i) {
      if (enclosures.hi[i] > most) most = enclosures.hi[i];
    }
    start.head = Vector{} + Biased::head_for(most * 64);
  };
  sum_groups<type, CutTerms<term>, kWidth, kWidth>(matrix, start, Load<type>(), add);
}

template <Term term, Type type>
void sum_short_rows_narrow(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                           std::size_t columns, const Enclosures& enclosures, bool fresh,
                           void*) {
  using Lane = Binary32<term, type>;
  const double factor = Lane::factor((columns - 1) / kNarrowWidth + ilog2(kNarrowWidth));
  const Vector underflow = Vector{} + Lane::underflow(columns);
  sum_groups<type, Lane, kNarrowWidth, kNarrowWidth>(
      {data, row_stride, rows, columns}, Lane(), LoadNarrow<type>(),
      [&](std::size_t row, std::size_t count, const Lane& sum) {
        const Plain<term> low = sum.low();
        const Plain<term> high = sum.high();
        const std::size_t first = count < kWidth ? count : kWidth;
        add_to_enclosures(enclosures + row, fresh, first, low, low.bound(factor, underflow));
        add_to_enclosures(enclosures + (row + kWidth), fresh, count - first, high,
                          high.bound(factor, underflow));
      });
}

// Short rows by one kernel, others by another.
template <Function short_rows, Function long_rows>
void sum_all_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, const Enclosures& enclosures, bool fresh,
                  void* scratch) {
  (columns < kShortRow ? short_rows : long_rows)(data, row_stride, rows, columns, enclosures,
                                                 fresh, scratch);
}

// Columns of few rows: `Lane` as long as nothing is rounded; they, and others, by `otherwise`.
template <Type type, class Lane, Function otherwise>
void sum_few_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, const Enclosures& enclosures, bool fresh,
                  void* scratch) {
  constexpr std::size_t kFewRows = 64;
  if (rows <= kFewRows && Inexact::is_kept()) {
    static_assert(sizeof(Lane) <= kLaneBytes * kWidth);
    auto* const lanes = static_cast<Lane*>(scratch);
    Inexact::clear();
    pass_all<type, SumColumns<type, Lane>>(data, row_stride, rows, columns, true, lanes);
    settle_memory();
    if (!Inexact::raised()) {
      for (std::size_t j = 0; j < columns; j += kWidth) {
        const std::size_t count = columns - j < kWidth ? columns - j : kWidth;
        add_to_enclosures(enclosures + j, fresh, count, lanes[j / kWidth], Vector{});
      }
      return;
    }
  }
  otherwise(data, row_stride, rows, columns, enclosures, fresh, scratch);
}

}  // namespace
}  // namespace halfulp
