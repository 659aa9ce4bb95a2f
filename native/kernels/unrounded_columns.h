// Columns summed without rounding: see unrounded.h.
// May include columns.h, two_folds.h, unrounded.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include "columns.h"
#include "two_folds.h"
#include "unrounded.h"

namespace halfulp {
namespace {

// Of a group of columns, a vector of elements: the sums, or those of the upper and the lower
// parts of elements. Of half types, columns are in the order of load_two_narrow.
template <Type type>
struct LaneUnrounded {
  static constexpr std::size_t kColumns = kVectorBytes / sizeof(Bits<type>);
  static constexpr std::size_t kParts = type == Type::float64 ? 2 : 1;
  static constexpr std::size_t kSums = kColumns / kWidth * kParts;
  Vector sums[kSums];

  // The vector of sums, or of those of upper parts, of columns i * kWidth and so on.
  Vector upper(std::size_t i) const {
    if constexpr (kInPairs<type> && kByParity<type>) {
      Vector two[2] = {sums[i / 2], sums[i / 2 + 2]};
      put_in_order(two);
      return two[i % 2];
    }
    return sums[i * kParts];
  }
  Vector lower(std::size_t i) const {
    if constexpr (kParts == 1) return Vector{};
    return sums[i * kParts + 1];
  }
};

// Of half types `tree` rows are added in binary32 first.
template <Type type, std::size_t tree>
struct SumColumnsUnrounded {
  using Lane = LaneUnrounded<type>;
  static constexpr std::size_t kRowsPerPass = 8;
  static_assert(kRowsPerPass % tree == 0);
  static constexpr std::size_t kColumns = Lane::kColumns;
  static constexpr std::size_t kLanesPerGroup = 1;

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
      constexpr std::uint16_t kZeros[kColumns] = {};
      for (std::size_t row = 0; row < rows; row += tree) {
        Narrow two[2];
        add_tree<NarrowTerms<Term::value, type>, tree>(
            two, row, [&](std::size_t i) { return i < rows ? get(i) : kZeros; });
        for (std::size_t i = 0; i < 2; ++i) {
          add_pairs(two[i], lane.sums + 2 * i);
        }
      }
    } else {
      for (std::size_t row = 0; row < rows; ++row) {
        const Bits<type>* x = get(row);
#pragma GCC unroll 2
        for (std::size_t i = 0; i < kColumns / kWidth; ++i) {
          add_unit<type>(x + i * kWidth, lane.sums + i * Lane::kParts);
        }
      }
    }
    *lanes.now = lane;
  }
};

template <Term term, Type type, class V>
class ColumnsUnrounded {
  using Lane = LaneUnrounded<type>;
  static constexpr std::size_t kColumns = Lane::kColumns;
  static constexpr std::size_t kTree = !kInPairs<type> ? 1 : type == Type::float16 ? 4 : 8;

 public:
  // Columns that are summed again if anything was rounded in a pass.
  static constexpr std::size_t kChecked = kInPairs<type> ? 256 : 512;
  static_assert(kChecked % kColumns == 0);
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kMaxRows = 512;

  ColumnsUnrounded(std::size_t columns, const Enclosures& enclosures, void* scratch)
      : columns_(columns),
        groups_((columns + kColumns - 1) / kColumns),
        enclosures_(enclosures),
        lanes_(static_cast<Lane*>(scratch)),
        before_(lanes_ + groups_),
        scratch_(before_ + (groups_ < kGroups ? groups_ : kGroups)) {
    static_assert(sizeof(Lane) <= kLaneBytes / 2 * kColumns);
    for (std::size_t g = 0; g < groups_; ++g) lanes_[g] = {};
  }

  void add(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows) {
    std::size_t pending = 0;
    int tried = 0, lost = 0;
    Inexact::clear();
    while (rows > 0) {
      const std::size_t some = rows < kRowsPerPass ? rows : kRowsPerPass;
      const bool more = rows >= 2 * kRowsPerPass;
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
  static constexpr std::size_t kGroups = kChecked / kColumns;

  const std::size_t columns_;
  const std::size_t groups_;
  const Enclosures enclosures_;
  Lane* const lanes_;
  Lane* const before_;
  void* const scratch_;
  std::size_t wait_ = 128;
  Patience patience_;  // with trees

  // Adds some rows of kChecked columns from j on; returns whether nothing was rounded.
  bool add_pass(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                std::size_t j, bool more) {
    const std::size_t n = columns_ - j < kChecked ? columns_ - j : kChecked;
    data += j * sizeof(Bits<type>);
    if (kTree > 1 && !patience_.has_none()) {
      if (tried<kTree>(data, row_stride, rows, j, n, more)) {
        patience_.regain();
        return true;
      }
      patience_.lose();
    }
    if (tried<1>(data, row_stride, rows, j, n, more)) return true;
    sum_columns_two_folds<term, type, V>(data, row_stride, rows, n, enclosures_ + j, false,
                                         scratch_);
    Inexact::clear();
    return false;
  }

  // The same by one way to add, with no effect if anything was rounded.
  template <std::size_t tree>
  bool tried(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows, std::size_t j,
             std::size_t n, bool more) {
    using Sum = SumColumnsUnrounded<type, tree>;
    static_assert(Sum::kRowsPerPass == kRowsPerPass);
    Lane* const lanes = lanes_ + j / kColumns;
    const std::ptrdiff_t ahead = more ? kRowsPerPass * row_stride : 0;
    pass<type, Sum>(data, row_stride, rows, n, ahead, false,
                    typename Sum::Lanes{lanes, before_});
    settle_memory();
    if (!Inexact::raised()) return true;
    for (std::size_t g = 0; g * kColumns < n; ++g) lanes[g] = before_[g];
    Inexact::clear();
    return false;
  }

  // Adds the sums of lanes to the enclosures.
  void flush() {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (std::size_t i = 0; i < kColumns / kWidth; ++i) {
        const std::size_t j = g * kColumns + i * kWidth;
        if (j >= columns_) break;
        const std::size_t count = columns_ - j < kWidth ? columns_ - j : kWidth;
        add_to_enclosures(enclosures_ + j, false, count,
                          set_apart<term>(lanes_[g].upper(i), lanes_[g].lower(i)), Vector{});
      }
      lanes_[g] = {};
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
