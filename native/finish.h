// What becomes of a sum S before it is rounded: f(S), where f never decreases, so that the ends
// of an enclosure of S go to the ends of one of f(S). Knows no term, no kernel and no format.
// Proved in docs/exactness.md#finishes.
// May include digits.h, finishes.h and logarithm.h only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "digits.h"
#include "finishes.h"
#include "logarithm.h"

namespace halfulp {

// The root of m, rounded down.
inline std::uint64_t root_of(uint128 m) {
  if (m < uint128{1} << 52) {
    const auto small = static_cast<std::uint64_t>(m);
    const auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(small)));
    return root * root > small ? root - 1 : root;
  }
  const double estimate = std::sqrt(static_cast<double>(m));
  std::uint64_t root = estimate < 0x1p64 ? static_cast<std::uint64_t>(estimate) : ~0ull;
  // Within 2^12 of it; a step of Newton's brings it next to it, and it need not.
  if (root != 0) {
    const auto rest = static_cast<__int128>(m - uint128{root} * root);
    const double step = std::floor(static_cast<double>(rest) / (2 * static_cast<double>(root)));
    const double next = static_cast<double>(~0ull - root);
    root += step > next ? ~0ull - root
                        : static_cast<std::uint64_t>(static_cast<std::int64_t>(step));
  }
  while (uint128{root} * root > m) --root;
  while (m - uint128{root} * root > 2 * uint128{root}) ++root;
  return root;
}

// A finish is a struct of its own: its name, whether f is anything but the identity, whether
// there is no f of no terms, and f of a sum of so many terms. `of` an interval around S is one
// around f(S), with slack as it has. `of` the digits of S decides what is left open, ties too.
// `whole` makes a whole S, whose digits come least first, f(S) rounded down. `kIsOdd` says that
// f(-S) = -f(S), and f(0) = 0: only sizes are finished, and kernels do so in vectors. Else f(0)
// is -infinity, there is no f below it, and f may be of either sign: of the digits of S comes a
// size with that.
template <Finish finish>
struct FinishOf;

template <>
struct FinishOf<Finish::none> {
  static constexpr const char* kName = "none";
  static constexpr bool kIsOdd = true;
  static constexpr bool kChanges = false;
  static constexpr bool kNeedsTerms = false;
  static Interval of(const Interval& sum, std::int64_t) { return sum; }
  static Leading of(const Digits& sum, std::int64_t) { return leading_of(sum); }
  static void whole(std::uint64_t*, int, std::int64_t) {}
};

// S / n. Proved in docs/exactness.md#means.
template <>
struct FinishOf<Finish::mean> {
  static constexpr const char* kName = "mean";
  static constexpr bool kIsOdd = true;
  static constexpr bool kChanges = true;
  static constexpr bool kNeedsTerms = true;

  // For at most 2^53 terms.
  static Interval of(const Interval& sum, std::int64_t terms) {
    const auto n = static_cast<double>(terms);
    const double inverse = 1 / n;
    const double q = sum.s / n;
    const double t = (rest_of_product(sum.s, q, n) + sum.t) * inverse;
    const double s = q + t;
    return {s, t - (s - q), sum.width * inverse};
  }

  static Leading of(const Digits& sum, std::int64_t terms) {
    const int top = highest_of(sum.digits, sum.size);
    if (top < 0) return {0, 0, false};
    // Three digits leave 66 bits: n is below 2^63.
    std::uint64_t three[3];
    for (int i = 0; i < 3; ++i) three[i] = top + i < 2 ? 0 : sum.digits[top + i - 2];
    const bool rest = divide(three, 3, static_cast<std::uint64_t>(terms));
    Leading value = leading_of({three, 3, sum.exponent + 64 * (top - 2)});
    value.sticky = value.sticky || rest || any_of_first(sum.digits, top - 2);
    return value;
  }

  static void whole(std::uint64_t* digits, int size, std::int64_t terms) {
    divide(digits, size, static_cast<std::uint64_t>(terms));
  }
};

// The square root of S. Proved in docs/exactness.md#roots.
template <>
struct FinishOf<Finish::root> {
  static constexpr const char* kName = "root";
  static constexpr bool kIsOdd = true;
  static constexpr bool kChanges = true;
  static constexpr bool kNeedsTerms = false;

