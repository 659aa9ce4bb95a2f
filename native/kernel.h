// The loops, once, over a vector type and an element type.
// May include dispatch.h, rounding_many.h, simd.h and states.h only. Included by target_*.cpp,
// each compiled for its own instructions; everything has internal linkage.
#pragma once

#include "dispatch.h"
#include "rounding_many.h"
#include "simd.h"
#include "states.h"

namespace halfulp {
namespace {

// ---- Lanes: what a sum is held in. u = 2^-53; factors 1 + O(hu) are left to States. ----

// One binary64 number per output, for squares that are exact in binary64: those of types of
// at most 24 bits, exponents -298..256.
struct Plain {
  Vector s{};

  void step(Vector x) { s = square_add(x, s); }
  Vector high() const { return s; }
  Vector low() const { return Vector{}; }

  // Sums of non-negative terms, each passing at most h additions: |S - s| <= h u S
  // (Higham 2002, 4.2; Jeannerod and Rump 2013).
  static double factor(std::size_t h) { return static_cast<double>(h) * kU; }
  static double underflow(std::size_t) { return 0; }

  static Plain join(const Plain& a, const Plain& b) { return {a.s + b.s}; }
  static Plain join_pairs(const Plain& a, const Plain& b) {
    return {evens(a.s, b.s) + odds(a.s, b.s)};
  }
};

// Two: s, the sum in binary64, and c, the sum of the rounding errors of products and sums
// (Dot2 of Ogita, Rump and Oishi 2005).
struct Compensated {
  Vector s{};
  Vector c{};

  void step(Vector x) {
    Vector p, e, r;
    square(x, p, e);
    s = two_sum(s, p, r);
    c += e + r;
  }
  Vector high() const { return s; }
  Vector low() const { return c; }

  // At depth k, c holds at most k + 1 errors of at most u s each, and a step or a join
  // rounds twice: 2(k + 1)u^2 s, summed over k <= h.
  static double factor(std::size_t h) {
    const double depth = static_cast<double>(h + 2);
    return depth * depth * (kU * kU);
  }
  // Each square to within 2^-1073; arithmetic with such numbers would be slow.
  static double underflow(std::size_t n) { return static_cast<double>(n) * 0x1p-1020; }

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

// One binary32 number per output, for the half types: their squares are exact there too (22
// and 16 bits). bfloat16 squares can leave the range of binary32: an overflow makes the sum
// infinite, which decides nothing; below the normal range, flushed or not, each errs by at
// most 2^-125.
template <Type type>
struct Short {
  Narrow s{};

  void step(Narrow x) { s = square_add(x, s); }

  static double factor(std::size_t h) { return static_cast<double>(h) * kU32; }
  static double underflow(std::size_t n) {
    return type == Type::bfloat16 ? static_cast<double>(n) * 0x1p-125 : 0;
  }

  static Short join_pairs(const Short& a, const Short& b) {
    return {evens(a.s, b.s) + odds(a.s, b.s)};
  }
};

// Counts elements that adding and subtracting 3 * 2^(51 + g), their `grid`, changes: those
// that are not multiples of 2^g, if all are below 2^(51 + g).
struct Misfits {
  Vector count{};

