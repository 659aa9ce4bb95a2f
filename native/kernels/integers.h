// Kernels for integers: sums modulo 2^64, and exact ones, in halves of 32 bits.
// May include columns.h, dispatch.h, rows.h and what they include only. Internal linkage: see
// simd.h.
#pragma once

#include "../dispatch.h"
#include "columns.h"
#include "rows.h"

namespace halfulp {
namespace {

// Elements of 32 bits lie two to a lane of 64: even and odd ones make a part each.
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

// Sums of the elements of a row, modulo 2^64.
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
              std::size_t columns, const Enclosures& enclosures, bool fresh, void*) {
  using Lane = RowResidue<type>;
  constexpr std::size_t kStride = kElements<type>;
  const auto add = [&](std::size_t row, std::size_t count, const Lane& sum) {
    for (std::size_t i = 0; i < count; ++i) {
      enclosures.residue[row + i] = sum.s[i] + (fresh ? 0 : enclosures.residue[row + i]);
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
    std::uint64_t total = fresh ? 0 : enclosures.residue[row];
    for (std::size_t i = 0; i < kWidth; ++i) total += sums[i];
    enclosures.residue[row] = total;
  }
}

// Sums modulo 2^64 of kElements columns.
template <Type type>
struct SumColumnsResidue {
  struct Lane {
    Wide sums[kParts<type>] = {};

    std::uint64_t of(std::size_t column) const {
      return sums[column % kParts<type>][column / kParts<type>];
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
      for (std::size_t part = 0; part < kParts<type>; ++part) {
        lane.sums[part] += square_part<type>(x, part);
      }
    }
    *lanes = lane;
  }
};

template <Type type>
void add_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, const Enclosures& enclosures, bool fresh, void* scratch) {
  using Sum = SumColumnsResidue<type>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  pass_all<type, Sum>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const std::uint64_t sum = lanes[j / Sum::kColumns].of(j % Sum::kColumns);
    enclosures.residue[j] = sum + (fresh ? 0 : enclosures.residue[j]);
  }
}

// Squares of kElements integers, in halves of 32 bits.
template <Type type>
struct Halves {
  static constexpr std::size_t kMost = format_of(type).bytes == 4 ? 2 : 4;
  Wide half[kParts<type>][kMost] = {};

  void step(Wide x) {
    if constexpr (kMost == 2) {
      for (std::size_t part = 0; part < kParts<type>; ++part) {
        const Wide square = square_part<type>(x, part);
        half[part][0] += square & 0xffffffff;
        half[part][1] += square >> 32;
      }
    } else {
      if constexpr (format_of(type).is_signed) {
        const Wide sign = (Wide)((Mask)x >> 63);
        x = (x ^ sign) - sign;
      }
      const Wide high = x >> 32;
      const Wide low_square = multiply_low_halves(x, x);
      const Wide product = multiply_low_halves(x, high);
      const Wide high_square = multiply_low_halves(high, high);
      const Wide product_low = product & 0xffffffff;
      const Wide product_high = product >> 32;
      half[0][0] += low_square & 0xffffffff;
      half[0][1] += (low_square >> 32) + (product_low + product_low);
      half[0][2] += (high_square & 0xffffffff) + (product_high + product_high);
      half[0][3] += high_square >> 32;
    }
  }
};

template <Type type>
std::size_t exact_integer_rows(const std::byte* data, std::ptrdiff_t row_stride,
                               std::size_t rows, std::size_t columns, const Limbs& limbs,
                               void*) {
  using Lane = Halves<type>;
  constexpr std::size_t kStride = kElements<type>;
  for (std::size_t row = 0; row < rows; ++row) {
    const Bits<type>* x = row_of<type>(data, row_stride, row);
    std::size_t n = columns;
    Lane lane;
    for (; n >= kStride; n -= kStride, x += kStride) {
      prefetch(x);
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

template <Type type>
struct HalvesOfColumns {
  using Lane = Halves<type>;
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

template <Type type>
std::size_t exact_integer_columns(const std::byte* data, std::ptrdiff_t row_stride,
                                  std::size_t rows, std::size_t columns, const Limbs& limbs,
                                  void* scratch) {
  using Lane = Halves<type>;
  auto* lanes = static_cast<Lane*>(scratch);
  pass_all<type, HalvesOfColumns<type>>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto& halves = lanes[j / kElements<type>].half[j % kParts<type>];
    for (std::size_t f = 0; f < Lane::kMost; ++f) {
      limbs.limb[f][j] =
          static_cast<std::int64_t>(halves[f][j % kElements<type> / kParts<type>]);
    }
    limbs.exponent[j] = 0;
  }
  return Lane::kMost;
}

}  // namespace
}  // namespace halfulp
