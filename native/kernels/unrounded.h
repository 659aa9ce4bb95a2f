// Sums of signed terms in numbers of binary64 by plain additions, as long as none rounds: the
// processor tells. Then the bound is 0, so that sums that cancel, and ties, are known at once.
// Of float64, the upper and the lower parts of elements are added each by themselves; of half
// types, two elements in binary32 first. Where anything was rounded, some thousand elements
// that are still in a cache are summed in two folds instead. Proved in
// docs/exactness.md#sums-without-rounding.
//
// May include inexact.h, lanes.h and what they include only. Internal linkage: see simd.h.
#pragma once

#include <initializer_list>

#include "inexact.h"
#include "lanes.h"

namespace halfulp {
namespace {

#if defined(__AVX512F__)
inline HalfNarrow multiply_add(HalfNarrow a, HalfNarrow b, HalfNarrow c) {
  return (HalfNarrow)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#endif

// a + b, as a product with 1, which other units of a processor do.
template <class V>
inline V plus(V a, V b) {
  return multiply_add(a, V{} + 1, b);
}

// Vectors of binary32 that sums of two elements of a half type are in: of 256 bits even where
// there are wider ones, as some processors take four times as long to convert twice as many.
#if defined(__AVX512F__)
using Pairs = HalfNarrow;
#else
using Pairs = Narrow;
#endif
constexpr std::size_t kPairs = sizeof(Pairs) / sizeof(float);

// How many elements at a time are added to how many vectors of sums.
template <Type type>
constexpr bool kInPairs = sizeof(Bits<type>) == 2;
template <Type type>
constexpr std::size_t kUnit = kInPairs<type> ? 2 * kPairs : kWidth;
template <Type type>
constexpr std::size_t kUnitSums = kInPairs<type>          ? kPairs / kWidth
                                  : type == Type::float64 ? 2
                                                          : 1;

// The upper 27 of the 53 bits of numbers, rounded towards 0.
inline Vector upper_part(Vector x) { return (Vector)((Wide)x & 0xfffffffffc000000); }

inline void add_pairs(HalfNarrow pairs, Vector* sums) { sums[0] = plus(widen(pairs), sums[0]); }
inline void add_pairs(Narrow pairs, Vector* sums) {
  sums[0] = plus(widen_low(pairs), sums[0]);
  sums[1] = plus(widen_high(pairs), sums[1]);
}

template <Type type>
inline Pairs load_pairs(const std::uint16_t* x) {
#if defined(__AVX512F__)
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  if constexpr (type == Type::float16) return (Pairs)_mm256_cvtph_ps(raw);
  return (Pairs)_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16);
#else
  return load_narrow<type>(x);
#endif
}

// Adds kUnit elements to sums, neighbours or those that lie a vector apart to each other first.
template <Type type>
inline void add_unit(const Bits<type>* x, Vector* sums) {
  if constexpr (type == Type::float64) {
    const Vector value = load<type>(x);
    const Vector upper = upper_part(value);
    sums[0] = plus(upper, sums[0]);
    sums[1] += value - upper;
  } else if constexpr (!kInPairs<type>) {
    sums[0] = plus(load<type>(x), sums[0]);
  } else if constexpr (type == Type::bfloat16) {
    typedef std::uint32_t Words __attribute__((vector_size(sizeof(Pairs))));
    const Words words = load_vector<Words>(x);
    add_pairs(plus((Pairs)(words << 16), (Pairs)(words & 0xffff0000)), sums);
  } else {
    add_pairs(plus(load_pairs<type>(x), load_pairs<type>(x + kPairs)), sums);
  }
}

// Whether to try: after n blocks one after another that did not fit, the next 2^n - 1 are not.
class Patience {
 public:
  bool has_none() {
    if (waits_ == 0) return false;
    --waits_;
    return true;
  }
  void lose() {
    waits_ = (1 << losses_) - 1;
    if (losses_ < 5) ++losses_;
  }
  void regain() { losses_ = 0; }

 private:
  int losses_ = 0;
  int waits_ = 0;
};

// Sums of upper and of lower parts of elements, of which many reach up into each other, as two
// numbers that do not: an enclosure has room for more of these.
template <Term term>
inline Compensated<term> set_apart(Vector upper, Vector lower) {
  Vector rest;
  const Vector sum = two_sum(upper, lower, rest);
  return {{}, sum, rest};
}

inline void make_zero(const Enclosures& enclosures, std::size_t count) {
  for (double* array : {enclosures.hi, enclosures.lo, enclosures.bound}) {
    for (std::size_t i = 0; i < count; ++i) array[i] = 0;
  }
}

}  // namespace
}  // namespace halfulp
