// Kernels of Layout::rows: one output for each row of a matrix, summed along it.
// May include inexact.h, lanes.h and what it includes only. Internal linkage: see simd.h.
#pragma once

#include "inexact.h"
#include "lanes.h"

namespace halfulp {
namespace {

// A summer returns one lane whose elements add up to the sum of n terms.

// Any lane, one step an element vector.
template <Type type, class Lane_>
struct SumRow {
  using Lane = Lane_;
  static constexpr std::size_t kMaxColumns = 512 * kStep;

  // Every element passes the steps of its lane, those of what is left over, and the joins of
  // lanes.
  static std::size_t depth(std::size_t n) { return n / kStep + kLanes + ilog2(kLanes); }
  static double factor(std::size_t h) { return Lane::factor(h); }

  Lane operator()(const Bits<type>* x, std::size_t n, double& absolute) {
    absolute = Lane::underflow(n);
    const Prefetch prefetch;
    Lane lanes[kLanes];
    for (; n >= kStep; n -= kStep, x += kStep) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        prefetch(x, i * kWidth);
        lanes[i].step(load<type>(x + i * kWidth));
      }
    }
    for (; n >= kWidth; n -= kWidth, x += kWidth) lanes[0].step(load<type>(x));
    if (n > 0) lanes[1].step(load_first<type>(x, n));
    return join_all(lanes);
  }
};

// Half types: runs in binary32, gathered in binary64. A term passes kRun - 1 additions of its
// chain, as the first is none, and the joins of chains.
constexpr std::size_t kRun = 16;

template <Term term, Type type>
struct SumRowNarrow {
  static_assert(!TermOf<term>::kIsSigned, "chains have no mass");
  using Lane = Plain<term>;
  using Chain = Binary32<term, type>;
  using Terms = NarrowTerms<term, type>;
  static constexpr std::size_t kChains = 8;
  static constexpr std::size_t kChainsColumns = kChains * kNarrowWidth;
  static constexpr std::size_t kMaxColumns = 256 * kRun * kChainsColumns;

  static std::size_t depth(std::size_t n) { return n / (kRun * kChainsColumns) + 3; }
  static double factor(std::size_t h) {
    static_assert(kChains == 8, "three joins");
    return Lane::factor(h) + Chain::factor(kRun - 1 + 3);
  }

  Lane operator()(const std::uint16_t* x, std::size_t n, double& absolute) {
    absolute = Chain::underflow(n);
    const Prefetch prefetch;
    Lane total;
    while (n >= kChainsColumns) {
      Narrow sums[kChains] = {};
      std::size_t run = n / kChainsColumns < kRun ? n / kChainsColumns : kRun;
      n -= run * kChainsColumns;
      for (; run > 0; --run) {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kChains; i += 2, x += 2 * kNarrowWidth) {
          if (i * kNarrowWidth * sizeof *x % 64 == 0) prefetch(x, 0);
          Narrow two[2];
          Terms::load(x, two);
          sums[i] = Terms::add(two[0], sums[i]);
          sums[i + 1] = Terms::add(two[1], sums[i + 1]);
        }
      }
#pragma GCC unroll 3
      for (std::size_t half = kChains / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
      }
      gather(total, {{}, sums[0]});
    }
    if (n == 0) return total;
    Chain rest;
    for (; n >= kNarrowWidth; n -= kNarrowWidth, x += kNarrowWidth) {
      rest.step(load_narrow<type>(x));
    }
    if (n > 0) {
      rest.step(load_narrow<type>(Padded<kNarrowWidth, std::uint16_t>(x, n).elements));
    }
    gather(total, rest);
    return total;
  }

  static void gather(Lane& total, const Chain& sums) {
    total = Lane::join(total, Lane::join(sums.low(), sums.high()));
  }
};

// The sum of a head and the terms of x, of which the rest goes to c.
template <Term term>
inline Vector add_to_head(Vector x, Vector head, Vector& c) {
  Vector s;
  if constexpr (TermVectors<term>::kAddsFused) {
    s = TermVectors<term>::add(x, head);
    c += TermVectors<term>::add(x, head - s);
  } else {
    Vector p, e;
    TermVectors<term>::split(x, p, e);
    s = head + p;
    c += (p - (s - head)) + e;
  }
  return s;
}

// Compensated sums with a biased head. Each lane's head a starts at M = 2^K. While a < 2M,
// every term is below M, a is a multiple of q = 2^(K-52), and s - a is exact: the heads
// are exact integers times q. The rest t of a term, |t| <= q, goes to c. With B steps the
// sum of the t errs by at most (B + 1)^2 u q, and joining L lanes by 16(B + 1)u q each
// (at most 7 joins of two roundings of numbers below (B + 1)q), besides what Compensated
// enclosures. A head that reaches 2M, by NaN or infinity too, fails: another M.
// Proved in docs/exactness.md#the-biased-head.
template <Term term, Type type>
struct SumRowBiased {
  static_assert(!TermOf<term>::kIsSigned, "heads start at M, and never decrease");
  using Lane = Compensated<term>;
  static constexpr std::size_t kMaxColumns = 256 * kStep;
  static constexpr std::size_t kShort = 4 * kStep;

