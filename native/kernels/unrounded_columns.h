// Columns summed without rounding: see unrounded.h.
// May include columns.h, two_folds.h, unrounded.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include "columns.h"
#include "two_folds.h"
#include "unrounded.h"

namespace halfulp {
namespace {

// Columns, in groups of a vector of elements.
template <Type type>
struct SumColumnsUnrounded {
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kVectorBytes / sizeof(Bits<type>);
  static constexpr std::size_t kLanesPerGroup = 1;
  // Of a column: its sum, or those of the upper and the lower parts of its elements.
  static constexpr std::size_t kParts = type == Type::float64 ? 2 : 1;
  static constexpr std::size_t kSums = kColumns / kWidth * kParts;

  struct Lane {
    Vector sums[kSums];
  };
  // Lanes, and where they are kept as they were before a pass.
  struct Lanes {
    Lane* now;
    Lane* before;
    Lanes& operator+=(std::size_t n) {
      now += n;
      before += n;
      return *this;
    }
  };

  template <class Get>
  static void add(Lanes lanes, bool, std::size_t rows, Get get) {
    Lane lane = *lanes.now;
    *lanes.before = lane;
    if constexpr (kInPairs<type>) {
      constexpr std::size_t kCount = kColumns / kPairs;
      for (std::size_t row = 0; row < rows; row += 2) {
        Pairs pairs[kCount];
        const Bits<type>* x = get(row);
        for (std::size_t i = 0; i < kCount; ++i) pairs[i] = load_pairs<type>(x + i * kPairs);
        if (row + 1 < rows) {
          x = get(row + 1);
          for (std::size_t i = 0; i < kCount; ++i) {
            pairs[i] = plus(load_pairs<type>(x + i * kPairs), pairs[i]);
          }
        }
        for (std::size_t i = 0; i < kCount; ++i) {
          add_pairs(pairs[i], lane.sums + i * kPairs / kWidth);
        }
      }
    } else {
      for (std::size_t row = 0; row < rows; ++row) {
        const Bits<type>* x = get(row);
#pragma GCC unroll 2
        for (std::size_t i = 0; i < kColumns / kWidth; ++i) {
          add_unit<type>(x + i * kWidth, lane.sums + i * kParts);
        }
      }
    }
    *lanes.now = lane;
  }
};

template <Term term, Type type, class V>
class ColumnsUnrounded {
  using Sum = SumColumnsUnrounded<type>;
  using Lane = typename Sum::Lane;

 public:
  // Columns that are summed again if anything was rounded in a pass.
  static constexpr std::size_t kChecked = 512;
  static_assert(kChecked % Sum::kColumns == 0);
  static constexpr std::size_t kMaxRows = 512;

  ColumnsUnrounded(std::size_t columns, const Enclosures& enclosures, void* scratch)
      : columns_(columns),
        groups_((columns + Sum::kColumns - 1) / Sum::kColumns),
        enclosures_(enclosures),
        lanes_(static_cast<Lane*>(scratch)),
        before_(lanes_ + groups_),
        scratch_(before_ + (groups_ < kGroups ? groups_ : kGroups)) {
    static_assert(sizeof(Lane) <= kLaneBytes / 2 * Sum::kColumns);
    for (std::size_t g = 0; g < groups_; ++g) lanes_[g] = {};
  }

  void add(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows) {
    std::size_t pending = 0;
    int tried = 0, lost = 0;
    Inexact::clear();
    while (rows > 0) {
      const std::size_t some = rows < Sum::kRowsPerPass ? rows : Sum::kRowsPerPass;
      const bool more = rows >= 2 * Sum::kRowsPerPass;
      for (std::size_t j = 0; j < columns_; j += kChecked) {
        lost += !add_pass(data, row_stride, some, j, more);
        ++tried;
      }
      data += static_cast<std::ptrdiff_t>(some) * row_stride;
      rows -= some;
      pending += some;
      const bool hopeless = lost > 3 && 2 * lost > tried;
      if (pending == kMaxRows || rows == 0 || hopeless) {
        flush();
        pending = 0;
      }
      if (!hopeless) continue;
      // The next rows not so: as many again as all before them, if these were so too.
      const std::size_t others = rows < wait_ ? rows : wait_;
      if (others > 0) {
        sum_columns_two_folds<term, type, V>(data, row_stride, others, columns_, enclosures_,
                                             false, lanes_);
        for (std::size_t g = 0; g < groups_; ++g) lanes_[g] = {};
      }
      data += static_cast<std::ptrdiff_t>(others) * row_stride;
      rows -= others;
      wait_ *= 2;
      tried = lost = 0;
      Inexact::clear();
    }
  }

 private:
  static constexpr std::size_t kGroups = kChecked / Sum::kColumns;

  const std::size_t columns_;
  const std::size_t groups_;
  const Enclosures enclosures_;
  Lane* const lanes_;
  Lane* const before_;
  void* const scratch_;
  std::size_t wait_ = 128;

  // Adds some rows of kChecked columns from j on; returns whether nothing was rounded.
  bool add_pass(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                std::size_t j, bool more) {
    const std::size_t n = columns_ - j < kChecked ? columns_ - j : kChecked;
    Lane* const lanes = lanes_ + j / Sum::kColumns;
    data += j * sizeof(Bits<type>);
    const std::ptrdiff_t ahead = more ? Sum::kRowsPerPass * row_stride : 0;
    pass<type, Sum>(data, row_stride, rows, n, ahead, false,
                    typename Sum::Lanes{lanes, before_});
    settle_memory();
    if (!Inexact::raised()) return true;
    for (std::size_t g = 0; g * Sum::kColumns < n; ++g) lanes[g] = before_[g];
    sum_columns_two_folds<term, type, V>(data, row_stride, rows, n, enclosures_ + j, false,
                                         scratch_);
    Inexact::clear();
    return false;
  }

  // Adds the sums of lanes to the enclosures.
  void flush() {
    for (std::size_t j = 0; j < columns_; j += kWidth) {
      const std::size_t count = columns_ - j < kWidth ? columns_ - j : kWidth;
      Vector* const s =
          lanes_[j / Sum::kColumns].sums + j % Sum::kColumns / kWidth * Sum::kParts;
      const Vector lower = Sum::kParts == 2 ? s[1] : Vector{};
      add_to_enclosures(enclosures_ + j, false, count, set_apart<term>(s[0], lower), Vector{});
      for (std::size_t i = 0; i < Sum::kParts; ++i) s[i] = Vector{};
    }
    Inexact::clear();
  }
};

template <Term term, Type type, class V>
void sum_columns_unrounded(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                           std::size_t columns, const Enclosures& enclosures, bool fresh,
                           void* scratch) {
  if (!Inexact::is_kept()) {
    return sum_columns_two_folds<term, type, V>(data, row_stride, rows, columns, enclosures,
                                                fresh, scratch);
  }
  if (fresh) make_zero(enclosures, columns);
  ColumnsUnrounded<term, type, V>(columns, enclosures, scratch).add(data, row_stride, rows);
}

}  // namespace
}  // namespace halfulp
