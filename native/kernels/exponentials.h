// Sums of exponentials, less a shift: e^(x - shift), for elements that are finite or -infinity.
// Proved in docs/exactness.md#exponentials.
// May include dispatch.h, enclosure.h and simd.h only. Internal linkage: see simd.h.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "../dispatch.h"
#include "../enclosure.h"
#include "simd.h"

namespace halfulp {
namespace {

// A polynomial near e^r for |r| <= 0.3466, made by tests/native/make_coefficients.py.
constexpr double kExponential[] = {
    0x1.0000000000000p+0,  0x1.ffffffffd3852p-1,  0x1.fffffffff71b9p-2,
    0x1.555555a276f61p-3,  0x1.555555742c758p-5,  0x1.111080a2be539p-7,
    0x1.6c164deb3edc9p-10, 0x1.a1aa8ebb09119p-13, 0x1.a15a5c1c9c231p-16,
};

constexpr double kInverseOfLog2 = 0x1.71547652b82fep0;
// log 2 in two numbers, of which the first has 42 bits.
constexpr double kLog2High = 0x1.62e42fefa38p-1;
constexpr double kLog2Low = 0x1.ef35793c7673p-45;
// Added to a number below 2^51 in size, this leaves its whole part in the lowest bits.
constexpr double kToWhole = 0x1.8p52;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline Vector fill(double x) { return Vector{} + x; }

// The greater of numbers.
inline Vector greatest_of(Vector a, Vector b) {
#if defined(__AVX512F__)
  return (Vector)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
  return (Vector)_mm256_max_pd((__m256d)a, (__m256d)b);
#endif
  return a > b ? a : b;
}

inline Narrow greatest_of(Narrow a, Narrow b) {
#if defined(__AVX512F__)
  return (Narrow)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (Narrow)_mm256_max_ps((__m256)a, (__m256)b);
#endif
  return a > b ? a : b;
}

// p + e = a * b exactly, unless that underflows.
inline Vector multiply_exactly(Vector a, Vector b, Vector& e) {
  const Vector p = a * b;
  if constexpr (kHasFma) {
    e = multiply_add(a, b, -p);
  } else {
    const Vector a_scaled = a * 0x1.0000002p27;
    const Vector a_high = a_scaled - (a_scaled - a);
    const Vector a_low = a - a_high;
    const Vector b_scaled = b * 0x1.0000002p27;
    const Vector b_high = b_scaled - (b_scaled - b);
    const Vector b_low = b - b_high;
    e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
  }
  return p;
}

// s + r = a + b exactly, where |a| >= |b|.
inline Vector add_smaller(Vector a, Vector b, Vector& r) {
  const Vector s = a + b;
  r = b - (s - a);
  return s;
}

// A sum in one number of binary64, of exponentials near to within kPlainExponential of each.
struct PlainExponentials {
  static constexpr std::size_t kChains = 4;
  Vector s{};

  void add(Vector x, Vector shift) {
    const Vector d = greatest_of(x - shift, fill(kLeastExponent));
    const Vector shifted = multiply_add(d, fill(kInverseOfLog2), fill(kToWhole));
    const Vector k = shifted - kToWhole;
    const Vector r = multiply_add(k, fill(-kLogOf2), d);
    // Estrin's way: few steps wait for each other.
    const double* const c = kExponential;
    const Vector r2 = r * r;
    const Vector r4 = r2 * r2;
    const Vector c01 = multiply_add(r, fill(c[1]), fill(c[0]));
    const Vector c23 = multiply_add(r, fill(c[3]), fill(c[2]));
    const Vector c45 = multiply_add(r, fill(c[5]), fill(c[4]));
    const Vector c67 = multiply_add(r, fill(c[7]), fill(c[6]));
    const Vector c03 = multiply_add(r2, c23, c01);
    const Vector c47 = multiply_add(r2, c67, c45);
    const Vector c48 = multiply_add(r4, fill(c[8]), c47);
    const Vector p = multiply_add(r4, c48, c03);
    // Times 2^k: between 2^-867 and 2^434.
    s += (Vector)((Wide)p + ((Wide)shifted << 52));
  }

  Vector low() const { return Vector{}; }
  void join(const PlainExponentials& other) { s += other.s; }
  void sum(double* high, double* low) const {
    double total[kWidth];
    store_vector(total, s);
    for (std::size_t half = kWidth / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) total[i] += total[i + half];
    }
    *high = total[0];
    *low = 0;
  }

 private:
  static constexpr double kLogOf2 = 0x1.62e42fefa39efp-1;
};

// A sum in two numbers, of exponentials near to within kTwofoldExponential of each.
struct TwofoldExponentials {
  static constexpr std::size_t kChains = 1;
  Vector s{};
  Vector c{};

