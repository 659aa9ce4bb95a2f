// Exact sums: integers wide enough for every term of a type.
// May include dispatch.h, formats.h and terms.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "dispatch.h"
#include "formats.h"
#include "terms.h"

namespace halfulp {

// The most terms that one sum may be of.
inline constexpr std::uint64_t kMostTerms = (std::uint64_t{1} << 63) - 1;

// A sum S = digits * 2^exponent, in digits of 64 bits, the least first, with all carries
// settled: equal sums have equal digits. They hold kMostTerms terms of the greatest finite
// element, in two's complement if terms are signed. For floats they have more bits, the
// highest: that an element was NaN, or infinite of both signs; that one was infinite; and, of
// signed terms, that one was -infinity. Then all other bits are 0, and only one is set; in
// numbers all of them are alike.
struct SumFormat {
  int exponent;
  int term_bits;  // of the greatest finite term
  int digits;
  int stored_digits;  // as SumSquare stores it: see add_to_stored
  bool is_signed;
};

// How many bits of a sum of floats are flags.
constexpr int flag_bits(bool is_signed) { return is_signed ? 3 : 2; }

constexpr SumFormat sum_format(Term term, const Format& format) {
  const int degree = facts_of(term).degree;
  const bool is_signed = facts_of(term).is_signed;
  if (!format.is_float) {
    return {0, 8 * degree * format.bytes, 3, 2, is_signed && format.is_signed};
  }
  const int exponent = degree * format.least_exponent();
  const int term_bits = degree * (format.emax + 1) - exponent;
  const int flags = flag_bits(is_signed);
  // Three at least, which add_shifted takes.
  const int digits = std::max(3, (term_bits + 63 + flags + 63) / 64);
  return {exponent, term_bits, digits, digits, is_signed};
}

constexpr int most_digits() {
  int most = 0;
  for (const TermFacts& facts : kTerms) {
    const int digits = sum_format(facts.term, format_of(Type::float64)).digits;
    if (digits > most) most = digits;
  }
  return most;
}

inline constexpr int kMostDigits = most_digits();

inline constexpr std::uint64_t kTopBit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kNan = kTopBit;
inline constexpr std::uint64_t kInfinite = kTopBit >> 1;
inline constexpr std::uint64_t kNegativeInfinite = kTopBit >> 2;  // of signed terms

// Adds value * 2^shift to digits, of which there are three from shift / 64 on, and enough.
inline void add_shifted(std::uint64_t* digits, uint128 value, int shift) {
  const int bit = shift % 64;
  std::uint64_t* digit = digits + shift / 64;
  const uint128 low = value << bit;
  const std::uint64_t top = bit == 0 ? 0 : static_cast<std::uint64_t>(value >> (128 - bit));
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

// Adds value * 2^shift to `size` digits, modulo 2^(64 size): a sum that is below 0 before all
// limbs of it were added comes right in the end. With shift < 0 the value must be
// a multiple of 2^-shift.
inline void add_signed(std::uint64_t* digits, int size, int128 value, int shift) {
  if (shift < 0) {
    value >>= -shift;
    shift = 0;
  }
  const int bit = shift % 64;
  std::uint64_t* digit = digits + shift / 64;
  const std::uint64_t* const end = digits + size;
  const auto low = static_cast<std::uint64_t>(value);
  const auto high = static_cast<std::int64_t>(value >> 64);
  uint128 sum = uint128{digit[0]} + (low << bit);
  digit[0] = static_cast<std::uint64_t>(sum);
  sum = (sum >> 64) + digit[1] +
        (static_cast<std::uint64_t>(high) << bit | low >> 1 >> (63 - bit));
  digit[1] = static_cast<std::uint64_t>(sum);
  sum = (sum >> 64) + static_cast<std::uint64_t>(high >> 1 >> (63 - bit));
  for (digit += 2; digit != end && static_cast<std::uint64_t>(sum) != 0; ++digit) {
    sum += *digit;
    *digit = static_cast<std::uint64_t>(sum);
    // Above the value is its sign: ones or zeros.
    sum = (sum >> 64) + static_cast<std::uint64_t>(high >> 63);
  }
}

// The flags of a float sum.
inline std::uint64_t flags_of(const SumFormat& sum, const std::uint64_t* digits) {
  const std::uint64_t all = kNan | kInfinite | (sum.is_signed ? kNegativeInfinite : 0);
  const std::uint64_t flags = digits[sum.digits - 1] & all;
  return sum.is_signed && flags == all ? 0 : flags;  // all of them: a number below 0
}

// Clears all bits but the flag that counts, if there is any: infinities of both signs are NaN.
inline void settle_flags(const SumFormat& sum, std::uint64_t* digits, std::uint64_t flags) {
  if (flags == 0) return;
  std::fill_n(digits, sum.digits - 1, 0);
  const bool one = flags == kInfinite || flags == kNegativeInfinite;
  digits[sum.digits - 1] = one ? flags : kNan;
}

// Whether a sum in so many digits, without flags, is below 0.
inline bool is_negative(const SumFormat& sum, const std::uint64_t* digits, int size) {
  return sum.is_signed && digits[size - 1] >> 63 != 0;
}

// Sets `size` digits to minus themselves, modulo 2^(64 size).
inline void negate(std::uint64_t* digits, int size) {
  bool carry = true;
  for (int i = 0; i < size; ++i) {
    digits[i] = ~digits[i] + carry;
    carry = carry && digits[i] == 0;
  }
}

// Adds the terms of n elements to a sum.
template <Term term, Type type>
void add_terms(std::uint64_t* digits, const std::byte* data, std::int64_t n) {
  constexpr Format kFormat = format_of(type);
  using T = TermOf<term>;
  constexpr SumFormat kSum = sum_format(term, kFormat);
  const auto* elements = reinterpret_cast<const Bits<type>*>(data);
  if constexpr (kFormat.is_float) {
    constexpr int kFraction = kFormat.precision - 1;
    constexpr int kAllOnes = 2 * kFormat.emax + 1;
    constexpr int kSign = 8 * kFormat.bytes - 1;
    // See add_shifted; add_signed takes less.
    static_assert(T::kDegree * (kAllOnes - 2) / 64 + 2 < kSum.digits);
    std::uint64_t flags = flags_of(kSum, digits);
    if (flags & kNan) return;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t x = elements[i];
      const std::uint64_t fraction = x & ((std::uint64_t{1} << kFraction) - 1);
      const int field = static_cast<int>(x >> kFraction) & kAllOnes;
      if (field == kAllOnes) {
        const bool negative = T::kIsSigned && x >> kSign != 0;
        flags |= fraction != 0 ? kNan : (negative ? kNegativeInfinite : kInfinite);
      } else {
        const std::uint64_t m = fraction | std::uint64_t{field != 0} << kFraction;
        const int shift = T::kDegree * (field - (field != 0));
        if constexpr (T::kIsSigned) {
          const auto size = static_cast<int128>(T::size(m));
          add_signed(digits, kSum.digits, x >> kSign != 0 ? -size : size, shift);
        } else {
          add_shifted(digits, T::size(m), shift);
        }
      }
    }
    settle_flags(kSum, digits, flags);
  } else {
    // Of terms below 2^64 all are below 2^127; of others the carries are counted.
    uint128 sum = 0;
    std::uint64_t carries = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const Bits<type> x = elements[i];
      const bool negative = kFormat.is_signed && x >> (8 * kFormat.bytes - 1) != 0;
      const Bits<type> m = negative ? static_cast<Bits<type>>(0 - x) : x;
      const uint128 size = T::size(m);
      carries += __builtin_add_overflow(sum, T::kIsSigned && negative ? 0 - size : size, &sum);
    }
    if constexpr (T::kIsSigned) {
      add_signed(digits, kSum.digits, static_cast<int128>(sum), 0);
    } else {
      add_shifted(digits, sum, 0);
      digits[2] += carries;
    }
  }
}

