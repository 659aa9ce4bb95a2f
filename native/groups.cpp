#include "groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "digits.h"
#include "enclosure.h"
#include "exact_sum.h"
#include "modes.h"
#include "widen.h"

namespace halfulp {
namespace {

// Rows ahead whose groups are fetched: groups are anywhere in memory.
constexpr std::int64_t kAhead = 16;

// Sums whose results are found at once.
constexpr std::int64_t kAtOnce = 256;

// Terms that are made at once, in vectors where the compiler can.
constexpr std::int64_t kSome = 512;

// The square of a number below has a low part that may have lost bits: less than u * kLost.
constexpr double kLeastSquare = 0x1p-900;
constexpr double kLost = 0x1p-1000;

template <Type type>
double element_of(Bits<type> x) {
  if constexpr (type == Type::float64) {
    return bits_to_double(x);
  } else if constexpr (type == Type::float32) {
    return bits_to_float(x);
  } else {
    return widen_half<type>(x);
  }
}

// Whether terms are two numbers of binary64.
template <Term term, Type type>
constexpr bool kIsPair = !is_exact(term, type, Type::float64);

// Terms of floats: high + low, within u * lost.
struct SomeTerms {
  double high[kSome];
  double low[kSome];
  double lost[kSome];
};

template <Term term, Type type>
void make_terms(const Bits<type>* elements, std::int64_t n, SomeTerms& terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = element_of<type>(elements[i]);
    if constexpr (term == Term::square) {
      terms.high[i] = x * x;
      if constexpr (kIsPair<term, type>) {
        terms.low[i] = -rest_of_product(terms.high[i], x, x);
        terms.lost[i] = terms.high[i] < kLeastSquare && x != 0 ? kLost : 0;
      }
    } else {
      terms.high[i] = term == Term::magnitude ? std::abs(x) : x;
    }
  }
}

// Two numbers of binary64 side by side.
typedef double Two __attribute__((vector_size(16)));

inline double size_of(double x) { return std::abs(x); }

inline Two size_of(Two x) {
  typedef std::int64_t Bits __attribute__((vector_size(16)));
  return (Two)((Bits)x & INT64_MAX);
}

template <class V>
inline V read(const double* from) {
  V values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

// Adds terms from the i-th on to one enclosure or two, whose bounds are in units of u for the
// while. What an addition into lo rounds is at most u times its result; of terms that are
// numbers it is known, as sums of two or three of them are ties all the time.
template <Term term, Type type, class V>
inline void add_term(V& hi, V& lo, V& bound, const SomeTerms& terms, std::int64_t i) {
  V r, lost;
  hi = two_sum(hi, read<V>(terms.high + i), r);
  if constexpr (kIsPair<term, type>) {
    r += read<V>(terms.low + i);
    lo += r;
    bound += size_of(r) + size_of(lo) + read<V>(terms.lost + i);
  } else {
    lo = two_sum(lo, r, lost);
    bound += size_of(lost) * (1 / kU);
  }
}

template <Term term, Type type>
inline void add_to(EnclosedGroup& group, const SomeTerms& terms, std::int64_t i) {
  add_term<term, type>(group.hi, group.lo, group.bound, terms, i);
  ++group.terms;
}

// Adds a term to each of two groups, which are not the same.
template <Term term, Type type>
inline void add_to_both(EnclosedGroup& a, EnclosedGroup& b, const SomeTerms& terms,
                        std::int64_t i) {
  struct Halves {
    Two sum;
    Two rest;
  };
  static_assert(sizeof(Halves) == sizeof(EnclosedGroup));
  typedef std::uint64_t Counts __attribute__((vector_size(16)));
  Halves x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  Two hi = __builtin_shufflevector(x.sum, y.sum, 0, 2);
  Two lo = __builtin_shufflevector(x.sum, y.sum, 1, 3);
  Two bound = __builtin_shufflevector(x.rest, y.rest, 0, 2);
  const Two counts = (Two)((Counts)__builtin_shufflevector(x.rest, y.rest, 1, 3) + 1);
  add_term<term, type>(hi, lo, bound, terms, i);
  x.sum = __builtin_shufflevector(hi, lo, 0, 2);
  y.sum = __builtin_shufflevector(hi, lo, 1, 3);
  x.rest = __builtin_shufflevector(bound, counts, 0, 2);
  y.rest = __builtin_shufflevector(bound, counts, 1, 3);
  std::memcpy(&a, &x, sizeof x);
  std::memcpy(&b, &y, sizeof y);
}

// Fetches what belongs to a code from memory: `size` of these for each. An address, as a code
// may be any number; a processor fetches nothing from where nothing is.
template <class T>
inline void fetch(const T* groups, std::int64_t code, std::int64_t size) {
  const std::uint64_t bytes = sizeof(T) * static_cast<std::uint64_t>(size);
  __builtin_prefetch(reinterpret_cast<const void*>(
                         reinterpret_cast<std::uintptr_t>(groups) +
                         static_cast<std::uintptr_t>(static_cast<std::uint64_t>(code) * bytes)),
                     1);
}

inline bool has_group(std::int64_t code, std::int64_t groups) {
  return static_cast<std::uint64_t>(code) < static_cast<std::uint64_t>(groups);
}

// Whether there is no group of a code; `all` tells whether all of these are below 0.
inline bool is_none(std::int64_t code, std::int64_t groups, bool& all) {
  if (has_group(code, groups)) return false;
  all = all && code < 0;
  return true;
}

// Rows of one element.
template <Term term, Type type>
bool add_elements(const GroupedRows& rows, EnclosedGroup* groups) {
  const auto* elements = reinterpret_cast<const Bits<type>*>(rows.data);
  const std::int64_t n = rows.n;
  SomeTerms terms;
  // The group that was last added to is in registers: of sorted codes it is the next one too.
  std::int64_t last = -1;
  EnclosedGroup group = {};
  bool all = true;
  const auto add_one = [&](std::int64_t code, std::int64_t i) {
    if (code != last) {
      if (is_none(code, rows.groups, all)) return;
      if (last >= 0) groups[last] = group;
      group = groups[code];
      last = code;
    }
    add_to<term, type>(group, terms, i);
  };
  for (std::int64_t begin = 0; begin < n; begin += kSome) {
    const std::int64_t count = std::min(kSome, n - begin);
    const std::int64_t* const codes = rows.codes + begin;
    const std::int64_t ahead = begin + count + kAhead <= n ? kAhead : 0;
    make_terms<term, type>(elements + begin, count, terms);
    std::int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
      fetch(groups, codes[i + ahead], 1);
      fetch(groups, codes[i + 1 + ahead], 1);
      const std::int64_t a = codes[i];
      const std::int64_t b = codes[i + 1];
      if (a != b && a != last && b != last && has_group(a, rows.groups) &&
          has_group(b, rows.groups)) {
        add_to_both<term, type>(groups[a], groups[b], terms, i);
      } else {
        add_one(a, i);
        add_one(b, i + 1);
      }
    }
    if (i < count) add_one(codes[i], i);
  }
  if (last >= 0) groups[last] = group;
  return all;
}

template <Term term, Type type>
bool add_rows(const GroupedRows& rows, EnclosedGroup* groups) {
  if (rows.width == 1) return add_elements<term, type>(rows, groups);
  const auto* elements = reinterpret_cast<const Bits<type>*>(rows.data);
  const std::int64_t width = rows.width;
  SomeTerms terms;
  bool all = true;
  for (std::int64_t row = 0; row < rows.n; ++row) {
    fetch(groups, rows.codes[std::min(row + kAhead, rows.n - 1)], width);
    if (is_none(rows.codes[row], rows.groups, all)) continue;
    EnclosedGroup* const to = groups + rows.codes[row] * width;
    for (std::int64_t begin = 0; begin < width; begin += kSome) {
      const std::int64_t n = std::min(kSome, width - begin);
      make_terms<term, type>(elements + row * width + begin, n, terms);
      for (std::int64_t i = 0; i < n; ++i) add_to<term, type>(to[begin + i], terms, i);
    }
  }
  return all;
}

// Adds the term of an element to an exact sum.
template <Term term, Type type>
inline void add_exactly(std::uint64_t* digits, Bits<type> x) {
  if constexpr (format_of(type).is_float) {
    add_terms<term, type>(digits, reinterpret_cast<const std::byte*>(&x), 1);
  } else {
    using T = TermOf<term>;
    const bool negative = format_of(type).is_signed && x >> (8 * sizeof x - 1) != 0;
    const uint128 size = T::size(negative ? static_cast<Bits<type>>(0 - x) : x);
    const bool subtract = T::kIsSigned && negative;
    const uint128 more = subtract ? 0 - size : size;
    uint128 low = uint128{digits[1]} << 64 | digits[0];
    const bool carry = __builtin_add_overflow(low, more, &low);
    digits[0] = static_cast<std::uint64_t>(low);
    digits[1] = static_cast<std::uint64_t>(low >> 64);
    digits[2] += std::uint64_t{carry} - std::uint64_t{subtract};
  }
}

template <Term term, Type type>
bool add_rows_exactly(const GroupedRows& rows, const std::int64_t* places,
                      std::uint64_t* sums) {
  const auto* elements = reinterpret_cast<const Bits<type>*>(rows.data);
  constexpr int kSize = 1 + sum_format(term, format_of(type)).digits;
  const std::int64_t* const codes = rows.codes;
  const std::int64_t n = rows.n;
  const std::int64_t width = rows.width;
  bool all = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t ahead = codes[std::min(i + kAhead, n - 1)];
    if (places) {
      fetch(places, ahead, width);
    } else {
      fetch(sums, ahead, width * kSize);
    }
    if (is_none(codes[i], rows.groups, all)) continue;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t group = codes[i] * width + j;
      const std::int64_t place = places ? places[group] : group;
      if (place < 0) continue;
      std::uint64_t* const sum = sums + place * kSize;
      ++sum[0];
      add_exactly<term, type>(sum + 1, elements[i * width + j]);
    }
  }
  return all;
}