  static Interval of(const Interval& sum, std::int64_t) {
    const double q = std::sqrt(sum.s);
    const double inverse = inverse_of(q);
    const double t = (rest_of_product(sum.s, q, q) + sum.t) * (0.5 * inverse);
    const double s = q + t;
    return {s, t - (s - q), sum.width * inverse};
  }

  static Leading of(const Digits& sum, std::int64_t) {
    const int top = highest_of(sum.digits, sum.size);
    if (top < 0) return {0, 0, false};
    // The leading 128 bits of three digits; 127, if the exponent would be odd.
    std::uint64_t three[3];
    for (int i = 0; i < 3; ++i) three[i] = top + i < 2 ? 0 : sum.digits[top + i - 2];
    const int zeros = __builtin_clzll(three[2]);
    uint128 m = (uint128{three[2]} << 64 | three[1]) << zeros;
    if (zeros > 0) m |= three[0] >> (64 - zeros);
    int exponent = sum.exponent + 64 * (top - 1) - zeros;
    bool sticky = three[0] << zeros != 0 || any_of_first(sum.digits, top - 2);
    if (exponent % 2 != 0) {
      sticky = sticky || (m & 1) != 0;
      m >>= 1;
      ++exponent;
    }
    const std::uint64_t root = root_of(m);  // at least 2^63
    return {root, exponent / 2, sticky || uint128{root} * root != m};
  }

  // For at most three digits.
  static void whole(std::uint64_t* digits, int size, std::int64_t) {
    const auto digit = [&](int i) { return i < size ? digits[i] : 0; };
    const std::uint64_t third = digit(2);
    // All but the lowest 2 * more bits give all but the lowest `more` bits of the root.
    const int more = third == 0 ? 0 : (65 - __builtin_clzll(third)) / 2;
    uint128 high = uint128{digit(1)} << 64 | digit(0);
    if (more > 0) high = high >> 2 * more | uint128{third} << (128 - 2 * more);
    uint128 root = root_of(high);
    uint128 rest = high - root * root;
    for (int i = more - 1; i >= 0; --i) {
      rest = rest << 2 | (digit(0) >> 2 * i & 3);
      root <<= 1;
      if (rest > 2 * root) {
        rest -= 2 * root + 1;
        ++root;
      }
    }
    for (int i = 0; i < size; ++i) {
      digits[i] = static_cast<std::uint64_t>(root);
      root = root >> 64;
    }
  }

 private:
  // Roots of binary64 are 0 or at least 2^-537, so that the sum is the root itself. Of an
  // interval from 0 to w, w times this is more than the root of w.
  static double inverse_of(double root) { return 1 / (root + 0x1p-600); }
};

// The logarithm of S. Proved in docs/exactness.md#logarithms.
template <>
struct FinishOf<Finish::log> {
  static constexpr const char* kName = "log";
  static constexpr bool kIsOdd = false;
  static constexpr bool kChanges = true;
  static constexpr bool kNeedsTerms = false;

  static Interval of(const Interval& sum, std::int64_t) { return log_of(sum); }

  static Sized of(const Digits& sum, std::int64_t) {
    const Leading leading = leading_of(sum);
    const bool is_1 = leading.m == std::uint64_t{1} << 63 && leading.exponent == -63;
    return is_1 && !leading.sticky ? Sized{false, {0, 0, false}} : log_of(sum);
  }

  // Of at least 1.
  static void whole(std::uint64_t* digits, int size, std::int64_t) {
    const Leading log = of(Digits{digits, size, 0}, 0).size;
    for (int i = 0; i < size; ++i) digits[i] = 0;
    if (log.exponent > -64) digits[0] = log.m >> -log.exponent;  // below 2^8
  }
};

// Calls call(FinishOf<finish>).
template <class Call>
auto with_finish(Finish finish, Call call) {
  switch (finish) {
    case Finish::none:
      return call(FinishOf<Finish::none>());
    case Finish::mean:
      return call(FinishOf<Finish::mean>());
    case Finish::root:
      return call(FinishOf<Finish::root>());
    case Finish::log:
      return call(FinishOf<Finish::log>());
  }
  __builtin_unreachable();
}

}  // namespace halfulp
