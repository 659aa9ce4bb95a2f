// ExponentialSums of exponentials, each less a shift of its own. Proved in
// docs/exactness.md#log-sum-exp. May include dispatch.h, enclosure.h and finish.h only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "dispatch.h"
#include "enclosure.h"
#include "finish.h"

namespace halfulp {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What is known of one output: the sum of e^(x - shift) of its elements is high + low to within
// bound. If no element is finite the shift is not: infinite if that is the greatest, NaN if any
// is. Of integers the sum is of what they are more than the greatest, if there are any.
struct ExponentialSum {
  double& shift;
  double& high;
  double& low;
  double& bound;

  void set(const ExponentialSum& other) const {
    shift = other.shift;
    high = other.high;
    low = other.low;
    bound = other.bound;
  }
};

// The same of neighbouring outputs, an entry each, and kPadding more.
struct ExponentialSums {
  double* shift;
  double* high;
  double* low;
  double* bound;

  ExponentialSum operator[](std::int64_t i) const {
    return {shift[i], high[i], low[i], bound[i]};
  }
  ExponentialSums operator+(std::int64_t i) const {
    return {shift + i, high + i, low + i, bound + i};
  }
  void clear(std::int64_t n) const {
    std::fill_n(shift, n, -kInfinity);
    for (double* const each : {high, low, bound}) std::fill_n(each, n, 0);
  }
};

// Adds what a kernel found.
inline void add(const ExponentialSum& sum, double share, std::int64_t n, double high,
                double low) {
  accumulate(sum.high, sum.low, sum.bound, high, low,
             high * share + static_cast<double>(n + kMostPadding) * kLeastExponential);
}

// Adds e^(x - shift) of n numbers of binary64.
inline void add_powers(const ExponentialSum& sum, const double* x, std::int64_t n,
                       double shift) {
  double high, low;
  find_exponentials(Type::float64)
      .twofold.row(reinterpret_cast<const std::byte*>(x), n, shift, &high, &low);
  add(sum, kTwofoldExponential, n, high, low);
}

// Changes the shift to another, not less than it.
inline void shift(const ExponentialSum& sum, double to) {
  if (to == sum.shift) return;
  double high, low;
  find_exponentials(Type::float64)
      .twofold.row(reinterpret_cast<const std::byte*>(&sum.shift), 1, to, &high, &low);
  const double product = sum.high * high;
  const double rest = -rest_of_product(product, sum.high, high);
  const double few = static_cast<double>(2 + kMostPadding) * kLeastExponential;
  const double error = high * kTwofoldExponential + few;
  sum.bound = (sum.bound * (high + error) + (sum.high + sum.bound) * error) * (1 + 0x1p-20) +
              product * 0x1p-100 + 0x1p-1000;
  sum.low = rest + (sum.high * low + sum.low * high);
  sum.high = product;
  sum.shift = to;
}

// Changes the shift so that it suits elements of which this is the greatest, or NaN.
inline void rise(const ExponentialSum& sum, double greatest) {
  // Also false if either is NaN.
  if (greatest <= sum.shift + (sum.shift > -kInfinity ? kMostExponent : 0)) return;
  if (std::isfinite(sum.shift) && std::isfinite(greatest)) {
    shift(sum, greatest);
  } else if (sum.shift == sum.shift) {
    sum.shift = greatest;
  }
}

// Joins a sum to another, both shifted to the greater shift.
inline void join(const ExponentialSum& sum, const ExponentialSum& other) {
  if (!std::isfinite(sum.shift) || !std::isfinite(other.shift)) {
    // NaN, or the greater.
    if (!(sum.shift >= other.shift) && sum.shift == sum.shift) sum.set(other);
    return;
  }
  const double to = std::max(sum.shift, other.shift);
  shift(sum, to);
  shift(other, to);
  accumulate(sum.high, sum.low, sum.bound, other.high, other.low, other.bound);
}

}  // namespace halfulp