// Adds a sum to one as SumSquare stores it: of floats its digits; of integers S modulo 2^127,
// and in the highest bit whether S >= 2^127. Neither depends on the order of additions, and S
// of 32-bit elements is always below. For integers `more` may have a third digit. Of signed
// terms, |S| < 2^127: two digits are all of it. Or to all digits of a sum, if it is whole.
inline void add_to_stored(Term term, const Format& format, std::uint64_t* stored,
                          const std::uint64_t* more, std::uint64_t third = 0,
                          bool is_whole = false) {
  const SumFormat sum = sum_format(term, format);
  if (!format.is_float && !is_whole) {
    std::uint64_t low;
    const bool carry = __builtin_add_overflow(stored[0], more[0], &low);
    stored[0] = low;
    if (sum.is_signed) {
      stored[1] += more[1] + carry;
      return;
    }
    const std::uint64_t high = (stored[1] & ~kTopBit) + (more[1] & ~kTopBit) + carry;
    stored[1] = high | ((stored[1] | more[1]) & kTopBit) | (third != 0 ? kTopBit : 0);
    return;
  }
  const std::uint64_t flags = format.is_float ? flags_of(sum, stored) | flags_of(sum, more) : 0;
  if (flags != 0) return settle_flags(sum, stored, flags);
  std::uint64_t carry = 0;
  for (int i = 0; i < sum.digits; ++i) {
    const uint128 digit = uint128{stored[i]} + more[i] + carry;
    stored[i] = static_cast<std::uint64_t>(digit);
    carry = static_cast<std::uint64_t>(digit >> 64);
  }
}

