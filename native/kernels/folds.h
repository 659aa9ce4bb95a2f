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
// So all is exact if K_f - 52 <= 2L for the last f, and no exponent leaves binary64. Half
// types have folds in binary32 too, where 23 and 22 stand for 52 and 51.
// Proved in docs/exactness.md#folds.
//
// Integers. Squares are split into halves of 32 bits, which sum up in 64.
//
// May include dispatch.h, columns.h, lanes.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include <limits>
#include <type_traits>

#include "../dispatch.h"
#include "columns.h"
#include "lanes.h"

namespace halfulp {
namespace {

template <Type type>
struct Fold {
  static constexpr Format kFormat = format_of(type);
  static constexpr int kLogSteps = log_exact_rows(type);
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
  static constexpr int kTooHigh =
      type == Type::float64 ? 1023 : 2 * (kFormat.emax + 2) + kLogSteps;

  // The folds that it takes for K_0 = head; kMost + 1 if there are none.
  static std::size_t needed(int head, int grid) {
    std::size_t folds = 2;
    for (std::size_t f = 1; f < kMost; ++f) {
      folds += head + static_cast<int>(f) * kStep - 52 > grid;
    }
    bool fits = head < kTooHigh;
    // Folds and their q_f are normal numbers; 2L is no less, so that rests of products are
    // binary64 numbers too.
    if (type == Type::float64) {
      fits = fits && head + static_cast<int>(folds - 1) * kStep - 52 >= -1022;
    }
    return fits ? folds : kMost + 1;
  }
};

inline double head_of(int exponent) {
  return bits_to_double(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Folds in binary64 or binary32; `exact_squares`: squares are exact in that.
template <class V, std::size_t folds, int step_, bool exact_squares>
struct FoldLane {
  using Signed = SignedOf<sizeof(V{}[0])>;
  using Integers = typename Signed::Lanes;
  // Integers as their residues: those of a sum that does not fit overflow, to be discarded.
  typedef std::make_unsigned_t<typename Signed::Lane> Residues
      __attribute__((vector_size(kVectorBytes)));

  V a[folds];

  void start(V head) {
    a[0] = head;
    for (std::size_t f = 1; f < folds; ++f) {
      const double scale = head_of(static_cast<int>(f) * step_) * 1.5;
      a[f] = head * static_cast<decltype(+head[0])>(scale);
    }
  }

  void step(V x) {
    if constexpr (exact_squares) {
      // And so are the remainders: fused or not, they are the same.
      const V s = square_add(x, a[0]);
      const V t = square_add(x, a[0] - s);
      a[0] = s;
      put(t);
    } else {
      V p, e;
      square(x, p, e);
      const V s = a[0] + p;
      const V t = p - (s - a[0]);
      a[0] = s;
      put(t);
      put(e);
    }
  }

  // Whether fold 0 kept its exponent. Terms are not negative, so then it always did.
  Integers fits(V head) const { return (Integers)(a[0] <= head + head); }

  // How many times q_f fold f holds.
  Residues multiple(std::size_t f, V head) const {
    FoldLane begin;
    begin.start(head);
    return (Residues)a[f] - (Residues)begin.a[f];
  }

 private:
  void put(V v) {
#pragma GCC unroll 4
    for (std::size_t f = 1; f + 1 < folds; ++f) {
      const V s = a[f] + v;
      v -= s - a[f];
      a[f] = s;
    }
    a[folds - 1] += v;
  }
};

template <Type type, std::size_t folds>
using WideLane = FoldLane<Vector, folds, Fold<type>::kStep, type != Type::float64>;

// Half types: three folds in binary32, whose q_f are 2^(K_f - 23), of 2^kNarrowLogSteps terms
// at most; then their integers are added up.
constexpr int kNarrowLogSteps = 4;
constexpr int kNarrowStep = kNarrowLogSteps - 22;
using NarrowLane = FoldLane<Narrow, 3, kNarrowStep, true>;

constexpr int narrow_head(int head) {
  return head - Fold<Type::float16>::kLogSteps + kNarrowLogSteps;
}
static_assert(part_step(Type::bfloat16) == part_step(Type::float16));

template <Type type>
constexpr bool fits_narrow(int head, int grid) {
  const int last = narrow_head(head) + 2 * kNarrowStep - 23;
  return sizeof(Bits<type>) == 2 && last <= grid && last >= -126 && narrow_head(head) <= 126;
}

// Parts in the steps of part_step from the integers of three narrow folds.
inline void set_narrow_parts(const Parts& parts, int head, std::int64_t i0, std::int64_t i1,
                             std::int64_t i2) {
  constexpr int kShift = kNarrowStep - part_step(Type::float16);
  static_assert(kShift + kNarrowStep > 0);
  parts.part[0][0] = i0;
  parts.part[1][0] = i1 * (1 << kShift) + i2 * (1 << (kShift + kNarrowStep));
  parts.exponent[0] = narrow_head(head) - 23;
}

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
    const Integers magnitude = x & kMask;
    least = smaller(least, (magnitude - 1) & kMask);  // of 0: kMask
    if (both) most = greater(most, magnitude);
  }
};

// A row is read twice, first from memory: what will be read then is fetched while the row
// before is summed. Most rows are pieces of one array.
template <class T>
inline void prefetch_next_row(const T* x) {
  __builtin_prefetch(x + kExactColumns);
}

constexpr std::size_t kFoldLanes = kWidth == 2 ? 8 : 4;
constexpr std::size_t kFoldStride = kFoldLanes * kWidth;
static_assert(kExactColumns <= kFoldStride << log_exact_rows(Type::float64));

// Sets the parts of one output; returns whether they are right.
template <Type type, std::size_t folds>
bool fold_row(const Bits<type>* x, std::size_t n, int head_exponent, const Parts& parts) {
  using Lane = WideLane<type, folds>;
  const Vector head = Vector{} + head_of(head_exponent);
  Lane lanes[kFoldLanes];
  for (Lane& lane : lanes) lane.start(head);
  for (; n >= kFoldStride; n -= kFoldStride, x += kFoldStride) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kFoldLanes; ++i) {
      if (i * kWidth * sizeof *x % 64 == 0) prefetch_next_row(x + i * kWidth);
      lanes[i].step(load<type>(x + i * kWidth));
    }
  }
  std::size_t i = 0;
  for (; n >= kWidth; ++i, n -= kWidth, x += kWidth) lanes[i].step(load<type>(x));
  if (n > 0) lanes[i].step(load_part<type>(x, n));
  for (std::size_t f = 0; f < folds; ++f) {
    Wide sum{};
    for (const Lane& lane : lanes) sum += (Wide)lane.multiple(f, head);
    std::uint64_t total = 0;
    for (i = 0; i < kWidth; ++i) total += sum[i];
    parts.part[f][0] = static_cast<std::int64_t>(total);
  }
  for (std::size_t f = folds; f < Fold<type>::kMost; ++f) parts.part[f][0] = 0;
  parts.exponent[0] = head_exponent - 52;
  Mask fits = (Mask)lanes[0].fits(head);
  for (const Lane& lane : lanes) fits &= (Mask)lane.fits(head);
  bool all = true;
  for (i = 0; i < kWidth; ++i) all &= fits[i] != 0;
  return all;
}