  // The last head that fitted, a first guess for the next row; 0 before any.
  double head = 0;

  static std::size_t depth(std::size_t n) {
    return n < kShort ? SumRow<type, Lane>::depth(n) : ilog2(kLanes) + 2;
  }
  static double factor(std::size_t h) { return Lane::factor(h); }

  Lane operator()(const Bits<type>* x, std::size_t n, double& absolute) {
    if (n < kShort) return SumRow<type, Lane>()(x, n, absolute);
    if (head == 0) {
      head = head_for(sum_of(x, kStep) / static_cast<double>(kStep) *
                      static_cast<double>(n / kStep + 1) * 2);
    }
    for (bool last = false;; last = true) {
      Lane lanes[kLanes];
      const bool fits = head > 0 && sum_from_head(x, n, lanes);
      const Lane sum = join_all(lanes);
      double total = 0;
      for (std::size_t i = 0; i < kWidth; ++i) total += sum.s[i];
      // A head 2^20 times too high loses as many bits: worth another run.
      if (fits && (last || total >= head * 0x1p-20 || head == kLeastHead)) {
        const double steps = static_cast<double>(n / kStep + 2);
        const double lanes_q = static_cast<double>(kStep) * (head * 0x1p-52);
        absolute = Lane::underflow(n) + (steps * steps + 16 * steps) * kU * lanes_q;
        return sum;
      }
      const double plain = sum_of(x, n);
      head = head_for(plain);
      if (head == 0) {  // NaN, infinite, or too large for a head: the sum says which
        absolute = 0;
        Lane special;
        special.s[0] = plain > 0x1p1019 ? kInfinity : plain;
        return special;
      }
    }
  }

  // A head above every lane's sum, if the sums of all lanes are at most `sum`.
  static double head_for(double sum) {
    if (!(sum <= 0x1p1019)) return 0;
    std::uint64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    const double power = bits_to_double((bits & 0x7ff0000000000000) + (std::uint64_t{2} << 52));
    return power < kLeastHead ? kLeastHead : power;
  }

 private:
  // q stays normal.
  static constexpr double kLeastHead = 0x1p-960;
  static constexpr double kInfinity = __builtin_inf();

  static double sum_of(const Bits<type>* x, std::size_t n) {
    double ignored;
    const Plain<term> sum = SumRow<type, Plain<term>>()(x, n, ignored);
    double total = 0;
    for (std::size_t i = 0; i < kWidth; ++i) total += sum.s[i];
    return total;
  }

  bool sum_from_head(const Bits<type>* x, std::size_t n, Lane (&lanes)[kLanes]) const {
    const Prefetch prefetch;
    const Vector start = Vector{} + head;
    Vector a[kLanes];
    Vector c[kLanes] = {};
    for (std::size_t i = 0; i < kLanes; ++i) a[i] = start;
    for (; n >= kStep; n -= kStep, x += kStep) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        prefetch(x, i * kWidth);
        step(load<type>(x + i * kWidth), a[i], c[i]);
      }
    }
    for (std::size_t i = 0; n >= kWidth; ++i, n -= kWidth, x += kWidth) {
      step(load<type>(x), a[i], c[i]);
    }
    if (n > 0) step(load_first<type>(x, n), a[kLanes - 1], c[kLanes - 1]);
    auto below = a[0] < start + start;
    for (std::size_t i = 0; i < kLanes; ++i) {
      below &= a[i] < start + start;
      lanes[i].s = a[i] - start;
      lanes[i].c = c[i];
    }
    bool fits = true;
    for (std::size_t j = 0; j < kWidth; ++j) fits &= below[j] != 0;
    return fits;
  }

  static void step(Vector x, Vector& a, Vector& c) { a = add_to_head<term>(x, a, c); }
};

// Rows shorter than this are summed some at once: see short_rows.h.
constexpr std::size_t kShortRow = 40 * kWidth;

template <Type type, class Sum>
void sum_long_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                   std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  using Lane = typename Sum::Lane;
  Sum sum;
  for (std::size_t row = 0; row < rows; row += kWidth) {
    const std::size_t count = rows - row < kWidth ? rows - row : kWidth;
    for (std::size_t begin = 0; begin < columns; begin += Sum::kMaxColumns) {
      const std::size_t left = columns - begin;
      const std::size_t n = left < Sum::kMaxColumns ? left : Sum::kMaxColumns;
      Lane lanes[kWidth] = {};
      double absolute[kWidth] = {};
      Inexact::clear();
      for (std::size_t i = 0; i < count; ++i) {
        lanes[i] = sum(row_of<type>(data, row_stride, row + i) + begin, n, absolute[i]);
      }
      Lane joined = join_rows(lanes);
      settle_lane(joined);
      Vector bound{};
      if (Inexact::may_be_raised()) {
        const double factor = Sum::factor(Sum::depth(n) + ilog2(kWidth));
        bound = joined.bound(factor, load_vector<Vector>(absolute));
      }
      add_to_enclosures(enclosures + row, fresh && begin == 0, count, joined, bound);
    }
  }
}

}  // namespace
}  // namespace halfulp
