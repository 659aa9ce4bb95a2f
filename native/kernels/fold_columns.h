// Exact kernels of Layout::columns for floats. May include columns.h, dispatch.h, extremes.h,
// folds.h and what they include only. Internal linkage: see simd.h.
#pragma once

#include "../dispatch.h"
#include "columns.h"
#include "extremes.h"
#include "folds.h"

namespace halfulp {
namespace {

template <Term term, Type type, std::size_t folds>
struct FoldColumns {
  using Lane = Folds<term, type, folds>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kWidth;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    Lane lane = *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load<type>(get(row)));
    *lanes = lane;
  }
};

// What is known of one column before it is summed.
struct Column {
  std::int32_t head;
  std::uint8_t folds;
  bool narrow;
};

template <Term term, Type type, std::size_t folds>
std::size_t fold_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                         std::size_t columns, const Limbs& limbs, const Column* known,
                         void* scratch) {
  using Sum = FoldColumns<term, type, folds>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  const auto head_at = [&](std::size_t j) {
    Vector head{};
    for (std::size_t i = 0; i < kWidth; ++i) head[i] = head_of(known[j + i].head);
    return head;
  };
  for (std::size_t j = 0; j < columns; j += kWidth) lanes[j / kWidth].start(head_at(j));
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; j += kWidth) {
    const Vector head = head_at(j);
    for (std::size_t f = 0; f < folds; ++f) {
      store_vector(limbs.limb[f] + j, lanes[j / kWidth].multiple(f, head));
    }
  }
  for (std::size_t j = 0; j < columns; ++j) {
    limbs.exponent[j] = known[j].folds <= folds ? known[j].head - 52 : kNotExact;
  }
  return folds;
}

template <Term term, Type type>
struct FoldColumnsNarrow {
  using Three = typename NarrowFold<term, type>::Lane;
  struct Lane {
    Narrow head{};
    typename Three::Residues sums[3] = {};
  };
  static constexpr std::size_t kRowsPerPass = 1 << kNarrowLogSteps;
  static constexpr std::size_t kColumns = 2 * kNarrowWidth;
  static constexpr std::size_t kLanesPerGroup = 2;

  template <class Get>
  static void add(Lane* lanes, bool, std::size_t rows, Get get) {
    Three two[2];
    for (std::size_t i = 0; i < 2; ++i) two[i].start(lanes[i].head);
    for (std::size_t row = 0; row < rows; ++row) {
      Narrow x[2];
      load_two_narrow<type>(get(row), x);
      for (std::size_t i = 0; i < 2; ++i) two[i].step(x[i]);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t f = 0; f < 3; ++f) {
        lanes[i].sums[f] += two[i].multiple(f, lanes[i].head);
      }
    }
  }

  // Where column j is: of lane lane_of(j), the element element_of(j).
  static constexpr std::size_t lane_of(std::size_t j) {
    return kByParity<type> ? j / kColumns * 2 + j % 2 : j / kNarrowWidth;
  }
  static constexpr std::size_t element_of(std::size_t j) {
    return kByParity<type> ? j % kColumns / 2 : j % kNarrowWidth;
  }
};

template <Term term, Type type>
std::size_t fold_columns_narrow(const std::byte* data, std::ptrdiff_t row_stride,
                                std::size_t rows, std::size_t columns, const Limbs& limbs,
                                const Column* known, void* scratch) {
  using F = NarrowFold<term, type>;
  using Sum = FoldColumnsNarrow<term, type>;
  auto* lanes = static_cast<typename Sum::Lane*>(scratch);
  const std::size_t room = (columns + Sum::kColumns - 1) / Sum::kColumns * Sum::kColumns;
  for (std::size_t j = 0; j < room; ++j) {
    auto& lane = lanes[Sum::lane_of(j)];
    if (Sum::element_of(j) == 0) lane = typename Sum::Lane{};
    const int head = known[j].narrow ? F::head_for(known[j].head) : 0;
    lane.head[Sum::element_of(j)] = static_cast<float>(head_of(head));
  }
  pass_all<type, Sum>(data, row_stride, rows, columns, false, lanes);
  for (std::size_t j = 0; j < columns; ++j) {
    const auto& sums = lanes[Sum::lane_of(j)].sums;
    const std::size_t i = Sum::element_of(j);
    const auto integer = [&](std::size_t f) { return static_cast<std::int32_t>(sums[f][i]); };
    F::set_limbs(limbs + j, known[j].head, integer(0), integer(1), integer(2));
    if (!known[j].narrow) limbs.exponent[j] = kNotExact;
  }
  return 2;
}

template <Term term, Type type>
std::size_t exact_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                          std::size_t columns, const Limbs& limbs, void* scratch) {
  using F = Fold<term, type>;
  using Lane = Extremes<type>;
  const std::size_t room = (columns + 63) / 64 * 64;
  auto* known = static_cast<Column*>(scratch);
  void* const rest = known + room;
  auto* extremes = static_cast<Lane*>(rest);
  pass_all<type, ExtremesOfColumns<type>>(data, row_stride, rows, columns, true, extremes);
  std::size_t wider[F::kMost + 2] = {};  // how many columns need more folds
  std::size_t narrow = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    const Lane& lane = extremes[j / Lane::kColumns];
    const int unit = F::unit_for(lane.least[j % Lane::kColumns]);
    const int head = F::head_for(lane.most[j % Lane::kColumns]);
    const std::size_t folds = F::needed(head, unit);
    const bool fits = folds <= F::kMost;
    known[j].head = fits ? head : 0;
    known[j].folds = static_cast<std::uint8_t>(folds);
    known[j].narrow = fits && fits_narrow<term, type>(head, unit);
    narrow += known[j].narrow;
    for (std::size_t f = 2; f < F::kMost; ++f) wider[f] += fits && folds > f;
  }
  for (std::size_t j = columns; j < room; ++j) known[j] = {};
  // A few columns may be left to another way, so that all others are fast.
  const std::size_t few = columns / 64;
  const auto fold = [&](auto function) {
    return function(data, row_stride, rows, columns, limbs, known, rest);
  };
  if constexpr (sizeof(Bits<type>) == 2) {
    if (columns - narrow <= few) return fold(&fold_columns_narrow<term, type>);
  }
  if (wider[2] <= few) return fold(&fold_columns<term, type, 2>);
  if constexpr (F::kMost == 3) return fold(&fold_columns<term, type, 3>);
  if constexpr (F::kMost == 4) {
    return wider[3] <= few ? fold(&fold_columns<term, type, 3>)
                           : fold(&fold_columns<term, type, 4>);
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace halfulp
