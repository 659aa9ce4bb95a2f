// Terms of vectors of elements: all that a kernel knows of a term, besides its facts.
// May include simd.h and terms.h only. Internal linkage: see simd.h.
#pragma once

#include "../terms.h"
#include "simd.h"

namespace halfulp {
namespace {

// A term is a struct of its own.
template <Term term>
struct TermVectors;

// The element `i` of 32 bits of each word is its low half, with a sign or without.
template <Type type>
inline Wide widen_low_half(Wide x) {
  const Wide low = x & 0xffffffff;
  // Two's complement: a number of which the highest bit is set is 2^32 less.
  return format_of(type).is_signed ? (low ^ 0x80000000) - 0x80000000 : low;
}

template <>
struct TermVectors<Term::square> : TermOf<Term::square> {
  // The terms of x added to a sum: rounded once, or first to the sum's format where the
  // processor has no fused operation. The same if the terms are exact in that.
  static constexpr bool kAddsFused = kHasFma;
  static Vector add(Vector x, Vector sum) { return multiply_add(x, x, sum); }
  static Narrow add(Narrow x, Narrow sum) { return multiply_add(x, x, sum); }
  static Narrow of(Narrow x) { return x * x; }

  // The terms of float64 are p + e, p rounded: exactly if e is a multiple of 2^-1074, else to
  // within 2^-1073. Proved in docs/exactness.md#squares.
  static void split(Vector x, Vector& p, Vector& e) {
    p = x * x;
    if constexpr (kHasFma) {
      e = multiply_add(x, x, -p);
    } else {
      // Dekker's product, split after Veltkamp. Where the split overflows, so does p.
      const Vector scaled = x * 0x1.0000002p27;
      const Vector high = scaled - (scaled - x);
      const Vector low = x - high;
      e = ((high * high - p) + (high * low) * 2.0) + low * low;
    }
  }

  // What a term may lose by underflow, with all that depends on it: of float64, where
  // arithmetic with 2^-1073 itself would be slow; of a half type in binary32, flushed or not.
  static constexpr double kUnderflow = 0x1p-1020;  // of products
  template <Type type>
  static constexpr double kUnderflow32 = type == Type::bfloat16 ? 0x1p-125 : 0;

  // The terms modulo 2^64 of integers of a type: in 64-bit integers, of which those of 32 bits
  // are the low halves. Proved in docs/exactness.md#integers.
  template <Type type>
  static Wide residue(Wide x) {
    if constexpr (type == Type::int32) {
      return multiply_signed_low_halves(x, x);
    } else if constexpr (type == Type::uint32) {
      return multiply_low_halves(x, x);
    } else {
      return square_wide(x);
    }
  }

  // Adds the same terms, not modulo anything, to sums of their halves of 32 bits, each of which
  // grows by less than 2^34.
  template <Type type>
  static void add_halves(Wide x, Wide* half) {
    if constexpr (sizeof(Bits<type>) == 4) {
      const Wide square = residue<type>(x);
      half[0] += square & 0xffffffff;
      half[1] += square >> 32;
    } else {
      if constexpr (format_of(type).is_signed) {
        const Wide sign = (Wide)((Mask)x >> 63);
        x = (x ^ sign) - sign;
      }
      const Wide high = x >> 32;
      const Wide low_square = multiply_low_halves(x, x);
      const Wide product = multiply_low_halves(x, high);
      const Wide high_square = multiply_low_halves(high, high);
      const Wide product_low = product & 0xffffffff;
      const Wide product_high = product >> 32;
      half[0] += low_square & 0xffffffff;
      half[1] += (low_square >> 32) + (product_low + product_low);
      half[2] += (high_square & 0xffffffff) + (product_high + product_high);
      half[3] += high_square >> 32;
    }
  }
};

template <>
struct TermVectors<Term::magnitude> : TermOf<Term::magnitude> {
  // Terms are numbers of the format of their elements, so that nothing is lost but by adding.
  // Proved in docs/exactness.md#magnitudes.
  static constexpr bool kAddsFused = true;
  static Vector add(Vector x, Vector sum) { return size_of(x) + sum; }
  static Narrow add(Narrow x, Narrow sum) { return of(x) + sum; }
  static Narrow of(Narrow x) { return size_of(x); }

  static void split(Vector x, Vector& p, Vector& e) {
    p = size_of(x);
    e = Vector{};
  }

  // Of bfloat16 in binary32, elements below 2^-126 may be flushed. Bounds are products that
  // underflow, of float64, as small as that.
  static constexpr double kUnderflow = TermVectors<Term::square>::kUnderflow;
  template <Type type>
  static constexpr double kUnderflow32 = TermVectors<Term::square>::template kUnderflow32<type>;

  // Two's complement: the least number is its own residue, and 2^31 or 2^63 without its sign.
  template <Type type>
  static Wide residue(Wide x) {
    if constexpr (sizeof(Bits<type>) == 4) {
      if constexpr (format_of(type).is_signed) {
        // Without sign, as the least number less its sign overflows.
        typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));
        const auto sign = (Words)((SignedOf<4>::Integers)x >> 31);
        x = (Wide)(((Words)x ^ sign) - sign);
      }
      return x & 0xffffffff;
    } else {
      if constexpr (!format_of(type).is_signed) return x;
      const Wide sign = (Wide)((Mask)x >> 63);
      return (x ^ sign) - sign;
    }
  }

  template <Type type>
  static void add_halves(Wide x, Wide* half) {
    const Wide size = residue<type>(x);
    half[0] += size & 0xffffffff;
    if constexpr (sizeof(Bits<type>) == 8) half[1] += size >> 32;
  }
};

template <>
struct TermVectors<Term::value> : TermOf<Term::value> {
  static constexpr bool kAddsFused = true;
  static Vector add(Vector x, Vector sum) { return x + sum; }
  static Narrow add(Narrow x, Narrow sum) { return x + sum; }
  static Narrow of(Narrow x) { return x; }

  static void split(Vector x, Vector& p, Vector& e) {
    p = x;
    e = Vector{};
  }

  // Sums never err by underflow, but bounds of binary64 sums may. Proved in
  // docs/exactness.md#signed-sums.
  static constexpr double kUnderflow = 0x1p-1020;
  template <Type type>
  static constexpr double kUnderflow32 = 0;

  template <Type type>
  static Wide residue(Wide x) {
    return sizeof(Bits<type>) == 4 ? widen_low_half<type>(x) : x;
  }

  // Adds the values to sums of their halves, of which the upper one has the sign.
  template <Type type>
  static void add_halves(Wide x, Wide* half) {
    if constexpr (sizeof(Bits<type>) == 4) {
      half[0] += residue<type>(x);
    } else {
      half[0] += x & 0xffffffff;
      half[1] += widen_low_half<type>(x >> 32);
    }
  }
};

// Terms of half types in binary32: magnitudes lose their signs when they are loaded.
template <Term term, Type type>
struct NarrowTerms : TermVectors<term> {
  static void load(const std::uint16_t* x, Narrow (&two)[2]) {
    load_two_narrow<type, term == Term::magnitude>(x, two);
  }

  static Narrow of(Narrow x) { return term == Term::magnitude ? x : TermVectors<term>::of(x); }

  // As a product with 1, which runs on other units than the conversions of float16.
  static Narrow add(Narrow x, Narrow sum) {
    if constexpr (term == Term::magnitude) {
      return kHasFma && type == Type::float16 ? multiply_add(x, Narrow{} + 1, sum) : x + sum;
    } else {
      return TermVectors<term>::add(x, sum);
    }
  }
};

}  // namespace
}  // namespace halfulp
