// Copies of strided elements, side by side, aligned and in native byte order.
// Includes nothing of halfulp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace halfulp {
namespace {

template <class T>
T swap_bytes(T x) {
  if constexpr (sizeof x == 2) return __builtin_bswap16(x);
  if constexpr (sizeof x == 4) return __builtin_bswap32(x);
  if constexpr (sizeof x == 8) return __builtin_bswap64(x);
}

// `fixed_stride`, if not 0, is the stride, known to the compiler.
template <class T, bool swapped, std::ptrdiff_t fixed_stride>
void copy_elements(std::byte* target, const std::byte* source, std::int64_t rows,
                   std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride) {
  if (fixed_stride != 0) stride = fixed_stride;
  for (std::int64_t i = 0; i < rows; ++i, target += columns * sizeof(T)) {
    for (std::int64_t j = 0; j < columns; ++j) {
      T x;
      std::memcpy(&x, source + i * row_stride + j * stride, sizeof x);
      if (swapped) x = swap_bytes(x);
      std::memcpy(target + j * sizeof x, &x, sizeof x);
    }
  }
}

// Copies a matrix of elements of `bytes` bytes, of which rows are `row_stride` and elements
// of a row `stride` bytes apart.
inline void pack(std::byte* target, const std::byte* source, std::int64_t rows,
                 std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride,
                 std::int64_t bytes, bool byte_swapped) {
  const auto copy_as = [&](auto element) {
    using T = decltype(element);
    auto copy = &copy_elements<T, false, 0>;
    if (byte_swapped) {
      copy = &copy_elements<T, true, 0>;
    } else if (stride == 2 * sizeof(T)) {
      copy = &copy_elements<T, false, 2 * sizeof(T)>;
    }
    copy(target, source, rows, row_stride, columns, stride);
  };
  switch (bytes) {
    case 2:
      return copy_as(std::uint16_t{});
    case 4:
      return copy_as(std::uint32_t{});
    case 8:
      return copy_as(std::uint64_t{});
  }
}

}  // namespace
}  // namespace halfulp
