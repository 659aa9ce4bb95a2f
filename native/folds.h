// Kernels of Method::exact: sums of squares without any rounding.
//
// Floats. Each lane has a few binary64 accumulators, the folds, of falling exponents. Fold f
// starts at a power of two M_f = 2^K_f (f > 0: 1.5 times that, for terms of either sign) and
// never leaves [2^K_f, 2^(K_f + 1)], so that it is M_f and an integer number of times
// q_f = 2^(K_f - 52). Adding a term v to a fold a, s = fl(a + v), takes the multiple s - a of
// q_f off v, exactly; v - (s - a), at most q_f / 2, is exact too (Dekker) and goes to the next
// fold. The last fold is as fine as the grid on which all squares lie, and nothing is left.
//
// Let n = 2^kLogSteps, the most terms of a lane, |x| < 2^E and all x multiples of 2^L. The
// least and the greatest magnitude tell E and L before anything is added.
//   K_0 = 2E + kLogSteps: n squares, each rounded to at most 2^(2E), sum up to at most M_0.
//   Types of 24 bits, whose squares are exact: at most n remainders of q_(f-1) / 2 each, and
//   n roundings of q_f / 2, come to fold f. With K_f = K_(f-1) - 51 + kLogSteps they
//   sum up to n q_(f-1) = 2^(K_f - 1) at most.
//   float64: fold 1 gets a rest of each product besides, below q_0 / 2 by far, and every
//   later fold so gets two remainders a term: K_f = K_(f-1) - 50 + kLogSteps.
// So all is exact if K_f - 52 <= 2L for the last f, and no exponent leaves binary64.
//
// Integers. Squares are split into halves of 32 bits, which sum up in 64.
//
// May include dispatch.h, columns.h, lanes.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include <limits>

#include "columns.h"
#include "dispatch.h"
#include "lanes.h"

namespace halfulp {
namespace {

constexpr int kLogSteps = 8;
static_assert(kExactRows == 1 << kLogSteps);

template <Type type>
struct Fold {
  static constexpr Format kFormat = format_of(type);
  static constexpr int kStep = part_step(type);
  static_assert(kStep == (type == Type::float64 ? kLogSteps - 50 : kLogSteps - 51));
  // float16 needs two whatever the values.
  static constexpr std::size_t kMost =
      type == Type::float64 ? 4 : (type == Type::float16 ? 2 : 3);

  // Exponents of magnitudes, as integers: |x| is a multiple of 2^(exponent - p + 1), and
  // below 2^(exponent + 1). That of infinity and NaN is beyond emax.
  static constexpr int exponent(std::uint64_t magnitude) {
    const int field = static_cast<int>(magnitude >> (kFormat.precision - 1));
    return (field > 1 ? field : 1) - kFormat.emax;
  }

  // 2L, from the least magnitude but 0, less 1. Of zeros alone any grid will do.
  static constexpr int grid_of(std::int64_t least) {
    return 2 * (exponent(std::uint64_t{1} + static_cast<std::uint64_t>(least)) -
                kFormat.precision + 1);
  }

  // K_0, from the greatest magnitude. Of zeros alone any will do.
  static constexpr int head_for(std::int64_t most) {
    return most == 0 ? 0 : 2 * (exponent(static_cast<std::uint64_t>(most)) + 1) + kLogSteps;
  }
  // What a head of finite numbers never reaches.
  static constexpr int kTooHigh = type == Type::float64
                                      ? 1023
                                      : 2 * (kFormat.emax + 2) + kLogSteps;