  void add(Vector x, Vector shift) {
    // x - shift = d + d_low, unless it is too small to matter.
    Vector d_low;
    Vector d = two_sum(x, -shift, d_low);
    const Vector least = fill(kLeastExponent);
    d_low = d > least ? d_low : Vector{};
    d = greatest_of(d, least);
    const Vector shifted = d * kInverseOfLog2 + kToWhole;
    const Vector k = shifted - kToWhole;
    // e^r for r = d - k log 2, by (e^(r / 64))^64.
    Vector r_low;
    const Vector r = two_sum(d - k * kLog2High, -(k * kLog2Low), r_low) * 0x1p-6;
    r_low = (r_low + d_low) * 0x1p-6;
    Vector square_low;
    const Vector square = multiply_exactly(r, r, square_low);
    Vector t = fill(1.0 / 40320);
    t = multiply_add(t, r, fill(1.0 / 5040));
    t = multiply_add(t, r, fill(1.0 / 720));
    t = multiply_add(t, r, fill(1.0 / 120));
    t = multiply_add(t, r, fill(1.0 / 24));
    t = multiply_add(t, r, fill(1.0 / 6));
    const Vector tail = r * square * t;
    Vector e1, e2, low;
    Vector high = add_smaller(fill(1.0), r, e1);
    high = add_smaller(high, square * 0.5, e2);
    const Vector rest = (e1 + e2) + (multiply_add(r_low, r, r_low) + square_low * 0.5) + tail;
    high = add_smaller(high, rest, low);
    for (int i = 0; i < 6; ++i) {
      Vector error;
      const Vector squared = multiply_exactly(high, high, error);
      low = multiply_add(high + high, low, error);
      high = squared;
    }
    const Vector power = (Vector)((Wide)fill(1.0) + ((Wide)shifted << 52));
    Vector lost;
    s = two_sum(s, high * power, lost);
    c += multiply_add(low, power, lost);
  }

  Vector low() const { return c; }
  void join(const TwofoldExponentials&) {}
  void sum(double* high, double* low) const {
    double hi = 0, lo = 0;
    for (std::size_t i = 0; i < kWidth; ++i) {
      double lost;
      hi = two_sum(hi, static_cast<double>(s[i]), lost);
      lo += lost + c[i];
    }
    *high = hi;
    *low = lo;
  }
};

// Sums n elements; other lanes of the last vector are -infinity, which is one more element each
// that hardly counts.
template <Type type, class Sum>
void sum_exponentials(const std::byte* data, std::size_t n, double shift, double* high,
                      double* low) {
  const auto* x = reinterpret_cast<const Bits<type>*>(data);
  const Vector shifts = fill(shift);
  Sum sums[Sum::kChains];
  std::size_t i = 0;
  for (; i + Sum::kChains * kWidth <= n; i += Sum::kChains * kWidth) {
    for (std::size_t j = 0; j < Sum::kChains; ++j) {
      sums[j].add(load<type>(x + i + j * kWidth), shifts);
    }
  }
  for (; i + kWidth <= n; i += kWidth) sums[0].add(load<type>(x + i), shifts);
  if (i < n) {
    Bits<type> last[kWidth];
    const auto none =
        static_cast<Bits<type>>(format_of(type).sign() | format_of(type).infinity());
    for (std::size_t j = 0; j < kWidth; ++j) last[j] = i + j < n ? x[i + j] : none;
    sums[0].add(load<type>(last), shifts);
  }
  for (std::size_t j = 1; j < Sum::kChains; ++j) sums[0].join(sums[j]);
  sums[0].sum(high, low);
}

// The greatest of n elements, at least one; NaN if any is.
template <Type type>
double greatest_element(const std::byte* data, std::size_t n) {
  const auto* x = reinterpret_cast<const Bits<type>*>(data);
  using V = std::conditional_t<type == Type::float64, Vector, Narrow>;
  constexpr std::size_t kCount = sizeof(V) / sizeof(V{}[0]);
  const auto load_some = [](const Bits<type>* from) {
    if constexpr (sizeof(Bits<type>) == 2) {
      return load_narrow<type>(from);
    } else {
      return load_vector<V>(from);
    }
  };
  const auto none =
      static_cast<Bits<type>>(format_of(type).sign() | format_of(type).infinity());
  V greatest[4];
  Bits<type> last[kCount];
  std::fill_n(last, kCount, none);
  for (V& each : greatest) each = load_some(last);
  auto is_nan = greatest[0] != greatest[0];
  std::size_t i = 0;
  for (; i + 4 * kCount <= n; i += 4 * kCount) {
    for (std::size_t j = 0; j < 4; ++j) {
      const V v = load_some(x + i + j * kCount);
      is_nan |= v != v;
      greatest[j] = greatest_of(greatest[j], v);
    }
  }
  for (; i < n; i += kCount) {
    V v;
    if (i + kCount <= n) {
      v = load_some(x + i);
    } else {
      std::copy_n(x + i, n - i, last);
      v = load_some(last);
    }
    is_nan |= v != v;
    greatest[0] = greatest_of(greatest[0], v);
  }
  for (std::size_t j = 1; j < 4; ++j) greatest[0] = greatest_of(greatest[0], greatest[j]);
  using Number = std::remove_reference_t<decltype(V{}[0])>;
  Number most[kCount];
  store_vector(most, greatest[0]);
  std::uint64_t nan[kVectorBytes / sizeof(std::uint64_t)];
  store_vector(nan, is_nan);
  for (std::size_t half = kCount / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) {
      most[j] = most[j] > most[j + half] ? most[j] : most[j + half];
    }
  }
  std::uint64_t any_nan = 0;
  for (const std::uint64_t each : nan) any_nan |= each;
  return any_nan != 0 ? kNaN : static_cast<double>(most[0]);
}