// Calls call(constant), whose value is the type.
template <Type type>
struct Constant {
  static constexpr Type kType = type;
};

template <class Call>
auto with_type(Type type, Call call) {
  switch (type) {
    case Type::bfloat16:
      return call(Constant<Type::bfloat16>());
    case Type::float16:
      return call(Constant<Type::float16>());
    case Type::float32:
      return call(Constant<Type::float32>());
    case Type::float64:
      return call(Constant<Type::float64>());
    case Type::int32:
      return call(Constant<Type::int32>());
    case Type::int64:
      return call(Constant<Type::int64>());
    case Type::uint32:
      return call(Constant<Type::uint32>());
    case Type::uint64:
      return call(Constant<Type::uint64>());
  }
  __builtin_unreachable();
}

}  // namespace

CodeRange range_of(const std::int64_t* codes, std::int64_t n) {
  CodeRange range = {-1, -1};
  for (std::int64_t begin = 0; begin < n; begin += kSome) {
    const std::int64_t end = std::min(n, begin + kSome);
    const auto lowest = static_cast<std::uint64_t>(range.lowest);
    const std::uint64_t span = static_cast<std::uint64_t>(range.highest) - lowest;
    bool is_beyond = false;  // which few are
    for (std::int64_t i = begin; i < end; ++i) {
      is_beyond |= static_cast<std::uint64_t>(codes[i]) - lowest > span;
    }
    for (std::int64_t i = begin; is_beyond && i < end; ++i) {
      range.lowest = std::min(range.lowest, codes[i]);
      range.highest = std::max(range.highest, codes[i]);
    }
  }
  return range;
}

