// Kernels for the greatest and the least of elements, or of their sizes. Elements become keys:
// integers as wide as they are, in an order in which a NaN of any sign stands before all others
// and -0 below +0. Joining a key twice changes nothing, so that what is left of a row at its
// end is read in a last vector that overlaps the one before. May include dispatch.h and simd.h
// only. Internal linkage: see simd.h.
#pragma once

#include <limits>
#include <type_traits>

#include "../dispatch.h"
#include "simd.h"

namespace halfulp {
namespace {

template <class T, std::size_t bytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(bytes)));
};

template <Order order>
struct OrderedAs;
template <>
struct OrderedAs<Order::uint8> {
  using Integer = std::uint8_t;
};
template <>
struct OrderedAs<Order::int8> {
  using Integer = std::int8_t;
};
template <>
struct OrderedAs<Order::uint16> {
  using Integer = std::uint16_t;
};
template <>
struct OrderedAs<Order::int16> {
  using Integer = std::int16_t;
};
template <>
struct OrderedAs<Order::uint32> {
  using Integer = std::uint32_t;
};
template <>
struct OrderedAs<Order::int32> {
  using Integer = std::int32_t;
};
template <>
struct OrderedAs<Order::uint64> {
  using Integer = std::uint64_t;
};
template <>
struct OrderedAs<Order::int64> {
  using Integer = std::int64_t;
};
template <>
struct OrderedAs<Order::bfloat16> {
  using Integer = std::int16_t;
  static constexpr Type kType = Type::bfloat16;
};
template <>
struct OrderedAs<Order::float16> {
  using Integer = std::int16_t;
  static constexpr Type kType = Type::float16;
};
template <>
struct OrderedAs<Order::float32> {
  using Integer = std::int32_t;
  static constexpr Type kType = Type::float32;
};
template <>
struct OrderedAs<Order::float64> {
  using Integer = std::int64_t;
  static constexpr Type kType = Type::float64;
};

// The keys of integers: they themselves, or their sizes, which have no sign.
template <Operation operation, Term term, Order order, bool is_float>
struct KeysOf {
  using Element = typename OrderedAs<order>::Integer;
  static constexpr bool kSizes = term == Term::magnitude && std::is_signed_v<Element>;
  using Key = std::conditional_t<kSizes, std::make_unsigned_t<Element>, Element>;

  template <class Elements, class Keys>
  static Keys of(Elements x) {
    if constexpr (kSizes) {
      const auto below = static_cast<Elements>(x < 0);  // all bits of those below 0
      return (Keys)(x ^ below) - (Keys)below;
    } else {
      return x;
    }
  }
  static Key of_one(Element x) {
    return static_cast<Key>(kSizes && x < 0 ? Key{0} - static_cast<Key>(x)
                                            : static_cast<Key>(x));
  }
  static Key element(Key key) { return key; }

  // That of no elements, and the element that has it.
  static constexpr Key kNone = operation == Operation::max ? std::numeric_limits<Key>::min()
                                                           : std::numeric_limits<Key>::max();
  static constexpr std::uint64_t none() {
    using Unsigned = std::make_unsigned_t<Element>;
    if (!kSizes) return static_cast<Unsigned>(kNone);
    // The greatest size is that of the least number.
    return operation == Operation::max
               ? 0
               : static_cast<Unsigned>(std::numeric_limits<Element>::min());
  }
};

// The keys of floats. Their bits, of sign and size, in two's complement are in the order of the
// numbers, from -inf at -infinity - 1 to +inf at infinity, with NaN beyond both. Turned by
// kTurn, the numbers stand together at one end, and all NaN at the other.
template <Operation operation, Term term, Order order>
struct KeysOf<operation, term, order, true> {
  using Element = typename OrderedAs<order>::Integer;
  using Key = Element;
  using Unsigned = std::make_unsigned_t<Element>;
  static constexpr Format kFormat = format_of(OrderedAs<order>::kType);
  static constexpr int kSign = 8 * sizeof(Element) - 1;
  static constexpr auto kSize = std::numeric_limits<Element>::max();  // the bits but the sign
  static constexpr auto kInfinity = static_cast<Unsigned>(kFormat.infinity());
  static constexpr bool kMax = operation == Operation::max;
  static constexpr bool kSizes = term == Term::magnitude;
  static constexpr auto kLeast = static_cast<Unsigned>(std::numeric_limits<Key>::min());
  static constexpr auto kTurn = static_cast<Key>(static_cast<Unsigned>(
      kMax ? (kSizes ? 0 : kLeast + kInfinity + 1) : kLeast - kInfinity - 1));

