// Sums of signed terms, in two numbers of which the first is an exact integer, and the second
// is exact too unless elements are of very different sizes. Then nothing is rounded and the
// bound is 0, so that sums that cancel, and ties, are known at once.
//
// A lane has a head a, which starts at 1.5 * 2^K and stays within [2^K, 2^(K + 1)], so that it
// is an integer number of times q = 2^(K - p + 1), p the precision of its numbers. With s =
// fl(a + x) the rest x - (s - a), at most q / 2, is exact, and is added to c. Let |x| < 2^E,
// all x multiples of 2^L, and a lane have at most 2^N steps:
//   K = E + N + 1: the head moves by at most 2^(E + N), half of its room.
//   |c| <= 2^(N + K - p), in multiples of 2^L: exact if that is at most 2^(L + p).
// E is a guess, the one of what was summed before. The greatest magnitude is found meanwhile,
// so that what did not fit is summed again; and the least one, which tells L. Proved in
// docs/exactness.md#two-folds.
//
// May include columns.h, extremes.h, folds.h, rows.h and what they include only. Internal
// linkage: see simd.h.
#pragma once

#include <limits>
#include <type_traits>

#include "columns.h"
#include "extremes.h"
#include "folds.h"
#include "rows.h"

namespace halfulp {
namespace {

template <class V>
struct TwoFolds {
  V a;
  V c{};

  void start(V head) {
    a = 1.5f * head;
    c = V{};
  }
  void step(V x) {
    // Half of the sums as products with 1, which other units of a processor do.
    const V s = a + x;
    c = multiply_add(x - multiply_add(a, V{} - 1, s), V{} + 1, c);
    a = s;
  }
};

// What is known of elements that were summed so, as exponents.
template <Term term, Type type, class V>
struct TwoFoldsOf {
  static_assert(TermOf<term>::kIsSigned && is_exact(term, type, Type::float64));
  static constexpr bool kNarrow = sizeof(V{}[0]) == 4;
  static constexpr int kPrecision = kNarrow ? 24 : 53;
  // 2^-p, and bits that joining lanes takes: lanes of binary32 are joined in binary64.
  static constexpr double kRoundoff = kNarrow ? kU32 : kU;
  static constexpr int kJoinBits = kNarrow ? 0 : 8;
  // Of K: q and the bound are normal numbers, and 2^(K + 1) is finite.
  static constexpr int kLeastHead = kNarrow ? -90 : -800;
  static constexpr int kMostHead = kNarrow ? 126 : 1022;
  static constexpr std::size_t kWide = sizeof(V) / sizeof(V{}[0]);

  static int head_for(int over, int log_steps) {
    const int head = over + log_steps + 1;
    return head < kLeastHead ? kLeastHead : head;
  }
  // E of infinity and NaN, which never fit.
  static constexpr int kNotFinite = format_of(type).emax + 2;
  static bool has_head(int over, int log_steps) {
    return over <= kNotFinite && head_for(over, log_steps) <= kMostHead;
  }
  // Whether the sum stays that was made with `over`, as E was found to be `found`: if it was
  // much greater, another may be exact.
  static bool fits(int over, int found, bool exact) {
    return found <= over && found < kNotFinite && (exact || over <= found + 1);
  }
  // E, from the greatest magnitude.
  static int over_of(std::int64_t most) {
    return Fold<term, type>::exponent(static_cast<std::uint64_t>(most)) + 1;
  }
  static bool is_exact_sum(int head, int log_steps, std::int64_t least) {
    return log_steps + head + kJoinBits - 2 * kPrecision <= Fold<term, type>::unit_for(least);
  }
  // c errs by at most 2^-p of itself in each of so many steps, and joins: less than
  // (steps + 20)^2 * 2^-p * q for each of `lanes` lanes.
  static double bound_of(int head, std::size_t steps, std::size_t lanes) {
    const double more = static_cast<double>(steps + 20);
    return more * more * static_cast<double>(lanes) * kRoundoff *
           head_of(head - kPrecision + 1);
  }
};

// A sum of a row. The mass of its lane is the bound itself.
template <Term term, Type type, class V>
struct SumRowTwoFolds {
  using F = TwoFoldsOf<term, type, V>;
  using Lane = std::conditional_t<F::kNarrow, Plain<term>, Compensated<term>>;
  using E = Extremes<type>;
  static constexpr std::size_t kFolds = 4;
  static constexpr std::size_t kNumbers = E::kColumns / F::kWide;
  static constexpr std::size_t kStride = kFolds * F::kWide;
  static constexpr std::size_t kMaxColumns = 128 * kStride;

