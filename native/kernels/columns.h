// Kernels of Layout::columns: one output for each column of a matrix. Lanes are in memory, and
// several whole rows are read in each pass over them. May include dispatch.h, inexact.h,
// lanes.h and what these include only. Internal linkage: see simd.h.
#pragma once

#include "../dispatch.h"
#include "inexact.h"
#include "lanes.h"

namespace halfulp {
namespace {

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

// Lets Sum::add see all rows, some at a time; as many as `rows_after` follow them.
template <Type type, class Sum, class Lane>
void pass_all(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
              std::size_t columns, bool fresh, Lane* lanes, std::size_t rows_after = 0) {
  for (std::size_t row = 0; row < rows; row += Sum::kRowsPerPass) {
    const std::size_t some = rows - row < Sum::kRowsPerPass ? rows - row : Sum::kRowsPerPass;
    // The rows of the next pass: streams as short as a row defeat the hardware's guess. Not
    // beyond the matrix, where there may be no page to look for.
    const bool more = row + 2 * Sum::kRowsPerPass <= rows + rows_after;
    const std::ptrdiff_t ahead = more ? Sum::kRowsPerPass * row_stride : 0;
    pass<type, Sum>(data + static_cast<std::ptrdiff_t>(row) * row_stride, row_stride, some,
                    columns, ahead, fresh && row == 0, lanes);
  }
}

template <Type type, class Lane_>
struct SumColumns {
  using Lane = Lane_;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;  // of one group
  static constexpr std::size_t kLanesPerGroup = 1;
  static constexpr std::size_t kMaxRows = 512;

  static constexpr std::size_t kBytesPerColumn = sizeof(Lane) / kWidth;

  static double factor(std::size_t n) { return Lane::factor(n); }
  static double underflow(std::size_t n) { return Lane::underflow(n); }

  // Sets the lanes of all columns.
  static void sum(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, std::size_t rows_after, Lane* lanes) {
    pass_all<type, SumColumns>(data, row_stride, rows, columns, true, lanes, rows_after);
  }

