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

  // Exponents of the least and the greatest element, as integers: |x| is a multiple of
  // 2^(least - p + 1), and below 2^(most + 1). Infinity and NaN are beyond emax.
  static constexpr int exponent(std::int64_t magnitude) {
    const int field = static_cast<int>(magnitude >> (kFormat.precision - 1));
    return (field > 1 ? field : 1) - kFormat.emax;
  }

  // The folds that it takes; kMost + 1 if they are too few. Sets K_0.
  static std::size_t needed(std::int64_t least, std::int64_t most, int& head) {
    const int top = exponent(most) + 1;
    const int grid = 2 * (exponent(least) - kFormat.precision + 1);
    head = 2 * top + kLogSteps;
    std::size_t folds = 2;
    for (std::size_t f = 1; f < kMost; ++f) {
      folds += head + static_cast<int>(f) * kStep - 52 > grid;
    }
    bool fits = top <= kFormat.emax + 1;
    if (type == Type::float64) {
      // Rests of products are multiples of 2^-1074, and folds and their q normal numbers.
      const int last = head + static_cast<int>(folds - 1) * kStep - 52;
      fits = fits && grid >= -1074 && last >= -1022 && head <= 1022;
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
      const Vector s = a[0] + p;
      const Vector t = p - (s - a[0]);
      a[0] = s;
      put(t);
      put(e);
    } else {
      // The square is exact, and so is its remainder: fused or not, both are the same.
      const Vector s = square_add(x, a[0]);
      const Vector t = square_add(x, a[0] - s);
      a[0] = s;
      put(t);
    }
  }

  // Whether no element was NaN or infinite, if all others fitted.
  Mask finite(Vector head) const { return (Mask)(a[0] <= head + head); }

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

  void step(Integers x) {
    least = smaller(least, (x - 1) & kMask);  // of 0: kMask
    most = greater(most, x & kMask);
  }
};

constexpr std::size_t kFoldLanes = kWidth == 4 ? 2 : 4;
static_assert(kExactColumns <= kFoldLanes * kWidth << kLogSteps);

template <Type type, std::size_t folds>
void fold_row(const Bits<type>* x, std::size_t n, int head_exponent, const Parts& parts) {
  using Lane = FoldLane<type, folds>;
  const Vector head = Vector{} + head_of(head_exponent);
  parts.exponent[0] = head_exponent - 52;
  constexpr std::size_t kStride = kFoldLanes * kWidth;
  Lane lanes[kFoldLanes];
  for (Lane& lane : lanes) lane.start(head);
  for (; n >= kStride; n -= kStride, x += kStride) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kFoldLanes; ++i) {
      if (type == Type::float16 && i * kWidth * sizeof *x % 64 == 0) prefetch(x + i * kWidth);
      lanes[i].step(load<type>(x + i * kWidth));
    }
  }
  std::size_t i = 0;
  for (; n >= kWidth; ++i, n -= kWidth, x += kWidth) lanes[i].step(load<type>(x));
  if (n > 0) lanes[i].step(load_part<type>(x, n));
  if constexpr (type == Type::float16) {
    Mask finite = lanes[0].finite(head);
    for (i = 1; i < kFoldLanes; ++i) finite &= lanes[i].finite(head);
    for (i = 0; i < kWidth; ++i) {
      if (!finite[i]) parts.exponent[0] = kNotExact;
    }
  }
  for (std::size_t f = 0; f < folds; ++f) {
    Wide sum = lanes[0].multiple(f, head);
    for (i = 1; i < kFoldLanes; ++i) sum += lanes[i].multiple(f, head);
    std::uint64_t total = 0;
    for (i = 0; i < kWidth; ++i) total += sum[i];
    parts.part[f][0] = static_cast<std::int64_t>(total);
  }
  for (std::size_t f = folds; f < Fold<type>::kMost; ++f) parts.part[f][0] = 0;
}

