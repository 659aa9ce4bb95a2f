// What becomes of a sum S before it is rounded: f(S), where f never decreases, so that the ends
// of an enclosure of S go to the ends of one of f(S). Knows no term, no kernel and no format.
// Includes nothing of halfulp.
#pragma once

#include <cstdint>

namespace halfulp {

enum class Finish { none };

// An enclosure with its two numbers apart: |S - (s + t)| <= width, where s is s + t rounded to
// binary64.
struct Interval {
  double s;
  double t;
  double width;
};

// The non-negative integer of `size` 64-bit digits, least first, times 2^exponent.
struct Digits {
  const std::uint64_t* digits;
  int size;
  int exponent;
};

// The value (m + f) * 2^exponent, where 0 < f < 1 if `sticky` and f = 0 otherwise. It is 0, or
// the highest bit of m is set.
struct Leading {
  std::uint64_t m;
  int exponent;
  bool sticky;
};

// Proved in docs/exactness.md#the-exact-sum.
inline Leading leading_of(const Digits& value) {
  int top = value.size - 1;
  while (top > 0 && value.digits[top] == 0) --top;
  std::uint64_t m = value.digits[top];
  if (m == 0) return {0, 0, false};
  const int zeros = __builtin_clzll(m);
  m <<= zeros;
  bool sticky = false;
  if (top > 0) {
    const std::uint64_t next = value.digits[top - 1];
    if (zeros > 0) m |= next >> (64 - zeros);
    sticky = next << zeros != 0;
    for (int i = top - 2; i >= 0; --i) sticky = sticky || value.digits[i] != 0;
  }
  return {m, value.exponent + 64 * top - zeros, sticky};
}

// A finish is a struct of its own: its name, whether f is anything but the identity, and f of a
// sum of so many terms. `of` an interval around S, with the slack of results.h, is one around
// f(S), with that slack too. `of` the digits of S decides what is left open, ties too.
template <Finish finish>
struct FinishOf;

template <>
struct FinishOf<Finish::none> {
  static constexpr const char* kName = "none";
  static constexpr bool kChanges = false;
  static Interval of(const Interval& sum, std::int64_t) { return sum; }
  static Leading of(const Digits& sum, std::int64_t) { return leading_of(sum); }
};

// Calls call(FinishOf<finish>).
template <class Call>
auto with_finish(Finish finish, Call call) {
  switch (finish) {
    case Finish::none:
      return call(FinishOf<Finish::none>());
  }
  __builtin_unreachable();
}

}  // namespace halfulp
