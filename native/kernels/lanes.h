// Lanes: what a sum of terms is held in while a kernel runs, and their error bounds.
// u = 2^-53; factors 1 + O(hu) of the bounds are left to Enclosures.
// May include dispatch.h, parts.h, simd.h and term_vectors.h only. Internal linkage: see
// simd.h.
#pragma once

#include "../dispatch.h"
#include "parts.h"
#include "simd.h"
#include "term_vectors.h"

namespace halfulp {
namespace {

// Fetches what a long row has as far ahead as the processor wants it.
class Prefetch {
 public:
  // 64 bytes of memory from `x` + ahead on, if `x` is the first element of so many.
  template <class T>
  void operator()(const T* x, std::size_t first) const {
    if (first * sizeof(T) % 64 != 0 || ahead_ == 0) return;
    __builtin_prefetch(reinterpret_cast<const std::byte*>(x + first) + ahead_);
  }

 private:
  std::ptrdiff_t ahead_ = prefetch_distance();
};

// What the errors of a sum are in proportion to: its mass, the sum of the sizes of its terms.
// Terms that are not negative add up to it, others are added without their signs besides.
template <class V, bool is_signed>
struct Mass {
  V mass_of(V sum) const { return sum; }
  void add_size(V) {}
  void set_size(V) {}
  static Mass join_masses(const Mass&, const Mass&) { return {}; }
  template <class Part>
  static Mass pick_mass(const Mass&, const Mass&) {
    return {};
  }
  Mass<Vector, false> widen_mass(Vector (*)(Narrow)) const { return {}; }
};

template <class V>
struct Mass<V, true> {
  V m{};

  V mass_of(V) const { return m; }
  void add_size(V x) { m += size_of(x); }
  void set_size(V x) { m = x; }
  static Mass join_masses(const Mass& a, const Mass& b) { return {a.m + b.m}; }
  template <class Part>
  static Mass pick_mass(const Mass& a, const Mass& b) {
    return {Part::of(a.m, b.m)};
  }
  Mass<Vector, true> widen_mass(Vector (*widen)(Narrow)) const { return {widen(m)}; }
};

// The bound of a sum: `factor` of its mass, and what underflow adds. A signed sum whose mass is
// less than that is exact, and zeros alone have the bound 0.
template <Term term>
inline Vector bound_of(Vector mass, double factor, Vector underflow) {
  if constexpr (TermOf<term>::kIsSigned) underflow = mass < underflow ? mass : underflow;
  return mass * factor + underflow;
}

// One binary64 number per output, for terms that are exact in binary64: squares of types of
// at most 24 bits, exponents -298..256. Proved in docs/exactness.md#plain-sums.
template <Term term>
struct Plain : Mass<Vector, TermOf<term>::kIsSigned> {
  Vector s{};

  void step(Vector x) {
    s = TermVectors<term>::add(x, s);
    this->add_size(x);
  }
  Vector high() const { return s; }
  Vector low() const { return Vector{}; }
  Vector mass() const { return this->mass_of(s); }
  Vector bound(double factor, Vector underflow) const {
    return bound_of<term>(mass(), factor, underflow);
  }

  // Sums of mass A, of terms each passing at most h additions: |S - s| <= h u A
  // (Higham 2002, 4.2; Jeannerod and Rump 2013).
  static double factor(std::size_t h) { return static_cast<double>(h) * kU; }
  static double underflow(std::size_t) { return 0; }

  static Plain join(const Plain& a, const Plain& b) {
    return {Plain::join_masses(a, b), a.s + b.s};
  }
  template <class Part>
  static Plain pick(const Plain& a, const Plain& b) {
    return {Plain::template pick_mass<Part>(a, b), Part::of(a.s, b.s)};
  }
};

// Two: s, the sum in binary64, and c, the sum of the rounding errors of terms and sums
// (Dot2 of Ogita, Rump and Oishi 2005). Proved in docs/exactness.md#compensated-sums.
template <Term term>
struct Compensated : Mass<Vector, TermOf<term>::kIsSigned> {
  Vector s{};
  Vector c{};

