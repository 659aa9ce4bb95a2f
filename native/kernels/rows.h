// Kernels of Layout::rows: one output for each row of a matrix, summed along it.
// May include lanes.h and what it includes only. Internal linkage: see simd.h.
#pragma once

#include "lanes.h"

namespace halfulp {
namespace {

// A summer returns one lane whose elements add up to the sum of n squares.

// Any lane, one step an element vector.
template <Type type, class Lane_>
struct SumRow {
  using Lane = Lane_;
  static constexpr std::size_t kMaxColumns = 512 * kStep;

  // Every element passes the steps of its lane, a part of a vector and the joins of lanes.
  static std::size_t depth(std::size_t n) { return n / kStep + kLanes + ilog2(kLanes); }
  static double factor(std::size_t h) { return Lane::factor(h); }

  Lane operator()(const Bits<type>* x, std::size_t n, double& absolute) {
    absolute = Lane::underflow(n);
    Lane lanes[kLanes];
    for (; n >= kStep; n -= kStep, x += kStep) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        if (i * kWidth * sizeof *x % 64 == 0) prefetch(x + i * kWidth);
        lanes[i].step(load<type>(x + i * kWidth));
      }
    }
    for (; n >= kWidth; n -= kWidth, x += kWidth) lanes[0].step(load<type>(x));
    if (n > 0) lanes[1].step(load_part<type>(x, n));
    return join_all(lanes);
  }
};

// Half types: runs in binary32, of at most kRun + 3 additions, gathered in binary64.
constexpr std::size_t kRun = 16;

template <Type type>
struct SumRowNarrow {
  using Lane = Plain;
  static constexpr std::size_t kChains = 4;
  static constexpr std::size_t kBlock = kRun * kChains * kNarrowWidth;
  static constexpr std::size_t kMaxColumns = 256 * kBlock;

  static std::size_t depth(std::size_t n) { return n / kBlock + 3; }
  static double factor(std::size_t h) {
    return Plain::factor(h) + Short<type>::factor(kRun + 3);
  }

