// Folds: what a sum of terms is held in without any rounding.
//
// Each lane has a few numbers of binary64, the folds, of falling exponents. Fold f starts at a
// power of two M_f = 2^K_f (for numbers of either sign, as of f > 0, 1.5 times that) and never
// leaves [2^K_f, 2^(K_f + 1)], so that it is M_f and an integer number of times
// q_f = 2^(K_f - 52). Adding a number v to a fold a, s = fl(a + v), takes the multiple s - a of
// q_f off v, exactly; v - (s - a), at most q_f / 2, is exact too (Dekker) and goes to the next
// fold. The last fold is as fine as the unit of which all terms are multiples, and nothing is
// left.
//
// Let n = 2^kLogSteps, the most terms of a lane, d their degree, |x| < 2^E and all x multiples
// of 2^L. The least and the greatest magnitude tell E and L before anything is added.
//   K_0 = dE + kLogSteps: n terms, each rounded to at most 2^(dE), sum up to at most M_0; one
//   more for signed terms, which sum up to at most M_0 / 2.
//   Terms that are exact in binary64: at most n remainders of q_(f-1) / 2 each, and
//   n roundings of q_f / 2, come to fold f. With K_f = K_(f-1) - 51 + kLogSteps they
//   sum up to n q_(f-1) = 2^(K_f - 1) at most.
//   Others: fold 1 gets a rest of each term besides, below q_0 / 2 by far, and every
//   later fold so gets two remainders a term: K_f = K_(f-1) - 50 + kLogSteps.
// So all is exact if K_f - 52 <= dL for the last f, and no exponent leaves binary64. Half
// types have folds in binary32 too, where 23 and 22 stand for 52 and 51.
// Proved in docs/exactness.md#folds.
//
// May include dispatch.h, simd.h and term_vectors.h only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "../dispatch.h"
#include "simd.h"
#include "term_vectors.h"

namespace halfulp {
namespace {

// How many folds a sum takes, and where they start.
template <Term term, Type type>
struct Fold {
  static constexpr Format kFormat = format_of(type);
  static constexpr int kDegree = TermOf<term>::kDegree;
  static constexpr bool kExact = is_exact(term, type, Type::float64);
  static constexpr int kLogSteps = log_exact_rows(type);
  static constexpr int kStep = limb_step(term, type);
  static_assert(kStep == kLogSteps - (kExact ? 51 : 50));

  // Exponents of magnitudes, as integers: |x| is a multiple of 2^(exponent - p + 1), and
  // below 2^(exponent + 1). That of infinity and NaN is beyond emax.
  static constexpr int exponent(std::uint64_t magnitude) {
    const int field = static_cast<int>(magnitude >> (kFormat.precision - 1));
    return (field > 1 ? field : 1) - kFormat.emax;
  }

  // dL, the exponent of the unit, from the least magnitude but 0, less 1. Of zeros alone any
  // will do.
  static constexpr int unit_for(std::int64_t least) {
    return kDegree * (exponent(std::uint64_t{1} + static_cast<std::uint64_t>(least)) -
                      kFormat.precision + 1);
  }

  // K_0, from the greatest magnitude. Of zeros alone any will do.
  static constexpr int head_for(std::int64_t most) {
    return most == 0 ? 0 : head_over(exponent(static_cast<std::uint64_t>(most)) + 1);
  }
  // Signed terms move the head, which starts in the middle, by half of its room at most.
  static constexpr int head_over(int exponent) {
    return kDegree * exponent + kLogSteps + TermOf<term>::kIsSigned;
  }
  // What a head of finite numbers never reaches, and none of binary64 may.
  static constexpr int kTooHigh =
      head_over(kFormat.emax + 2) < 1023 ? head_over(kFormat.emax + 2) : 1023;

  // Whether so many folds do, besides their exponents.
  static constexpr bool suffice(int folds, int head, int unit) {
    return head + (folds - 1) * kStep - 52 <= unit;
  }
  // No more are tried: 4 where terms have rests, else 3, or 2 if these do whatever the values.
  static constexpr std::size_t most() {
    const int head = head_over(kFormat.emax + 1);
    const bool two = suffice(2, head, kDegree * kFormat.least_exponent());
    return kExact ? (two ? 2 : 3) : 4;
  }
  static constexpr std::size_t kMost = most();
  static_assert(most() <= kMostLimbs);

