// Real numbers to any precision, each with a bound of its error: their exponentials and
// logarithms, for what binary64 leaves open. Proved in docs/exactness.md#logarithms.
// May include digits.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "digits.h"

namespace halfulp {

// A number >= 0: its digits, the least first, are within `error` of it, in units of the least.
// Two digits are before the point; all numbers of one calculation have as many behind it.
struct Real {
  std::vector<std::uint64_t> digits;
  uint128 error = 0;

  static constexpr int kWhole = 2;

  explicit Real(int places) : digits(places + kWhole) {}
  Real(int places, std::uint64_t whole) : Real(places) { digits[places] = whole; }

  int size() const { return static_cast<int>(digits.size()); }
  int places() const { return size() - kWhole; }
  bool is_zero() const { return highest_of(digits.data(), size()) < 0; }

  // More than so many units times the number, for less than 2^63 of them.
  uint128 times(uint128 units) const {
    const int top = highest_of(digits.data(), size());
    if (top < 0) return 1;
    if (top >= places()) {
      return units * ((uint128{digits[places() + 1]} << 64 | digits[places()]) + 1);
    }
    // Below 2^-zeros.
    const int zeros = 64 * (places() - 1 - top) + __builtin_clzll(digits[top]);
    return (zeros < 128 ? units >> zeros : 0) + 1;
  }

  // Adds, or subtracts, a number; one that is not greater.
  void add(const Real& other) {
    std::uint64_t carry = 0;
    for (int i = 0; i < size(); ++i) {
      const uint128 sum = uint128{digits[i]} + other.digits[i] + carry;
      digits[i] = static_cast<std::uint64_t>(sum);
      carry = static_cast<std::uint64_t>(sum >> 64);
    }
    error += other.error;
  }
  // Returns false if the digits of the other are more: these are left modulo 2^128 then.
  bool subtract(const Real& other) {
    std::uint64_t borrow = 0;
    for (int i = 0; i < size(); ++i) {
      const uint128 less = uint128{digits[i]} - other.digits[i] - borrow;
      digits[i] = static_cast<std::uint64_t>(less);
      borrow = static_cast<std::uint64_t>(less >> 64) & 1;
    }
    error += other.error;
    return borrow == 0;
  }

