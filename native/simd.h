// The few vector operations that the kernels use, per instruction set.
// May include formats.h only. Everything here has internal linkage: a translation unit
// compiled for wide instructions must not lend an inline function to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats.h"

namespace halfulp {
namespace {

// GCC and Clang vectors: +, -, * act on each lane in binary64.
constexpr int kVectorBytes = 16;
constexpr std::size_t kWidth = kVectorBytes / sizeof(double);
typedef double Vector __attribute__((vector_size(kVectorBytes)));

inline double from_bits(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The exact value of one element as binary64. The sign may be lost: it is to be squared.
template <Type type>
inline double widen(Bits<type> x) {
  if constexpr (type == Type::float64) {
    return from_bits(x);
  } else if constexpr (type == Type::float16) {
    const std::uint64_t magnitude = x & 0x7fff;
    if (magnitude < 0x0400) return static_cast<double>(magnitude) * 0x1p-24;
    const std::uint64_t bias = magnitude < 0x7c00 ? 1023 - 15 : 2047 - 31;
    return from_bits((magnitude << 42) + (bias << 52));
  } else {
    const std::uint32_t bits = type == Type::bfloat16 ? std::uint32_t{x} << 16 : x;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
  }
}

template <Type type>
inline Vector load(const Bits<type>* x) {
  Vector v;
  for (std::size_t i = 0; i < kWidth; ++i) v[i] = widen<type>(x[i]);
  return v;
}

// x * x = p + e exactly if e is a multiple of 2^-1074, else to within 2^-1073.
inline void square(Vector x, Vector& p, Vector& e) {
  p = x * x;
#if defined(__FP_FAST_FMA)
  for (std::size_t i = 0; i < kWidth; ++i) e[i] = __builtin_fma(x[i], x[i], -p[i]);
#else
  // Dekker's product, split after Veltkamp. Where the split overflows, so does p.
  const Vector scaled = x * 0x1.0000002p27;
  const Vector high = scaled - (scaled - x);
  const Vector low = x - high;
  e = ((high * high - p) + (high * low) * 2.0) + low * low;
#endif
}

// s + r = a + b exactly (Knuth's TwoSum).
template <class V>
inline V two_sum(V a, V b, V& r) {
  const V s = a + b;
  const V z = s - a;
  r = (a - (s - z)) + (b - z);
  return s;
}

}  // namespace
}  // namespace halfulp