  Plain operator()(const std::uint16_t* x, std::size_t n, double& absolute) {
    absolute = Short<type>::underflow(n);
    Plain total;
    while (n >= kNarrowWidth) {
      Narrow sums[kChains] = {};
      if (n >= kBlock) {
        for (std::size_t run = 0; run < kRun; ++run) {
          for (std::size_t i = 0; i < kChains; ++i, x += kNarrowWidth) {
            if (i * kNarrowWidth * sizeof *x % 64 == 0) prefetch(x);
            sums[i] = square_add(load_narrow<type>(x), sums[i]);
          }
        }
        n -= kBlock;
      } else {
        for (std::size_t run = 0; n >= kNarrowWidth && run < kRun * kChains; ++run) {
          sums[run % kChains] = square_add(load_narrow<type>(x), sums[run % kChains]);
          x += kNarrowWidth;
          n -= kNarrowWidth;
        }
      }
      gather(total, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    if (n > 0) {
      const Padded<kNarrowWidth, std::uint16_t> padded(x, n);
      const Narrow part = load_narrow<type>(padded.elements);
      gather(total, part * part);
    }
    return total;
  }

  static void gather(Plain& total, Narrow sums) {
    total.s += widen_low(sums) + widen_high(sums);
  }
};

// Compensated sums with a biased head. Each lane's head a starts at M = 2^K. While a < 2M,
// every square is below M, a is a multiple of q = 2^(K-52), and s - a is exact: the heads
// are exact integers times q. The rest t of a square, |t| <= q, goes to c. With B steps the
// sum of the t errs by at most (B + 1)^2 u q, and joining L lanes by 16(B + 1)u q each
// (at most 7 joins of two roundings of numbers below (B + 1)q), besides what Compensated
// enclosures. A head that reaches 2M, by NaN or infinity too, fails the block: another M.
// Proved in docs/exactness.md#the-biased-head.
template <Type type>
struct SumRowBiased {
  using Lane = Compensated;
  static constexpr std::size_t kMaxColumns = 256 * kStep;
  static constexpr std::size_t kShort = 4 * kStep;

  // The last head that fitted, a first guess for the next row; 0 before any.
  double head = 0;

  static std::size_t depth(std::size_t n) {
    return n < kShort ? SumRow<type, Compensated>::depth(n) : ilog2(kLanes) + 2;
  }
  static double factor(std::size_t h) { return Compensated::factor(h); }

  Compensated operator()(const Bits<type>* x, std::size_t n, double& absolute) {
    if (n < kShort) return SumRow<type, Compensated>()(x, n, absolute);
    if (head == 0) {
      head = head_for(sum_of(x, kStep) / static_cast<double>(kStep) *
                      static_cast<double>(n / kStep + 1) * 2);
    }
    for (bool last = false;; last = true) {
      Compensated lanes[kLanes];
      const bool fits = head > 0 && block(x, n, lanes);
      const Compensated sum = join_all(lanes);
      double total = 0;
      for (std::size_t i = 0; i < kWidth; ++i) total += sum.s[i];
      // A head 2^20 times too high loses as many bits: worth another run.
      if (fits && (last || total >= head * 0x1p-20 || head == kLeastHead)) {
        const double steps = static_cast<double>(n / kStep + 2);
        const double lanes_q = static_cast<double>(kStep) * (head * 0x1p-52);
        absolute = Compensated::underflow(n) + (steps * steps + 16 * steps) * kU * lanes_q;
        return sum;
      }
      const double plain = sum_of(x, n);
      head = head_for(plain);
      if (head == 0) {  // NaN, infinite, or too large for a head: the sum says which
        absolute = 0;
        Compensated special;
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
    const Plain sum = SumRow<type, Plain>()(x, n, ignored);
    double total = 0;
    for (std::size_t i = 0; i < kWidth; ++i) total += sum.s[i];
    return total;
  }

  bool block(const Bits<type>* x, std::size_t n, Compensated (&lanes)[kLanes]) const {
    const Vector start = Vector{} + head;
    Vector a[kLanes];
    Vector c[kLanes] = {};
    for (std::size_t i = 0; i < kLanes; ++i) a[i] = start;
    for (; n >= kStep; n -= kStep, x += kStep) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        if (i * kWidth * sizeof *x % 64 == 0) prefetch(x + i * kWidth);
        step(load<type>(x + i * kWidth), a[i], c[i]);
      }
    }
    for (std::size_t i = 0; n >= kWidth; ++i, n -= kWidth, x += kWidth) {
      step(load<type>(x), a[i], c[i]);
    }
    if (n > 0) step(load_part<type>(x, n), a[kLanes - 1], c[kLanes - 1]);
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

  static void step(Vector x, Vector& a, Vector& c) {
    if constexpr (kHasFma) {
      const Vector s = square_add(x, a);
      c += square_add(x, a - s);
      a = s;
    } else {
      Vector p, e;
      square(x, p, e);
      const Vector s = a + p;
      c += (p - (s - a)) + e;
      a = s;
    }
  }
};

// Rows shorter than this have no lanes to themselves but one.
constexpr std::size_t kShortRow = 64;

// The sums of `group` short rows, `width` elements to a step; the last of `count` rows stands
// for those that lack.
template <Type type, class Lane, std::size_t group, std::size_t width, class Load>
inline Lane sum_group(const std::byte* data, std::ptrdiff_t row_stride, std::size_t count,
                      std::size_t columns, Load load) {
  Lane lanes[group];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < group; ++i) {
    const Bits<type>* x = row_of<type>(data, 0, 0);
    const Bits<type>* end = x + columns / width * width;
    for (; x != end; x += width) {
      prefetch(x);
      lanes[i].step(load(x));
    }
    if (columns % width != 0) {
      lanes[i].step(load(Padded<width, Bits<type>>(x, columns % width).elements));
    }
    if (i + 1 < count) data += row_stride;
  }
  return join_rows(lanes);
}

// Short rows, a group of them at a time, each in a lane of its own.
template <Type type, class Lane, std::size_t group, std::size_t width, class Load, class Add>
void sum_short_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                    std::size_t columns, Load load, Add add) {
  std::size_t row = 0;
  for (; row + group <= rows;
       row += group, data += static_cast<std::ptrdiff_t>(group) * row_stride) {
    add(row, group,
        sum_group<type, Lane, group, width>(data, row_stride, group, columns, load));
  }
  if (row < rows) {
    const std::size_t count = rows - row;
    add(row, count,
        sum_group<type, Lane, group, width>(data, row_stride, count, columns, load));
  }
}

template <Type type, class Sum>
void sum_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
              std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  using Lane = typename Sum::Lane;
  if (columns < kShortRow) {
    const double factor = Lane::factor((columns - 1) / kWidth + 1 + ilog2(kWidth));
    const double underflow = Lane::underflow(columns);
    sum_short_rows<type, Lane, kWidth, kWidth>(
        data, row_stride, rows, columns, load<type>,
        [&](std::size_t row, std::size_t count, const Lane& sum) {
          add_to_enclosures(enclosures + row, fresh, count, sum,
                            sum.high() * factor + underflow);
        });
    return;
  }
  Sum sum;
  for (std::size_t row = 0; row < rows; row += kWidth) {
    const std::size_t count = rows - row < kWidth ? rows - row : kWidth;
    for (std::size_t begin = 0; begin < columns; begin += Sum::kMaxColumns) {
      const std::size_t left = columns - begin;
      const std::size_t n = left < Sum::kMaxColumns ? left : Sum::kMaxColumns;
      Lane lanes[kWidth] = {};
      double absolute[kWidth] = {};
      for (std::size_t i = 0; i < count; ++i) {
        lanes[i] = sum(row_of<type>(data, row_stride, row + i) + begin, n, absolute[i]);
      }
      const Lane joined = join_rows(lanes);
      Vector bound = load_vector<Vector>(absolute);
      bound += joined.high() * Sum::factor(Sum::depth(n) + ilog2(kWidth));
      add_to_enclosures(enclosures + row, fresh && begin == 0, count, joined, bound);
    }
  }
}