// Adds the limbs of the first output of a kernel to a sum.
template <Term term, Type type>
void add_limbs(std::uint64_t* digits, const Limbs& limbs, std::size_t count) {
  constexpr SumFormat kSum = sum_format(term, format_of(type));
  constexpr int kStep = limb_step(term, type);
  if (format_of(type).is_float && flags_of(kSum, digits) != 0) return;
  for (std::size_t f = 0; f < count; f += 2) {
    // Two at a time, in units of the finer one; each is below 2^60 in size.
    int128 value = limbs.limb[f][0];
    int exponent = limbs.exponent[0] + static_cast<int>(f) * kStep - kSum.exponent;
    if (f + 1 < count) {
      const int128 next = limbs.limb[f + 1][0];
      if (kStep > 0) {
        value += next * (int128{1} << (kStep > 0 ? kStep : 0));
      } else {
        value = value * (int128{1} << (kStep > 0 ? 0 : -kStep)) + next;
        exponent += kStep;
      }
    }
    add_signed(digits, kSum.digits, value, exponent);
  }
}

// Where `period` sums are: sum j is the one at begin + j, modulo the period. They are whole,
// all digits of each, or as SumSquare stores them.
struct StoredSums {
  std::byte* first;
  std::ptrdiff_t stride;
  std::int64_t period;
  bool are_whole;
  std::int64_t begin = 0;

  StoredSums operator+(std::int64_t j) const {
    return {first, stride, period, are_whole, begin + j};
  }

  std::uint64_t* operator()(std::int64_t j) const {
    j += begin;
    if (j >= period) j %= period;
    return reinterpret_cast<std::uint64_t*>(first + j * stride);
  }
};

// Adds to sum j what `add` adds to digits.
template <Term term, Type type, class Add>
void with_digits(const StoredSums& sums, std::int64_t j, Add add) {
  if (format_of(type).is_float || sums.are_whole) {
    add(sums(j));
  } else {
    std::uint64_t digits[3] = {};
    add(digits);
    add_to_stored(term, format_of(type), sums(j), digits, digits[2]);
  }
}