  void multiply(std::uint64_t n) {
    std::uint64_t carry = 0;
    for (std::uint64_t& digit : digits) {
      const uint128 product = uint128{digit} * n + carry;
      digit = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    error *= n;
  }
  void divide(std::uint64_t n) {
    std::uint64_t rest = 0;
    for (int i = size() - 1; i >= 0; --i) {
      const uint128 value = uint128{rest} << 64 | digits[i];
      digits[i] = static_cast<std::uint64_t>(value / n);
      rest = static_cast<std::uint64_t>(value % n);
    }
    error = error / n + 2;
  }
  void shift_right(std::int64_t bits) {
    const std::int64_t words = bits / 64;
    const int rest = static_cast<int>(bits % 64);
    const auto digit = [&](std::int64_t i) { return i < size() ? digits[i] : 0; };
    for (int i = 0; i < size(); ++i) {
      const std::uint64_t low = digit(i + words) >> rest;
      digits[i] = rest == 0 ? low : low | digit(i + words + 1) << (64 - rest);
    }
    error = (bits < 128 ? error >> bits : 0) + 2;
  }

  // Of numbers whose product is below 2^128, and errors below 2^-64.
  friend Real operator*(const Real& a, const Real& b) {
    const int size = a.size();
    const int places = a.places();
    std::vector<std::uint64_t> product(2 * size);
    const int a_top = highest_of(a.digits.data(), size);
    const int b_top = highest_of(b.digits.data(), size);
    for (int i = 0; i <= a_top; ++i) {
      std::uint64_t carry = 0;
      for (int j = 0; j <= b_top; ++j) {
        const uint128 digit = uint128{a.digits[i]} * b.digits[j] + product[i + j] + carry;
        product[i + j] = static_cast<std::uint64_t>(digit);
        carry = static_cast<std::uint64_t>(digit >> 64);
      }
      product[i + b_top + 1] = carry;
    }
    Real result(places);
    std::copy_n(product.begin() + places, size, result.digits.begin());
    result.error = b.times(a.error) + a.times(b.error) + 2;
    return result;
  }
};

// artanh(1/n) = 1/n + 1/(3 n^3) + ..., for n^2 below 2^64.
inline Real artanh_of_inverse(int places, std::uint64_t n) {
  Real power(places, 1);
  power.divide(n);
  Real sum = power;
  for (std::uint64_t i = 3; !power.is_zero(); i += 2) {
    power.divide(n * n);
    Real term = power;
    term.divide(i);
    sum.add(term);
  }
  // What is left of the series is less than twice the power.
  sum.error += 2 * power.error + 2;
  return sum;
}

// The logarithm of 2, by Machin's way.
inline Real log_of_2(int places) {
  Real sum = artanh_of_inverse(places, 26);
  sum.multiply(18);
  Real third = artanh_of_inverse(places, 8749);
  third.multiply(8);
  sum.add(third);
  Real second = artanh_of_inverse(places, 4801);
  second.multiply(2);
  sum.subtract(second);
  return sum;
}

// e^x for 0 <= x < 1: the series of x / 2^16, squared 16 times.
inline Real exp_of(Real x) {
  constexpr int kHalvings = 16;
  x.shift_right(kHalvings);
  Real term(x.places(), 1);
  Real sum = term;
  for (std::uint64_t i = 1; !term.is_zero(); ++i) {
    term = term * x;
    term.divide(i);
    sum.add(term);
  }
  sum.error += 2 * term.error + 2;  // terms decrease by more than half
  for (int i = 0; i < kHalvings; ++i) sum = sum * sum;
  return sum;
}

// e^-x = power * 2^-halvings, where the power is between 1 and 4.
struct Exponential {
  Real power;
  std::int64_t halvings;
};

// For x below 2^62.
inline Exponential exp_of_minus(const Real& x, const Real& log2) {
  const auto whole = static_cast<double>(x.digits[x.places()]);
  const double part = static_cast<double>(x.digits[x.places() - 1]) * 0x1p-64;
  // More than x / log 2, by less than 1 + 2^-8 for x below 2^40.
  auto n = static_cast<std::uint64_t>((whole + part) * 0x1.71547652b82fep0) + 1;
  for (;; ++n) {
    Real rest = log2;
    rest.multiply(n);
    if (rest.subtract(x)) return {exp_of(std::move(rest)), static_cast<std::int64_t>(n)};
  }
}

// The logarithm of x >= 1, below 2^64, near to which `estimate` is: not more than it, and less
// by at most 2^-30; a multiple of 2^-50.
inline Real log_of(const Real& x, double estimate, const Real& log2) {
  const int places = x.places();
  Real y(places);
  const auto whole = static_cast<std::uint64_t>(estimate);
  y.digits[places] = whole;
  y.digits[places - 1] =
      static_cast<std::uint64_t>((estimate - static_cast<double>(whole)) * 0x1p64);
  // log x = y + log(1 + w), where x e^-y = 1 + w.
  Real w = x;
  if (estimate > 0) {
    const Exponential inverse = exp_of_minus(y, log2);
    w = w * inverse.power;
    w.shift_right(inverse.halvings);
  }
  if (!w.subtract(Real(places, 1))) {
    // Digits below 1 of a number that is not: they are wrong by no more than their error.
    std::fill(w.digits.begin(), w.digits.end(), 0);
  }
  Real power = w;
  Real odd = w;
  Real even(places);
  for (std::uint64_t i = 2; !power.is_zero(); ++i) {
    power = power * w;
    Real term = power;
    term.divide(i);
    (i % 2 == 0 ? even : odd).add(term);
  }
  odd.error += 2 * power.error + 2;
  y.add(odd);
  y.subtract(even);
  return y;
}

}  // namespace halfulp
