// Logarithms of enclosures and of exact numbers. Proved in docs/exactness.md#logarithms.
// May include digits.h and reals.h only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "digits.h"
#include "reals.h"

namespace halfulp {

// An interval that says nothing.
inline constexpr Interval kAnything = {0, 0, std::numeric_limits<double>::infinity()};

// Numbers in two of binary64, made by tests/native/make_coefficients.py.
struct TwoNumbers {
  double high;
  double low;
};

// The logarithm of 2, of which multiples by up to 2^11 of `high` are exact.
inline constexpr TwoNumbers kLogOf2 = {0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45};

// The logarithms of 64 / n, from the first n on.
inline constexpr int kFirstInverse = 45;
inline constexpr TwoNumbers kLogs[] = {
    {0x1.68ac83e9c6a14p-2, 0x1.a64eadd740178p-58},
    {0x1.522ae0738a3d8p-2, -0x1.8f7e9b38a6979p-57},
    {0x1.3c25277333184p-2, -0x1.2ad27e50a8ec6p-56},
    {0x1.269621134db92p-2, 0x1.e0efadd9db02bp-56},
    {0x1.1178e8227e47cp-2, -0x1.0e63a5f01c691p-57},
    {0x1.f991c6cb3b379p-3, 0x1.f665066f980a2p-57},
    {0x1.d1037f2655e7bp-3, 0x1.60629242471a2p-57},
    {0x1.a93ed3c8ad9e3p-3, 0x1.bcafa9de97203p-57},
    {0x1.823c16551a3c2p-3, -0x1.1232ce70be781p-57},
    {0x1.5bf406b543db2p-3, -0x1.1f5b44c0df7e7p-61},
    {0x1.365fcb0159016p-3, 0x1.7d411a5b944adp-58},
    {0x1.1178e8227e47cp-3, -0x1.0e63a5f01c691p-58},
    {0x1.da727638446a2p-4, 0x1.401fa71733019p-58},
    {0x1.9335e5d594989p-4, -0x1.478a85704ccb7p-58},
    {0x1.4d3115d207eacp-4, 0x1.769f42c7842ccp-58},
    {0x1.08598b59e3a07p-4, -0x1.dd7009902bf32p-58},
    {0x1.894aa149fb343p-5, 0x1.a8be97660a23dp-60},
    {0x1.0415d89e74444p-5, 0x1.c05cf1d753622p-59},
    {0x1.0205658935847p-6, 0x1.27c8e8416e71fp-60},
    {0x0.0p+0, 0x0.0p+0},
    {-0x1.fc0a8b0fc03e4p-7, 0x1.83092c59642a1p-62},
    {-0x1.f829b0e783300p-6, -0x1.33e3f04f1ef23p-60},
    {-0x1.77458f632dcfcp-5, -0x1.18d3ca87b9296p-59},
    {-0x1.f0a30c01162a6p-5, -0x1.85f325c5bbacdp-59},
    {-0x1.341d7961bd1d1p-4, 0x1.b599f227becbbp-58},
    {-0x1.6f0d28ae56b4cp-4, 0x1.906d99184b992p-58},
    {-0x1.a926d3a4ad563p-4, -0x1.942f48aa70ea9p-58},
    {-0x1.e27076e2af2e6p-4, 0x1.61578001e0162p-60},
    {-0x1.0d77e7cd08e59p-3, -0x1.9a5dc5e9030acp-57},
    {-0x1.29552f81ff523p-3, -0x1.301771c407dbfp-57},
    {-0x1.44d2b6ccb7d1ep-3, -0x1.9f4f6543e1f88p-57},
    {-0x1.5ff3070a793d4p-3, 0x1.bc60efafc6f6ep-58},
    {-0x1.7ab890210d909p-3, -0x1.be36b2d6a0608p-59},
    {-0x1.9525a9cf456b4p-3, -0x1.d904c1d4e2e26p-57},
    {-0x1.af3c94e80bff3p-3, 0x1.398cff3641985p-58},
    {-0x1.c8ff7c79a9a22p-3, 0x1.4f689f8434012p-57},
    {-0x1.e27076e2af2e6p-3, 0x1.61578001e0162p-59},
    {-0x1.fb9186d5e3e2bp-3, 0x1.caaae64f21acbp-57},
    {-0x1.0a324e27390e3p-2, -0x1.7dcfde8061c03p-56},
    {-0x1.1675cababa60ep-2, -0x1.ce63eab883717p-61},
    {-0x1.22941fbcf7966p-2, 0x1.76f5eb09628afp-56},
    {-0x1.2e8e2bae11d31p-2, 0x1.8f4cdb95ebdf9p-56},
    {-0x1.3a64c556945eap-2, 0x1.c68651945f97cp-57},
    {-0x1.4618bc21c5ec2p-2, -0x1.f42decdeccf1dp-56},
    {-0x1.51aad872df82dp-2, -0x1.3927ac19f55e3p-59},
    {-0x1.5d1bdbf5809cap-2, -0x1.4236383dc7fe1p-56},
    {-0x1.686c81e9b14afp-2, 0x1.ddea0f7f58e3dp-57},
};

// s = a + b, of which r is what was rounded off.
inline double add_exactly(double a, double b, double& r) {
  const double s = a + b;
  const double z = s - a;
  r = (a - (s - z)) + (b - z);
  return s;
}

// log(1 + z) - z + z^2 / 2, nearly, for |z| <= 2^-6; `square` is z^2.
inline double tail_of_log(double z, double square) {
  double tail = -1.0 / 12;
  for (int i = 11; i >= 3; --i) tail = tail * z + (i % 2 == 0 ? -1.0 : 1.0) / i;
  return tail * (z * square);
}

// An interval around the logarithms of 1 and the numbers of one, from 2^-900 to 2^-7, as narrow
// in proportion.
inline Interval log_of_1_plus(const Interval& z) {
  const double square = z.s * z.s;
  const double square_low = 2 * z.s * z.t - rest_of_product(square, z.s, z.s);
  double r;
  const double high = add_exactly(z.s, -0.5 * square, r);
  const double low = (r + (z.t - 0.5 * square_low)) + tail_of_log(z.s, square);
  const double s = high + low;
  return {s, low - (s - high), 1.25 * z.width + z.s * 0x1p-62};
}

// An interval around the logarithms of all numbers of one above 0.
inline Interval log_of(const Interval& x) {
  const bool is_normal = x.s >= 0x1p-1022 && x.s <= 0x1.fffffffffffffp1023;
  if (!(is_normal && x.width <= x.s * 0x1p-3)) return kAnything;
  // x = 2^k m, where m is near 1, and m n / 64 = 1 + z nearer.
  std::uint64_t bits;
  std::memcpy(&bits, &x.s, sizeof bits);
  constexpr std::uint64_t kBias = 1023;
  // The exponent goes up where the fraction is that of the root of 2.
  const std::uint64_t up = (bits & ((std::uint64_t{1} << 52) - 1)) > 0x6a09e667f3bcc;
  const auto k = static_cast<int>((bits >> 52) + up) - static_cast<int>(kBias);
  bits += (static_cast<std::uint64_t>(-k)) << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  constexpr double kToWhole = 0x1.8p52;  // leaves no place for a fraction
  const double n = (64 / m + kToWhole) - kToWhole;
  const double c = n * 0x1p-6;
  const double p = m * c;
  const std::uint64_t power_bits = (kBias - static_cast<std::uint64_t>(k)) << 52;
  double power;
  std::memcpy(&power, &power_bits, sizeof power);
  const double scaled = k <= 1000 ? x.t * power : std::ldexp(x.t, -k);
  double z_low;
  const double z = add_exactly(p - 1, scaled * c - rest_of_product(p, m, c), z_low);
  // log(1 + z) = z - z^2 / 2 + tail.
  const double square = z * z;
  const double square_low = 2 * z * z_low - rest_of_product(square, z, z);
  const double tail = tail_of_log(z, square);
  const TwoNumbers& log_of_inverse = kLogs[static_cast<int>(n) - kFirstInverse];
  double r1, r2, r3;
  double high = add_exactly(k * kLogOf2.high, log_of_inverse.high, r1);
  const bool near_1 = high == 0;
  high = add_exactly(high, z, r2);
  high = add_exactly(high, -0.5 * square, r3);
  const double low = ((r1 + r2) + (k * kLogOf2.low + log_of_inverse.low)) +
                     ((r3 + (z_low - 0.5 * square_low)) + tail);
  const double s = high + low;
  const double t = low - (s - high);
  if (!(std::abs(s) >= 0x1p-800)) return kAnything;
  const double error = near_1 ? std::abs(z) * 0x1p-62 : 0x1p-67;
  return {s, t, 1.25 * (x.width / x.s) + error};
}

// A multiple of 2^-50, not below 0 and at most the logarithms of all numbers that differ from
// x >= 1 by 2^-51 of it at most and are not below 1; less than these by at most 2^-39.
inline double below_log_of(double x) {
  const double near = log_of(Interval{x, 0, x * 0x1p-50}).s;
  return std::max(0.0, std::floor((near - 0x1p-40) * 0x1p50) * 0x1p-50);
}

// What is known of a number that is not 0.
struct Sized {
  bool negative;
  Leading size;
};

// The logarithm of a number above 0 that is not 1, in digits of 64 bits and what is left: it is
// irrational, so that enough places tell.
inline Sized log_of(const Digits& x) {
  const Leading leading = leading_of(x);
  const std::int64_t k = leading.exponent + 63;  // x = 2^k m, where 1 <= m < 2
  const double near_m = static_cast<double>(leading.m >> 11) * 0x1p-52;
  const double estimate = below_log_of(near_m);
  const int top = highest_of(x.digits, x.size);
  const int shift = __builtin_clzll(x.digits[top]) + 1;  // the leading bit goes out
  for (int places = 4;; places *= 2) {
    Real m(places, 1);
    for (int i = 0; i < places; ++i) {
      // Bits of x behind the leading one.
      const auto digit = [&](int at) { return at < 0 ? 0 : x.digits[at]; };
      const std::uint64_t high = shift == 64 ? 0 : digit(top - i) << shift;
      m.digits[places - 1 - i] = high | digit(top - i - 1) >> (64 - shift);
    }
    m.error = 1;
    const Real log2 = log_of_2(places);
    Real log = log_of(m, estimate, log2);
    Real whole = log2;
    whole.multiply(k < 0 ? -k : k);
    bool known = true;
    if (k >= 0) {
      log.add(whole);
    } else {
      known = whole.subtract(log);
      log = std::move(whole);
    }
    // Both ends: the digits, less and plus the error.
    Real error(places);
    error.digits[0] = static_cast<std::uint64_t>(log.error);
    error.digits[1] = static_cast<std::uint64_t>(log.error >> 64);
    Real low = log;
    known = low.subtract(error) && known && !low.is_zero();
    if (!known) continue;
    log.add(error);
    const Leading below = leading_of({low.digits.data(), low.size(), -64 * places});
    const Leading above = leading_of({log.digits.data(), log.size(), -64 * places});
    if (below.m == above.m && below.exponent == above.exponent) {
      return {k < 0, {below.m, below.exponent, true}};
    }
  }
}

}  // namespace halfulp
