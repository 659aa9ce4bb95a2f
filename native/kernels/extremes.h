// The least and the greatest magnitudes of elements, which say what folds a sum needs.
// May include columns.h, lanes.h and what they include only. Internal linkage: see simd.h.
#pragma once

#include <limits>

#include "columns.h"
#include "lanes.h"

namespace halfulp {
namespace {

// Joins neighbouring integers >= 0 of a vector until they are of 64 bits.
template <class V, class Join>
inline Mask join_integers(V v, Join join) {
  constexpr std::size_t kBytes = sizeof v[0];
  if constexpr (kBytes == 8) {
    return (Mask)v;
  } else {
    using Twice = typename SignedOf<2 * kBytes>::Integers;
    const auto pairs = (Twice)v;
    const Twice high = pairs >> 8 * kBytes;
    return join_integers(join(pairs - (high << 8 * kBytes), high), join);
  }
}

// The least magnitude that is not 0, less 1, and the greatest one, as integers.
template <Type type>
struct Extremes {
  using Integers = typename SignedOf<sizeof(Bits<type>)>::Integers;
  using Integer = typename SignedOf<sizeof(Bits<type>)>::Integer;
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

  // Of all elements.
  void join(std::int64_t& least_of_all, std::int64_t& most_of_all) const {
    const Mask low = join_integers(least, [](auto a, auto b) { return smaller(a, b); });
    const Mask high = join_integers(most, [](auto a, auto b) { return greater(a, b); });
    least_of_all = low[0];
    most_of_all = high[0];
    for (std::size_t i = 1; i < kWidth; ++i) {
      least_of_all = low[i] < least_of_all ? low[i] : least_of_all;
      most_of_all = high[i] > most_of_all ? high[i] : most_of_all;
    }
  }
};

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
    Integers next;
    if (count == E::kColumns) {
      next = load_vector<Integers>(x);
    } else {
      next = load_vector<Integers>(Padded<E::kColumns, Bits<type>>(x, count).elements);
    }
    some[0].template step<both>(next);
    n -= count;
  }
  some[0].least = smaller(some[0].least, some[1].least);
  some[0].most = greater(some[0].most, some[1].most);
  some[0].join(least, most);
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

}  // namespace
}  // namespace halfulp
