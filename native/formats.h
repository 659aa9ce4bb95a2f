// The facts of the eight element types. Includes nothing of halfulp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp {

// Values are ONNX's TensorProto.DataType; names are NumPy's.
enum class Type : int {
  float32 = 1,
  int32 = 6,
  int64 = 7,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  bfloat16 = 16,
};

// Integers that are read as wider ones: nothing else has these types. Numbers as of Type.
enum class SmallType : int {
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  boolean = 9,
};

// The element of an array in memory: its bits, unsigned.
template <Type type>
struct Element;

struct Format {
  Type type;
  int bytes;
  bool is_float;
  bool is_signed;
  // IEEE 754's p, emin and emax (0 for integers).
  int precision;
  int emin;
  int emax;

  // The exponent of the least positive number, a subnormal.
  constexpr int least_exponent() const { return is_float ? emin - precision + 1 : 0; }
  constexpr std::uint64_t infinity() const {
    return static_cast<std::uint64_t>(2 * emax + 1) << (precision - 1);
  }
  constexpr std::uint64_t sign() const { return std::uint64_t{1} << (8 * bytes - 1); }
  // Sign 0, payload 0: the one NaN that is ever returned.
  constexpr std::uint64_t quiet_nan() const {
    return infinity() | std::uint64_t{1} << (precision - 2);
  }
};

inline constexpr Format kFormats[] = {
    {Type::bfloat16, 2, true, true, 8, -126, 127},
    {Type::float16, 2, true, true, 11, -14, 15},
    {Type::float32, 4, true, true, 24, -126, 127},
    {Type::float64, 8, true, true, 53, -1022, 1023},
    {Type::int32, 4, false, true, 0, 0, 0},
    {Type::int64, 8, false, true, 0, 0, 0},
    {Type::uint32, 4, false, false, 0, 0, 0},
    {Type::uint64, 8, false, false, 0, 0, 0},
};

constexpr const Format* find_format(Type type) {
  for (const Format& format : kFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

constexpr const Format& format_of(Type type) { return *find_format(type); }

struct SmallFormat {
  SmallType type;
  int bytes;
  Type read_as;
};

inline constexpr SmallFormat kSmallFormats[] = {
    {SmallType::uint8, 1, Type::uint32},  {SmallType::int8, 1, Type::int32},
    {SmallType::uint16, 2, Type::uint32}, {SmallType::int16, 2, Type::int32},
    {SmallType::boolean, 1, Type::int32},
};

constexpr const SmallFormat& format_of(SmallType type) {
  const SmallFormat* format = kSmallFormats;
  while (format->type != type) ++format;
  return *format;
}

template <>
struct Element<Type::bfloat16> {
  using Bits = std::uint16_t;
};
template <>
struct Element<Type::float16> {
  using Bits = std::uint16_t;
};
template <>
struct Element<Type::float32> {
  using Bits = std::uint32_t;
};
template <>
struct Element<Type::float64> {
  using Bits = std::uint64_t;
};
template <>
struct Element<Type::int32> {
  using Bits = std::uint32_t;
};
template <>
struct Element<Type::int64> {
  using Bits = std::uint64_t;
};
template <>
struct Element<Type::uint32> {
  using Bits = std::uint32_t;
};
template <>
struct Element<Type::uint64> {
  using Bits = std::uint64_t;
};

template <Type type>
using Bits = typename Element<type>::Bits;

}  // namespace halfulp
