// The table of reductions: what each is made of, and what ONNX says of its operator.
// May include finish.h, formats.h, operations.h and terms.h only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "finish.h"
#include "formats.h"
#include "operations.h"
#include "terms.h"

namespace halfulp {

// A set of element types, a bit for each.
using TypeSet = std::uint32_t;

constexpr TypeSet set_of(Type type) { return TypeSet{1} << static_cast<int>(type); }
constexpr TypeSet set_of(SmallType type) { return TypeSet{1} << static_cast<int>(type); }

constexpr TypeSet all_types() {
  TypeSet all = 0;
  for (const Format& format : kFormats) all |= set_of(format.type);
  return all;
}

constexpr TypeSet float_types() {
  TypeSet floats = 0;
  for (const Format& format : kFormats) floats |= format.is_float ? set_of(format.type) : 0;
  return floats;
}

inline constexpr TypeSet kAllTypes = all_types();
inline constexpr TypeSet kAllButBfloat16 = kAllTypes & ~set_of(Type::bfloat16);
inline constexpr TypeSet kBytes = set_of(SmallType::int8) | set_of(SmallType::uint8);

enum class AxesPlace { none, attribute, input };

// A version of an operator.
struct Version {
  int since = 0;  // the opset that introduced it; 0 if there is none
  AxesPlace axes = AxesPlace::none;
  bool noop_with_empty_axes = false;  // whether there is such an attribute
  TypeSet types = 0;
};

struct Versions {
  static constexpr std::size_t kMost = 8;
  Version rows[kMost];

  constexpr const Version* begin() const { return rows; }
  constexpr const Version* end() const {
    const Version* end = rows;
    while (end < rows + kMost && end->since > 0) ++end;
    return end;
  }

  // Whether any of them has it.
  constexpr bool have(AxesPlace axes) const {
    bool any = false;
    for (const Version& version : *this) any |= version.axes == axes;
    return any;
  }
  constexpr bool have_noop_with_empty_axes() const {
    bool any = false;
    for (const Version& version : *this) any |= version.noop_with_empty_axes;
    return any;
  }
  constexpr TypeSet types() const {
    TypeSet all = 0;
    for (const Version& version : *this) all |= version.types;
    return all;
  }
};

// A row of the table.
struct Reduction {
  const char* name;           // Python's
  const char* operator_name;  // ONNX's
  Operation operation;
  Term term;
  Finish finish;
  double ord;  // of the norm that it is; 0 if it is none
  Versions versions;
};

inline constexpr Versions kAxesFrom13{{{1, AxesPlace::attribute, false, kAllButBfloat16},
                                       {11, AxesPlace::attribute, false, kAllButBfloat16},
                                       {13, AxesPlace::input, true, kAllTypes}}};
inline constexpr Versions kAxesFrom18{{{1, AxesPlace::attribute, false, kAllButBfloat16},
                                       {11, AxesPlace::attribute, false, kAllButBfloat16},
                                       {13, AxesPlace::attribute, false, kAllTypes},
                                       {18, AxesPlace::input, true, kAllTypes}}};

inline constexpr Versions kFloatsFrom28{{{1, AxesPlace::attribute, false, kAllButBfloat16},
                                         {11, AxesPlace::attribute, false, kAllButBfloat16},
                                         {13, AxesPlace::attribute, false, kAllTypes},
                                         {18, AxesPlace::input, true, kAllTypes},
                                         {28, AxesPlace::input, true, float_types()}}};

inline constexpr Versions kBytesFrom12{
    {{1, AxesPlace::attribute, false, kAllButBfloat16},
     {11, AxesPlace::attribute, false, kAllButBfloat16},
     {12, AxesPlace::attribute, false, kAllButBfloat16 | kBytes},
     {13, AxesPlace::attribute, false, kAllTypes | kBytes},
     {18, AxesPlace::input, true, kAllTypes | kBytes},
     {20, AxesPlace::input, true, kAllTypes | kBytes | set_of(SmallType::boolean)}}};

inline constexpr double kInfiniteOrd = std::numeric_limits<double>::infinity();

#define REDUCTION(name, operator_name, operation, term, finish, ord, versions) \
  {#name, operator_name, Operation::operation, Term::term, Finish::finish, ord, versions},
#define NUMPY_REDUCTION(name, operation, term, finish, ord)
inline constexpr Reduction kReductions[] = {
#include "reductions.inc"
};
#undef REDUCTION
#undef NUMPY_REDUCTION

// Those that only the NumPy face has: they have no operator and no versions.
#define REDUCTION(name, operator_name, operation, term, finish, ord, versions)
#define NUMPY_REDUCTION(name, operation, term, finish, ord) \
  {#name, "", Operation::operation, Term::term, Finish::finish, ord, {}},
inline constexpr Reduction kNumpyReductions[] = {
#include "reductions.inc"
};
#undef REDUCTION
#undef NUMPY_REDUCTION

// Whether results are elements, so that they have the type of these.
constexpr bool gives_elements(Operation operation, Term term) {
  return (operation == Operation::max || operation == Operation::min) && term == Term::value;
}

// The type of results of elements that are read as `type`, if no other is asked for, as NumPy
// has it: that of floats, and for integers 64 bits or, of means and norms, float64.
inline Type default_result(const Reduction& reduction, const Format& type) {
  if (type.is_float) return type.type;
  if (reduction.finish != Finish::none || reduction.ord != 0) return Type::float64;
  return type.is_signed ? Type::int64 : Type::uint64;
}

// No sum below 0 has a root.
constexpr bool roots_are_of_sizes() {
  bool all = true;
  for (const Reduction& row : kReductions) {
    all &= row.finish != Finish::root || !facts_of(row.term).is_signed;
  }
  return all;
}
static_assert(roots_are_of_sizes());

// The row of a name, or null.
inline const Reduction* find_reduction(const char* name) {
  for (const Reduction& reduction : kReductions) {
    if (std::strcmp(reduction.name, name) == 0) return &reduction;
  }
  for (const Reduction& reduction : kNumpyReductions) {
    if (std::strcmp(reduction.name, name) == 0) return &reduction;
  }
  return nullptr;
}

}  // namespace halfulp
