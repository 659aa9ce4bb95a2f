// Products of numbers in as many digits as are asked for: what decides those that two binary64
// numbers leave open. Proved in docs/exactness.md#products.
// May include formats.h, scaled_product.h and terms.h only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats.h"
#include "scaled_product.h"
#include "terms.h"

namespace halfulp {

// A product that is cut to so many digits of 64 bits: at least digits * 2^exponent, and not
// more than by two units of the last digit for each factor by which it was cut. It is exact
// while what its odd factors multiply to has no more bits.
class WholeProduct {
 public:
  explicit WholeProduct(std::size_t digits) : digits_(digits) { reset(); }

  // Makes it 1.
  void reset() {
    std::fill(digits_.begin(), digits_.end(), 0);
    digits_.back() = kTop;
    exponent_ = 1 - 64 * size();
    cuts_ = 0;
    negative_ = is_zero_ = false;
  }

  void set_digits(std::size_t digits) {
    digits_.resize(digits);
    reset();
  }

  // Multiplies by m * 2^e, or less that.
  void multiply(std::uint64_t m, int e, bool negative) {
    negative_ ^= negative;
    if (m == 0) is_zero_ = true;
    if (is_zero_) return;
    const int zeros = __builtin_clzll(m);
    m <<= zeros;
    exponent_ += 64 + e - zeros;
    // Its highest bit, or the next, is set.
    uint128 carry = uint128{digits_[0]} * m;
    std::uint64_t cut = static_cast<std::uint64_t>(carry);
    carry >>= 64;
    for (std::size_t i = 1; i < digits_.size(); ++i) {
      carry += uint128{digits_[i]} * m;
      digits_[i - 1] = static_cast<std::uint64_t>(carry);
      carry >>= 64;
    }
    digits_.back() = static_cast<std::uint64_t>(carry);
    if (digits_.back() < kTop) {
      --exponent_;
      for (std::size_t i = digits_.size() - 1; i > 0; --i) {
        digits_[i] = digits_[i] << 1 | digits_[i - 1] >> 63;
      }
      digits_[0] = digits_[0] << 1 | cut >> 63;
      cut <<= 1;
    }
    cuts_ += cut != 0;
  }

  bool is_negative() const { return negative_ && !is_zero_; }
  bool is_exact() const { return cuts_ == 0; }
  std::size_t digits() const { return digits_.size(); }

  // Bits of the size of its whole part, if that is not 0: exact also where it was cut.
  std::int64_t bits() const { return is_zero_ ? 0 : exponent_ + 64 * size(); }

  // A whole number of at most 64 bits that was never cut, without its sign.
  std::uint64_t word() const { return bits() <= 0 ? 0 : digits_.back() >> (64 - bits()); }

  // Rounds it, if what is known determines the result.
  bool round(const Format& format, std::uint64_t* result) const {
    const std::uint64_t sign = negative_ ? format.sign() : 0;
    if (is_zero_) {
      *result = 0;
      return true;
    }
    const std::int64_t e = exponent_ + 64 * (size() - 1);
    bool rest = false;
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) rest |= digits_[i] != 0;
    *result = sign | round_scaled(format, digits_.back(), e, rest || cuts_ > 0);
    if (cuts_ == 0) return true;
    std::uint64_t high = digits_.back();
    uint128 carry = 2 * static_cast<uint128>(cuts_) + 1;
    rest = false;
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      carry += digits_[i];
      rest |= static_cast<std::uint64_t>(carry) != 0;
      carry >>= 64;
    }
    high += static_cast<std::uint64_t>(carry);
    const bool overflows = high < kTop;
    return *result == (sign | (overflows ? round_scaled(format, kTop, e + 1, true)
                                         : round_scaled(format, high, e, rest)));
  }

 private:
  static constexpr std::uint64_t kTop = std::uint64_t{1} << 63;

  std::int64_t size() const { return static_cast<std::int64_t>(digits_.size()); }

  std::vector<std::uint64_t> digits_;  // the least first; the highest bit is set
  std::int64_t exponent_ = 0;
  std::int64_t cuts_ = 0;  // factors by which it was cut
  bool negative_ = false;
  bool is_zero_ = false;
};

}  // namespace halfulp
