// Kernels of Layout::columns: one output for each column of a matrix. Lanes are in memory, and
// several whole rows are read in each pass over them. May include dispatch.h, lanes.h and what
// that includes only. Internal linkage: see simd.h.
#pragma once

#include "../dispatch.h"
#include "lanes.h"

namespace halfulp {
namespace {

template <Type type, class Lane_>
struct SumColumns {
  using Lane = Lane_;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;  // of one group
  static constexpr std::size_t kLanesPerGroup = 1;
  static constexpr std::size_t kMaxRows = 512;

  static double factor(std::size_t n) { return Lane::factor(n); }
  static double underflow(std::size_t n) { return Lane::underflow(n); }

  // Adds `rows` rows of one group of columns, to nothing if `fresh`; `get` finds a row's
  // elements.
  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    *lanes = lane;
  }
};

template <Term term, Type type>
struct SumColumnsNarrow {
  using Lane = Plain<term>;
  using Chain = Binary32<term, type>;
  static constexpr std::size_t kRowsPerPass = 4;
  static constexpr std::size_t kColumns = 2 * kNarrowWidth;
  static constexpr std::size_t kLanesPerGroup = 4;
  static constexpr std::size_t kMaxRows = 512 * kRowsPerPass;

  // Two chains of half the rows, whose first term is exact, and a join.
  static double factor(std::size_t n) {
    return Lane::factor(n / kRowsPerPass + 2) + Chain::factor(kRowsPerPass / 2);
  }
  static double underflow(std::size_t n) { return Chain::underflow(n); }

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Chain chains[2][2];
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint16_t* x = get(row);
      for (std::size_t half = 0; half < 2; ++half) {
        Narrow& sum = chains[half][row % 2].s;
        sum = TermVectors<term>::add(load_narrow<type>(x + half * kNarrowWidth), sum);
      }
    }
    for (std::size_t half = 0; half < 2; ++half, lanes += 2) {
      const Chain sum = Chain::join(chains[half][0], chains[half][1]);
      lanes[0] = Lane::join(sum.low(), fresh ? Lane{} : lanes[0]);
      lanes[1] = Lane::join(sum.high(), fresh ? Lane{} : lanes[1]);
    }
  }
};

// Lets Sum::add see some rows of every group of columns, and prefetches what lies `ahead`.
// `lanes` point to the lanes of a group.
template <Type type, class Sum, class Lanes>
void pass(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
          std::size_t columns, std::ptrdiff_t ahead, bool fresh, Lanes lanes) {
  const Bits<type>* x[Sum::kRowsPerPass] = {};
  for (std::size_t i = 0; i < rows; ++i) x[i] = row_of<type>(data, row_stride, i);
  std::size_t j = 0;
  if (rows == Sum::kRowsPerPass) {
    for (; j + Sum::kColumns <= columns; j += Sum::kColumns, lanes += Sum::kLanesPerGroup) {
      Sum::add(lanes, fresh, Sum::kRowsPerPass, [&](std::size_t row) {
        __builtin_prefetch(reinterpret_cast<const std::byte*>(x[row] + j) + ahead, 0, 2);
        return x[row] + j;
      });
    }
  } else {
    for (; j + Sum::kColumns <= columns; j += Sum::kColumns, lanes += Sum::kLanesPerGroup) {
      Sum::add(lanes, fresh, rows, [&](std::size_t row) { return x[row] + j; });
    }
  }
  if (j < columns) {
    Bits<type> rest[Sum::kColumns];
    Sum::add(lanes, fresh, rows, [&](std::size_t row) {
      const Padded<Sum::kColumns, Bits<type>> padded(x[row] + j, columns - j);
      std::memcpy(rest, padded.elements, sizeof rest);
      return rest;
    });
  }
}

// Lets Sum::add see all rows, some at a time.
template <Type type, class Sum>
void pass_all(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
              std::size_t columns, bool fresh, typename Sum::Lane* lanes) {
  for (std::size_t row = 0; row < rows; row += Sum::kRowsPerPass) {
    const std::size_t some = rows - row < Sum::kRowsPerPass ? rows - row : Sum::kRowsPerPass;
    // The rows of the next pass: streams as short as a row defeat the hardware's guess. Not
    // beyond the matrix, where there may be no page to look for.
    const bool more = row + 2 * Sum::kRowsPerPass <= rows;
    const std::ptrdiff_t ahead = more ? Sum::kRowsPerPass * row_stride : 0;
    pass<type, Sum>(data + static_cast<std::ptrdiff_t>(row) * row_stride, row_stride, some,
                    columns, ahead, fresh && row == 0, lanes);
  }
}

template <Type type, class Sum>
void sum_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, const Enclosures& enclosures, bool fresh, void* scratch) {
  using Lane = typename Sum::Lane;
  static_assert(sizeof(Lane) <= kLaneBytes * kWidth);
  Lane* lanes = static_cast<Lane*>(scratch);
  for (std::size_t begin = 0; begin < rows; begin += Sum::kMaxRows) {
    const std::size_t n = rows - begin < Sum::kMaxRows ? rows - begin : Sum::kMaxRows;
    pass_all<type, Sum>(data + static_cast<std::ptrdiff_t>(begin) * row_stride, row_stride, n,
                        columns, true, lanes);
    const double factor = Sum::factor(n);
    const Vector underflow = Vector{} + Sum::underflow(n);
    for (std::size_t j = 0; j < columns; j += kWidth) {
      const std::size_t count = columns - j < kWidth ? columns - j : kWidth;
      const Lane& lane = lanes[j / kWidth];
      add_to_enclosures(enclosures + j, fresh && begin == 0, count, lane,
                        lane.bound(factor, underflow));
    }
  }
}

}  // namespace
}  // namespace halfulp