  // The folds that it takes for K_0 = head; kMost + 1 if there are none.
  static std::size_t needed(int head, int grid) {
    std::size_t folds = 2;
    for (std::size_t f = 1; f < kMost; ++f) {
      folds += head + static_cast<int>(f) * kStep - 52 > grid;
    }
    bool fits = head < kTooHigh;
    if (type == Type::float64) {
      // Rests of products are multiples of 2^-1074, and folds and their q normal numbers.
      const int last = head + static_cast<int>(folds - 1) * kStep - 52;
      fits = fits && grid >= -1074 && last >= -1022;
    }
    return fits ? folds : kMost + 1;
  }
};

// Two folds hold all of float16's range.
constexpr int kFloat16Head = 2 * (Fold<Type::float16>::kFormat.emax + 1) + kLogSteps;
static_assert(kFloat16Head + Fold<Type::float16>::kStep - 52 <=
              2 * Fold<Type::float16>::kFormat.least_exponent());

inline double head_of(int exponent) {
  return bits_to_double(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

template <Type type, std::size_t folds>
struct FoldLane {
  Vector a[folds];

  void start(Vector head) {
    a[0] = head;
    for (std::size_t f = 1; f < folds; ++f) {
      a[f] = head * (head_of(static_cast<int>(f) * Fold<type>::kStep) * 1.5);
    }
  }

  void step(Vector x) {
    if constexpr (type == Type::float64) {
      Vector p, e;
      square(x, p, e);
      step_exact(p);
      put(e);
    } else {
      // The square is exact, and so is its remainder: fused or not, it is the same.
      const Vector s = square_add(x, a[0]);
      const Vector t = square_add(x, a[0] - s);
      a[0] = s;
      put(t);
    }
  }

  // Adds a square or several, known exactly.
  void step_exact(Vector p) {
    const Vector s = a[0] + p;
    const Vector t = p - (s - a[0]);
    a[0] = s;
    put(t);
  }

  // Whether fold 0 kept its exponent. Terms are not negative, so then it always did.
  Mask fits(Vector head) const { return (Mask)(a[0] <= head + head); }

  // How many times q_f fold f holds.
  Wide multiple(std::size_t f, Vector head) const {
    FoldLane begin;
    begin.start(head);
    return (Wide)a[f] - (Wide)begin.a[f];
  }

 private:
  void put(Vector v) {
#pragma GCC unroll 4
    for (std::size_t f = 1; f + 1 < folds; ++f) {
      const Vector s = a[f] + v;
      v -= s - a[f];
      a[f] = s;
    }
    a[folds - 1] += v;
  }
};

// The least magnitude that is not 0, less 1, and the greatest one, as integers.
template <Type type>
struct Extremes {
  using Integers = typename SignedOf<sizeof(Bits<type>)>::Lanes;
  using Integer = typename SignedOf<sizeof(Bits<type>)>::Lane;
  static constexpr std::size_t kColumns = kVectorBytes / sizeof(Integer);
  static constexpr Integer kMask = std::numeric_limits<Integer>::max();

  Integers least = Integers{} + kMask;
  Integers most{};

  template <bool both = true>
  void step(Integers x) {
    least = smaller(least, (x - 1) & kMask);  // of 0: kMask
    if (both) most = greater(most, x & kMask);
  }
};

// Of a half type some squares are summed first, in binary64 alone. That is exact if the sums,
// multiples of 2^(2L), stay below 2^(2L + 53).
constexpr std::size_t kSummed = 8;

struct SumsFirst {
  Vector most{};

  // Whether it is worth a try: a square may be so large.
  template <Type type>
  static constexpr bool may_do(int head, int grid) {
    return sizeof(Bits<type>) == 2 && head - kLogSteps <= grid + 53;
  }

  void note(Vector sum) { most = most > sum ? most : sum; }
  Mask exact(Vector limit) const { return (Mask)(most <= limit); }
};

constexpr std::size_t kFoldLanes = kWidth == 2 ? 8 : 4;
constexpr std::size_t kFoldStride = kFoldLanes * kWidth;
static_assert(kExactColumns <= kFoldStride << kLogSteps);

template <Type type, std::size_t folds, bool summed>
struct FoldRow {
  FoldLane<type, folds> lanes[kFoldLanes];
  SumsFirst first[kFoldLanes];

  // Adds kSummed * kFoldStride elements of a half type. Loads that widen once more are
  // cheap, conversions between registers are not.
  void add_halves(const std::uint16_t* x) {
    alignas(64) std::uint32_t wide[kSummed * kFoldStride];
    for (std::size_t i = 0; i < kSummed * kFoldStride; i += kNarrowWidth) {
      if (i * sizeof *x % 64 == 0) prefetch(x + i);
      store_vector(wide + i, load_narrow<type>(x + i));
    }
    __asm__("" : "+m"(wide));  // else the compiler keeps it in registers
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kFoldLanes; ++i) {
      Vector p{};
#pragma GCC unroll 8
      for (std::size_t k = 0; k < kSummed; ++k) {
        const Vector v = load<Type::float32>(wide + (k * kFoldLanes + i) * kWidth);
        if constexpr (summed) {
          p = square_add(v, p);
        } else {
          lanes[i].step(v);
        }
      }
      if constexpr (summed) {
        first[i].note(p);
        lanes[i].step_exact(p);
      }
    }
  }

  // Sets the parts of one output; returns whether they are right.
  bool operator()(const Bits<type>* x, std::size_t n, int head_exponent, int grid,
                  const Parts& parts) {
    const Vector head = Vector{} + head_of(head_exponent);
    for (auto& lane : lanes) lane.start(head);
    if constexpr (sizeof *x == 2) {
      constexpr std::size_t kBlock = kSummed * kFoldStride;
      for (; n >= kBlock; n -= kBlock, x += kBlock) add_halves(x);
    }
    for (; n >= kFoldStride; n -= kFoldStride, x += kFoldStride) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kFoldLanes; ++i) lanes[i].step(load<type>(x + i * kWidth));
    }
    std::size_t i = 0;
    for (; n >= kWidth; ++i, n -= kWidth, x += kWidth) lanes[i].step(load<type>(x));
    if (n > 0) lanes[i].step(load_part<type>(x, n));
    Mask fits = lanes[0].fits(head);
    for (i = 1; i < kFoldLanes; ++i) fits &= lanes[i].fits(head);
    if constexpr (summed) {
      for (const SumsFirst& sums : first) fits &= sums.exact(Vector{} + head_of(grid + 53));
    }
    bool all = true;
    for (i = 0; i < kWidth; ++i) all &= fits[i] != 0;
    for (std::size_t f = 0; f < folds; ++f) {
      Wide sum = lanes[0].multiple(f, head);
      for (i = 1; i < kFoldLanes; ++i) sum += lanes[i].multiple(f, head);
      std::uint64_t total = 0;
      for (i = 0; i < kWidth; ++i) total += sum[i];
      parts.part[f][0] = static_cast<std::int64_t>(total);
    }
    for (std::size_t f = folds; f < Fold<type>::kMost; ++f) parts.part[f][0] = 0;
    parts.exponent[0] = head_exponent - 52;
    return all;
  }
};

// Joins neighbouring lanes of integers >= 0 until they are of 64 bits.
template <class V, class Join>
inline Mask join_lanes(V v, Join join) {
  constexpr std::size_t kBytes = sizeof v[0];
  if constexpr (kBytes == 8) {
    return (Mask)v;
  } else {
    using Twice = typename SignedOf<2 * kBytes>::Lanes;
    const auto pairs = (Twice)v;
    const Twice high = pairs >> 8 * kBytes;
    return join_lanes(join(pairs - (high << 8 * kBytes), high), join);
  }
}

// The least magnitude of n elements that is not 0, less 1; and the greatest, if `both`.
template <Type type, bool both>
void find_extremes(const Bits<type>* x, std::size_t n, std::int64_t& least,
                   std::int64_t& most) {
  using E = Extremes<type>;
  using Integers = typename E::Integers;
  E some[2];
  for (; n >= 2 * E::kColumns; n -= 2 * E::kColumns, x += 2 * E::kColumns) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (i * kVectorBytes % 64 == 0) prefetch(x + i * E::kColumns);
      some[i].template step<both>(load_vector<Integers>(x + i * E::kColumns));
    }
  }
  for (; n > 0; x += E::kColumns) {
    const std::size_t count = n < E::kColumns ? n : E::kColumns;
    Integers part;
    if (count == E::kColumns) {
      part = load_vector<Integers>(x);
    } else {
      part = load_vector<Integers>(Padded<E::kColumns, Bits<type>>(x, count).elements);
    }
    some[0].template step<both>(part);
    n -= count;
  }
  const Integers lows = smaller(some[0].least, some[1].least);
  const Integers highs = greater(some[0].most, some[1].most);
  const auto low = join_lanes(lows, [](auto a, auto b) { return smaller(a, b); });
  const auto high = join_lanes(highs, [](auto a, auto b) { return greater(a, b); });
  least = low[0];
  most = high[0];
  for (std::size_t i = 1; i < kWidth; ++i) {
    least = low[i] < least ? low[i] : least;
    most = high[i] > most ? high[i] : most;
  }
}