  // The folds that it takes for K_0 = head; kMost + 1 if there are none.
  static std::size_t needed(int head, int unit) {
    std::size_t folds = 2;
    for (std::size_t f = 2; f <= kMost; ++f) {
      folds += !suffice(static_cast<int>(f), head, unit);
    }
    bool fits = head < kTooHigh;
    // Folds and their q_f are normal numbers; dL is no less, so that rests of terms are
    // binary64 numbers too.
    if (type == Type::float64) {
      fits = fits && head + static_cast<int>(folds - 1) * kStep - 52 >= -1022;
    }
    return fits ? folds : kMost + 1;
  }
};

inline double head_of(int exponent) {
  return bits_to_double(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Folds in binary64 or binary32; `exact`: terms are exact in that.
template <Term term, class V, std::size_t folds, int step_, bool exact>
struct FoldLane {
  using Signed = SignedOf<sizeof(V{}[0])>;
  using Integers = typename Signed::Integers;
  // Integers as their residues: those of a sum that does not fit overflow, to be discarded.
  typedef std::make_unsigned_t<typename Signed::Integer> Residues
      __attribute__((vector_size(kVectorBytes)));

  V a[folds];

  void start(V head) {
    for (std::size_t f = 0; f < folds; ++f) {
      const bool is_signed = f > 0 || TermOf<term>::kIsSigned;
      const double scale = head_of(static_cast<int>(f) * step_) * (is_signed ? 1.5 : 1);
      a[f] = head * static_cast<decltype(+head[0])>(scale);
    }
  }

  void step(V x) {
    if constexpr (exact) {
      // And so are the remainders: fused or not, they are the same.
      const V s = TermVectors<term>::add(x, a[0]);
      const V t = TermVectors<term>::add(x, a[0] - s);
      a[0] = s;
      put(t);
    } else {
      V p, e;
      TermVectors<term>::split(x, p, e);
      const V s = a[0] + p;
      const V t = p - (s - a[0]);
      a[0] = s;
      put(t);
      put(e);
    }
  }

  // Whether fold 0 kept its exponent: as terms are not negative, then it always did. Of signed
  // ones the greatest is always found before, so that it does.
  Integers fits(V head) const {
    if (TermOf<term>::kIsSigned) return ~Integers{};
    return (Integers)(a[0] <= head + head);
  }

  // How many times q_f fold f holds.
  Residues multiple(std::size_t f, V head) const {
    FoldLane begin;
    begin.start(head);
    return (Residues)a[f] - (Residues)begin.a[f];
  }

 private:
  void put(V v) {
#pragma GCC unroll 4
    for (std::size_t f = 1; f + 1 < folds; ++f) {
      const V s = a[f] + v;
      v -= s - a[f];
      a[f] = s;
    }
    a[folds - 1] += v;
  }
};

// Folds in binary64.
template <Term term, Type type, std::size_t folds>
using Folds = FoldLane<term, Vector, folds, Fold<term, type>::kStep, Fold<term, type>::kExact>;

// Half types: three folds in binary32, whose q_f are 2^(K_f - 23), of 2^kNarrowLogSteps terms
// at most; then their integers are added up.
constexpr int kNarrowLogSteps = 4;
constexpr int kNarrowStep = kNarrowLogSteps - 22;

template <Term term, Type type>
struct NarrowFold {
  static_assert(is_exact(term, type, Type::float32));
  using Lane = FoldLane<term, Narrow, 3, kNarrowStep, true>;

  // K_0, from that of folds in binary64.
  static constexpr int head_for(int head) {
    return head - Fold<term, type>::kLogSteps + kNarrowLogSteps;
  }

  static constexpr bool fits(int head, int unit) {
    const int last = head_for(head) + 2 * kNarrowStep - 23;
    return last <= unit && last >= -126 && head_for(head) <= 126;
  }

  // Sets limbs, in the steps of limb_step, from the integers of the three folds.
  static void set_limbs(const Limbs& limbs, int head, std::int64_t i0, std::int64_t i1,
                        std::int64_t i2) {
    constexpr int kShift = kNarrowStep - limb_step(term, type);
    static_assert(kShift + kNarrowStep > 0);
    limbs.limb[0][0] = i0;
    limbs.limb[1][0] = i1 * (1 << kShift) + i2 * (1 << (kShift + kNarrowStep));
    limbs.exponent[0] = head_for(head) - 23;
  }
};

// Whether terms of a type are summed so.
template <Term term, Type type>
constexpr bool fits_narrow(int head, int unit) {
  if constexpr (sizeof(Bits<type>) == 2) return NarrowFold<term, type>::fits(head, unit);
  return false;
}

}  // namespace
}  // namespace halfulp