  template <class Elements, class Keys>
  static Keys of(Elements x) {
    typedef typename VectorOf<Unsigned, sizeof x>::Type Bits;
    const Elements ordered = kSizes ? x & kSize : x ^ ((x >> kSign) & kSize);
    return (Keys)((Bits)ordered + static_cast<Unsigned>(kTurn));
  }
  static Key of_one(Element x) {
    const auto ordered = static_cast<Element>(kSizes ? x & kSize : x ^ ((x >> kSign) & kSize));
    return static_cast<Key>(
        static_cast<Unsigned>(static_cast<Unsigned>(ordered) + static_cast<Unsigned>(kTurn)));
  }
  static Key element(Key key) {
    const auto ordered = static_cast<Key>(
        static_cast<Unsigned>(static_cast<Unsigned>(key) - static_cast<Unsigned>(kTurn)));
    const auto x = static_cast<Key>(kSizes ? ordered : ordered ^ ((ordered >> kSign) & kSize));
    const auto size = static_cast<Unsigned>(x & kSize);
    return size > kInfinity ? static_cast<Key>(kFormat.quiet_nan()) : x;
  }

  static constexpr std::uint64_t none() {
    return kMax ? (kSizes ? 0 : static_cast<Unsigned>(kInfinity | kLeast)) : kInfinity;
  }
  static constexpr Key kNone = kMax ? (kSizes ? Key{0} : std::numeric_limits<Key>::min())
                                    : std::numeric_limits<Key>::max();
};

constexpr bool is_float(Order order) { return order >= Order::bfloat16; }

template <Operation operation, Term term, Order order>
struct MaxMin {
  using Keys = KeysOf<operation, term, order, is_float(order)>;
  using Element = typename Keys::Element;
  using Key = typename Keys::Key;
  template <std::size_t bytes>
  using Elements = typename VectorOf<Element, bytes>::Type;
  template <std::size_t bytes>
  using Vector = typename VectorOf<Key, bytes>::Type;

  static constexpr std::size_t kLeastBytes = 16;  // of a vector; fewer elements go one by one

  template <class V>
  static V join(V a, V b) {
    if constexpr (operation == Operation::max) return a > b ? a : b;
    return a < b ? a : b;
  }
  template <std::size_t bytes>
  static Vector<bytes> load(const Element* x) {
    return Keys::template of<Elements<bytes>, Vector<bytes>>(load_vector<Elements<bytes>>(x));
  }

  // The one that all keys of a vector join to.
  template <std::size_t bytes>
  static Key whole(Vector<bytes> keys) {
    if constexpr (bytes > kLeastBytes) {
      Vector<bytes / 2> halves[2];
      std::memcpy(halves, &keys, sizeof halves);
      return whole<bytes / 2>(join(halves[0], halves[1]));
    } else {
      typedef typename VectorOf<std::uint64_t, bytes>::Type Words;
      const Words words = (Words)keys;
      keys = join(keys, (Vector<bytes>)__builtin_shufflevector(words, words, 1, 0));
      for (std::size_t bits = 32; bits >= 8 * sizeof(Key); bits /= 2) {
        keys = join(keys, (Vector<bytes>)((Words)keys >> bits));
      }
      return keys[0];
    }
  }

  static const Element* row_at(const std::byte* data, std::ptrdiff_t row_stride,
                               std::size_t row) {
    return reinterpret_cast<const Element*>(data +
                                            static_cast<std::ptrdiff_t>(row) * row_stride);
  }