// Adds output j of a kernel, of n, to stored sum j; returns whether it found one not exact.
template <Term term, Type type>
bool add_outputs(const StoredSums& sums, const Limbs& limbs, std::size_t count,
                 std::int64_t n) {
  bool all = true;
  for (std::int64_t j = 0; j < n; ++j) {
    if (limbs.exponent[j] == kNotExact) {
      all = false;
      continue;
    }
    with_digits<term, type>(sums, j, [&](std::uint64_t* digits) {
      add_limbs<term, type>(digits, limbs + j, count);
    });
  }
  return !all;
}

// Adds the terms of n elements side by side to stored sum j.
template <Term term, Type type>
void add_terms_to_stored(const StoredSums& sums, std::int64_t j, const std::byte* data,
                         std::int64_t n) {
  with_digits<term, type>(
      sums, j, [&](std::uint64_t* digits) { add_terms<term, type>(digits, data, n); });
}

// All this for one term and type.
struct ExactSums {
  void (*add_terms)(std::uint64_t* digits, const std::byte* data, std::int64_t n);
  void (*add_terms_to_stored)(const StoredSums& sums, std::int64_t j, const std::byte* data,
                              std::int64_t n);
  void (*add_limbs)(std::uint64_t* digits, const Limbs& limbs, std::size_t count);
  bool (*add_outputs)(const StoredSums& sums, const Limbs& limbs, std::size_t count,
                      std::int64_t n);
};

template <Term term, Type type>
constexpr ExactSums exact_sums_as() {
  return {&add_terms<term, type>, &add_terms_to_stored<term, type>, &add_limbs<term, type>,
          &add_outputs<term, type>};
}

inline ExactSums exact_sums_of(Term term, Type type) {
  return with_term(term, [type](auto t) {
    constexpr Term kTerm = t.kTerm;
    switch (type) {
      case Type::bfloat16:
        return exact_sums_as<kTerm, Type::bfloat16>();
      case Type::float16:
        return exact_sums_as<kTerm, Type::float16>();
      case Type::float32:
        return exact_sums_as<kTerm, Type::float32>();
      case Type::float64:
        return exact_sums_as<kTerm, Type::float64>();
      case Type::int32:
        return exact_sums_as<kTerm, Type::int32>();
      case Type::int64:
        return exact_sums_as<kTerm, Type::int64>();
      case Type::uint32:
        return exact_sums_as<kTerm, Type::uint32>();
      case Type::uint64:
        return exact_sums_as<kTerm, Type::uint64>();
    }
    __builtin_unreachable();
  });
}

// Whether some `terms` elements, at most kMostTerms, can have this sum.
inline bool is_stored_sum(Term term, const Format& format, const std::uint64_t* stored,
                          std::uint64_t terms) {
  const SumFormat sum = sum_format(term, format);
  const bool any =
      std::any_of(stored, stored + sum.stored_digits, [](auto d) { return d != 0; });
  if (terms == 0 || !any) return !any;
  const std::uint64_t flags = format.is_float ? flags_of(sum, stored) : 0;
  if (flags != 0) {
    const bool others =
        std::any_of(stored, stored + sum.digits - 1, [](auto d) { return d != 0; });
    return !others && stored[sum.digits - 1] == flags && (flags & (flags - 1)) == 0;
  }
  // |S| < terms * 2^term_bits
  std::uint64_t size[kMostDigits + 2] = {};
  std::copy_n(stored, sum.stored_digits, size);
  if (is_negative(sum, stored, sum.stored_digits)) negate(size, sum.stored_digits);
  std::uint64_t limit[kMostDigits + 2] = {};  // add_shifted may touch two digits above
  add_shifted(limit, terms, sum.term_bits);
  return std::lexicographical_compare(std::rbegin(size), std::rend(size), std::rbegin(limit),
                                      std::rend(limit));
}

}  // namespace halfulp
