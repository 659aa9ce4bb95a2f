// Kernels of products: of floats in two binary64 numbers, with the exponents apart; of integers
// modulo 2^64. Proved in docs/exactness.md#products.
// May include columns.h, dispatch.h, integers.h, lanes.h and what they include only. Internal
// linkage: see simd.h.
#pragma once

#include "../dispatch.h"
#include "columns.h"
#include "integers.h"
#include "lanes.h"

namespace halfulp {
namespace {

// So many elements of a type have a product that binary64 holds, in its normal range.
template <Type type>
constexpr std::size_t kFactors = type == Type::float64    ? 1
                                 : type == Type::float32  ? 2
                                 : type == Type::bfloat16 ? 6
                                                          : 4;

// What a * b, rounded to p, differs from it by: exactly, unless that underflows.
inline Vector product_error(Vector a, Vector b, Vector p) {
  if constexpr (kHasFma) {
    return multiply_add(a, b, -p);
  } else {
    // Dekker's product, split after Veltkamp. Nothing here is large enough to overflow.
    const auto high_of = [](Vector x) {
      const Vector scaled = x * 0x1.0000002p27;
      return scaled - (scaled - x);
    };
    const Vector a_high = high_of(a);
    const Vector a_low = a - a_high;
    const Vector b_high = high_of(b);
    const Vector b_low = b - b_high;
    return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
  }
}

// Products, one to an element of a vector: (p + c) * 2^exponent. Zeros, infinities and NaN need
// no care but where p and c are added: p is what IEEE's products of the factors are.
struct Factors {
  // Steps between two calls of normalize(): a step makes p at most 16 times as large, and
  // at most 2^51 times as small.
  static constexpr std::size_t kMostSteps = 16;

  Vector p = Vector{} + 1.0;
  Vector c{};
  Wide exponent{};  // two's complement

  // Multiplies by x.
  void step(Vector x) {
    const Vector m = x * power_below(x);
    const Vector product = p * m;
    c = multiply_add(c, m, product_error(p, m, product));
    p = product;
  }

  // Makes p at least 1 and less than 16 in size, if it is finite and not 0, and c at most half
  // an ulp of it.
  void normalize() {
    // Of an infinite p no error is a number.
    c = (Vector)((Wide)c & (Wide)(size_of(p) <= 0x1.fffffffffffffp1023));
    // The sum of -0 and 0 has the wrong sign.
    const Vector sum = (Vector)((Wide)size_of(p + c) | ((Wide)p & kSign));
    c -= sum - p;
    c = (Vector)((Wide)c & (Wide)(size_of(sum) <= 0x1.fffffffffffffp1023));
    const Vector power = power_below(sum);
    p = sum * power;
    c *= power;
  }

  static Factors join(const Factors& a, const Factors& b) {
    Factors both;
    both.p = a.p * b.p;
    both.c = product_error(a.p, b.p, both.p) + (a.p * b.c + a.c * b.p);
    both.exponent = a.exponent + b.exponent;
    both.normalize();
    return both;
  }
  template <class Part>
  static Factors pick(const Factors& a, const Factors& b) {
    return {Part::of(a.p, b.p), Part::of(a.c, b.c), Part::of(a.exponent, b.exponent)};
  }

 private:
  static constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