template <Type type>
void sum_rows_narrow(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                     std::size_t columns, const Enclosures& enclosures, bool fresh,
                     void* scratch) {
  using Lane = Short<type>;
  if (columns >= kRun * kNarrowWidth) {
    sum_rows<type, SumRowNarrow<type>>(data, row_stride, rows, columns, enclosures, fresh,
                                       scratch);
    return;
  }
  const double factor = Lane::factor((columns - 1) / kNarrowWidth + ilog2(kNarrowWidth));
  const double underflow = Lane::underflow(columns);
  sum_short_rows<type, Lane, kNarrowWidth, kNarrowWidth>(
      data, row_stride, rows, columns, load_narrow<type>,
      [&](std::size_t row, std::size_t count, const Lane& sum) {
        const Plain low = {widen_low(sum.s)};
        const Plain high = {widen_high(sum.s)};
        const std::size_t first = count < kWidth ? count : kWidth;
        add_to_enclosures(enclosures + row, fresh, first, low, low.s * factor + underflow);
        add_to_enclosures(enclosures + (row + kWidth), fresh, count - first, high,
                          high.s * factor + underflow);
      });
}

// Method::grid: on entry hi holds each output's 3 * 2^(51 + g).
template <Type type>
void test_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
               std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  for (std::size_t row = 0; row < rows; ++row) {
    const Vector grid = Vector{} + enclosures.hi[row];
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Misfits counts[4];
    for (; n >= 4 * kWidth; n -= 4 * kWidth, x += 4 * kWidth) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (i * kWidth * sizeof *x % 64 == 0) prefetch(x + i * kWidth);
        counts[i].step(load<type>(x + i * kWidth), grid);
      }
    }
    for (; n >= kWidth; n -= kWidth, x += kWidth) counts[0].step(load<type>(x), grid);
    if (n > 0) counts[0].step(load_part<type>(x, n), grid);
    if (fresh) enclosures.residue[row] = 0;
    for (const Misfits& misfits : counts) {
      for (std::size_t i = 0; i < kWidth; ++i) enclosures.residue[row] += misfits.count[i] != 0;
    }
  }
}

}  // namespace
}  // namespace halfulp
