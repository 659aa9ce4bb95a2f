// The exact sum of squares: an integer wide enough for every square of a type.
// May include formats.h and rounding.h only.
#pragma once

#include <cstdint>

#include "formats.h"
#include "rounding.h"

namespace halfulp {

__extension__ typedef unsigned __int128 uint128;

// S = digits * 2^(2 * least_exponent). The digits hold the square of the greatest finite
// element and 64 bits more, so 2^64 additions cannot overflow: more than memory has
// addresses. Carries are settled at once, so that equal sums have equal digits.
template <Type type>
class Accumulator {
 public:
  static constexpr Format kFormat = format_of(type);
  static constexpr int kExponent = 2 * kFormat.least_exponent();
  static constexpr int kSquareBits =
      kFormat.is_float ? 2 * (kFormat.emax + 1) - kExponent : 16 * kFormat.bytes;
  static constexpr int kDigits = kSquareBits <= 128 ? 3 : (kSquareBits + 64 + 63) / 64;

  void add(Bits<type> x) {
    if constexpr (kFormat.is_float) {
      constexpr int kFraction = kFormat.precision - 1;
      constexpr int kAllOnes = 2 * kFormat.emax + 1;
      const std::uint64_t fraction = x & ((std::uint64_t{1} << kFraction) - 1);
      const int field = static_cast<int>(std::uint64_t{x} >> kFraction) & kAllOnes;
      if (field == kAllOnes) {
        (fraction != 0 ? nan_ : infinite_) = true;
      } else if (field == 0) {
        add_shifted(uint128{fraction} * fraction, 0);
      } else {
        const std::uint64_t m = fraction | std::uint64_t{1} << kFraction;
        add_shifted(uint128{m} * m, 2 * (field - 1));
      }
    } else {
      const bool negative = kFormat.is_signed && x >> (8 * kFormat.bytes - 1) != 0;
      const Bits<type> m = negative ? static_cast<Bits<type>>(0 - x) : x;
      add_shifted(uint128{m} * m, 0);
    }
  }

  // Floats: the sum correctly rounded to `format`. Integers: the sum modulo 2^64.
  std::uint64_t result(const Format& format) const {
    if (nan_) return format.quiet_nan();
    if (infinite_) return format.infinity();
    if (!format.is_float) return digits_[0];
    return round_digits(format, digits_, kDigits, kExponent);
  }

  const std::uint64_t* digits() const { return digits_; }

 private:
  void add_shifted(uint128 square, int shift) {
    const int bit = shift % 64;
    std::uint64_t* digit = digits_ + shift / 64;
    const uint128 low = square << bit;
    const std::uint64_t top = bit == 0 ? 0 : static_cast<std::uint64_t>(square >> (128 - bit));
    uint128 sum = uint128{digit[0]} + static_cast<std::uint64_t>(low);
    digit[0] = static_cast<std::uint64_t>(sum);
    sum = (sum >> 64) + digit[1] + static_cast<std::uint64_t>(low >> 64);
    digit[1] = static_cast<std::uint64_t>(sum);
    sum = (sum >> 64) + digit[2] + top;
    digit[2] = static_cast<std::uint64_t>(sum);
    for (std::uint64_t carry = static_cast<std::uint64_t>(sum >> 64); carry != 0;) {
      ++digit;
      digit[2] += carry;
      carry = digit[2] == 0;
    }
  }

  std::uint64_t digits_[kDigits] = {};
  bool nan_ = false;
  bool infinite_ = false;
};

}  // namespace halfulp