  // A power of two that makes a normal x at least 1 and less than 16 in size, a subnormal one
  // at least 2^-51; its inverse goes to the exponent. Neither zeros nor infinities nor NaN
  // change by it: without the two low bits of x's exponent it is never 0 nor infinite.
  Vector power_below(Vector x) {
    constexpr std::uint64_t kExponent = 0x7fc0000000000000;
    constexpr std::uint64_t kMost = 0x7fe0000000000000;
    const Wide power = kMost - ((Wide)x & kExponent);
    exponent += 1023 - (power >> 52);
    return (Vector)power;
  }
};

// The product of kFactors vectors, or of fewer; get(i) finds the i-th.
template <Type type, class Get>
inline Vector multiply_few(std::size_t count, Get get) {
  Vector x = load<type>(get(0));
  for (std::size_t i = 1; i < count; ++i) x *= load<type>(get(i));
  return x;
}

// Multiplies the first `count` products by the elements of `more`, or sets them if fresh.
inline void multiply_outputs(const Enclosures& products, bool fresh, std::size_t count,
                             Factors more) {
  if (!fresh) {
    Factors before;
    double p[kWidth] = {}, c[kWidth] = {};
    std::uint64_t exponent[kWidth] = {};
    std::memcpy(p, products.hi, count * sizeof *p);
    std::memcpy(c, products.lo, count * sizeof *c);
    std::memcpy(exponent, products.residue, count * sizeof *exponent);
    before.p = load_vector<Vector>(p);
    before.c = load_vector<Vector>(c);
    before.exponent = load_vector<Wide>(exponent);
    more = Factors::join(before, more);
  }
  std::memcpy(products.hi, &more.p, count * sizeof(double));
  std::memcpy(products.lo, &more.c, count * sizeof(double));
  std::memcpy(products.residue, &more.exponent, count * sizeof(std::uint64_t));
}

// Elements of a type, the first of them given, the others 1.
template <std::size_t N, Type type>
struct PaddedByOnes {
  Bits<type> elements[N];
  PaddedByOnes(const Bits<type>* x, std::size_t count) {
    constexpr const Format& format = format_of(type);
    constexpr auto kOne = static_cast<Bits<type>>(
        format.is_float ? static_cast<std::uint64_t>(format.emax) << (format.precision - 1)
                        : 1);
    for (std::size_t i = 0; i < N; ++i) elements[i] = i < count ? x[i] : kOne;
  }
};

// Rows of fewer elements are multiplied side by side, each in an element of vectors.
template <Type type>
constexpr std::size_t kShortFactors = 4 * kFactors<type> * kWidth;

// The products of at most kWidth rows of a few elements.
template <Type type>
inline Factors multiply_short_rows(const std::byte* data, std::ptrdiff_t row_stride,
                                   std::size_t rows, std::size_t columns) {
  const Bits<type>* x[kWidth];
  for (std::size_t i = 0; i < kWidth; ++i) {
    x[i] = row_of<type>(data, row_stride, i < rows ? i : rows - 1);
  }
  Factors all;
  std::size_t steps = 0;
  Bits<type> gathered[kWidth];
  for (std::size_t j = 0; j < columns; j += kFactors<type>) {
    const std::size_t left = columns - j;
    const std::size_t few = left < kFactors<type> ? left : kFactors<type>;
    all.step(multiply_few<type>(few, [&](std::size_t f) {
      for (std::size_t i = 0; i < kWidth; ++i) gathered[i] = x[i][j + f];
      return gathered;
    }));
    if (++steps % Factors::kMostSteps == 0) all.normalize();
  }
  all.normalize();
  return all;
}

// The product of a row, in kWidth shares.
template <Type type>
inline Factors multiply_row(const Bits<type>* x, std::size_t n) {
  constexpr std::size_t kChains = 4;
  constexpr std::size_t kFew = kFactors<type> * kWidth;
  constexpr std::size_t kStride = kChains * kFew;
  Factors chains[kChains];
  while (n >= kStride) {
    std::size_t steps = n / kStride;
    if (steps > Factors::kMostSteps) steps = Factors::kMostSteps;
    n -= steps * kStride;
    for (; steps > 0; --steps) {
      for (std::size_t i = 0; i < kChains; ++i, x += kFew) {
        chains[i].step(
            multiply_few<type>(kFactors<type>, [&](std::size_t f) { return x + f * kWidth; }));
      }
    }
    for (Factors& chain : chains) chain.normalize();
  }
  // Fewer than kMostSteps steps.
  static_assert(kChains + kFactors<type> < Factors::kMostSteps);
  for (; n >= kFew; n -= kFew, x += kFew) {
    chains[0].step(
        multiply_few<type>(kFactors<type>, [&](std::size_t f) { return x + f * kWidth; }));
  }
  for (; n >= kWidth; n -= kWidth, x += kWidth) chains[1].step(load<type>(x));
  if (n > 0) chains[2].step(load<type>(PaddedByOnes<kWidth, type>(x, n).elements));
  for (Factors& chain : chains) chain.normalize();
  return Factors::join(Factors::join(chains[0], chains[1]),
                       Factors::join(chains[2], chains[3]));
}

template <Type type>
void multiply_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                   std::size_t columns, const Enclosures& products, bool fresh, void*) {
  for (std::size_t row = 0; row < rows; row += kWidth) {
    const std::size_t count = rows - row < kWidth ? rows - row : kWidth;
    const std::byte* const first = data + static_cast<std::ptrdiff_t>(row) * row_stride;
    if (columns < kShortFactors<type>) {
      multiply_outputs(products + row, fresh, count,
                       multiply_short_rows<type>(first, row_stride, count, columns));
      continue;
    }
    Factors each[kWidth];
    for (std::size_t i = 0; i < count; ++i) {
      each[i] = multiply_row<type>(row_of<type>(first, row_stride, i), columns);
    }
    multiply_outputs(products + row, fresh, count, join_rows(each));
  }
}

template <Type type>
struct ProductsOfColumns {
  using Lane = Factors;
  static constexpr std::size_t kRowsPerPass = type == Type::bfloat16 ? 12 : 8;
  static constexpr std::size_t kColumns = kWidth;
  static constexpr std::size_t kLanesPerGroup = 1;
  static_assert(kRowsPerPass % kFactors<type> == 0 && kRowsPerPass <= Factors::kMostSteps);

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; row += kFactors<type>) {
      const std::size_t left = rows - row;
      const std::size_t few = left < kFactors<type> ? left : kFactors<type>;
      lane.step(multiply_few<type>(few, [&](std::size_t i) { return get(row + i); }));
    }
    lane.normalize();
    *lanes = lane;
  }
};