  void step(Vector x, Vector grid) {
    const Vector rounded = (x + grid) - grid;
    count = rounded == x ? count : count + 1.0;
  }
};

template <Type type>
const Bits<type>* row_of(const std::byte* data, std::ptrdiff_t row_stride, std::size_t row) {
  return reinterpret_cast<const Bits<type>*>(data +
                                             static_cast<std::ptrdiff_t>(row) * row_stride);
}

template <Type type>
Vector load_part(const Bits<type>* x, std::size_t count) {
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

// Adds the elements of `sum` to the first `count` states, or sets them if they are fresh.
template <class Lane>
inline __attribute__((always_inline)) void add_to_states(const States& states, bool fresh,
                                                         std::size_t count, const Lane& sum,
                                                         Vector bound) {
  Vector hi = sum.high();
  Vector lo = sum.low();
  if (count == kWidth) {
    if (!fresh) {
      const Vector s = hi, c = lo, more = bound;
      hi = load_vector<Vector>(states.hi);
      lo = load_vector<Vector>(states.lo);
      bound = load_vector<Vector>(states.bound);
      accumulate(hi, lo, bound, s, c, more);
    }
    store_vector(states.hi, hi);
    store_vector(states.lo, lo);
    store_vector(states.bound, bound);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (fresh) states.hi[i] = states.lo[i] = states.bound[i] = 0;
    accumulate(states.hi[i], states.lo[i], states.bound[i], hi[i], lo[i], bound[i]);
  }
}

// ---- Rows: a summer returns one lane whose elements add up to the sum of n squares. ----

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
// states. A head that reaches 2M, by NaN or infinity too, fails the block: another M.
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
              std::size_t columns, const States& states, bool fresh, void*) {
  using Lane = typename Sum::Lane;
  if (columns < kShortRow) {
    const double factor = Lane::factor((columns - 1) / kWidth + 1 + ilog2(kWidth));
    const double underflow = Lane::underflow(columns);
    sum_short_rows<type, Lane, kWidth, kWidth>(
        data, row_stride, rows, columns, load<type>,
        [&](std::size_t row, std::size_t count, const Lane& sum) {
          add_to_states(states + row, fresh, count, sum, sum.high() * factor + underflow);
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
      add_to_states(states + row, fresh && begin == 0, count, joined, bound);
    }
  }
}

template <Type type>
void sum_rows_narrow(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                     std::size_t columns, const States& states, bool fresh, void* scratch) {
  using Lane = Short<type>;
  if (columns >= kShortRow) {
    sum_rows<type, SumRowNarrow<type>>(data, row_stride, rows, columns, states, fresh, scratch);
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
        add_to_states(states + row, fresh, first, low, low.s * factor + underflow);
        add_to_states(states + (row + kWidth), fresh, count - first, high,
                      high.s * factor + underflow);
      });
}

// ---- Columns: accumulators in memory, several whole rows to each pass over them. ----

template <Type type, class Lane_>
struct SumColumns {
  using Lane = Lane_;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;  // of one group
  static constexpr std::size_t kLanesPerGroup = 1;
  static constexpr std::size_t kMaxRows = 512;

  static double factor(std::size_t n) { return Lane::factor(n); }
  static double underflow(std::size_t n) { return Lane::underflow(n); }

  // Adds `rows` rows of one group of columns, to nothing if `fresh`; `get` finds a row's part.
  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    *lanes = lane;
  }
};

template <Type type>
struct SumColumnsNarrow {
  using Lane = Plain;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kNarrowWidth;
  static constexpr std::size_t kLanesPerGroup = 2;
  static constexpr std::size_t kMaxRows = 512 * kRowsPerPass;

  // Four chains of two rows, whose first square is exact, and two joins.
  static double factor(std::size_t n) {
    return Plain::factor(n / kRowsPerPass + 2) + Short<type>::factor(1 + 2);
  }
  static double underflow(std::size_t n) { return Short<type>::underflow(n); }