  static std::size_t depth(std::size_t) { return 0; }
  static double factor(std::size_t) { return 1; }

  Lane operator()(const Bits<type>* x, std::size_t n, double& absolute) {
    absolute = 0;
    const std::size_t steps = (n + kStride - 1) / kStride;
    const int log_steps = static_cast<int>(ilog2(2 * steps - 1));
    if (over_ == kUnknown) guess(x, n < kStride ? n : kStride);
    for (;;) {
      const int head = F::head_for(over_, log_steps);
      if (!F::has_head(over_, log_steps)) return sum_otherwise(x, n);
      TwoFolds<V> folds[kFolds];
      const V start = V{} + static_cast<decltype(+V{}[0])>(head_of(head));
      const Extremes<type> found = sum(x, n, start, folds);
      std::int64_t least, most;
      found.join(least, most);
      const int over = F::over_of(most);
      const bool exact = F::is_exact_sum(head, log_steps, least);
      if (F::fits(over_, over, exact)) {
        Lane lane = join(folds, start);
        lane.set_size(Vector{exact ? 0 : F::bound_of(head, steps, kStride)});
        return lane;
      }
      over_ = over + 1;
    }
  }

 private:
  static constexpr int kUnknown = std::numeric_limits<int>::min();
  // E, one more than what it was found to be: elements of the next row may be larger.
  int over_ = kUnknown;

  void guess(const Bits<type>* x, std::size_t n) {
    std::int64_t least, most;
    find_extremes<type, true>(x, n, least, most);
    over_ = F::over_of(most) + 1;
  }

  // NaN, infinities, and what is too large for a head.
  Lane sum_otherwise(const Bits<type>* x, std::size_t n) {
    using Row = SumRow<type, Lane>;
    over_ = kUnknown;
    static_assert(kMaxColumns <= Row::kMaxColumns);
    double absolute;
    Lane lane = Row()(x, n, absolute);
    lane.set_size(lane.bound(Row::factor(Row::depth(n) + ilog2(kWidth)), Vector{} + absolute));
    return lane;
  }

  static Extremes<type> sum(const Bits<type>* x, std::size_t n, V start,
                            TwoFolds<V> (&folds)[kFolds]) {
    E found;
    for (TwoFolds<V>& fold : folds) fold.start(start);
    for (; n >= kStride; n -= kStride, x += kStride) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kFolds; i += kNumbers) {
        step(x + i * F::kWide, found, folds + i);
      }
    }
    for (std::size_t i = 0; n > 0; i += kNumbers, x += E::kColumns) {
      if (n < E::kColumns) {
        const Padded<E::kColumns, Bits<type>> padded(x, n);
        step(padded.elements, found, folds + i);
        break;
      }
      step(x, found, folds + i);
      n -= E::kColumns;
    }
    return found;
  }