  void step(Vector x) {
    Vector p, e, r;
    TermVectors<term>::split(x, p, e);
    s = two_sum(s, p, r);
    c += TermOf<term>::kDegree == 1 ? r : e + r;
    this->add_size(x);
  }
  Vector high() const { return s; }
  Vector low() const { return c; }
  Vector mass() const { return this->mass_of(s); }
  Vector bound(double factor, Vector underflow) const {
    return bound_of<term>(mass(), factor, underflow);
  }

  // At depth k, c holds at most k + 1 errors of at most u times the mass each, and a step or a
  // join rounds twice: 2(k + 1)u^2 of it, summed over k <= h.
  static double factor(std::size_t h) {
    const double depth = static_cast<double>(h + 2);
    return depth * depth * (kU * kU);
  }
  static double underflow(std::size_t n) {
    return static_cast<double>(n) * TermVectors<term>::kUnderflow;
  }

  static Compensated join(const Compensated& a, const Compensated& b) {
    Compensated both = {Compensated::join_masses(a, b), {}, {}};
    Vector r;
    both.s = two_sum(a.s, b.s, r);
    both.c = (a.c + b.c) + r;
    return both;
  }
  template <class Part>
  static Compensated pick(const Compensated& a, const Compensated& b) {
    return {Compensated::template pick_mass<Part>(a, b), Part::of(a.s, b.s),
            Part::of(a.c, b.c)};
  }
};

// One binary32 number per output, for half types whose terms are exact there too: squares have
// 22 and 16 bits. Those of bfloat16 can leave the range of binary32: an overflow makes the sum
// infinite, which decides nothing; underflow is in the bound. Proved in
// docs/exactness.md#sums-in-binary32.
template <Term term, Type type>
struct Binary32 : Mass<Narrow, TermOf<term>::kIsSigned> {
  static_assert(is_exact(term, type, Type::float32));
  Narrow s{};

  void step(Narrow x) {
    s = TermVectors<term>::add(x, s);
    this->add_size(x);
  }

  static double factor(std::size_t h) { return static_cast<double>(h) * kU32; }
  static double underflow(std::size_t n) {
    return static_cast<double>(n) * TermVectors<term>::template kUnderflow32<type>;
  }

  static Binary32 join(const Binary32& a, const Binary32& b) {
    return {Binary32::join_masses(a, b), a.s + b.s};
  }
  template <class Part>
  static Binary32 pick(const Binary32& a, const Binary32& b) {
    return {Binary32::template pick_mass<Part>(a, b), Part::of(a.s, b.s)};
  }

  // The first and the second half of the elements, in binary64.
  Plain<term> low() const { return {this->widen_mass(&widen_low), widen_low(s)}; }
  Plain<term> high() const { return {this->widen_mass(&widen_high), widen_high(s)}; }
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

template <class Lane>
Lane join_all(const Lane (&lanes)[kLanes]) {
  Lane joined[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) joined[i] = lanes[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) joined[i] = Lane::join(joined[i], joined[i + half]);
  }
  return joined[0];
}

// Element i of the result is the sum of all elements of rows[i], as many as a vector has.
template <std::size_t level = 0, class Lane, std::size_t count>
inline __attribute__((always_inline)) Lane join_rows(const Lane (&rows)[count]) {
  if constexpr (count == 1) {
    return rows[0];
  } else {
    Lane joined[count / 2];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < count / 2; ++i) {
      const Lane &a = rows[2 * i], &b = rows[2 * i + 1];
      joined[i] = Lane::join(Lane::template pick<Halves16<level, false>>(a, b),
                             Lane::template pick<Halves16<level, true>>(a, b));
    }
    return join_rows<level + 1>(joined);
  }
}

// The sums of as many elements as there are vectors, that lie side by side in these.
template <class Lane, std::size_t count>
inline __attribute__((always_inline)) Lane join_packed(const Lane (&vectors)[count]) {
  if constexpr (count == 1) {
    return vectors[0];
  } else {
    Lane joined[count / 2];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < count / 2; ++i) {
      const Lane &a = vectors[2 * i], &b = vectors[2 * i + 1];
      joined[i] = Lane::join(Lane::template pick<Evens>(a, b), Lane::template pick<Odds>(a, b));
    }
    return join_packed(joined);
  }
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