template <Type type>
bool fold_row_narrow(const std::uint16_t* x, std::size_t n, int head_exponent,
                     const Parts& parts) {
  constexpr std::size_t kNarrowLanes = kRegisters / 8;
  constexpr std::size_t kStride = kNarrowLanes * kNarrowWidth;
  const Narrow head = Narrow{} + static_cast<float>(head_of(narrow_head(head_exponent)));
  NarrowLane::Residues sums[3] = {};
  NarrowLane::Integers fits = ~NarrowLane::Integers{};
  while (n > 0) {
    NarrowLane lanes[kNarrowLanes];
    for (NarrowLane& lane : lanes) lane.start(head);
    std::size_t steps = std::size_t{1} << kNarrowLogSteps;
    for (; steps > 0 && n >= kStride; --steps, n -= kStride, x += kStride) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kNarrowLanes; i += 2) {
        Narrow two[2];
        if (i * kNarrowWidth * sizeof *x % 64 == 0) prefetch_next_row(x + i * kNarrowWidth);
        load_two_narrow<type>(x + i * kNarrowWidth, two);
        lanes[i].step(two[0]);
        lanes[i + 1].step(two[1]);
      }
    }
    if (steps > 0) {
      std::size_t i = 0;
      for (; n >= kNarrowWidth; ++i, n -= kNarrowWidth, x += kNarrowWidth) {
        lanes[i].step(load_narrow<type>(x));
      }
      if (n > 0) {
        const Padded<kNarrowWidth, std::uint16_t> padded(x, n);
        lanes[i].step(load_narrow<type>(padded.elements));
        n = 0;
      }
    }
    for (const NarrowLane& lane : lanes) {
      for (std::size_t f = 0; f < 3; ++f) sums[f] += lane.multiple(f, head);
      fits &= lane.fits(head);
    }
  }
  std::int64_t total[3] = {};
  bool all = true;
  for (std::size_t i = 0; i < kNarrowWidth; ++i) {
    for (std::size_t f = 0; f < 3; ++f) total[f] += static_cast<std::int32_t>(sums[f][i]);
    all &= fits[i] != 0;
  }
  set_narrow_parts(parts, head_exponent, total[0], total[1], total[2]);
  for (std::size_t f = 2; f < Fold<type>::kMost; ++f) parts.part[f][0] = 0;
  return all;
}

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
  for (bool guessed = head != kNoHead;; guessed = false) {
    if (guessed) {
      find_extremes<type, false>(x, n, least, most);
    } else {
      find_extremes<type, true>(x, n, least, most);
      head = F::head_for(most);
    }
    const int grid = F::grid_of(least);
    const std::size_t folds = F::needed(head, grid);
    bool exact = false;
    if (folds <= F::kMost && fits_narrow<type>(head, grid)) {
      if constexpr (sizeof *x == 2) exact = fold_row_narrow<type>(x, n, head, parts);
    } else if (folds == 2) {
      exact = fold_row<type, 2>(x, n, head, parts);
    } else if (folds == 3) {
      if constexpr (F::kMost >= 3) exact = fold_row<type, 3>(x, n, head, parts);
    } else if (folds == 4) {
      if constexpr (F::kMost == 4) exact = fold_row<type, 4>(x, n, head, parts);
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

template <Type type, std::size_t folds>
struct FoldColumns {
  using Lane = WideLane<type, folds>;
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

// What is known of one column before it is summed.
struct Column {
  std::int32_t head;
  std::uint8_t folds;
  bool narrow;
};

template <Type type, std::size_t folds>
std::size_t fold_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, const Parts& parts, const Column* known,
                         void* scratch) {
  using Sum = FoldColumns<type, folds>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  const auto head_at = [&](std::size_t j) {
    Vector head{};
    for (std::size_t i = 0; i < kWidth; ++i) head[i] = head_of(known[j + i].head);
    return head;
  };
  for (std::size_t j = 0; j < columns; j += kWidth) lanes[j / kWidth].start(head_at(j));
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    const Vector head = head_at(j);
    for (std::size_t f = 0; f < folds; ++f) {
      store_vector(parts.part[f] + j, lanes[j / kWidth].multiple(f, head));
    }
  }
  for (std::size_t j = 0; j < columns; ++j) {
    parts.exponent[j] = known[j].folds <= folds ? known[j].head - 52 : kNotExact;
  }
  return folds;
}

template <Type type>
struct FoldColumnsNarrow {
  struct Lane {
    Narrow head{};
    NarrowLane::Residues sums[3] = {};
  };
  static constexpr std::size_t kRowsPerPass = 1 << kNarrowLogSteps;
  static constexpr std::size_t kColumns = 2 * kNarrowWidth;
  static constexpr std::size_t kLanesPerGroup = 2;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    NarrowLane two[2];
    for (std::size_t i = 0; i < 2; ++i) two[i].start(lanes[i].head);
    for (std::size_t row = 0; row < rows; ++row) {
      Narrow x[2];
      load_two_narrow<type>(get(row), x);
      for (std::size_t i = 0; i < 2; ++i) two[i].step(x[i]);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t f = 0; f < 3; ++f) {
        lanes[i].sums[f] += two[i].multiple(f, lanes[i].head);
      }
    }
  }

  // Where column j is: of lane lane_of(j), the element element_of(j).
  static constexpr std::size_t lane_of(std::size_t j) {
    return kByParity<type> ? j / kColumns * 2 + j % 2 : j / kNarrowWidth;
  }
  static constexpr std::size_t element_of(std::size_t j) {
    return kByParity<type> ? j % kColumns / 2 : j % kNarrowWidth;
  }
};

