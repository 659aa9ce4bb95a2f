// The few vector operations that the kernels use, per instruction set. May include formats.h
// and widen.h only. Everything here has internal linkage: a translation unit compiled for wide
// instructions must not lend an inline function to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && !defined(HALFULP_PORTABLE)
#define HALFULP_NEON
#include <arm_neon.h>
#endif

#include "../formats.h"
#include "../widen.h"

namespace halfulp {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kRegisters = 32;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
constexpr std::size_t kRegisters = 16;
#else
constexpr std::size_t kVectorBytes = 16;
constexpr std::size_t kRegisters = 16;
#endif

// GCC's and Clang's vectors: operators act on each of their numbers.
typedef double Vector __attribute__((vector_size(kVectorBytes)));
typedef float Narrow __attribute__((vector_size(kVectorBytes)));
typedef float HalfNarrow __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint64_t Wide __attribute__((vector_size(kVectorBytes)));

constexpr std::size_t kWidth = kVectorBytes / sizeof(double);
constexpr std::size_t kNarrowWidth = 2 * kWidth;

// Masks, and the integers of results, kWidth of them each.
typedef std::int64_t Mask __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t HalfMask __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Integers __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint16_t Shorts __attribute__((vector_size(kVectorBytes / 4)));
typedef std::int8_t Bytes __attribute__((vector_size(kVectorBytes / 8)));

// An integer as wide as an element, and a vector of them.
template <std::size_t bytes>
struct SignedOf;
template <>
struct SignedOf<2> {
  typedef std::int16_t Integer;
  typedef Integer Integers __attribute__((vector_size(kVectorBytes)));
};
template <>
struct SignedOf<4> {
  typedef std::int32_t Integer;
  typedef Integer Integers __attribute__((vector_size(kVectorBytes)));
};
template <>
struct SignedOf<8> {
  typedef std::int64_t Integer;
  typedef Integer Integers __attribute__((vector_size(kVectorBytes)));
};

template <class V>
inline V load_vector(const void* source) {
  V v;
  std::memcpy(&v, source, sizeof v);
  return v;
}

template <class V>
inline void store_vector(void* target, V v) {
  std::memcpy(target, &v, sizeof v);
}

// Numbers without their signs.
template <class V>
inline V size_of(V x) {
  using Bits = SignedOf<sizeof(V{}[0])>;
  return (V)((typename Bits::Integers)x & std::numeric_limits<typename Bits::Integer>::max());
}

// kNarrowWidth elements of a half type in binary32, exactly; `sizes` lose their signs, before
// or after, as is quicker.
template <Type type, bool sizes = false>
inline Narrow load_narrow(const std::uint16_t* x) {
#if defined(__AVX512F__)
  __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  if constexpr (sizes) raw = _mm256_and_si256(raw, _mm256_set1_epi16(0x7fff));
  if constexpr (type == Type::float16) return (Narrow)_mm512_cvtph_ps(raw);
  return (Narrow)_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16);
#else
  if constexpr (sizes) return size_of(load_narrow<type>(x));
#if defined(__AVX2__)
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  if constexpr (type == Type::float16) return (Narrow)_mm256_cvtph_ps(raw);
  return (Narrow)_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16);
#elif defined(HALFULP_NEON)
  if constexpr (type == Type::float16) {
    return (Narrow)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
  }
  return (Narrow)vshll_n_u16(vld1_u16(x), 16);
#else
  Narrow v;
  for (std::size_t i = 0; i < kNarrowWidth; ++i) v[i] = widen_half<type>(x[i]);
  return v;
#endif
#endif
}

// Twice as many: the first and the second half of them or, where that is quicker, those of
// even and of odd index. Without their signs, if `sizes`.
template <Type type>
constexpr bool kByParity = type == Type::bfloat16;

template <Type type, bool sizes = false>
inline void load_two_narrow(const std::uint16_t* x, Narrow (&two)[2]) {
  if constexpr (kByParity<type>) {
    typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));
    const Words words = load_vector<Words>(x);
    const Words low = words << 16;
    two[0] = (Narrow)(sizes ? low & 0x7fffffff : low);
    two[1] = (Narrow)(words & (sizes ? 0x7fff0000 : 0xffff0000));
  } else {
    for (std::size_t i = 0; i < 2; ++i) {
      two[i] = load_narrow<type, sizes>(x + i * kNarrowWidth);
    }
  }
}

inline Vector widen(HalfNarrow x) {
#if defined(__AVX512F__)
  return (Vector)_mm512_cvtps_pd((__m256)x);
#elif defined(__AVX2__)
  return (Vector)_mm256_cvtps_pd((__m128)x);
#else
  return __builtin_convertvector(x, Vector);
#endif
}

inline Vector widen_low(Narrow x) {
#if defined(__AVX512F__)
  return (Vector)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
#elif defined(__AVX2__)
  return (Vector)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
#else
  HalfNarrow half;
  std::memcpy(&half, &x, sizeof half);
  return widen(half);
#endif
}

inline Vector widen_high(Narrow x) {
#if defined(__AVX512F__)
  return (Vector)_mm512_cvtps_pd(
      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd((__m512)x), 1)));
#elif defined(__AVX2__)
  return (Vector)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#else
  HalfNarrow half;
  std::memcpy(&half, reinterpret_cast<const char*>(&x) + sizeof half, sizeof half);
  return widen(half);
#endif
}