// `head` is K_0 of the row before, a guess that saves finding the greatest element; kNoHead
// if there is none.
constexpr int kNoHead = std::numeric_limits<int>::min();

template <Type type>
void exact_row(const Bits<type>* x, std::size_t n, const Parts& parts, int& head) {
  using F = Fold<type>;
  std::int64_t least, most;
  for (bool guessed = sizeof *x > 2 && head != kNoHead;; guessed = false) {
    if (guessed) {
      find_extremes<type, false>(x, n, least, most);
    } else {
      find_extremes<type, true>(x, n, least, most);
      head = F::head_for(most);
    }
    const int grid = F::grid_of(least);
    const std::size_t folds = F::needed(head, grid);
    bool exact = false;
    if constexpr (sizeof *x == 2) {
      if (folds == 2 && SumsFirst::may_do<type>(head, grid)) {
        exact = FoldRow<type, 2, true>()(x, n, head, grid, parts);
      }
    }
    if (exact) return;
    if (folds == 2) {
      exact = FoldRow<type, 2, false>()(x, n, head, grid, parts);
    } else if (folds == 3) {
      if constexpr (F::kMost >= 3) exact = FoldRow<type, 3, false>()(x, n, head, grid, parts);
    } else if (folds == 4) {
      if constexpr (F::kMost == 4) exact = FoldRow<type, 4, false>()(x, n, head, grid, parts);
    }
    if (exact) return;
    if (!guessed) break;
  }
  parts.exponent[0] = kNotExact;
  head = kNoHead;
}