template <Type type>
std::size_t fold_columns_narrow(const std::byte* data, std::ptrdiff_t row_stride,
                                std::size_t rows, std::size_t columns, const Parts& parts,
                                const Column* known, void* scratch) {
  using Sum = FoldColumnsNarrow<type>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  const std::size_t room = (columns + Sum::kColumns - 1) / Sum::kColumns * Sum::kColumns;
  for (std::size_t j = 0; j < room; ++j) {
    auto& lane = lanes[Sum::lane_of(j)];
    if (Sum::element_of(j) == 0) lane = typename Sum::Lane{};
    const int head = known[j].narrow ? narrow_head(known[j].head) : 0;
    lane.head[Sum::element_of(j)] = static_cast<float>(head_of(head));
  }
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto& sums = lanes[Sum::lane_of(j)].sums;
    const std::size_t i = Sum::element_of(j);
    const auto integer = [&](std::size_t f) { return static_cast<std::int32_t>(sums[f][i]); };
    set_narrow_parts(parts + j, known[j].head, integer(0), integer(1), integer(2));
    if (!known[j].narrow) parts.exponent[j] = kNotExact;
  }
  return 2;
}

template <Type type>
std::size_t exact_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                          std::size_t columns, const Parts& parts, void* scratch) {
  using F = Fold<type>;
  using Lane = Extremes<type>;
  const std::size_t room = (columns + 63) / 64 * 64;
  auto* known = static_cast<Column*>(scratch);
  void* const rest = known + room;
  auto* extremes = static_cast<Lane*>(rest);
  pass_all<type, ExtremesOfColumns<type>>(data, row_stride, rows, columns, true, extremes);
  std::size_t wider[F::kMost + 2] = {};  // how many columns need more folds
  std::size_t narrow = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    const Lane& lane = extremes[j / Lane::kColumns];
    const int grid = F::grid_of(lane.least[j % Lane::kColumns]);
    const int head = F::head_for(lane.most[j % Lane::kColumns]);
    const std::size_t folds = F::needed(head, grid);
    const bool fits = folds <= F::kMost;
    known[j].head = fits ? head : 0;
    known[j].folds = static_cast<std::uint8_t>(folds);
    known[j].narrow = fits && fits_narrow<type>(head, grid);
    narrow += known[j].narrow;
    for (std::size_t f = 2; f < F::kMost; ++f) wider[f] += fits && folds > f;
  }
  for (std::size_t j = columns; j < room; ++j) known[j] = {};
  // A few columns may be left to another way, so that all others are fast.
  const std::size_t few = columns / 64;
  const auto fold = [&](auto function) {
    return function(data, row_stride, rows, columns, parts, known, rest);
  };
  if constexpr (sizeof(Bits<type>) == 2) {
    if (columns - narrow <= few) return fold(&fold_columns_narrow<type>);
  }
  if (wider[2] <= few) return fold(&fold_columns<type, 2>);
  if constexpr (F::kMost == 3) return fold(&fold_columns<type, 3>);
  if constexpr (F::kMost == 4) {
    return wider[3] <= few ? fold(&fold_columns<type, 3>) : fold(&fold_columns<type, 4>);
  }
  __builtin_unreachable();
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
