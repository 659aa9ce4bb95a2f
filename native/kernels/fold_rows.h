// Exact kernels of Layout::rows for floats. May include dispatch.h, extremes.h, folds.h,
// lanes.h and what they include only. Internal linkage: see simd.h.
#pragma once

#include <limits>

#include "../dispatch.h"
#include "extremes.h"
#include "folds.h"
#include "lanes.h"

namespace halfulp {
namespace {

// A row is read twice, first from memory: what will be read then is fetched while the row
// before is summed. Most rows are pieces of one array.
template <class T>
inline void prefetch_next_row(const T* x, std::size_t columns) {
  __builtin_prefetch(x + columns);
}

constexpr std::size_t kFoldLanes = kWidth == 2 ? 8 : 4;
constexpr std::size_t kFoldStride = kFoldLanes * kWidth;
static_assert(kExactColumns <= kFoldStride << log_exact_rows(Type::float64));

// Sets the limbs of one output; returns whether they are right.
template <Term term, Type type, std::size_t folds>
bool fold_row(const Bits<type>* x, std::size_t n, int head_exponent, const Limbs& limbs) {
  using Lane = Folds<term, type, folds>;
  const std::size_t columns = n;
  const Vector head = Vector{} + head_of(head_exponent);
  Lane lanes[kFoldLanes];
  for (Lane& lane : lanes) lane.start(head);
  for (; n >= kFoldStride; n -= kFoldStride, x += kFoldStride) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kFoldLanes; ++i) {
      if (i * kWidth * sizeof *x % 64 == 0) prefetch_next_row(x + i * kWidth, columns);
      lanes[i].step(load<type>(x + i * kWidth));
    }
  }
  std::size_t i = 0;
  for (; n >= kWidth; ++i, n -= kWidth, x += kWidth) lanes[i].step(load<type>(x));
  if (n > 0) lanes[i].step(load_first<type>(x, n));
  for (std::size_t f = 0; f < folds; ++f) {
    Wide sum{};
    for (const Lane& lane : lanes) sum += (Wide)lane.multiple(f, head);
    std::uint64_t total = 0;
    for (i = 0; i < kWidth; ++i) total += sum[i];
    limbs.limb[f][0] = static_cast<std::int64_t>(total);
  }
  for (std::size_t f = folds; f < Fold<term, type>::kMost; ++f) limbs.limb[f][0] = 0;
  limbs.exponent[0] = head_exponent - 52;
  Mask fits = (Mask)lanes[0].fits(head);
  for (const Lane& lane : lanes) fits &= (Mask)lane.fits(head);
  bool all = true;
  for (i = 0; i < kWidth; ++i) all &= fits[i] != 0;
  return all;
}

template <Term term, Type type>
bool fold_row_narrow(const std::uint16_t* x, std::size_t n, int head_exponent,
                     const Limbs& limbs) {
  using F = NarrowFold<term, type>;
  using Lane = typename F::Lane;
  constexpr std::size_t kNarrowLanes = kRegisters / 8;
  const std::size_t columns = n;
  constexpr std::size_t kStride = kNarrowLanes * kNarrowWidth;
  const Narrow head = Narrow{} + static_cast<float>(head_of(F::head_for(head_exponent)));
  typename Lane::Residues sums[3] = {};
  typename Lane::Integers fits = ~typename Lane::Integers{};
  while (n > 0) {
    Lane lanes[kNarrowLanes];
    for (Lane& lane : lanes) lane.start(head);
    std::size_t steps = std::size_t{1} << kNarrowLogSteps;
    for (; steps > 0 && n >= kStride; --steps, n -= kStride, x += kStride) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kNarrowLanes; i += 2) {
        Narrow two[2];
        if (i * kNarrowWidth * sizeof *x % 64 == 0)
          prefetch_next_row(x + i * kNarrowWidth, columns);
        load_two_narrow<type>(x + i * kNarrowWidth, two);
        lanes[i].step(two[0]);
        lanes[i + 1].step(two[1]);
      }
    }
    if (steps > 0) {
      std::size_t i = 0;
      for (; n >= kNarrowWidth; ++i, n -= kNarrowWidth, x += kNarrowWidth) {
        lanes[i].step(load_narrow<type>(x));
      }
      if (n > 0) {
        const Padded<kNarrowWidth, std::uint16_t> padded(x, n);
        lanes[i].step(load_narrow<type>(padded.elements));
        n = 0;
      }
    }
    for (const Lane& lane : lanes) {
      for (std::size_t f = 0; f < 3; ++f) sums[f] += lane.multiple(f, head);
      fits &= lane.fits(head);
    }
  }
  std::int64_t total[3] = {};
  bool all = true;
  for (std::size_t i = 0; i < kNarrowWidth; ++i) {
    for (std::size_t f = 0; f < 3; ++f) total[f] += static_cast<std::int32_t>(sums[f][i]);
    all &= fits[i] != 0;
  }
  F::set_limbs(limbs, head_exponent, total[0], total[1], total[2]);
  for (std::size_t f = 2; f < Fold<term, type>::kMost; ++f) limbs.limb[f][0] = 0;
  return all;
}

// `head` is K_0 of the row before, a guess that saves finding the greatest element; kNoHead
// if there is none.
constexpr int kNoHead = std::numeric_limits<int>::min();

template <Term term, Type type>
void exact_row(const Bits<type>* x, std::size_t n, const Limbs& limbs, int& head) {
  using F = Fold<term, type>;
  std::int64_t least, most;
  for (bool guessed = head != kNoHead && !TermOf<term>::kIsSigned;; guessed = false) {
    if (guessed) {
      find_extremes<type, false>(x, n, least, most);
    } else {
      find_extremes<type, true>(x, n, least, most);
      head = F::head_for(most);
    }
    const int unit = F::unit_for(least);
    const std::size_t folds = F::needed(head, unit);
    bool exact = false;
    if (folds <= F::kMost && fits_narrow<term, type>(head, unit)) {
      if constexpr (sizeof *x == 2) exact = fold_row_narrow<term, type>(x, n, head, limbs);
    } else if (folds == 2) {
      exact = fold_row<term, type, 2>(x, n, head, limbs);
    } else if (folds == 3) {
      if constexpr (F::kMost >= 3) exact = fold_row<term, type, 3>(x, n, head, limbs);
    } else if (folds == 4) {
      if constexpr (F::kMost == 4) exact = fold_row<term, type, 4>(x, n, head, limbs);
    }
    if (exact) return;
    if (!guessed) break;
  }
  limbs.exponent[0] = kNotExact;
  head = kNoHead;
}

template <Term term, Type type>
std::size_t exact_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                       std::size_t columns, const Limbs& limbs, void*) {
  int head = kNoHead;
  for (std::size_t row = 0; row < rows; ++row) {
    exact_row<term, type>(row_of<type>(data, row_stride, row), columns, limbs + row, head);
  }
  return Fold<term, type>::kMost;
}

}  // namespace
}  // namespace halfulp
