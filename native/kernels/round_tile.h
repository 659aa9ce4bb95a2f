// Rounds most outputs of a tile at once, in vectors; results.h decides the rest. Proved in
// docs/exactness.md#rounding-a-tile-at-once.
// May include enclosure.h and simd.h only. Internal linkage: see simd.h.
#pragma once

#include "../enclosure.h"
#include "simd.h"

namespace halfulp {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
inline Shorts first_shorts(__m128i x) { return load_vector<Shorts>(&x); }
#endif

// Floats rounded to a half type, to nearest even; overflow gives infinity.
template <Type type>
inline Shorts round_to_half(HalfNarrow x) {
  const Integers bits = (Integers)x;
  if constexpr (type == Type::bfloat16) {
    return __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, Shorts);
  } else {
#if defined(__AVX512F__)
    return (Shorts)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
    return first_shorts(_mm_cvtps_ph((__m128)x, _MM_FROUND_TO_NEAREST_INT));
#else
    const Integers size = bits & 0x7fffffff;
    const auto magnitude = (HalfNarrow)size;
    const Integers normal = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
    // Below 2^-14, float16 has the spacing that binary32 has from 1/2 on.
    const Integers subnormal = (Integers)(magnitude + 0.5f) - 0x3f000000;
    const Integers rounded = magnitude < 0x1p-14f ? subnormal : normal;
    const Integers finite = magnitude < 65520.0f ? rounded : Integers{} + 0x7c00;
    return __builtin_convertvector(finite | (bits >> 16 & 0x8000), Shorts);
#endif
  }
}

// Sets results[i], of `type`, and open[i] to 0, or to 0xff where it cannot decide, for i < n;
// returns whether any is open. Reads and writes up to the next multiple of kWidth. Both ends of
// each enclosure are rounded, as in `Results::decide`, which decides more: here infinities,
// NaNs and small float64 sums stay open, unless these are exact.
template <Type type>
bool round_tile(const Enclosures& enclosures, std::size_t n, void* results,
                std::uint8_t* open) {
  auto* outputs = static_cast<Bits<type>*>(results);
  Bytes any{};
  for (std::size_t i = 0; i < n; i += kWidth) {
    const Vector hi = load_vector<Vector>(enclosures.hi + i);
    const Vector lo = load_vector<Vector>(enclosures.lo + i);
    const Vector bound = load_vector<Vector>(enclosures.bound + i) * (1 + 0x1p-9);
    const Vector s = hi + lo;
    const Vector size = size_of(s);
    Bytes undecided;
    if constexpr (type == Type::float64) {
      Vector t;
      two_sum(hi, lo, t);
      const Vector width = bound + size * 0x1p-100;
      const Vector low = s + (t - width);
      const Vector high = s + (t + width);
      store_vector(outputs + i, high);
      const Mask usual = (Mask)(size >= kLeastDecidable) | (Mask)(width == 0.0);
      const Mask decided = (Mask)(low == high) & usual;
      undecided = __builtin_convertvector(~decided, Bytes);
    } else {
      // 2^-50 covers the roundings of s and of the ends; where the ends are rounded twice,
      // 2^-22 and 2^-149 cover those to binary32, normal and subnormal.
      const Vector least = Vector{} + 0x1p-149;
      const Vector width =
          bound + (type == Type::float32 ? size * 0x1p-50
                                         : size * 0x1p-22 + (size < least ? size : least));
      const HalfNarrow low = __builtin_convertvector(s - width, HalfNarrow);
      const HalfNarrow high = __builtin_convertvector(s + width, HalfNarrow);
      HalfMask decided;
      if constexpr (type == Type::float32) {
        store_vector(outputs + i, high);
        // 0 and -0 are the same number, but not the same result.
        decided = (HalfMask)(low == high) & (HalfMask)((HalfMask)low == (HalfMask)high);
      } else {
        const Shorts rounded = round_to_half<type>(high);
        store_vector(outputs + i, rounded);
        const auto same =
            __builtin_convertvector(rounded == round_to_half<type>(low), HalfMask);
        decided = same & (HalfMask)(high <= 0x1.fffffep127f);
      }
      undecided = __builtin_convertvector(~decided, Bytes);
    }
    store_vector(open + i, undecided);
    any |= undecided;
  }
  bool result = false;
  for (std::size_t i = 0; i < kWidth; ++i) result |= any[i] != 0;
  return result;
}

// The number of binary64 that is odd, of those next to hi + lo, or hi if lo is 0: it rounds to
// any format of at most 51 bits as that does. Proved in docs/exactness.md#sums-known-exactly.
inline Vector to_odd(Vector hi, Vector lo) {
  const Mask between = (Mask)(lo != 0.0);
  const Mask nearer_0 = (Mask)(lo < 0.0) ^ (Mask)(hi < 0.0);
  // Without sign: beyond the last output there may be any bits.
  return (Vector)(((Wide)hi + (Wide)(nearer_0 & between)) | (Wide)(between & 1));
}

// Sets results[i] to a value that is known, rounded to `type`: see Rounder.
template <Type type>
void round_points(const Enclosures& values, std::size_t n, void* results) {
  auto* outputs = static_cast<Bits<type>*>(results);
  for (std::size_t i = 0; i < n; i += kWidth) {
    const Vector hi = load_vector<Vector>(values.hi + i);
    if constexpr (type == Type::float64) {
      store_vector(outputs + i, hi);
    } else {
      const Vector odd = to_odd(hi, load_vector<Vector>(values.lo + i));
      const HalfNarrow narrow = __builtin_convertvector(odd, HalfNarrow);
      if constexpr (type == Type::float32) {
        store_vector(outputs + i, narrow);
      } else {
        // The same again: the number of binary32 that is odd.
        const Vector wide = widen(narrow);
        const Mask between = (Mask)(wide != odd);
        const Mask nearer_0 = (Mask)(size_of(wide) > size_of(odd));
        const Integers bits = ((Integers)narrow + __builtin_convertvector(nearer_0, Integers)) |
                              __builtin_convertvector(between & 1, Integers);
        store_vector(outputs + i, round_to_half<type>((HalfNarrow)bits));
      }
    }
  }
}

}  // namespace
}  // namespace halfulp