template <Type type>
std::size_t exact_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                       std::size_t columns, const Parts& parts, void*) {
  int head = kNoHead;
  for (std::size_t row = 0; row < rows; ++row) {
    exact_row<type>(row_of<type>(data, row_stride, row), columns, parts + row, head);
  }
  return Fold<type>::kMost;
}

template <Type type>
struct ExtremesOfColumns {
  using Lane = Extremes<type>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = Lane::kColumns;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) {
      lane.step(load_vector<typename Lane::Integers>(get(row)));
    }
    *lanes = lane;
  }
};

template <Type type, std::size_t folds, bool summed>
struct FoldColumns {
  struct Lane : FoldLane<type, folds>, SumsFirst {};
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    static_assert(kRowsPerPass <= kSummed);
    Lane lane = *lanes;
    if constexpr (summed) {
      Vector p{};
      for (std::size_t row = 0; row < rows; ++row) p = square_add(load<type>(get(row)), p);
      lane.note(p);
      lane.step_exact(p);
    } else {
      for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    }
    *lanes = lane;
  }
};

template <Type type, std::size_t folds, bool summed>
std::size_t fold_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, const Parts& parts, const double* heads,
                         const double* limits, void* scratch) {
  using Sum = FoldColumns<type, folds, summed>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    lanes[j / kWidth].start(load_vector<Vector>(heads + j));
    lanes[j / kWidth].most = Vector{};
  }
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    const auto& lane = lanes[j / kWidth];
    const Vector head = load_vector<Vector>(heads + j);
    for (std::size_t f = 0; f < folds; ++f) {
      store_vector(parts.part[f] + j, lane.multiple(f, head));
    }
    if constexpr (sizeof(Bits<type>) == 2) {
      Mask fits = lane.fits(head);
      if (summed) fits &= lane.exact(load_vector<Vector>(limits + j));
      for (std::size_t i = 0; i < kWidth && j + i < columns; ++i) {
        if (!fits[i]) parts.exponent[j + i] = kNotExact;
      }
    }
  }
  return folds;
}

