// Kernels that tell the places of elements: of each output a power of two that all of its
// elements are multiples of, their unit, and the greatest size. Proved in
// docs/exactness.md#units.
// May include columns.h, dispatch.h, short_rows.h and what they include only. Internal linkage:
// see simd.h.
#pragma once

#include <limits>
#include <type_traits>

#include "../dispatch.h"
#include "columns.h"
#include "short_rows.h"

namespace halfulp {
namespace {

typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));

// Vectors of elements, in binary32 if they are numbers of it.
template <Type type>
using Places = std::conditional_t<type == Type::float64, Vector, Narrow>;

template <Type type>
constexpr std::size_t kPlaces = sizeof(Vector) / sizeof(Places<type>{}[0]);

template <Type type>
inline Places<type> load_places(const Bits<type>* x) {
  if constexpr (sizeof(Bits<type>) == 2) {
    return load_narrow<type>(x);
  } else {
    return load_vector<Places<type>>(x);
  }
}

// Of each element of a vector, among those that it saw: the least of their lowest places, and
// the greatest size, as the bits of numbers of V. Zeros have no lowest place.
template <class V>
struct Extent {
  using Signed = typename SignedOf<sizeof(V{}[0])>::Integers;
  using Number = typename SignedOf<sizeof(V{}[0])>::Integer;
  Signed least = Signed{} + std::numeric_limits<Number>::max();
  Signed most{};

  void step(V x) {
    using Unsigned = std::conditional_t<sizeof(V{}[0]) == 8, Wide, Words>;
    const auto bits = (Unsigned)x;
    // Less the lowest place; of a power of two at least half of it.
    const V less = (V)(bits & (bits - 1));
    const auto lowest = (Signed)size_of(x - less);
    least = lowest != 0 ? smaller(least, lowest) : least;
    most = greater(most, (Signed)size_of(x));
  }
  static Extent join(const Extent& a, const Extent& b) {
    return {smaller(a.least, b.least), greater(a.most, b.most)};
  }
  template <class Part>
  static Extent pick(const Extent& a, const Extent& b) {
    return {Part::of(a.least, b.least), Part::of(a.most, b.most)};
  }
};

// Adds what kWidth outputs' elements have to enclosures: hi is the unit, lo the greatest size.
inline void add_to_units(const Enclosures& units, bool fresh, std::size_t count, Vector least,
                         Vector most) {
  // NaN, if all are 0, counts as greater than any: least_of gives its second then.
  const Vector place = least_of(least, Vector{} + kGreatestUnit);
  const Vector unit = (Vector)((Wide)place & 0x7ff0000000000000);
  for (std::size_t i = 0; i < count; ++i) {
    units.hi[i] = fresh || unit[i] < units.hi[i] ? unit[i] : units.hi[i];
    units.lo[i] = fresh || !(most[i] <= units.lo[i]) ? most[i] : units.lo[i];
  }
}

template <class V>
inline void add_to_units(const Enclosures& units, bool fresh, std::size_t count,
                         const Extent<V>& extent) {
  const auto least = (V)extent.least;
  const auto most = (V)extent.most;
  if constexpr (sizeof(V{}[0]) == 8) {
    add_to_units(units, fresh, count, least, most);
  } else {
    const std::size_t first = count < kWidth ? count : kWidth;
    add_to_units(units, fresh, first, widen_low(least), widen_low(most));
    add_to_units(units + kWidth, fresh, count - first, widen_high(least), widen_high(most));
  }
}

template <Type type>
void units_of_rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                   std::size_t columns, const Enclosures& units, bool fresh, void*) {
  using Lane = Extent<Places<type>>;
  constexpr std::size_t kStride = kPlaces<type>;
  const auto add = [&](std::size_t row, std::size_t count, const Lane& extent) {
    add_to_units(units + row, fresh, count, extent);
  };
  if (columns < kShortRow) {
    return sum_groups<type, Lane, kStride, kStride>(
        {data, row_stride, rows, columns}, Lane(),
        [](const Bits<type>* x) { return load_places<type>(x); }, add);
  }
  for (std::size_t row = 0; row < rows; row += kStride) {
    const std::size_t count = rows - row < kStride ? rows - row : kStride;
    Lane lanes[kStride];
    for (std::size_t i = 0; i < count; ++i) {
      const Bits<type>* x = row_of<type>(data, row_stride, row + i);
      std::size_t n = columns;
      const Prefetch prefetch;
      Lane two[2];
      for (; n >= 2 * kStride; n -= 2 * kStride, x += 2 * kStride) {
        prefetch(x, 0);
        prefetch(x, kStride);
        two[0].step(load_places<type>(x));
        two[1].step(load_places<type>(x + kStride));
      }
      for (; n >= kStride; n -= kStride, x += kStride) two[0].step(load_places<type>(x));
      if (n > 0) {
        two[1].step(load_places<type>(Padded<kStride, Bits<type>>(x, n).elements));
      }
      lanes[i] = Lane::join(two[0], two[1]);
    }
    add(row, count, join_rows(lanes));
  }
}

template <Type type>
struct UnitsOfColumns {
  using Lane = Extent<Places<type>>;
  static constexpr std::size_t kRowsPerPass = 8;
  static constexpr std::size_t kColumns = kPlaces<type>;
  static constexpr std::size_t kLanesPerGroup = 1;

  template <class Get>
  static void add(Lane* lanes, bool fresh, std::size_t rows, Get get) {
    Lane lane = fresh ? Lane{} : *lanes;
    for (std::size_t row = 0; row < rows; ++row) lane.step(load_places<type>(get(row)));
    *lanes = lane;
  }
};

template <Type type>
void units_of_columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                      std::size_t columns, const Enclosures& units, bool fresh, void* scratch) {
  using Lane = Extent<Places<type>>;
  static_assert(sizeof(Lane) <= kLaneBytes * kPlaces<type>);
  auto* lanes = static_cast<Lane*>(scratch);
  pass_all<type, UnitsOfColumns<type>>(data, row_stride, rows, columns, true, lanes);
  for (std::size_t j = 0; j < columns; j += kPlaces<type>) {
    const std::size_t count = columns - j < kPlaces<type> ? columns - j : kPlaces<type>;
    add_to_units(units + j, fresh, count, lanes[j / kPlaces<type>]);
  }
}

}  // namespace
}  // namespace halfulp