// kWidth elements of a float type in binary64, exactly.
template <Type type>
inline Vector load(const Bits<type>* x) {
  if constexpr (type == Type::float64) {
    Vector v;
    std::memcpy(&v, x, sizeof v);
    return v;
  } else if constexpr (type == Type::float32) {
    return widen(load_vector<HalfNarrow>(x));
  } else {
#if defined(__AVX512F__)
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    if constexpr (type == Type::float16) return (Vector)_mm512_cvtps_pd(_mm256_cvtph_ps(raw));
    return (Vector)_mm512_cvtps_pd(
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16)));
#elif defined(__AVX2__)
    const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    if constexpr (type == Type::float16) return (Vector)_mm256_cvtps_pd(_mm_cvtph_ps(raw));
    return (Vector)_mm256_cvtps_pd(
        _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(raw), 16)));
#else
    Vector v;
    for (std::size_t i = 0; i < kWidth; ++i) {
      v[i] = static_cast<double>(widen_half<type>(x[i]));
    }
    return v;
#endif
  }
}

// The first `count` < N elements of x, then zeros, which add nothing. No byte beyond them
// is read.
template <std::size_t N, class T>
struct Padded {
  T elements[N];
  Padded(const T* x, std::size_t count) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) * N >= 16) {
      const std::uint64_t bytes = (std::uint64_t{1} << (count * sizeof(T))) - 1;
      if constexpr (sizeof elements == 64) {
        _mm512_storeu_si512(elements, _mm512_maskz_loadu_epi8(bytes, x));
      } else if constexpr (sizeof elements == 32) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(elements),
                            _mm256_maskz_loadu_epi8(static_cast<__mmask32>(bytes), x));
      } else {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(elements),
                         _mm_maskz_loadu_epi8(static_cast<__mmask16>(bytes), x));
      }
      return;
    }
#endif
    for (std::size_t i = 0; i < N; ++i) elements[i] = i < count ? x[i] : T{0};
  }
};

// a * b + c, rounded once with a hardware fma, else twice.
inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return (Vector)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
  return (Vector)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(HALFULP_NEON)
  return (Vector)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

inline Narrow multiply_add(Narrow a, Narrow b, Narrow c) {
#if defined(__AVX512F__)
  return (Narrow)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (Narrow)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(HALFULP_NEON)
  return (Narrow)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

#if defined(__FMA__) || defined(HALFULP_NEON)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

inline bool has_any(Mask mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  std::int64_t any = 0;
  for (std::size_t i = 0; i < kWidth; ++i) any |= mask[i];
  return any != 0;
#endif
}

// The smaller of numbers.
inline Vector least_of(Vector a, Vector b) {
#if defined(__AVX512F__)
  return (Vector)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
  return (Vector)_mm256_min_pd((__m256d)a, (__m256d)b);
#endif
  return a < b ? a : b;
}

// The smaller, or the greater, of signed integers.
template <class V>
inline V smaller(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (sizeof a[0] == 2) return (V)_mm512_min_epi16((__m512i)a, (__m512i)b);
  if constexpr (sizeof a[0] == 4) return (V)_mm512_min_epi32((__m512i)a, (__m512i)b);
  if constexpr (sizeof a[0] == 8) return (V)_mm512_min_epi64((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  if constexpr (sizeof a[0] == 2) return (V)_mm256_min_epi16((__m256i)a, (__m256i)b);
  if constexpr (sizeof a[0] == 4) return (V)_mm256_min_epi32((__m256i)a, (__m256i)b);
  if constexpr (sizeof a[0] == 8) return a < b ? a : b;
#else
  return a < b ? a : b;
#endif
}

template <class V>
inline V greater(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (sizeof a[0] == 2) return (V)_mm512_max_epi16((__m512i)a, (__m512i)b);
  if constexpr (sizeof a[0] == 4) return (V)_mm512_max_epi32((__m512i)a, (__m512i)b);
  if constexpr (sizeof a[0] == 8) return (V)_mm512_max_epi64((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  if constexpr (sizeof a[0] == 2) return (V)_mm256_max_epi16((__m256i)a, (__m256i)b);
  if constexpr (sizeof a[0] == 4) return (V)_mm256_max_epi32((__m256i)a, (__m256i)b);
  if constexpr (sizeof a[0] == 8) return a > b ? a : b;
#else
  return a > b ? a : b;
#endif
}

// Products of the low 32 bits of 64-bit integers, without sign and with one.
inline Wide multiply_low_halves(Wide a, Wide b) {
#if defined(__AVX512F__)
  return (Wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Wide)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(HALFULP_NEON)
  return (Wide)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
  return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

inline Wide multiply_signed_low_halves(Wide a, Wide b) {
#if defined(__AVX512F__)
  return (Wide)_mm512_mul_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Wide)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#elif defined(HALFULP_NEON)
  return (Wide)vmull_s32(vmovn_s64((int64x2_t)a), vmovn_s64((int64x2_t)b));
#else
  // A number below 0 counts as 2^32 more without its sign.
  const Wide a_below = (Wide)((SignedOf<4>::Integers)a >> 31);
  const Wide b_below = (Wide)((SignedOf<4>::Integers)b >> 31);
  return multiply_low_halves(a, b) - (((a_below & b) + (b_below & a)) << 32);
#endif
}

// Squares of 64-bit integers modulo 2^64: of two halves, as l^2 + 2^33 l h, where no
// instruction multiplies all 64 bits.
inline Wide square_wide(Wide x) {
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  const __m256i v = (__m256i)x;
  const __m256i cross = _mm256_mul_epu32(v, _mm256_srli_epi64(v, 32));
  return (Wide)_mm256_add_epi64(_mm256_mul_epu32(v, v), _mm256_slli_epi64(cross, 33));
#else
  return x * x;
#endif
}

}  // namespace
}  // namespace halfulp
