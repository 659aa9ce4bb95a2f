// Elements of float types in wider ones, exactly, one at a time.
// May include formats.h only. Internal linkage: see kernels/simd.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats.h"

namespace halfulp {
namespace {

inline double bits_to_double(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float bits_to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A float16 in binary32, exactly.
inline float widen_float16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fff;
  const std::uint32_t sign = std::uint32_t{x} >> 15 << 31;
  const float unit = sign != 0 ? -0x1p-24f : 0x1p-24f;
  if (magnitude < 0x0400) return static_cast<float>(magnitude) * unit;
  const std::uint32_t bias = magnitude < 0x7c00 ? 127 - 15 : 255 - 31;
  return bits_to_float(((magnitude << 13) + (bias << 23)) | sign);
}

template <Type type>
inline float widen_half(std::uint16_t x) {
  return type == Type::float16 ? widen_float16(x) : bits_to_float(std::uint32_t{x} << 16);
}

}  // namespace
}  // namespace halfulp