  static void step(const Bits<type>* x, E& found, TwoFolds<V>* folds) {
    found.step(load_vector<typename E::Integers>(x));
    if constexpr (F::kNarrow) {
      Narrow two[2];
      load_two_narrow<type>(x, two);
      folds[0].step(two[0]);
      folds[1].step(two[1]);
    } else {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kNumbers; ++i) folds[i].step(load<type>(x + i * kWidth));
    }
  }

  static Lane join(const TwoFolds<V> (&folds)[kFolds], V start) {
    if constexpr (F::kNarrow) {
      Vector high{}, low{};
      for (const TwoFolds<V>& fold : folds) {
        const V a = fold.a - 1.5f * start;
        high += widen_low(a) + widen_high(a);
        low += widen_low(fold.c) + widen_high(fold.c);
      }
      return {{}, high + low};
    } else {
      Lane lanes[kFolds];
      for (std::size_t i = 0; i < kFolds; ++i) {
        lanes[i] = {{}, folds[i].a - 1.5f * start, folds[i].c};
      }
      return Lane::join(Lane::join(lanes[0], lanes[1]), Lane::join(lanes[2], lanes[3]));
    }
  }
};

// Columns, in groups of a vector of elements that have one head.
template <Term term, Type type, class V>
struct SumColumnsTwoFolds {
  using F = TwoFoldsOf<term, type, V>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = Extremes<type>::kColumns;
  static constexpr std::size_t kLanesPerGroup = 1;
  static constexpr std::size_t kMaxRows = 128;
  static constexpr std::size_t kNumbers = kColumns / F::kWide;
  struct Lane {
    TwoFolds<V> folds[kNumbers];
    Extremes<type> found;
  };

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    Lane lane = *lanes;
    for (std::size_t row = 0; row < rows; ++row) {
      const Bits<type>* x = get(row);
      lane.found.step(load_vector<typename Extremes<type>::Integers>(x));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kNumbers; ++i) {
        if constexpr (F::kNarrow) {
          lane.folds[i].step(load_narrow<type>(x + i * kNarrowWidth));
        } else {
          lane.folds[i].step(load<type>(x + i * kWidth));
        }
      }
    }
    *lanes = lane;
  }
};

// One block of at most kMaxRows rows of columns; `over` is E of each group, as SumRowTwoFolds
// has it.
template <Term term, Type type, class V>
struct BlockOfColumns {
  using Sum = SumColumnsTwoFolds<term, type, V>;
  using F = typename Sum::F;
  using Lane = typename Sum::Lane;
  const std::byte* data;
  std::ptrdiff_t row_stride;
  std::size_t rows;
  std::size_t columns;
  Lane* lanes;
  std::int16_t* over;
  int log_steps;

  // Sums `n` columns from j on.
  void sum(std::size_t j, std::size_t n) const {
    for (std::size_t g = j / Sum::kColumns; g * Sum::kColumns < j + n; ++g) {
      lanes[g].found = {};
      for (TwoFolds<V>& fold : lanes[g].folds) fold.start(start_of(g));
    }
    pass_all<type, Sum>(data + j * sizeof(Bits<type>), row_stride, rows, n, false,
                        lanes + j / Sum::kColumns);
  }

  // Adds the sums of the group of column j to enclosures, once they fit.
  void finish(std::size_t j, const Enclosures& enclosures, bool fresh) const {
    const std::size_t g = j / Sum::kColumns;
    const std::size_t n = columns - j < Sum::kColumns ? columns - j : Sum::kColumns;
    bool exact;
    for (;;) {
      std::int64_t least, most;
      lanes[g].found.join(least, most);
      const int found = F::over_of(most);
      exact = F::is_exact_sum(head(g), log_steps, least);
      if (has_head(g) && F::fits(over[g], found, exact)) break;
      over[g] = static_cast<std::int16_t>(found + 1);
      if (!has_head(g)) return sum_otherwise(j, n, enclosures, fresh);
      sum(j, n);
    }
    const Vector bound = Vector{} + (exact ? 0 : F::bound_of(head(g), rows, 1));
    const V middle = 1.5f * start_of(g);
    for (std::size_t i = 0; i < Sum::kNumbers; ++i) {
      const TwoFolds<V>& fold = lanes[g].folds[i];
      if constexpr (F::kNarrow) {
        const V a = fold.a - middle;
        add(enclosures, fresh, j, n, 2 * i, widen_low(a) + widen_low(fold.c), Vector{}, bound);
        add(enclosures, fresh, j, n, 2 * i + 1, widen_high(a) + widen_high(fold.c), Vector{},
            bound);
      } else {
        add(enclosures, fresh, j, n, i, fold.a - middle, fold.c, bound);
      }
    }
  }

