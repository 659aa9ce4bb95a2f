// Kernels for integers: sums modulo 2^64, and exact ones, in halves of 32 bits.
// May include columns.h, dispatch.h, short_rows.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include "../dispatch.h"
#include "columns.h"
#include "short_rows.h"

namespace halfulp {
namespace {

// Elements of 32 bits lie two to a word of 64 bits.
template <Type type>
constexpr std::size_t kPerWord = sizeof(Bits<type>) == 4 ? 2 : 1;

template <Type type>
constexpr std::size_t kElements = kWidth * kPerWord<type>;

// Element `i` of each word, in its low bits.
inline Wide elements_of(Wide x, std::size_t i) { return i == 0 ? x : x >> 32; }

template <Type type>
inline Wide load_wide(const Bits<type>* x) {
  return load_vector<Wide>(x);
}

// The sum of the terms of a row, modulo 2^64, in kWidth shares.
template <Term term, Type type>
struct RowResidue {
  Wide s{};

  void step(Wide x) {
    for (std::size_t i = 0; i < kPerWord<type>; ++i) {
      s += TermVectors<term>::template residue<type>(elements_of(x, i));
    }
  }
  static RowResidue join(const RowResidue& a, const RowResidue& b) { return {a.s + b.s}; }
  template <class Part>
  static RowResidue pick(const RowResidue& a, const RowResidue& b) {
    return {Part::of(a.s, b.s)};
  }
};

template <Term term, Type type>
void residue_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  using Lane = RowResidue<term, type>;
  constexpr std::size_t kStride = kElements<type>;
  const auto add = [&](std::size_t row, std::size_t count, const Lane& sum) {
    for (std::size_t i = 0; i < count; ++i) {
      enclosures.residue[row + i] = sum.s[i] + (fresh ? 0 : enclosures.residue[row + i]);
    }
  };
  if (columns < kShortRow) {
    sum_groups<type, Lane, kWidth, kStride>({data, row_stride, rows, columns}, Lane(),
                                            load_wide<type>, add);
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Lane lanes[kWidth];
    for (; n >= 4 * kStride; n -= 4 * kStride) {
      for (std::size_t i = 0; i < 4; ++i, x += kStride) {
        lanes[i % kWidth].step(load_wide<type>(x));
      }
    }
    for (; n >= kStride; n -= kStride, x += kStride) lanes[0].step(load_wide<type>(x));
    if (n > 0) {
      lanes[1].step(load_wide<type>(Padded<kStride, Bits<type>>(x, n).elements));
    }
    const Wide sums = join_rows(lanes).s;
    std::uint64_t total = fresh ? 0 : enclosures.residue[row];
    for (std::size_t i = 0; i < kWidth; ++i) total += sums[i];
    enclosures.residue[row] = total;
  }
}

// Sums modulo 2^64 of kElements columns.
template <Term term, Type type>
struct SumColumnsResidue {
  struct Lane {
    Wide sums[kPerWord<type>] = {};

    std::uint64_t of(std::size_t column) const {
      return sums[column % kPerWord<type>][column / kPerWord<type>];
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
        lane.sums[i] += TermVectors<term>::template residue<type>(elements_of(x, i));
      }
    }
    *lanes = lane;
  }
};

template <Term term, Type type>
void residue_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                     std::size_t columns, const Enclosures& enclosures, bool fresh,
                     void* scratch) {
  using Sum = SumColumnsResidue<term, type>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  pass_all<type, Sum>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const std::uint64_t sum = lanes[j / Sum::kColumns].of(j % Sum::kColumns);
    enclosures.residue[j] = sum + (fresh ? 0 : enclosures.residue[j]);
  }
}

// Terms of kElements integers, in halves of 32 bits.
template <Term term, Type type>
struct Halves {
  static constexpr std::size_t kMost = TermOf<term>::kDegree * format_of(type).bytes / 4;
  Wide half[kPerWord<type>][kMost] = {};

  void step(Wide x) {
    for (std::size_t i = 0; i < kPerWord<type>; ++i) {
      TermVectors<term>::template add_halves<type>(elements_of(x, i), half[i]);
    }
  }
};

template <Term term, Type type>
std::size_t exact_integer_rows(const std::byte* data, std::ptrdiff_t row_stride,
                               std::size_t rows, std::size_t columns, const Limbs& limbs,
                               void*) {
  using Lane = Halves<term, type>;
  constexpr std::size_t kStride = kElements<type>;
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Lane lane;
    for (; n >= kStride; n -= kStride, x += kStride) {
      lane.step(load_wide<type>(x));
    }
    if (n > 0) lane.step(load_wide<type>(Padded<kStride, Bits<type>>(x, n).elements));
    for (std::size_t f = 0; f < Lane::kMost; ++f) {
      std::uint64_t total = 0;
      for (const auto& halves : lane.half) {
        for (std::size_t i = 0; i < kWidth; ++i) total += halves[f][i];
      }
      limbs.limb[f][row] = static_cast<std::int64_t>(total);
    }
    limbs.exponent[row] = 0;
  }
  return Lane::kMost;
}

template <Term term, Type type>
struct HalvesOfColumns {
  using Lane = Halves<term, type>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kElements<type>;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load_wide<type>(get(row)));
    *lanes = lane;
  }
};

template <Term term, Type type>
std::size_t exact_integer_columns(const std::byte* data, std::ptrdiff_t row_stride,
                                  std::size_t rows, std::size_t columns, const Limbs& limbs,
                                  void* scratch) {
  using Lane = Halves<term, type>;
  auto* lanes = static_cast<Lane*>(scratch);
  pass_all<type, HalvesOfColumns<term, type>>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto& halves = lanes[j / kElements<type>].half[j % kPerWord<type>];
    for (std::size_t f = 0; f < Lane::kMost; ++f) {
      limbs.limb[f][j] =
          static_cast<std::int64_t>(halves[f][j % kElements<type> / kPerWord<type>]);
    }
    limbs.exponent[j] = 0;
  }
  return Lane::kMost;
}

}  // namespace
}  // namespace halfulp