template <Type type>
void exact_row(const Bits<type>* x, std::size_t n, const Parts& parts) {
  using F = Fold<type>;
  if constexpr (type == Type::float16) {
    fold_row<type, 2>(x, n, kFloat16Head, parts);
  } else {
    using E = Extremes<type>;
    using Integers = typename E::Integers;
    E some[2];
    const Bits<type>* next = x;
    std::size_t left = n;
    for (; left >= 2 * E::kColumns; left -= 2 * E::kColumns, next += 2 * E::kColumns) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (i * kVectorBytes % 64 == 0) prefetch(next + i * E::kColumns);
        some[i].step(load_vector<Integers>(next + i * E::kColumns));
      }
    }
    if (left >= E::kColumns) {
      some[0].step(load_vector<Integers>(next));
      next += E::kColumns;
      left -= E::kColumns;
    }
    if (left > 0) {
      const Padded<E::kColumns, Bits<type>> padded(next, left);
      some[1].step(load_vector<Integers>(padded.elements));
    }
    const Integers lows = smaller(some[0].least, some[1].least);
    const Integers highs = greater(some[0].most, some[1].most);
    typename E::Integer least = lows[0];
    typename E::Integer most = highs[0];
    for (std::size_t i = 1; i < E::kColumns; ++i) {
      least = lows[i] < least ? lows[i] : least;
      most = highs[i] > most ? highs[i] : most;
    }
    if (most == 0) {
      for (std::size_t f = 0; f < F::kMost; ++f) parts.part[f][0] = 0;
      parts.exponent[0] = 0;
      return;
    }
    int head;
    switch (F::needed(std::int64_t{least} + 1, most, head)) {
      case 2:
        return fold_row<type, 2>(x, n, head, parts);
      case 3:
        return fold_row<type, 3>(x, n, head, parts);
      case 4:
        if constexpr (F::kMost == 4) return fold_row<type, 4>(x, n, head, parts);
        [[fallthrough]];
      default:
        parts.exponent[0] = kNotExact;
    }
  }
}

template <Type type>
std::size_t exact_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                       std::size_t columns, const Parts& parts, void*) {
  for (std::size_t row = 0; row < rows; ++row) {
    exact_row<type>(row_of<type>(data, row_stride, row), columns, parts + row);
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

template <Type type, std::size_t folds>
struct FoldColumns {
  using Lane = FoldLane<type, folds>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    Lane lane = *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    *lanes = lane;
  }
};

template <Type type, std::size_t folds>
std::size_t fold_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, const Parts& parts, const double* heads,
                         void* scratch) {
  using Sum = FoldColumns<type, folds>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    lanes[j / kWidth].start(load_vector<Vector>(heads + j));
  }
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    const auto& lane = lanes[j / kWidth];
    const Vector head = load_vector<Vector>(heads + j);
    for (std::size_t f = 0; f < folds; ++f) {
      store_vector(parts.part[f] + j, lane.multiple(f, head));
    }
    if constexpr (type == Type::float16) {
      const Mask finite = lane.finite(head);
      for (std::size_t i = 0; i < kWidth && j + i < columns; ++i) {
        if (!finite[i]) parts.exponent[j + i] = kNotExact;
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
  void* const rest = heads + room;
  std::size_t folds = 2;
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
      const std::int64_t least = lane.least[j % Lane::kColumns];
      const std::int64_t most = lane.most[j % Lane::kColumns];
      int head = 0;
      std::size_t needed = 2;
      if (most != 0) needed = F::needed(least + 1, most, head);
      const bool fits = needed <= F::kMost;
      heads[j] = head_of(fits ? head : 0);
      parts.exponent[j] = fits ? head - 52 : kNotExact;
      if (fits && needed > folds) folds = needed;
    }
  }
  for (std::size_t j = columns; j < room; ++j) heads[j] = 1;
  const auto fold = [&](auto function) {
    return function(data, row_stride, rows, columns, parts, heads, rest);
  };
  if constexpr (F::kMost == 4) {
    if (folds == 4) return fold(&fold_columns<type, 4>);
  }
  if constexpr (F::kMost >= 3) {
    if (folds == 3) return fold(&fold_columns<type, 3>);
  }
  return fold(&fold_columns<type, 2>);
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