  template <class Get>
  static void add(Plain* lanes, bool fresh, std::size_t rows, Get get) {
    Short<type> chains[4];
    for (std::size_t row = 0; row < rows; ++row) {
      chains[row % 4].step(load_narrow<type>(get(row)));
    }
    const Narrow sum = (chains[0].s + chains[1].s) + (chains[2].s + chains[3].s);
    lanes[0].s = widen_low(sum) + (fresh ? Vector{} : lanes[0].s);
    lanes[1].s = widen_high(sum) + (fresh ? Vector{} : lanes[1].s);
  }
};

// Lets Sum::add see rows begin..end of every group of columns.
template <Type type, class Sum>
void pass(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
          std::size_t columns, bool fresh, typename Sum::Lane* lanes) {
  const Bits<type>* x[Sum::kRowsPerPass];
  for (std::size_t i = 0; i < rows; ++i) x[i] = row_of<type>(data, row_stride, i);
  std::size_t j = 0;
  if (rows == Sum::kRowsPerPass) {
    for (; j + Sum::kColumns <= columns; j += Sum::kColumns, lanes += Sum::kLanesPerGroup) {
      Sum::add(lanes, fresh, Sum::kRowsPerPass, [&](std::size_t row) {
        // The rows of the next pass: streams as short as a row defeat the hardware's guess.
        __builtin_prefetch(row_of<type>(reinterpret_cast<const std::byte*>(x[row] + j),
                                        row_stride, Sum::kRowsPerPass),
                           0, 2);
        return x[row] + j;
      });
    }
  } else {
    for (; j + Sum::kColumns <= columns; j += Sum::kColumns, lanes += Sum::kLanesPerGroup) {
      Sum::add(lanes, fresh, rows, [&](std::size_t row) { return x[row] + j; });
    }
  }
  if (j < columns) {
    Bits<type> part[Sum::kColumns];
    Sum::add(lanes, fresh, rows, [&](std::size_t row) {
      const Padded<Sum::kColumns, Bits<type>> padded(x[row] + j, columns - j);
      std::memcpy(part, padded.elements, sizeof part);
      return part;
    });
  }
}

template <Type type, class Sum>
void sum_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, const States& states, bool fresh, void* scratch) {
  using Lane = typename Sum::Lane;
  static_assert(sizeof(Lane) <= kLaneBytes * kWidth);
  Lane* lanes = static_cast<Lane*>(scratch);
  for (std::size_t begin = 0; begin < rows; begin += Sum::kMaxRows) {
    const std::size_t n = rows - begin < Sum::kMaxRows ? rows - begin : Sum::kMaxRows;
    for (std::size_t i = 0; i < n; i += Sum::kRowsPerPass) {
      const std::size_t some = n - i < Sum::kRowsPerPass ? n - i : Sum::kRowsPerPass;
      pass<type, Sum>(data, row_stride, some, columns, i == 0, lanes);
      data += static_cast<std::ptrdiff_t>(some) * row_stride;
    }
    const double factor = Sum::factor(n);
    const double underflow = Sum::underflow(n);
    for (std::size_t j = 0; j < columns; j += kWidth) {
      const std::size_t count = columns - j < kWidth ? columns - j : kWidth;
      const Lane& lane = lanes[j / kWidth];
      add_to_states(states + j, fresh && begin == 0, count, lane,
                    lane.high() * factor + underflow);
    }
  }
}

// ---- Grid: on entry hi holds each output's 3 * 2^(51 + g); adds misfits to residue. ----

template <Type type>
void test_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
               std::size_t columns, const States& states, bool fresh, void*) {
  for (std::size_t row = 0; row < rows; ++row) {
    const Vector grid = Vector{} + states.hi[row];
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
    if (fresh) states.residue[row] = 0;
    for (const Misfits& misfits : counts) {
      for (std::size_t i = 0; i < kWidth; ++i) states.residue[row] += misfits.count[i] != 0;
    }
  }
}

template <Type type>
struct TestColumns {
  struct Lane : Misfits {
    Vector grid{};
  };
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    Lane lane = *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)), lane.grid);
    *lanes = lane;
  }
};

template <Type type>
void test_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, const States& states, bool fresh, void* scratch) {
  using Test = TestColumns<type>;
  auto* lanes = static_cast<typename Test::Lane*>(scratch);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    lanes[j / kWidth] = {};
    for (std::size_t i = 0; i < kWidth && j + i < columns; ++i) {
      lanes[j / kWidth].grid[i] = states.hi[j + i];
    }
  }
  for (std::size_t i = 0; i < rows; i += Test::kRowsPerPass) {
    const std::size_t some = rows - i < Test::kRowsPerPass ? rows - i : Test::kRowsPerPass;
    pass<type, Test>(data, row_stride, some, columns, false, lanes);
    data += static_cast<std::ptrdiff_t>(some) * row_stride;
  }
  for (std::size_t j = 0; j < columns; ++j) {
    const bool misfit = lanes[j / kWidth].count[j % kWidth] != 0;
    states.residue[j] = misfit + (fresh ? 0 : states.residue[j]);
  }
}

// ---- Integers, modulo 2^64: the result of a narrower type is its low bits. ----

// Elements of 32 bits lie two to a lane: even and odd ones make a part each.
template <Type type>
constexpr std::size_t kParts = sizeof(Bits<type>) == 4 ? 2 : 1;

template <Type type>
constexpr std::size_t kElements = kWidth * kParts<type>;

template <Type type>
inline Wide square_part(Wide x, std::size_t part) {
  return square_integers<type>(part == 0 ? x : x >> 32);
}

template <Type type>
inline Wide load_wide(const Bits<type>* x) {
  return load_vector<Wide>(x);
}

// Sums of the elements of a row.
template <Type type>
struct RowResidue {
  Wide s{};

  void step(Wide x) {
    for (std::size_t part = 0; part < kParts<type>; ++part) s += square_part<type>(x, part);
  }
  static RowResidue join_pairs(const RowResidue& a, const RowResidue& b) {
    return {evens(a.s, b.s) + odds(a.s, b.s)};
  }
};