template <Type type>
std::size_t exact_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                          std::size_t columns, const Parts& parts, void* scratch) {
  using F = Fold<type>;
  const std::size_t room = (columns + 63) / 64 * 64;
  auto* heads = static_cast<double*>(scratch);
  double* const limits = heads + room;
  void* const rest = limits + room;
  std::size_t folds = 2;
  std::size_t summable = 0;
  if constexpr (type == Type::float16) {
    for (std::size_t j = 0; j < columns; ++j) {
      heads[j] = head_of(kFloat16Head);
      parts.exponent[j] = kFloat16Head - 52;
    }
  } else {
    using Lane = Extremes<type>;
    auto* extremes = static_cast<Lane*>(rest);
    pass_all<type, ExtremesOfColumns<type>>(data, row_stride, rows, columns, true, extremes);
    for (std::size_t j = 0; j < columns; ++j) {
      const Lane& lane = extremes[j / Lane::kColumns];
      const int grid = F::grid_of(lane.least[j % Lane::kColumns]);
      const int head = F::head_for(lane.most[j % Lane::kColumns]);
      const std::size_t needed = F::needed(head, grid);
      const bool fits = needed <= F::kMost;
      heads[j] = head_of(fits ? head : 0);
      parts.exponent[j] = fits ? head - 52 : kNotExact;
      if (fits && needed > folds) folds = needed;
      if constexpr (sizeof(Bits<type>) == 2) {
        summable += SumsFirst::may_do<type>(head, grid);
        limits[j] = head_of(grid + 53);
      }
    }
  }
  for (std::size_t j = columns; j < room; ++j) heads[j] = limits[j] = 1;
  const auto fold = [&](auto function) {
    return function(data, row_stride, rows, columns, parts, heads, limits, rest);
  };
  if constexpr (sizeof(Bits<type>) == 2) {
    if (folds == 2 && summable == columns) return fold(&fold_columns<type, 2, true>);
  }
  if constexpr (F::kMost == 4) {
    if (folds == 4) return fold(&fold_columns<type, 4, false>);
  }
  if constexpr (F::kMost >= 3) {
    if (folds == 3) return fold(&fold_columns<type, 3, false>);
  }
  return fold(&fold_columns<type, 2, false>);
}

// Squares of kElements integers, in halves of 32 bits.
template <Type type>
struct Halves {
  static constexpr std::size_t kMost = format_of(type).bytes == 4 ? 2 : 4;
  Wide half[kParts<type>][kMost] = {};

  void step(Wide x) {
    if constexpr (kMost == 2) {
      for (std::size_t part = 0; part < kParts<type>; ++part) {
        const Wide square = square_part<type>(x, part);
        half[part][0] += square & 0xffffffff;
        half[part][1] += square >> 32;
      }
    } else {
      if constexpr (format_of(type).is_signed) {
        const Wide sign = (Wide)((Mask)x >> 63);
        x = (x ^ sign) - sign;
      }
      const Wide high = x >> 32;
      const Wide low_square = multiply_low_halves(x, x);
      const Wide product = multiply_low_halves(x, high);
      const Wide high_square = multiply_low_halves(high, high);
      const Wide product_low = product & 0xffffffff;
      const Wide product_high = product >> 32;
      half[0][0] += low_square & 0xffffffff;
      half[0][1] += (low_square >> 32) + (product_low + product_low);
      half[0][2] += (high_square & 0xffffffff) + (product_high + product_high);
      half[0][3] += high_square >> 32;
    }
  }
};

template <Type type>
std::size_t exact_integer_rows(const std::byte* data, std::ptrdiff_t row_stride,
                               std::size_t rows, std::size_t columns, const Parts& parts,
                               void*) {
  using Lane = Halves<type>;
  constexpr std::size_t kStride = kElements<type>;
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Lane lane;
    for (; n >= kStride; n -= kStride, x += kStride) {
      prefetch(x);
      lane.step(load_wide<type>(x));
    }
    if (n > 0) lane.step(load_wide<type>(Padded<kStride, Bits<type>>(x, n).elements));
    for (std::size_t f = 0; f < Lane::kMost; ++f) {
      std::uint64_t total = 0;
      for (const auto& halves : lane.half) {
        for (std::size_t i = 0; i < kWidth; ++i) total += halves[f][i];
      }
      parts.part[f][row] = static_cast<std::int64_t>(total);
    }
    parts.exponent[row] = 0;
  }
  return Lane::kMost;
}

template <Type type>
struct HalvesOfColumns {
  using Lane = Halves<type>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kElements<type>;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load_wide<type>(get(row)));
    *lanes = lane;
  }
};

template <Type type>
std::size_t exact_integer_columns(const std::byte* data, std::ptrdiff_t row_stride,
                                  std::size_t rows, std::size_t columns, const Parts& parts,
                                  void* scratch) {
  using Lane = Halves<type>;
  auto* lanes = static_cast<Lane*>(scratch);
  pass_all<type, HalvesOfColumns<type>>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto& halves = lanes[j / kElements<type>].half[j % kParts<type>];
    for (std::size_t f = 0; f < Lane::kMost; ++f) {
      parts.part[f][j] =
          static_cast<std::int64_t>(halves[f][j % kElements<type> / kParts<type>]);
    }
    parts.exponent[j] = 0;
  }
  return Lane::kMost;
}

}  // namespace
}  // namespace halfulp
