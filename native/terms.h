// Terms: what an element adds to a sum. Facts, and the terms of integers; those of vectors are
// in kernels/term_vectors.h. Knows no kernel and no finish. May include formats.h only.
#pragma once

#include <cstdint>

#include "formats.h"

namespace halfulp {

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

enum class Term { square, magnitude, value };

// A term is a struct of its own. The term of 0 is 0: what is padded with zeros stays the same.
template <Term term>
struct TermOf;

template <>
struct TermOf<Term::square> {
  static constexpr Term kTerm = Term::square;
  static constexpr const char* kName = "square";
  // Elements c times as large have terms c^kDegree times as large: multiples of 2^L have terms
  // that are multiples of 2^(kDegree * L), and p bits give kDegree * p.
  static constexpr int kDegree = 2;
  // Whether a term may be below 0: it has the sign of its element then. Where code needs that
  // none is, it asserts so: sums never decrease, and are as large as their terms are together.
  static constexpr bool kIsSigned = false;
  // The term of an integer of size m, without its sign.
  static constexpr uint128 size(std::uint64_t m) { return uint128{m} * m; }
};

// The size of the element: |x|.
template <>
struct TermOf<Term::magnitude> {
  static constexpr Term kTerm = Term::magnitude;
  static constexpr const char* kName = "magnitude";
  static constexpr int kDegree = 1;
  static constexpr bool kIsSigned = false;
  static constexpr uint128 size(std::uint64_t m) { return m; }
};

// The element itself.
template <>
struct TermOf<Term::value> {
  static constexpr Term kTerm = Term::value;
  static constexpr const char* kName = "value";
  static constexpr int kDegree = 1;
  static constexpr bool kIsSigned = true;
  static constexpr uint128 size(std::uint64_t m) { return m; }
};

// The same facts, for a term that is not known to the compiler.
struct TermFacts {
  Term term;
  const char* name;
  int degree;
  bool is_signed;
};

template <Term term>
constexpr TermFacts facts_as() {
  return {TermOf<term>::kTerm, TermOf<term>::kName, TermOf<term>::kDegree,
          TermOf<term>::kIsSigned};
}

inline constexpr TermFacts kTerms[] = {facts_as<Term::square>(), facts_as<Term::magnitude>(),
                                       facts_as<Term::value>()};

constexpr const TermFacts& facts_of(Term term) {
  for (const TermFacts& facts : kTerms) {
    if (facts.term == term) return facts;
  }
  __builtin_unreachable();
}

// Whether terms of floats of one type are numbers of another, unless they leave its range.
constexpr bool is_exact(Term term, Type type, Type as) {
  return facts_of(term).degree * format_of(type).precision <= format_of(as).precision;
}

// Calls call(TermOf<term>()).
template <class Call>
auto with_term(Term term, Call call) {
  switch (term) {
    case Term::square:
      return call(TermOf<Term::square>());
    case Term::magnitude:
      return call(TermOf<Term::magnitude>());
    case Term::value:
      return call(TermOf<Term::value>());
  }
  __builtin_unreachable();
}

}  // namespace halfulp