template <Type type>
void add_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
              std::size_t columns, const States& states, bool fresh, void*) {
  using Lane = RowResidue<type>;
  constexpr std::size_t kStride = kElements<type>;
  const auto add = [&](std::size_t row, std::size_t count, const Lane& sum) {
    for (std::size_t i = 0; i < count; ++i) {
      states.residue[row + i] = sum.s[i] + (fresh ? 0 : states.residue[row + i]);
    }
  };
  if (columns < kShortRow) {
    sum_short_rows<type, Lane, kWidth, kStride>(data, row_stride, rows, columns,
                                                load_wide<type>, add);
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Lane lanes[kWidth];
    for (; n >= 4 * kStride; n -= 4 * kStride) {
      for (std::size_t i = 0; i < 4; ++i, x += kStride) {
        if (i * kVectorBytes % 64 == 0) prefetch(x);
        lanes[i % kWidth].step(load_wide<type>(x));
      }
    }
    for (; n >= kStride; n -= kStride, x += kStride) lanes[0].step(load_wide<type>(x));
    if (n > 0) {
      lanes[1].step(load_wide<type>(Padded<kStride, Bits<type>>(x, n).elements));
    }
    const Wide sums = join_rows(lanes).s;
    std::uint64_t total = fresh ? 0 : states.residue[row];
    for (std::size_t i = 0; i < kWidth; ++i) total += sums[i];
    states.residue[row] = total;
  }
}

// Sums of the elements of kElements columns.
template <Type type>
struct ColumnResidue {
  Wide sums[kParts<type>] = {};

  void step(const Bits<type>* x) {
    for (std::size_t part = 0; part < kParts<type>; ++part) {
      sums[part] += square_part<type>(load_wide<type>(x), part);
    }
  }
  std::uint64_t of(std::size_t element) const {
    return sums[element % kParts<type>][element / kParts<type>];
  }
};

template <Type type>
void add_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, const States& states, bool fresh, void* scratch) {
  using Sum = ColumnResidue<type>;
  constexpr std::size_t kRowsPerPass = 8;
  Sum* sums = static_cast<Sum*>(scratch);
  const std::size_t whole = columns / kElements<type>;
  const std::size_t part = columns % kElements<type>;
  for (std::size_t i = 0; i < whole + 1; ++i) sums[i] = Sum{};
  for (std::size_t begin = 0; begin < rows; begin += kRowsPerPass) {
    const std::size_t end = rows - begin < kRowsPerPass ? rows : begin + kRowsPerPass;
    for (std::size_t i = 0; i < whole; ++i) {
      Sum sum = sums[i];
      for (std::size_t row = begin; row < end; ++row) {
        sum.step(row_of<type>(data, row_stride, row) + i * kElements<type>);
      }
      sums[i] = sum;
    }
    for (std::size_t row = begin; part > 0 && row < end; ++row) {
      const Bits<type>* x = row_of<type>(data, row_stride, row) + whole * kElements<type>;
      sums[whole].step(Padded<kElements<type>, Bits<type>>(x, part).elements);
    }
  }
  for (std::size_t j = 0; j < columns; ++j) {
    const std::uint64_t sum = sums[j / kElements<type>].of(j % kElements<type>);
    states.residue[j] = sum + (fresh ? 0 : states.residue[j]);
  }
}

// ---- The table. ----

template <Layout layout, Method method, Type type>
constexpr Function function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (method == Method::residue) {
    return rows ? &add_rows<type> : &add_columns<type>;
  } else if constexpr (method == Method::grid) {
    return rows ? &test_rows<type> : &test_columns<type>;
  } else if constexpr (method == Method::narrow) {
    static_assert(format_of(type).bytes == 2);
    return rows ? &sum_rows_narrow<type> : &sum_columns<type, SumColumnsNarrow<type>>;
  } else if constexpr (method == Method::plain) {
    static_assert(format_of(type).precision <= 24);
    return rows ? &sum_rows<type, SumRow<type, Plain>>
                : &sum_columns<type, SumColumns<type, Plain>>;
  } else {
    return rows ? &sum_rows<type, SumRowBiased<type>>
                : &sum_columns<type, SumColumns<type, Compensated>>;
  }
}

constexpr Kernel kKernels[] = {
#define KERNEL(layout, method, type)                                          \
  {Layout::layout, Method::method, Type::type, #layout "_" #method "_" #type, \
   function_of<Layout::layout, Method::method, Type::type>()},
#define ROUNDER(type)
#include "kernels.inc"
#undef KERNEL
#undef ROUNDER
};

constexpr Rounder kRounders[] = {
#define KERNEL(layout, method, type)
#define ROUNDER(type) {Type::type, "round_" #type, &round_many<Type::type>},
#include "kernels.inc"
#undef KERNEL
#undef ROUNDER
};

}  // namespace
}  // namespace halfulp
