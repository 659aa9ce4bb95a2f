// Two parts of the numbers of two vectors, which pair each number with a neighbour: what lanes
// of some rows are joined by. May include simd.h only. Internal linkage: see simd.h.
#pragma once

#include <utility>

#include "simd.h"

namespace halfulp {
namespace {

// The even, or the odd, elements of a followed by those of b.
template <class V>
inline V evens(V a, V b) {
  constexpr std::size_t kCount = sizeof a / sizeof a[0];
  if constexpr (kCount == 2) return __builtin_shufflevector(a, b, 0, 2);
  if constexpr (kCount == 4) return __builtin_shufflevector(a, b, 0, 2, 4, 6);
  if constexpr (kCount == 8) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  }
  if constexpr (kCount == 16) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                   30);
  }
}

template <class V>
inline V odds(V a, V b) {
  constexpr std::size_t kCount = sizeof a / sizeof a[0];
  if constexpr (kCount == 2) return __builtin_shufflevector(a, b, 1, 3);
  if constexpr (kCount == 4) return __builtin_shufflevector(a, b, 1, 3, 5, 7);
  if constexpr (kCount == 8) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
  }
  if constexpr (kCount == 16) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29,
                                   31);
  }
}

// Of the numbers of `a` and `b`, those of the one or of the other of two parts that pair each
// with a neighbour: in their order, as evens and odds.
struct Evens {
  template <class V>
  static V of(V a, V b) {
    return evens(a, b);
  }
};
struct Odds {
  template <class V>
  static V of(V a, V b) {
    return odds(a, b);
  }
};

// The same in the order that costs least, for one of the levels of join_rows: numbers of one
// row are in runs of 2^level, within 16 bytes from the first and the second half of these, then
// from every other 16 bytes.
template <std::size_t level, bool second>
struct Halves16 {
  template <class V>
  static V of(V a, V b) {
    constexpr std::size_t kCount = sizeof(V) / sizeof(V{}[0]);
    return pick(a, b, std::make_index_sequence<kCount>());
  }

 private:
  template <class V, std::size_t... i>
  static V pick(V a, V b, std::index_sequence<i...>) {
    constexpr std::size_t kCount = sizeof...(i);
    return __builtin_shufflevector(a, b, place(i, kCount, 16 * kCount / sizeof(V))...);
  }

  // Of number i of the result, among those of `a` and then of `b`.
  static constexpr std::size_t place(std::size_t i, std::size_t count, std::size_t block) {
    constexpr std::size_t kRun = std::size_t{1} << level;
    const std::size_t in_block = i % block;
    if (kRun < block) {
      const std::size_t half = second ? block / 2 : 0;
      const std::size_t run = in_block / kRun;
      return run % 2 * count + (i - in_block) + half + run / 2 * kRun + in_block % kRun;
    }
    return 2 * (i - in_block) + (second ? block : 0) + in_block;
  }
};

}  // namespace
}  // namespace halfulp
