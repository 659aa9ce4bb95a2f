// Rounds most outputs of a tile at once, in vectors; results.h decides the rest. Proved in
// docs/exactness.md#rounding-a-tile-at-once.
// May include dispatch.h, enclosure.h and simd.h only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "../dispatch.h"
#include "../enclosure.h"
#include "simd.h"

namespace halfulp {
namespace {

// s - a * b, where that is a number of binary64 and a * b is near s: as in finish.h.
inline Vector rest_of_product(Vector s, Vector a, Vector b) {
  if constexpr (kHasFma) return multiply_add(-a, b, s);
  const auto high_of = [](Vector x) {
    const Vector scaled = x * 0x1.0000002p27;
    return scaled - (scaled - x);
  };
  const Vector a_high = high_of(a), a_low = a - a_high;
  const Vector b_high = high_of(b), b_low = b - b_high;
  const Vector p = a * b;
  const Vector e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return (s - p) - e;
}

inline Vector square_root(Vector x) {
#if defined(__AVX512F__)
  return (Vector)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
  return (Vector)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
  return (Vector)_mm_sqrt_pd((__m128d)x);
#elif defined(HALFULP_NEON)
  return (Vector)vsqrtq_f64((float64x2_t)x);
#else
  for (std::size_t i = 0; i < kWidth; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

// Numbers below 2^52 in binary64.
inline Vector to_double(Wide x) {
  return (Vector)((x & 0x000fffffffffffff) | 0x4330000000000000) - 0x1p52;
}

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

// The number of binary64 that is odd, of those next to hi + lo, or hi if lo is 0: it rounds to
// any format of at most 51 bits as that does, if there is no number between them. Proved in
// docs/exactness.md#sums-known-exactly.
inline Vector to_odd(Vector hi, Vector lo) {
  const Mask between = (Mask)(lo != 0.0);
  const Mask nearer_0 = (Mask)(lo < 0.0) ^ (Mask)(hi < 0.0);
  // Without sign: beyond the last output there may be any bits.
  return (Vector)(((Wide)hi + (Wide)(nearer_0 & between)) | (Wide)(between & 1));
}

// A number of binary64, or what is next to it in the direction of `rest`, rounded to a type of
// at most 24 bits.
template <Type type>
inline auto round_known(Vector nearest, Vector rest) {
  const Vector odd = to_odd(nearest, rest);
  const HalfNarrow narrow = __builtin_convertvector(odd, HalfNarrow);
  if constexpr (type == Type::float32) {
    return narrow;
  } else {
    // The same again: the number of binary32 that is odd.
    const Vector wide = widen(narrow);
    const Mask between = (Mask)(wide != odd);
    const Mask nearer_0 = (Mask)(size_of(wide) > size_of(odd));
    const Integers bits = ((Integers)narrow + __builtin_convertvector(nearer_0, Integers)) |
                          __builtin_convertvector(between & 1, Integers);
    return round_to_half<type>((HalfNarrow)bits);
  }
}

// Sums, one of each output: s + t and what it may be off by, s rounded to nearest.
struct Sums {
  Vector s;
  Vector t;
  Vector width;
};

// The mean s + t of n terms, where that is known, rounded to binary64: the nearer of two
// numbers next to it, by its side of the middle between these.
inline Vector round_mean(const Sums& sum, Vector n, Vector inverse) {
  const Vector q = sum.s / n;
  Vector rest;
  const Vector left = two_sum(rest_of_product(sum.s, q, n), sum.t, rest);
  const Vector d = left * inverse;
  const Vector near = q + d;
  const Vector moved = near - q;
  // Its neighbour in the direction of what is left.
  const Mask to_0 = (Mask)(d < moved) ^ (Mask)(near < 0.0);
  const auto next = (Vector)((Wide)near + ((Wide)to_0 | 1));
  const Vector side = (left - (moved + (next - near) * 0.5) * n) + rest;
  const Mask beyond = d < moved ? (Mask)(side < 0.0) : (Mask)(side > 0.0);
  const Mask is_tie = (Mask)(side == 0.0) & (Mask)(((Wide)near & 1) != 0);
  return (beyond | is_tie) != 0 ? next : near;
}

// f of sums, as FinishOf gives it; of types of at most 24 bits up to 3u of it, without t.
template <Finish finish, bool near>
inline Sums finish_sums(const Sums& sum, Vector n, Vector inverse) {
  if constexpr (finish == Finish::none) return sum;
  Vector q, half;
  if constexpr (finish == Finish::mean) {
    q = sum.s / n;
    half = inverse;
  } else {
    q = square_root(sum.s);
    inverse = 1.0 / (q + 0x1p-600);
    n = q;
    half = 0.5 * inverse;
  }
  if constexpr (near) return {q, Vector{}, sum.width * inverse};
  const Vector t = (rest_of_product(sum.s, q, n) + sum.t) * half;
  const Vector s = q + t;
  return {s, t - (s - q), sum.width * inverse};
}

template <Type type>
using ResultsOf =
    std::conditional_t<type == Type::float64, Vector,
                       std::conditional_t<type == Type::float32, HalfNarrow, Shorts>>;

// Results of sums that are known: s + t, those of finishes with t = 0 unless they are means in
// binary64.
template <Type type, Finish finish>
inline ResultsOf<type> round_exact_sums(const Sums& sum, Vector count, Vector inverse) {
  if constexpr (finish == Finish::none) {
    if constexpr (type == Type::float64)
      return sum.s;
    else
      return round_known<type>(sum.s, sum.t);
  } else if constexpr (finish == Finish::mean) {
    if constexpr (type == Type::float64)
      return round_mean(sum, count, inverse);
    else {
      const Vector q = sum.s / count;
      return round_known<type>(q, rest_of_product(sum.s, q, count));
    }
  } else {
    const Vector q = square_root(sum.s);
    if constexpr (type == Type::float64)
      return q;
    else
      return round_known<type>(q, rest_of_product(sum.s, q, q));
  }
}

// Results of sums of which both ends give the same: `decided`.
template <Type type, Finish finish>
inline ResultsOf<type> round_both_ends(Sums sum, Vector count, Vector inverse, Bytes& decided) {
  constexpr bool kNear = type != Type::float64;
  if constexpr (finish != Finish::none) sum.width += size_of(sum.s) * 0x1p-100;
  const Mask usual = (Mask)(size_of(sum.s) >= kLeastDecidable);
  const Sums value = finish_sums<finish, kNear>(sum, count, inverse);
  const Vector s = value.s;
  const Vector size = size_of(s);
  Vector width = value.width;
  if constexpr (finish != Finish::none) width *= 1 + 0x1p-9;
  if constexpr (type == Type::float64) {
    width += size * 0x1p-100;
    const Vector low = s + (value.t - width);
    const Vector high = s + (value.t + width);
    // The root of a sum that is too small for its width may be large.
    const Mask same = (Mask)(low == high) & (Mask)(size >= kLeastDecidable) & usual;
    decided = __builtin_convertvector(same, Bytes);
    return high;
  } else {
    // 2^-50 covers the roundings of s and of the ends; where the ends are rounded twice,
    // 2^-22 and 2^-149 cover those to binary32, normal and subnormal.
    const Vector least = Vector{} + 0x1p-149;
    width +=
        type == Type::float32 ? size * 0x1p-50 : size * 0x1p-22 + (size < least ? size : least);
    const HalfNarrow low = __builtin_convertvector(s - width, HalfNarrow);
    const HalfNarrow high = __builtin_convertvector(s + width, HalfNarrow);
    HalfMask same;
    ResultsOf<type> result;
    if constexpr (type == Type::float32) {
      result = high;
      // 0 and -0 are the same number, but not the same result.
      same = (HalfMask)(low == high) & (HalfMask)((HalfMask)low == (HalfMask)high);
    } else {
      result = round_to_half<type>(high);
      same = __builtin_convertvector(result == round_to_half<type>(low), HalfMask) &
             (HalfMask)(high <= 0x1.fffffep127f);
    }
    if constexpr (finish != Finish::none) same &= __builtin_convertvector(usual, HalfMask);
    decided = __builtin_convertvector(same, Bytes);
    return result;
  }
}

// Sets results[i], of `type`, to f of the sum i, and open[i] to 0, or to 0xff where it cannot
// decide, for i < n; returns whether any is open. Reads and writes up to the next multiple of
// kWidth. Sums that are known, of bound 0, are rounded. Of others both ends are, as in
// `Results::decide`, which decides more: here infinities, NaNs and small sums stay open.
template <Type type, Finish finish>
bool round_sums(const Enclosures& enclosures, const Terms& terms, std::size_t n, void* results,
                std::uint8_t* open) {
  auto* outputs = static_cast<Bits<type>*>(results);
  Vector count = Vector{} + static_cast<double>(terms.all);
  Vector inverse = 1.0 / count;
  Bytes any{};
  for (std::size_t i = 0; i < n; i += kWidth) {
    if (finish == Finish::mean && terms.own) {
      count = to_double(load_vector<Wide>(terms.own + i));
      inverse = 1.0 / count;
    }
    const Vector hi = load_vector<Vector>(enclosures.hi + i);
    const Vector lo = load_vector<Vector>(enclosures.lo + i);
    const Vector bound = load_vector<Vector>(enclosures.bound + i);
    Sums sum;
    sum.s = two_sum(hi, lo, sum.t);
    sum.width = bound * (1 + 0x1p-9);
    const Vector size = size_of(sum.s);
    Mask known = (Mask)(bound == 0.0);
    if constexpr (finish == Finish::none) {
      known &= (Mask)(size < __builtin_inf());
    } else {
      // Zeros, and what no finish makes too small or too large.
      known &= ((Mask)(size == 0.0) | (Mask)(size >= kLeastDecidable)) & (Mask)(size < 0x1p900);
      if constexpr (finish == Finish::mean) known &= (Mask)(count > 0.0);
      if constexpr (finish == Finish::root && type == Type::float64) {
        known &= (Mask)(size == 0.0);
      } else if constexpr (type != Type::float64) {
        known &= (Mask)(sum.t == 0.0);
      }
    }
    ResultsOf<type> result;
    Bytes undecided{};
    if (!has_any(~known)) {
      result = round_exact_sums<type, finish>(sum, count, inverse);
    } else {
      Bytes decided;
      result = round_both_ends<type, finish>(sum, count, inverse, decided);
      if (has_any(known)) {
        using Each = typename SignedOf<sizeof result[0]>::Integer;
        typedef Each Mask_ __attribute__((vector_size(sizeof result)));
        const auto exact = round_exact_sums<type, finish>(sum, count, inverse);
        result = __builtin_convertvector(known, Mask_) != 0 ? exact : result;
        decided |= __builtin_convertvector(known, Bytes);
      }
      undecided = ~decided;
    }
    store_vector(outputs + i, result);
    store_vector(open + i, undecided);
    any |= undecided;
  }
  bool result = false;
  for (std::size_t i = 0; i < kWidth; ++i) result |= any[i] != 0;
  return result;
}

template <Type type>
bool round_tile(Finish finish, const Enclosures& enclosures, const Terms& terms, std::size_t n,
                void* results, std::uint8_t* open) {
  switch (finish) {
    case Finish::none:
      return round_sums<type, Finish::none>(enclosures, terms, n, results, open);
    case Finish::mean:
      return round_sums<type, Finish::mean>(enclosures, terms, n, results, open);
    case Finish::root:
      return round_sums<type, Finish::root>(enclosures, terms, n, results, open);
    case Finish::log:  // not in vectors
      break;
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace halfulp