bool add_to_groups(Term term, const GroupedRows& rows, EnclosedGroup* groups) {
  const StandardModes modes;
  return with_term(term, [&](auto t) {
    return with_type(rows.type, [&](auto type) {
      if constexpr (format_of(type.kType).is_float) {
        return add_rows<t.kTerm, type.kType>(rows, groups);
      } else {
        return false;
      }
    });
  });
}

std::int64_t round_groups(const Results& results, const Format& input, const Format& output,
                          const EnclosedGroup* groups, std::int64_t n, std::byte* to,
                          std::uint8_t* open) {
  const StandardModes modes;
  // Sums of finite elements of the other types are below 2^1024.
  const bool infinite_is_final = input.type != Type::float64;
  const Rounder& rounder = find_rounder(output.type);
  double hi[kAtOnce + kPadding], lo[kAtOnce + kPadding], bound[kAtOnce + kPadding];
  std::uint64_t terms[kAtOnce + kPadding];
  std::uint8_t is_open[kAtOnce + kPadding];
  std::byte bits[(kAtOnce + kPadding) * sizeof(std::uint64_t)];
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < n; begin += kAtOnce) {
    const std::int64_t few = std::min(kAtOnce, n - begin);
    for (std::int64_t i = 0; i < few + std::int64_t{kPadding}; ++i) {
      const EnclosedGroup group = i < few ? groups[begin + i] : EnclosedGroup{};
      hi[i] = group.hi;
      lo[i] = group.lo;
      bound[i] = group.bound * kU;
      terms[i] = group.terms;
    }
    std::memset(is_open, 0, sizeof is_open);
    if (results.of_tile(rounder, {hi, lo, bound, nullptr}, {0, terms}, few, bits, is_open)) {
      for (std::int64_t i = 0; i < few; ++i) {
        if (is_open[i] != kOpen) continue;
        std::uint64_t result;
        if (results.decide(hi[i], lo[i], bound[i], static_cast<std::int64_t>(terms[i]),
                           infinite_is_final, 0, &result)) {
          std::memcpy(bits + i * output.bytes, &result, output.bytes);
          is_open[i] = 0;
        } else {
          ++count;
        }
      }
    }
    std::memcpy(to + begin * output.bytes, bits, few * output.bytes);
    for (std::int64_t i = 0; i < few; ++i) open[begin + i] = is_open[i] == kOpen;
  }
  return count;
}

bool add_to_exact_groups(Term term, const GroupedRows& rows, const std::int64_t* places,
                         std::uint64_t* sums) {
  return with_term(term, [&](auto t) {
    return with_type(rows.type, [&](auto type) {
      return add_rows_exactly<t.kTerm, type.kType>(rows, places, sums);
    });
  });
}

}  // namespace halfulp