template <Type type>
void multiply_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                      std::size_t columns, const Enclosures& products, bool fresh,
                      void* scratch) {
  static_assert(sizeof(Factors) <= kLaneBytes * kWidth);
  auto* lanes = static_cast<Factors*>(scratch);
  pass_all<type, ProductsOfColumns<type>>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    const std::size_t count = columns - j < kWidth ? columns - j : kWidth;
    multiply_outputs(products + j, fresh, count, lanes[j / kWidth]);
  }
}

// Products of 64-bit integers modulo 2^64: of halves, l k + 2^32 (h k + l j), where no
// instruction multiplies all 64 bits.
inline Wide multiply_wide(Wide a, Wide b) {
#if defined(__AVX512DQ__)
  return a * b;
#else
  const Wide cross = multiply_low_halves(a >> 32, b) + multiply_low_halves(a, b >> 32);
  return multiply_low_halves(a, b) + (cross << 32);
#endif
}

// The product of the integers of a row, modulo 2^64, in kWidth shares.
template <Type type>
struct RowResidueProduct {
  Wide s = Wide{} + 1;

  void step(Wide x) {
    for (std::size_t i = 0; i < kPerWord<type>; ++i) {
      s = multiply_wide(s, TermVectors<Term::value>::template residue<type>(elements_of(x, i)));
    }
  }
};

template <Type type>
void multiply_integer_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                           std::size_t columns, const Enclosures& products, bool fresh, void*) {
  constexpr std::size_t kChains = 4;
  constexpr std::size_t kStride = kElements<type>;
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::uint64_t total = fresh ? 1 : products.residue[row];
    if (columns < kStride) {
      for (std::size_t j = 0; j < columns; ++j) {
        total *= format_of(type).is_signed && sizeof *x == 4
                     ? static_cast<std::uint64_t>(static_cast<std::int32_t>(x[j]))
                     : x[j];
      }
      products.residue[row] = total;
      continue;
    }
    std::size_t n = columns;
    RowResidueProduct<type> chains[kChains];
    for (; n >= kChains * kStride; n -= kChains * kStride) {
      for (RowResidueProduct<type>& chain : chains) {
        chain.step(load_wide<type>(x));
        x += kStride;
      }
    }
    for (; n >= kStride; n -= kStride, x += kStride) chains[0].step(load_wide<type>(x));
    if (n > 0) {
      chains[1].step(load_wide<type>(PaddedByOnes<kStride, type>(x, n).elements));
    }
    const Wide product = multiply_wide(multiply_wide(chains[0].s, chains[1].s),
                                       multiply_wide(chains[2].s, chains[3].s));
    for (std::size_t i = 0; i < kWidth; ++i) total *= product[i];
    products.residue[row] = total;
  }
}

template <Type type>
struct ResidueProductsOfColumns {
  struct Lane {
    Wide products[kPerWord<type>];

    Lane() {
      for (Wide& product : products) product = Wide{} + 1;
    }
    std::uint64_t of(std::size_t column) const {
      return products[column % kPerWord<type>][column / kPerWord<type>];
    }
  };
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kElements<type>;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) {
      const Wide x = load_wide<type>(get(row));
      for (std::size_t i = 0; i < kPerWord<type>; ++i) {
        lane.products[i] =
            multiply_wide(lane.products[i],
                          TermVectors<Term::value>::template residue<type>(elements_of(x, i)));
      }
    }
    *lanes = lane;
  }
};

template <Type type>
void multiply_integer_columns(const std::byte* data, std::ptrdiff_t row_stride,
                              std::size_t rows, std::size_t columns, const Enclosures& products,
                              bool fresh, void* scratch) {
  using Products = ResidueProductsOfColumns<type>;
  auto* lanes = static_cast<typename Products::Lane*>(scratch);
  pass_all<type, Products>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const std::uint64_t product = lanes[j / Products::kColumns].of(j % Products::kColumns);
    products.residue[j] = product * (fresh ? 1 : products.residue[j]);
  }
}

}  // namespace
}  // namespace halfulp