  // Adds `rows` rows of one group of columns, to nothing if `fresh`; `get` finds a row's
  // elements.
  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    *lanes = lane;
  }
};

// Numbers of even and of odd index, in the order of these.
template <class V>
void put_in_order(V (&two)[2]) {
  constexpr std::size_t kCount = sizeof(V) / sizeof two[0][0];
  const V a = two[0], b = two[1];
  if constexpr (kCount == 2) {
    two[0] = __builtin_shufflevector(a, b, 0, 2);
    two[1] = __builtin_shufflevector(a, b, 1, 3);
  } else if constexpr (kCount == 4) {
    two[0] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    two[1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else if constexpr (kCount == 8) {
    two[0] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    two[1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    two[0] =
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    two[1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                     15, 31);
  }
}

// Sets sum to the terms of a group of columns in `rows` rows from `row` on, added in a tree.
template <class Terms, std::size_t rows, class Get>
inline void add_tree(Narrow (&sum)[2], std::size_t row, Get get) {
  Narrow more[2];
  if constexpr (rows == 1) {
    Terms::load(get(row), sum);
    for (std::size_t i = 0; i < 2; ++i) sum[i] = Terms::of(sum[i]);
  } else if constexpr (rows == 2) {
    Terms::load(get(row), sum);
    Terms::load(get(row + 1), more);
    for (std::size_t i = 0; i < 2; ++i) sum[i] = Terms::add(more[i], Terms::of(sum[i]));
  } else {
    add_tree<Terms, rows / 2>(sum, row, get);
    add_tree<Terms, rows / 2>(more, row + rows / 2, get);
    for (std::size_t i = 0; i < 2; ++i) sum[i] += more[i];
  }
}

// Half types: runs of rows in binary32, a few at a time in a tree, gathered in binary64.
template <Term term, Type type>
struct SumColumnsNarrow {
  static_assert(!TermOf<term>::kIsSigned, "chains have no mass");
  using Lane = Plain<term>;
  using Chain = Binary32<term, type>;
  using Terms = NarrowTerms<term, type>;
  static constexpr std::size_t kLogRowsPerPass = 3;
  static constexpr std::size_t kRowsPerPass = std::size_t{1} << kLogRowsPerPass;
  static constexpr std::size_t kColumns = 2 * kNarrowWidth;
  static constexpr std::size_t kLanesPerGroup = 2;  // of binary32
  static constexpr std::size_t kPasses = 4;         // of a run
  static constexpr std::size_t kRunRows = kPasses * kRowsPerPass;
  static constexpr std::size_t kMaxRows = 64 * kRunRows;
  static constexpr std::size_t kBytesPerColumn = sizeof(double) + sizeof(float);

  // A tree for each pass, and the joins of the passes of a run.
  static double factor(std::size_t n) {
    return Lane::factor(n / kRunRows + 1) + Chain::factor(kLogRowsPerPass + kPasses - 1);
  }
  static double underflow(std::size_t n) { return Chain::underflow(n); }

  template <class Get>
  static void add(Narrow* lanes, bool fresh, std::size_t rows, Get get) {
    constexpr std::uint16_t kZeros[kColumns] = {};
    Narrow sum[2];
    add_tree<Terms, kRowsPerPass>(
        sum, 0, [&](std::size_t row) { return row < rows ? get(row) : kZeros; });
    for (std::size_t i = 0; i < 2; ++i) lanes[i] = fresh ? sum[i] : lanes[i] + sum[i];
  }

  static void sum(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                  std::size_t columns, std::size_t rows_after, Lane* lanes) {
    const std::size_t groups = (columns + kColumns - 1) / kColumns;
    auto* chains = reinterpret_cast<Narrow*>(lanes + 4 * groups);
    for (std::size_t row = 0; row < rows; row += kRunRows) {
      const std::size_t run = rows - row < kRunRows ? rows - row : kRunRows;
      pass_all<type, SumColumnsNarrow>(data + static_cast<std::ptrdiff_t>(row) * row_stride,
                                       row_stride, run, columns, true, chains,
                                       rows_after + (rows - row - run));
      for (std::size_t g = 0; g < groups; ++g) {
        Narrow two[2] = {chains[2 * g], chains[2 * g + 1]};
        if constexpr (kByParity<type>) put_in_order(two);
        for (std::size_t i = 0; i < 4; ++i) {
          const Chain chain = {{}, two[i / 2]};
          const Lane more = i % 2 == 0 ? chain.low() : chain.high();
          lanes[4 * g + i] = row == 0 ? more : Lane::join(lanes[4 * g + i], more);
        }
      }
    }
  }
};

template <Type type, class Sum>
void sum_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                 std::size_t columns, const Enclosures& enclosures, bool fresh, void* scratch) {
  using Lane = typename Sum::Lane;
  static_assert(Sum::kBytesPerColumn <= kLaneBytes);
  Lane* lanes = static_cast<Lane*>(scratch);
  for (std::size_t begin = 0; begin < rows; begin += Sum::kMaxRows) {
    const std::size_t n = rows - begin < Sum::kMaxRows ? rows - begin : Sum::kMaxRows;
    Inexact::clear();
    Sum::sum(data + static_cast<std::ptrdiff_t>(begin) * row_stride, row_stride, n, columns,
             rows - begin - n, lanes);
    settle_memory();
    const bool is_exact = !Inexact::may_be_raised();
    const double factor = Sum::factor(n);
    const Vector underflow = Vector{} + Sum::underflow(n);
    for (std::size_t j = 0; j < columns; j += kWidth) {
      const std::size_t count = columns - j < kWidth ? columns - j : kWidth;
      const Lane& lane = lanes[j / kWidth];
      add_to_enclosures(enclosures + j, fresh && begin == 0, count, lane,
                        is_exact ? Vector{} : lane.bound(factor, underflow));
    }
  }
}

}  // namespace
}  // namespace halfulp