  // The key of n elements, at least a vector of them.
  template <std::size_t bytes>
  static Key of_row(const Element* x, std::size_t n) {
    constexpr std::size_t kCount = bytes / sizeof(Element);
    const Element* const last = x + n - kCount;
    Vector<bytes> keys = load<bytes>(x);
    if (n >= 4 * kCount) {
      Vector<bytes> lanes[4] = {keys, keys, keys, keys};
      for (; n >= 4 * kCount; n -= 4 * kCount, x += 4 * kCount) {
        for (std::size_t i = 0; i < 4; ++i) {
          lanes[i] = join(lanes[i], load<bytes>(x + i * kCount));
        }
      }
      keys = join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3]));
    }
    for (; x < last; x += kCount) keys = join(keys, load<bytes>(x));
    return whole<bytes>(join(keys, load<bytes>(last)));
  }

  // The same of few elements, of so many bytes at least and at most twice as many.
  template <class Half>
  static Key of_short_row(const Element* x, std::size_t n) {
    Half halves[kLeastBytes / sizeof(Half)];
    const Half end =
        load_vector<Half>(reinterpret_cast<const std::byte*>(x + n) - sizeof(Half));
    for (Half& half : halves) half = end;
    std::memcpy(halves, x, sizeof(Half));
    return whole<kLeastBytes>(load<kLeastBytes>(reinterpret_cast<const Element*>(halves)));
  }

  static void rows(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                   std::size_t columns, std::byte* keys, bool fresh) {
    auto* const to = reinterpret_cast<Key*>(keys);
    for (std::size_t row = 0; row < rows; ++row) {
      const Element* const x = row_at(data, row_stride, row);
      Key key = Keys::kNone;
      if (columns * sizeof(Element) >= kVectorBytes) {
        key = of_row<kVectorBytes>(x, columns);
      } else if (columns * sizeof(Element) >= kLeastBytes) {
        key = of_row<kLeastBytes>(x, columns);
      } else if (columns * sizeof(Element) >= sizeof(std::uint64_t)) {
        key = of_short_row<std::uint64_t>(x, columns);
      } else if (columns * sizeof(Element) >= sizeof(std::uint32_t)) {
        key = of_short_row<std::uint32_t>(x, columns);
      } else {
        for (std::size_t j = 0; j < columns; ++j) key = join(key, Keys::of_one(x[j]));
      }
      to[row] = fresh ? key : join(key, to[row]);
    }
  }

  static constexpr std::size_t kRowsPerPass = 8;

  template <std::size_t bytes>
  static void pass(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                   std::size_t columns, Key* to, bool fresh) {
    constexpr std::size_t kCount = bytes / sizeof(Element);
    const auto join_at = [&](std::size_t j) {
      Vector<bytes> keys = load<bytes>(row_at(data, row_stride, 0) + j);
      if (!fresh) keys = join(keys, load_vector<Vector<bytes>>(to + j));
      if (rows == kRowsPerPass) {
        for (std::size_t row = 1; row < kRowsPerPass; ++row) {
          keys = join(keys, load<bytes>(row_at(data, row_stride, row) + j));
        }
      } else {
        for (std::size_t row = 1; row < rows; ++row) {
          keys = join(keys, load<bytes>(row_at(data, row_stride, row) + j));
        }
      }
      store_vector(to + j, keys);
    };
    const std::size_t last = columns - kCount;
    for (std::size_t j = 0; j < last; j += kCount) join_at(j);
    join_at(last);
  }

  static void columns(const std::byte* data, std::ptrdiff_t row_stride, std::size_t rows,
                      std::size_t columns, std::byte* keys, bool fresh) {
    auto* const to = reinterpret_cast<Key*>(keys);
    if (columns * sizeof(Element) < kLeastBytes) {
      for (std::size_t j = 0; j < columns; ++j) {
        Key key = fresh ? Keys::kNone : to[j];
        for (std::size_t row = 0; row < rows; ++row) {
          key = join(key, Keys::of_one(row_at(data, row_stride, row)[j]));
        }
        to[j] = key;
      }
      return;
    }
    const bool wide = columns * sizeof(Element) >= kVectorBytes;
    for (std::size_t row = 0; row < rows; row += kRowsPerPass) {
      const std::size_t n = rows - row < kRowsPerPass ? rows - row : kRowsPerPass;
      const auto* const first =
          reinterpret_cast<const std::byte*>(row_at(data, row_stride, row));
      const auto pass_of = wide ? &pass<kVectorBytes> : &pass<kLeastBytes>;
      pass_of(first, row_stride, n, columns, to, fresh && row == 0);
    }
  }

  // Joins n keys to others.
  static void join_keys(const std::byte* more, std::size_t n, std::byte* keys) {
    const auto* const from = reinterpret_cast<const Key*>(more);
    auto* const to = reinterpret_cast<Key*>(keys);
    for (std::size_t i = 0; i < n; ++i) to[i] = join(to[i], from[i]);
  }

  // Makes n keys those of no elements.
  static void clear(std::size_t n, std::byte* keys) {
    auto* const to = reinterpret_cast<Key*>(keys);
    for (std::size_t i = 0; i < n; ++i) to[i] = Keys::kNone;
  }

  // Makes n keys the elements that have them: sizes, or NaN as the one that is returned.
  static void elements(std::size_t n, std::byte* keys) {
    auto* const at = reinterpret_cast<Key*>(keys);
    for (std::size_t i = 0; i < n; ++i) at[i] = Keys::element(at[i]);
  }
};

}  // namespace
}  // namespace halfulp
