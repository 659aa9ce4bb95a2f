// Lanes: what a sum of terms is held in while a kernel runs, and their error bounds.
// u = 2^-53; factors 1 + O(hu) of the bounds are left to Enclosures.
// May include enclosure.h, simd.h and term_vectors.h only. Internal linkage: see simd.h.
#pragma once

#include "../enclosure.h"
#include "simd.h"
#include "term_vectors.h"

namespace halfulp {
namespace {

// What the errors of a sum are in proportion to: its mass, the sum of the sizes of its terms.
// Terms that are not negative add up to it.
template <Term term>
Vector mass_of(Vector sum) {
  static_assert(!TermOf<term>::kIsSigned, "a sum of terms that cancel is less than its mass");
  return sum;
}

// One binary64 number per output, for terms that are exact in binary64: squares of types of
// at most 24 bits, exponents -298..256. Proved in docs/exactness.md#plain-sums.
template <Term term>
struct Plain {
  Vector s{};

  void step(Vector x) { s = TermVectors<term>::add(x, s); }
  Vector high() const { return s; }
  Vector low() const { return Vector{}; }
  Vector mass() const { return mass_of<term>(s); }

  // Sums of non-negative terms, each passing at most h additions: |S - s| <= h u S
  // (Higham 2002, 4.2; Jeannerod and Rump 2013).
  static double factor(std::size_t h) { return static_cast<double>(h) * kU; }
  static double underflow(std::size_t) { return 0; }

  static Plain join(const Plain& a, const Plain& b) { return {a.s + b.s}; }
  static Plain join_pairs(const Plain& a, const Plain& b) {
    return {evens(a.s, b.s) + odds(a.s, b.s)};
  }
};

// Two: s, the sum in binary64, and c, the sum of the rounding errors of terms and sums
// (Dot2 of Ogita, Rump and Oishi 2005). Proved in docs/exactness.md#compensated-sums.
template <Term term>
struct Compensated {
  Vector s{};
  Vector c{};

  void step(Vector x) {
    Vector p, e, r;
    TermVectors<term>::split(x, p, e);
    s = two_sum(s, p, r);
    c += e + r;
  }
  Vector high() const { return s; }
  Vector low() const { return c; }
  Vector mass() const { return mass_of<term>(s); }

  // At depth k, c holds at most k + 1 errors of at most u s each, and a step or a join
  // rounds twice: 2(k + 1)u^2 s, summed over k <= h.
  static double factor(std::size_t h) {
    const double depth = static_cast<double>(h + 2);
    return depth * depth * (kU * kU);
  }
  static double underflow(std::size_t n) {
    return static_cast<double>(n) * TermVectors<term>::kUnderflow;
  }

  static Compensated join(const Compensated& a, const Compensated& b) {
    Compensated both;
    Vector r;
    both.s = two_sum(a.s, b.s, r);
    both.c = (a.c + b.c) + r;
    return both;
  }
  static Compensated join_pairs(const Compensated& a, const Compensated& b) {
    return join({evens(a.s, b.s), evens(a.c, b.c)}, {odds(a.s, b.s), odds(a.c, b.c)});
  }
};

// One binary32 number per output, for half types whose terms are exact there too: squares have
// 22 and 16 bits. Those of bfloat16 can leave the range of binary32: an overflow makes the sum
// infinite, which decides nothing; underflow is in the bound. Proved in
// docs/exactness.md#sums-in-binary32.
template <Term term, Type type>
struct Binary32 {
  static_assert(is_exact(term, type, Type::float32));
  Narrow s{};

  void step(Narrow x) { s = TermVectors<term>::add(x, s); }

  static double factor(std::size_t h) { return static_cast<double>(h) * kU32; }
  static double underflow(std::size_t n) {
    return static_cast<double>(n) * TermVectors<term>::template kUnderflow32<type>;
  }

  static Binary32 join_pairs(const Binary32& a, const Binary32& b) {
    return {evens(a.s, b.s) + odds(a.s, b.s)};
  }
};

// Counts elements that are not multiples of 2^g, those that adding and subtracting `lift`,
// 2^(52 + g), changes; larger ones are always. Proved in docs/exactness.md#ties.
struct Misfits {
  Vector count{};

  void step(Vector x, Vector lift) {
    const Vector least = least_of(size_of(x), lift);
    count = (least + lift) - lift == least ? count : count + 1.0;
  }
};

template <Type type>
const Bits<type>* row_of(const std::byte* data, std::ptrdiff_t row_stride, std::size_t row) {
  return reinterpret_cast<const Bits<type>*>(data +
                                             static_cast<std::ptrdiff_t>(row) * row_stride);
}

template <Type type>
Vector load_first(const Bits<type>* x, std::size_t count) {
  return load<type>(Padded<kWidth, Bits<type>>(x, count).elements);
}

constexpr std::size_t ilog2(std::size_t n) { return n <= 1 ? 0 : 1 + ilog2(n / 2); }

// Independent lanes hide the latency of an addition; each needs a register or two.
constexpr std::size_t kLanes = kRegisters / 4;
constexpr std::size_t kStep = kLanes * kWidth;

// Far enough ahead to hide the memory behind the arithmetic.
constexpr std::size_t kPrefetchBytes = 4096;

inline void prefetch(const void* address) {
  __builtin_prefetch(static_cast<const char*>(address) + kPrefetchBytes);
}

template <class Lane>
Lane join_all(const Lane (&lanes)[kLanes]) {
  Lane joined[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) joined[i] = lanes[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) joined[i] = Lane::join(joined[i], joined[i + half]);
  }
  return joined[0];
}

// Element i of the result is the sum of all elements of rows[i].
template <class Lane, std::size_t width>
Lane join_rows(const Lane (&rows)[width]) {
  Lane joined[width];
  for (std::size_t i = 0; i < width; ++i) joined[i] = rows[i];
  for (std::size_t half = width / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      joined[i] = Lane::join_pairs(joined[2 * i], joined[2 * i + 1]);
    }
  }
  return joined[0];
}

// Adds the elements of `sum` to the first `count` enclosures, or sets them if they are fresh.
template <class Lane>
inline __attribute__((always_inline)) void add_to_enclosures(const Enclosures& enclosures,
                                                             bool fresh, std::size_t count,
                                                             const Lane& sum, Vector bound) {
  Vector hi = sum.high();
  Vector lo = sum.low();
  if (count == kWidth) {
    if (!fresh) {
      const Vector s = hi, c = lo, more = bound;
      hi = load_vector<Vector>(enclosures.hi);
      lo = load_vector<Vector>(enclosures.lo);
      bound = load_vector<Vector>(enclosures.bound);
      accumulate(hi, lo, bound, s, c, more);
    }
    store_vector(enclosures.hi, hi);
    store_vector(enclosures.lo, lo);
    store_vector(enclosures.bound, bound);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (fresh) enclosures.hi[i] = enclosures.lo[i] = enclosures.bound[i] = 0;
    accumulate(enclosures.hi[i], enclosures.lo[i], enclosures.bound[i], hi[i], lo[i], bound[i]);
  }
}

}  // namespace
}  // namespace halfulp