  // E of each group as in the first rows.
  void guess() const {
    const std::size_t few = rows < 4 ? rows : 4;
    for (std::size_t j = 0; j < columns; j += Sum::kColumns)
      lanes[j / Sum::kColumns].found = {};
    pass<type, Guess>(data, row_stride, few, columns, 0, false, lanes);
    for (std::size_t j = 0; j < columns; j += Sum::kColumns) {
      std::int64_t least, most;
      lanes[j / Sum::kColumns].found.join(least, most);
      over[j / Sum::kColumns] = static_cast<std::int16_t>(F::over_of(most) + 1);
    }
  }

 private:
  struct Guess : Sum {
    template <class Get>
    static void add(Lane* lanes, bool, std::size_t few, Get get) {
      for (std::size_t row = 0; row < few; ++row) {
        lanes->found.step(load_vector<typename Extremes<type>::Integers>(get(row)));
      }
    }
  };

  bool has_head(std::size_t g) const { return F::has_head(over[g], log_steps); }
  int head(std::size_t g) const { return F::head_for(over[g], log_steps); }

  V start_of(std::size_t g) const {
    return V{} + static_cast<decltype(+V{}[0])>(has_head(g) ? head_of(head(g)) : 1);
  }

  static void add(const Enclosures& enclosures, bool fresh, std::size_t j, std::size_t n,
                  std::size_t i, Vector s, Vector c, Vector bound) {
    const std::size_t begin = i * kWidth;
    if (begin >= n) return;
    const std::size_t count = n - begin < kWidth ? n - begin : kWidth;
    add_to_enclosures(enclosures + (j + begin), fresh, count, Compensated<term>{{}, s, c},
                      bound);
  }

  void sum_otherwise(std::size_t j, std::size_t n, const Enclosures& enclosures,
                     bool fresh) const {
    using Other = SumColumns<type, Compensated<term>>;
    typename Other::Lane others[Sum::kColumns / kWidth];
    sum_columns<type, Other>(data + j * sizeof(Bits<type>), row_stride, rows, n, enclosures + j,
                             fresh, others);
  }
};

template <Term term, Type type, class V>
void sum_columns_two_folds(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                           std::size_t columns, const Enclosures& enclosures, bool fresh,
                           void* scratch) {
  using Sum = SumColumnsTwoFolds<term, type, V>;
  using Lane = typename Sum::Lane;
  const std::size_t groups = (columns + Sum::kColumns - 1) / Sum::kColumns;
  static_assert(sizeof(Lane) + sizeof(std::int16_t) <= kLaneBytes * Sum::kColumns);
  auto* lanes = static_cast<Lane*>(scratch);
  auto* over = reinterpret_cast<std::int16_t*>(lanes + groups);
  for (std::size_t begin = 0; begin < rows; begin += Sum::kMaxRows) {
    const std::size_t n = rows - begin < Sum::kMaxRows ? rows - begin : Sum::kMaxRows;
    const BlockOfColumns<term, type, V> block = {
        data + static_cast<std::ptrdiff_t>(begin) * row_stride,
        row_stride,
        n,
        columns,
        lanes,
        over,
        static_cast<int>(ilog2(2 * n - 1))};
    if (begin == 0) block.guess();
    block.sum(0, columns);
    for (std::size_t j = 0; j < columns; j += Sum::kColumns) {
      block.finish(j, enclosures, fresh && begin == 0);
    }
  }
}

}  // namespace
}  // namespace halfulp
