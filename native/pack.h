// Copies of strided elements, side by side, aligned and in native byte order.
// May include formats.h only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats.h"

namespace halfulp {

template <class T>
T swap_bytes(T x) {
  if constexpr (sizeof x == 2) return static_cast<T>(__builtin_bswap16(x));
  if constexpr (sizeof x == 4) return __builtin_bswap32(x);
  if constexpr (sizeof x == 8) return __builtin_bswap64(x);
  return x;
}

// A bool of NumPy's, whose byte may be any.
struct Truth {
  std::uint8_t byte;
  operator std::int32_t() const { return byte != 0; }
};

// Copies elements as To. `fixed_stride`, if not 0, is the stride, known to the compiler.
template <class From, class To, bool swapped, std::ptrdiff_t fixed_stride>
void copy_elements(std::byte* to, const std::byte* from, std::int64_t rows,
                   std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride) {
  if (fixed_stride != 0) stride = fixed_stride;
  for (std::int64_t i = 0; i < rows; ++i, to += columns * sizeof(To)) {
    for (std::int64_t j = 0; j < columns; ++j) {
      From x;
      std::memcpy(&x, from + i * row_stride + j * stride, sizeof x);
      if constexpr (swapped) x = swap_bytes(x);
      const To copied = x;
      std::memcpy(to + j * sizeof copied, &copied, sizeof copied);
    }
  }
}

// Copies a matrix of elements of `bytes` bytes, of which rows are `row_stride` and elements
// of a row `stride` bytes apart.
inline void pack(std::byte* to, const std::byte* from, std::int64_t rows,
                 std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride,
                 std::int64_t bytes, bool byte_swapped) {
  const auto copy_as = [&](auto element) {
    using T = decltype(element);
    auto copy = &copy_elements<T, T, false, 0>;
    if (byte_swapped) {
      copy = &copy_elements<T, T, true, 0>;
    } else if (stride == sizeof(T)) {
      copy = &copy_elements<T, T, false, sizeof(T)>;
    } else if (stride == 2 * sizeof(T)) {
      copy = &copy_elements<T, T, false, 2 * sizeof(T)>;
    }
    copy(to, from, rows, row_stride, columns, stride);
  };
  switch (bytes) {
    case 1:
      return copy_as(std::uint8_t{});
    case 2:
      return copy_as(std::uint16_t{});
    case 4:
      return copy_as(std::uint32_t{});
    case 8:
      return copy_as(std::uint64_t{});
  }
}

// Copies rows of elements of `bytes` bytes as columns: element k of row i becomes element i of
// row k, where rows of the copy have so many elements.
inline void transpose(std::byte* to, std::int64_t to_row, const std::byte* from,
                      std::int64_t rows, std::ptrdiff_t row_stride, std::int64_t columns,
                      std::int64_t bytes) {
  const auto copy_as = [&](auto element) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        std::memcpy(&element, from + i * row_stride + k * sizeof element, sizeof element);
        std::memcpy(to + (k * to_row + i) * sizeof element, &element, sizeof element);
      }
    }
  };
  if (bytes == 2) copy_as(std::uint16_t{});
  if (bytes == 4) copy_as(std::uint32_t{});
  if (bytes == 8) copy_as(std::uint64_t{});
}

// As pack, of small elements, as those of the type that they are read as.
inline void widen(std::byte* to, const std::byte* from, std::int64_t rows,
                  std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride,
                  SmallType type, bool byte_swapped) {
  const auto copy_from = [&](auto element, auto read) {
    using From = decltype(element);
    using To = decltype(read);
    auto copy = &copy_elements<From, To, false, 0>;
    if (stride == sizeof(From)) copy = &copy_elements<From, To, false, sizeof(From)>;
    if constexpr (sizeof(From) > 1) {
      if (byte_swapped) copy = &copy_elements<From, To, true, 0>;
    }
    copy(to, from, rows, row_stride, columns, stride);
  };
  switch (type) {
    case SmallType::uint8:
      return copy_from(std::uint8_t{}, std::uint32_t{});
    case SmallType::int8:
      return copy_from(std::int8_t{}, std::int32_t{});
    case SmallType::uint16:
      return copy_from(std::uint16_t{}, std::uint32_t{});
    case SmallType::int16:
      return copy_from(std::int16_t{}, std::int32_t{});
    case SmallType::boolean:
      return copy_from(Truth{}, std::int32_t{});
  }
}

// Makes packed elements `other` that do not count. A mask says true by any byte but 0; `counts`
// is what it says of those that do. `fixed_stride` as above.
template <class T, std::ptrdiff_t fixed_stride>
void blank_elements(std::byte* elements, const std::byte* mask, std::int64_t columns,
                    std::ptrdiff_t stride, bool counts, T other) {
  if (fixed_stride != 0) stride = fixed_stride;
  const T none = counts ? 0 : static_cast<T>(-1);
  for (std::int64_t j = 0; j < columns; ++j) {
    const T says = mask[j * stride] == std::byte{0} ? 0 : static_cast<T>(-1);
    T x;
    std::memcpy(&x, elements + j * sizeof x, sizeof x);
    x = static_cast<T>(other ^ ((x ^ other) & (says ^ none)));
    std::memcpy(elements + j * sizeof x, &x, sizeof x);
  }
}

// The same of a matrix of elements of `bytes` bytes, with the strides of its mask.
inline void blank(std::byte* elements, const std::byte* mask, std::int64_t rows,
                  std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride,
                  std::int64_t bytes, bool counts, std::uint64_t other) {
  const auto blank_as = [&](auto element) {
    using T = decltype(element);
    const auto bits = static_cast<T>(other);
    const auto blank_row = stride == 1 ? &blank_elements<T, 1> : &blank_elements<T, 0>;
    for (std::int64_t i = 0; i < rows; ++i) {
      std::byte* const row = elements + i * columns * bytes;
      const std::byte* const says = mask + i * row_stride;
      if (stride != 0) {
        blank_row(row, says, columns, stride, counts, bits);
      } else if ((*says != std::byte{0}) != counts) {
        for (std::int64_t j = 0; j < columns; ++j) {
          std::memcpy(row + j * sizeof bits, &bits, sizeof bits);
        }
      }
    }
  };
  switch (bytes) {
    case 1:
      return blank_as(std::uint8_t{});
    case 2:
      return blank_as(std::uint16_t{});
    case 4:
      return blank_as(std::uint32_t{});
    case 8:
      return blank_as(std::uint64_t{});
  }
}

}  // namespace halfulp