// Calls f(j, load_row) for kWidth columns at a time of a matrix, where load_row(i) gives
// elements j and after of row i: behind the last column there are zeros.
template <Type type, class F>
inline void for_each_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                             std::size_t columns, F f) {
  using T = Bits<type>;
  std::size_t j = 0;
  for (; j + kWidth <= columns; j += kWidth) {
    const std::byte* const first = data + j * sizeof(T);
    f(j, [=](std::size_t i) __attribute__((always_inline)) {
      return load<type>(reinterpret_cast<const T*>(first + i * row_stride));
    });
  }
  if (j == columns) return;
  T last[kExponentialRows][kWidth];
  for (std::size_t i = 0; i < rows; ++i) {
    const Padded<kWidth, T> row(
        reinterpret_cast<const T*>(data + i * row_stride + j * sizeof(T)), columns - j);
    std::copy_n(row.elements, kWidth, last[i]);
  }
  f(j, [&](std::size_t i) __attribute__((always_inline)) { return load<type>(last[i]); });
}

// Sets sums of columns, each with a shift of its own.
template <Type type, class Sum>
void sum_exponential_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                             std::size_t columns, const double* shifts, double* high,
                             double* low) {
  for_each_columns<type>(data, row_stride, rows, columns, [&](std::size_t j, auto load_row) {
    const Vector shift = load_vector<Vector>(shifts + j);
    Sum sum;
    for (std::size_t i = 0; i < rows; ++i) sum.add(load_row(i), shift);
    store_vector(high + j, sum.s);
    store_vector(low + j, sum.low());
  });
}

// The greatest elements of columns; NaN where any is.
template <Type type>
void greatest_of_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, double* greatest) {
  for_each_columns<type>(data, row_stride, rows, columns, [&](std::size_t j, auto load_row) {
    Vector most = load_row(0);
    Mask is_nan = (Mask)(most != most);
    for (std::size_t i = 1; i < rows; ++i) {
      const Vector x = load_row(i);
      is_nan |= (Mask)(x != x);
      most = greatest_of(most, x);
    }
    store_vector(greatest + j, is_nan != 0 ? fill(kNaN) : most);
  });
}

// Sets values[i] to shifts[i] plus the logarithm of high[i] + low[i], which is known to within
// bounds[i], and that to what it is then known to within; for i < n, and up to the next
// multiple of kWidth. A sum is at least 1/2, or its shift is not finite, and then the value is
// not.
void add_logarithms(std::size_t n, const double* shifts, const double* high, const double* low,
                    double* bounds, double* values) {
  for (std::size_t i = 0; i < n; i += kWidth) {
    const Vector x = load_vector<Vector>(high + i) + load_vector<Vector>(low + i);
    const Vector bound = load_vector<Vector>(bounds + i);
    // x = 2^k m, where m is from the root of 1/2 to that of 2.
    constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
    constexpr std::uint64_t kExponents = 0xfff0000000000000;
    const Wide above = (Wide)x - kRootOfHalf;
    const Vector k = (Vector)((Wide)((Mask)above >> 52) + (Wide)fill(kToWhole)) - kToWhole;
    const auto m = (Vector)((Wide)x - (above & kExponents));
    // log m = 2 artanh f.
    const Vector f = (m - 1.0) / (m + 1.0);
    const Vector r = f * f;
    Vector series = fill(2.0 / 15);
    for (int j = 13; j >= 3; j -= 2) series = multiply_add(series, r, fill(2.0 / j));
    const Vector log_m = multiply_add(f * r, series, f + f);
    const Vector value =
        load_vector<Vector>(shifts + i) + multiply_add(k, fill(0x1.62e42fefa39efp-1), log_m);
    store_vector(values + i, value);
    store_vector(bounds + i, 1.25 * bound / x + 0x1p-40 + size_of(value) * 0x1p-52);
  }
}

}  // namespace
}  // namespace halfulp
