// Folds: what a sum of squares is held in without any rounding.
//
// Each lane has a few numbers of binary64, the folds, of falling exponents. Fold f
// starts at a power of two M_f = 2^K_f (f > 0: 1.5 times that, for terms of either sign) and
// never leaves [2^K_f, 2^(K_f + 1)], so that it is M_f and an integer number of times
// q_f = 2^(K_f - 52). Adding a term v to a fold a, s = fl(a + v), takes the multiple s - a of
// q_f off v, exactly; v - (s - a), at most q_f / 2, is exact too (Dekker) and goes to the next
// fold. The last fold is as fine as the grid on which all squares lie, and nothing is left.
//
// Let n = 2^kLogSteps, the most terms of a lane, |x| < 2^E and all x multiples of 2^L. The
// least and the greatest magnitude tell E and L before anything is added.
//   K_0 = 2E + kLogSteps: n squares, each rounded to at most 2^(2E), sum up to at most M_0.
//   Types of 24 bits, whose squares are exact: at most n remainders of q_(f-1) / 2 each, and
//   n roundings of q_f / 2, come to fold f. With K_f = K_(f-1) - 51 + kLogSteps they
//   sum up to n q_(f-1) = 2^(K_f - 1) at most.
//   float64: fold 1 gets a rest of each product besides, below q_0 / 2 by far, and every
//   later fold so gets two remainders a term: K_f = K_(f-1) - 50 + kLogSteps.
// So all is exact if K_f - 52 <= 2L for the last f, and no exponent leaves binary64. Half
// types have folds in binary32 too, where 23 and 22 stand for 52 and 51.
// Proved in docs/exactness.md#folds.
//
// May include dispatch.h and simd.h only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "../dispatch.h"
#include "simd.h"

namespace halfulp {
namespace {

template <Type type>
struct Fold {
  static constexpr Format kFormat = format_of(type);
  static constexpr int kLogSteps = log_exact_rows(type);
  static constexpr int kStep = limb_step(type);
  static_assert(kStep == (type == Type::float64 ? kLogSteps - 50 : kLogSteps - 51));
  // float16 needs two whatever the values.
  static constexpr std::size_t kMost =
      type == Type::float64 ? 4 : (type == Type::float16 ? 2 : 3);

  // Exponents of magnitudes, as integers: |x| is a multiple of 2^(exponent - p + 1), and
  // below 2^(exponent + 1). That of infinity and NaN is beyond emax.
  static constexpr int exponent(std::uint64_t magnitude) {
    const int field = static_cast<int>(magnitude >> (kFormat.precision - 1));
    return (field > 1 ? field : 1) - kFormat.emax;
  }

  // 2L, from the least magnitude but 0, less 1. Of zeros alone any grid will do.
  static constexpr int grid_of(std::int64_t least) {
    return 2 * (exponent(std::uint64_t{1} + static_cast<std::uint64_t>(least)) -
                kFormat.precision + 1);
  }

  // K_0, from the greatest magnitude. Of zeros alone any will do.
  static constexpr int head_for(std::int64_t most) {
    return most == 0 ? 0 : 2 * (exponent(static_cast<std::uint64_t>(most)) + 1) + kLogSteps;
  }
  // What a head of finite numbers never reaches.
  static constexpr int kTooHigh =
      type == Type::float64 ? 1023 : 2 * (kFormat.emax + 2) + kLogSteps;

  // The folds that it takes for K_0 = head; kMost + 1 if there are none.
  static std::size_t needed(int head, int grid) {
    std::size_t folds = 2;
    for (std::size_t f = 1; f < kMost; ++f) {
      folds += head + static_cast<int>(f) * kStep - 52 > grid;
    }
    bool fits = head < kTooHigh;
    // Folds and their q_f are normal numbers; 2L is no less, so that rests of products are
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

// Folds in binary64 or binary32; `exact_squares`: squares are exact in that.
template <class V, std::size_t folds, int step_, bool exact_squares>
struct FoldLane {
  using Signed = SignedOf<sizeof(V{}[0])>;
  using Integers = typename Signed::Lanes;
  // Integers as their residues: those of a sum that does not fit overflow, to be discarded.
  typedef std::make_unsigned_t<typename Signed::Lane> Residues
      __attribute__((vector_size(kVectorBytes)));

  V a[folds];

  void start(V head) {
    a[0] = head;
    for (std::size_t f = 1; f < folds; ++f) {
      const double scale = head_of(static_cast<int>(f) * step_) * 1.5;
      a[f] = head * static_cast<decltype(+head[0])>(scale);
    }
  }

  void step(V x) {
    if constexpr (exact_squares) {
      // And so are the remainders: fused or not, they are the same.
      const V s = square_add(x, a[0]);
      const V t = square_add(x, a[0] - s);
      a[0] = s;
      put(t);
    } else {
      V p, e;
      square(x, p, e);
      const V s = a[0] + p;
      const V t = p - (s - a[0]);
      a[0] = s;
      put(t);
      put(e);
    }
  }

  // Whether fold 0 kept its exponent. Terms are not negative, so then it always did.
  Integers fits(V head) const { return (Integers)(a[0] <= head + head); }

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

template <Type type, std::size_t folds>
using WideLane = FoldLane<Vector, folds, Fold<type>::kStep, type != Type::float64>;

// Half types: three folds in binary32, whose q_f are 2^(K_f - 23), of 2^kNarrowLogSteps terms
// at most; then their integers are added up.
constexpr int kNarrowLogSteps = 4;
constexpr int kNarrowStep = kNarrowLogSteps - 22;
using NarrowLane = FoldLane<Narrow, 3, kNarrowStep, true>;

constexpr int narrow_head(int head) {
  return head - Fold<Type::float16>::kLogSteps + kNarrowLogSteps;
}
static_assert(limb_step(Type::bfloat16) == limb_step(Type::float16));

template <Type type>
constexpr bool fits_narrow(int head, int grid) {
  const int last = narrow_head(head) + 2 * kNarrowStep - 23;
  return sizeof(Bits<type>) == 2 && last <= grid && last >= -126 && narrow_head(head) <= 126;
}

// Limbs in the steps of limb_step from the integers of three narrow folds.
inline void set_narrow_limbs(const Limbs& limbs, int head, std::int64_t i0, std::int64_t i1,
                             std::int64_t i2) {
  constexpr int kShift = kNarrowStep - limb_step(Type::float16);
  static_assert(kShift + kNarrowStep > 0);
  limbs.limb[0][0] = i0;
  limbs.limb[1][0] = i1 * (1 << kShift) + i2 * (1 << (kShift + kNarrowStep));
  limbs.exponent[0] = narrow_head(head) - 23;
}

}  // namespace
}  // namespace halfulp
