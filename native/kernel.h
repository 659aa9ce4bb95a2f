// The loops, once, over a vector type and an element type.
// May include simd.h and dispatch.h only. Included by target_*.cpp, each compiled for its
// own instructions; everything has internal linkage.
#pragma once

#include <type_traits>

#include "dispatch.h"
#include "simd.h"

namespace halfulp {
namespace {

// A lane sums squares, one vector of them at each step. Every method states `error`: the
// bound of |S - (s + c)| for a sum of n squares in which each passed at most h additions.
// u = 2^-53; factors 1 + O(hu) are left to the 1 + 2^-10 of State.

// Squares of the types of at most 24 bits are exact in binary64, exponents -298..256.
struct Plain {
  Vector s{};

  // Keeps h, and with it the chance of an undecided float32 result, h * 2^-28, small.
  static constexpr std::size_t kMaxSteps = 256;

  void step(Vector x) { s += x * x; }

  // Sums of non-negative terms: |S - s| <= h * u * S (Higham 2002, 4.2).
  static double error(double s, std::size_t h, std::size_t) {
    return static_cast<double>(h) * kU * s;
  }

  static Plain join(const Plain& a, const Plain& b) { return {a.s + b.s}; }
  double high(std::size_t i) const { return s[i]; }
  double low(std::size_t) const { return 0; }
};

// s + c, s the sum in binary64 and c the sum of all rounding errors of products and sums
// (Dot2 of Ogita, Rump and Oishi 2005).
struct Compensated {
  Vector s{};
  Vector c{};

  static constexpr std::size_t kMaxSteps = 1024;

  void step(Vector x) {
    Vector p, e, r;
    square(x, p, e);
    s = two_sum(s, p, r);
    c += e + r;
  }

  // At depth k, c holds at most k + 1 errors of at most u * s each, and joining rounds
  // twice: 2(k + 1)u^2 s, summed over k <= h. Underflow adds 2^-1073 a square.
  static double error(double s, std::size_t h, std::size_t n) {
    const double depth = static_cast<double>(h + 2);
    return depth * depth * (kU * kU) * s + static_cast<double>(n) * 0x1p-1073;
  }

  static Compensated join(const Compensated& a, const Compensated& b) {
    Compensated both;
    Vector r;
    both.s = two_sum(a.s, b.s, r);
    both.c = (a.c + b.c) + r;
    return both;
  }
  double high(std::size_t i) const { return s[i]; }
  double low(std::size_t i) const { return c[i]; }
};

template <Type type>
const Bits<type>* row_of(const std::byte* data, std::ptrdiff_t row_stride, std::size_t row) {
  return reinterpret_cast<const Bits<type>*>(data +
                                             static_cast<std::ptrdiff_t>(row) * row_stride);
}

// A whole vector whose elements past `count` are zeros, which add nothing.
template <Type type>
Vector load_part(const Bits<type>* x, std::size_t count) {
  Bits<type> padded[kWidth] = {};
  std::memcpy(padded, x, count * sizeof(Bits<type>));
  return load<type>(padded);
}

// Independent lanes hide the latency of an addition.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kJoins = 3;  // log2(kLanes)

template <Type type, class Lane>
void sum_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
              std::size_t columns, State* states) {
  constexpr std::size_t kStep = kLanes * kWidth;
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    for (std::size_t left = columns; left > 0;) {
      Lane lanes[kLanes] = {};
      const std::size_t n = left < kStep * Lane::kMaxSteps ? left : kStep * Lane::kMaxSteps;
      const Bits<type>* end = x + n / kStep * kStep;
      for (; x != end; x += kStep) {
        for (std::size_t i = 0; i < kLanes; ++i) lanes[i].step(load<type>(x + i * kWidth));
      }
      std::size_t part = n % kStep;
      for (std::size_t i = 0; part > 0; ++i) {
        const std::size_t count = part < kWidth ? part : kWidth;
        lanes[i].step(load_part<type>(x, count));
        x += count;
        part -= count;
      }
      for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) {
          lanes[i] = Lane::join(lanes[i], lanes[i + half]);
        }
      }
      const std::size_t h = n / kStep + 1 + kJoins;
      for (std::size_t i = 0; i < kWidth; ++i) {
        const double s = lanes[0].high(i);
        add(states[row], s, lanes[0].low(i), Lane::error(s, h, n));
      }
      left -= n;
    }
  }
}

template <Type type, class Lane>
void sum_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, State* states) {
  const std::size_t whole = columns / kWidth;
  const std::size_t part = columns % kWidth;
  for (std::size_t begin = 0; begin < rows; begin += Lane::kMaxSteps) {
    const std::size_t n = rows - begin < Lane::kMaxSteps ? rows - begin : Lane::kMaxSteps;
    Lane lanes[kTile / kWidth + 1];
    for (std::size_t i = 0; i < whole + 1; ++i) lanes[i] = Lane{};
    for (std::size_t row = begin; row < begin + n; ++row) {
      const Bits<type>* x = row_of<type>(data, row_stride, row);
      for (std::size_t i = 0; i < whole; ++i) lanes[i].step(load<type>(x + i * kWidth));
      if (part > 0) lanes[whole].step(load_part<type>(x + whole * kWidth, part));
    }
    for (std::size_t j = 0; j < columns; ++j) {
      const double s = lanes[j / kWidth].high(j % kWidth);
      add(states[j], s, lanes[j / kWidth].low(j % kWidth), Lane::error(s, n, n));
    }
  }
}

// Modulo 2^64, whatever the type: the result of a narrower one is its low bits.
template <Type type>
std::uint64_t residue_of_square(Bits<type> x) {
  if constexpr (type == Type::int32) {
    const std::int64_t wide = static_cast<std::int32_t>(x);
    return static_cast<std::uint64_t>(wide * wide);
  } else {
    return std::uint64_t{x} * std::uint64_t{x};
  }
}

template <Type type>
void sum_rows_residue(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                      std::size_t columns, State* states) {
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::uint64_t sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += residue_of_square<type>(x[j]);
    states[row].residue += sum;
  }
}

template <Type type>
void sum_columns_residue(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, State* states) {
  std::uint64_t sums[kTile] = {};
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    for (std::size_t j = 0; j < columns; ++j) sums[j] += residue_of_square<type>(x[j]);
  }
  for (std::size_t j = 0; j < columns; ++j) states[j].residue += sums[j];
}

template <Layout layout, Method method, Type type>
void run(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
         std::size_t columns, State* states) {
  if constexpr (method == Method::residue) {
    if constexpr (layout == Layout::rows) {
      sum_rows_residue<type>(data, row_stride, rows, columns, states);
    } else {
      sum_columns_residue<type>(data, row_stride, rows, columns, states);
    }
  } else {
    static_assert(method == Method::compensated || format_of(type).precision <= 24);
    using Lane = std::conditional_t<method == Method::plain, Plain, Compensated>;
    if constexpr (layout == Layout::rows) {
      sum_rows<type, Lane>(data, row_stride, rows, columns, states);
    } else {
      sum_columns<type, Lane>(data, row_stride, rows, columns, states);
    }
  }
}

constexpr Kernel kKernels[] = {
#define KERNEL(layout, method, type)                                          \
  {Layout::layout, Method::method, Type::type, #layout "_" #method "_" #type, \
   &run<Layout::layout, Method::method, Type::type>},
#include "kernels.inc"
#undef KERNEL
};

}  // namespace
}  // namespace halfulp
