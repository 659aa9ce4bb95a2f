"""Breaks the bounds and rounding steps of the native core in turn: some test must fail.

    python tests/native/mutants.py [NUMBER ...]

Each mutant is built outside the source tree and run through run_cases.cpp, then, if it
is still alive, through some tests of exactness. It fails if a mutant survives without a
reason, or if one with a reason is killed. `make mutants` gives CMAKE_ARGS. HALFULP_SEED
is 1, so that runs can be compared.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build/mutants"
SOURCE, BUILD, SITE = WORK / "source", WORK / "build", WORK / "site"
CASES = WORK / "cases"
# What run_cases does not do as well, and faster.
EXACTNESS = [
    "tests/core/test_exactness.py",
    "tests/core/test_logarithms.py",
    "tests/core/test_log_sum_exp.py",
    "tests/core/test_state.py::test_a_state_is_exact_for_every_kernel_thread_count_and_layout",
    "tests/core/test_state.py::test_values_of_any_range_are_exact",
    "tests/core/test_state.py::test_values_of_changing_size_are_exact",
    "tests/core/test_state.py::test_more_than_2_to_the_62_terms_carry",
    "tests/core/test_state.py::test_integers_raise_where_they_do_not_fit",
    "tests/core/test_integers.py::test_sums_above_every_integer_type_are_rounded_too",
    "tests/core/test_integers.py::test_any_byte_but_0_of_a_bool_is_true",
    "tests/core/test_groups.py",
    "tests/core/test_max_min.py",
    "tests/core/test_moments.py",
    "tests/core/test_products.py",
    "tests/core/test_where.py::test_what_does_not_count_is_as_if_it_were_0",
    "tests/core/test_where.py::test_a_mean_is_of_as_many_elements_as_count",
    "tests/core/test_where.py::test_masks_are_broadcast",
    "tests/core/test_where.py::test_any_layout_of_data_and_mask",
    "tests/core/test_contract.py::test_8_modes_left_in_the_thread_change_no_bit_and_are_put_back",
    "-k",
    "not hard_rows_are_correctly_rounded and not 65536 and not integers_are_exact",
]
_LIMIT = 600  # seconds, for a mutant that loops for ever


@dataclass(frozen=True)
class Mutant:
    """A text of a file in native/, what stands there instead, and what that breaks."""

    file: str
    original: str
    mutated: str
    breaks: str
    # Why no test can tell, where none can: the result is the same.
    survives: str = ""


M = Mutant
MUTANTS = [
    # Enclosures.
    M("enclosure.h", "(lost < 0.0 ? -lost : lost) + (more < 0.0 ? -more : more)",
      "0 * lost",
      "the roundings of lo are not in the bound"),
    M("enclosure.h", "lo = two_sum(lo, r, more);", "more = V{};",
      "the rounding error of hi is lost"),
    M("enclosure.h", "std::int64_t{1} << 40", "std::int64_t{1} << 62",
      "more additions than the factor 1 + 2^-10 allows for",
      survives="2^40 terms take hours"),
    # Groups.
    M("groups.cpp", "bound += size_of(lost) * (1 / kU);", "",
      "the roundings of lo are not in the bound of a group"),
    M("groups.cpp", "bound += size_of(r) + size_of(lo) + read<V>(terms.lost + i);",
      "bound += 0 * read<V>(terms.lost + i);", "nor are those of squares"),
    M("groups.cpp", "r += read<V>(terms.low + i);", "",
      "a group loses the low parts of squares"),
    M("groups.cpp", "a != b && a != last", "a != last",
      "two terms of one group at once, of which one is lost"),
    M("groups.cpp", "a != last && b != last", "a != last",
      "a group is added to in memory while it is in registers"),
    M("groups.cpp", "terms.high[i] < kLeastSquare && x != 0 ? kLost : 0", "0",
      "what squares lose by underflow is not in the bound of a group"),
    M("groups.cpp", "input.type != Type::float64", "true",
      "an overflow of a group on the way is taken for that of its sum"),
    M("groups.cpp", "{carry} - std::uint64_t{subtract}", "{carry}",
      "integers below 0 do not borrow"),
    # Products.
    M("kernels/factors.h", "c = multiply_add(c, m, product_error(p, m, product));",
      "c = multiply_add(c, m, Vector{});", "the errors of steps are lost"),
    M("kernels/factors.h", "+ (a.p * b.c + a.c * b.p)", "+ a.p * b.c",
      "a join loses the low number of one"),
    M("kernels/factors.h", "size_of(p + c) | ((Wide)p & kSign)", "(p + c)",
      "a product that is -0 is 0"),
    M("kernels/factors.h", "kExponent = 0x7fc0000000000000",
      "kExponent = 0x7ff0000000000000",
      "infinite factors are made infinite or NaN by their power"),
    M("kernels/factors.h", "if (++steps % Factors::kMostSteps == 0) all.normalize();",
      "",
      "products of short rows leave the range",
      survives="so few factors only underflow where the result is 0 in any case"),
    M("scaled_product.h", "kLogProductError = -98", "kLogProductError = -140",
      "products have smaller bounds than errors"),
    M("scaled_product.h", "if (factors > kMostFactors) return false;", "",
      "more factors than the bound is proved for",
      survives="2^40 factors take hours"),
    M("whole_product.h", "cuts_ += cut != 0;", "", "what is cut is forgotten"),
    M("whole_product.h", "if (is_zero_) return;",
      "if (is_zero_) { is_zero_ = false; return; }",
      "a zero factor is forgotten"),
    M("products.cpp", "kNearExponent = 800", "kNearExponent = 1100",
      "products beyond the range of binary64 are rounded as numbers of it"),
    # One rounding.
    M("rounding.h", "if (exponent > format.emax) return",
      "if (exponent >= format.emax) return",
      "the last binade is infinite"),
    M("rounding.h", "(normal ? 0 : format.emin - exponent)", "0",
      "subnormal results keep too many bits"),
    M("rounding.h", "if (kept < 0) return 0;", "if (kept <= 0) return 0;",
      "sums between half the least subnormal and itself are 0"),
    M("rounding.h", "(rest == half && (sticky || (q & 1)))", "(rest == half && sticky)",
      "ties go down, not to even"),
    M("rounding.h", "(rest == half && (sticky || (q & 1)))", "(rest == half && (q & 1))",
      "what is just above a tie counts as a tie"),
    M("rounding.h", "if (rest > half ||", "if (rest >= half ||",
      "ties go up, not to even"),
    M("rounding.h", "if (r < 0) --m;", "", "what is just below a tie counts as above it"),
    M("rounding.h", "63 + scale, r != 0)", "63 + scale, false)",
      "the rest of a pair is forgotten"),
    # Both ends of the enclosure.
    M("results.h", "bound * (1 + 0x1p-9) + std::abs(s) *", "std::abs(s) *",
      "the bound does not count"),
    M("results.h", "+ std::abs(s) * 0x1p-100}", "}",
      "the roundings of interval_of and round_ends are not in the width"),
    M("results.h", "bound = lower;", "bound = 0;",
      "the lowest half of a sum of integers is not in its bound"),
    M("results.h", "std::abs(rounded) < 0x1p20", "std::abs(rounded) < 0x1p24",
      "a number of more bits than binary64 has is taken for exact"),
    M("results.h", "return {s, t, bound", "return {s, 0, bound",
      "the enclosure is not around the sum"),
    M("enclosure.h", "kLeastDecidable = 0x1p-900", "kLeastDecidable = 0x1p-1074",
      "sums are decided whose products underflowed",
      survives="bounds hold 2^-1020 for each term: what is so small is open anyway"),
    M("rounding.h", "return low == high;", "return true;",
      "an open enclosure is a guess"),
    M("results.h", "return sum.width == 0;", "return true;",
      "a sum that underflowed to nothing is 0"),
    M("results.h", "return infinite_is_final;", "return true;",
      "an overflow on the way is infinite"),
    M("rounding.h", "&& width + std::abs(t) < s * 0x1p-3)) return", ")) return",
      "enclosures as wide as their sum are rounded"),
    # Units.
    M("results.h", "if (unit > 0 && sum.width < unit / 2) {", "if (unit > 0) {",
      "a wide enclosure is taken for one multiple of the unit"),
    M("kernels/units.h", "least = lowest != 0 ? smaller(least, lowest) : least;",
      "least = lowest != 0 ? lowest : least;", "the unit is that of the last elements"),
    M("kernels/units.h", "const auto lowest = (Signed)size_of(x - less);",
      "const auto lowest = (Signed)size_of(x);", "the unit is the least size"),
    M("kernels/units.h", "most = greater(most, (Signed)size_of(x));", "most = Signed{};",
      "all elements seem to be 0"),
    M("kernels/units.h", "{smaller(a.least, b.least), greater(a.most, b.most)}", "a",
      "half of the lanes have no unit"),
    M("kernels/units.h", "fresh || unit[i] < units.hi[i] ? unit[i] : units.hi[i];",
      "unit[i];",
      "the unit is that of the last block"),
    M("kernels/units.h", "fresh || !(most[i] <= units.lo[i]) ? most[i] : units.lo[i];",
      "most[i];", "the greatest size is that of the last block"),
    M("sum.cpp", "std::min(sums.hi[i], more.hi[j]);", "more.hi[j];",
      "the unit is that of the last part"),
    M("sum.cpp", "std::max(more.lo[j], sums.lo[i]);", "more.lo[j];",
      "the greatest size is that of the last part"),
    # Sums known exactly.
    M("ladder.cpp", "all * (1 + 0x1p-9) <= bits * unit", "all <= 8 * bits * unit",
      "sums of 56 bits are taken for exact"),
    M("ladder.cpp", "narrow ? 0x1p24 : 0x1p53;", "0x1p53;",
      "sums in binary32 have 53 bits"),
    M("ladder.cpp", "narrow ? 0x1p-126 : kLeastDecidable;", "kLeastDecidable;",
      "sums of terms that were flushed to zero are taken for exact"),
    M("ladder.cpp", "term.is_signed ? static_cast<double>(terms_) * most", "false ? 0.0",
      "sums that cancelled are taken for exact"),
    M("kernels/round_tile.h", "rest_of_product(sum.s, q, count));", "Vector{});",
      "means of sums known exactly are rounded twice",
      survives="of less than 2^27 terms no quotient is so near to a midpoint"),
    M("kernels/round_tile.h", "rest_of_product(sum.s, q, q));", "Vector{});",
      "roots of sums known exactly are rounded twice"),
    M("kernels/round_tile.h", "return round_known<type>(sum.s, sum.t);",
      "return round_known<type>(sum.s, Vector{});",
      "the rest of a sum known exactly is forgotten"),
    M("kernels/round_tile.h", "known &= (Mask)(sum.t == 0.0);", "",
      "the rest of a sum that is finished is forgotten",
      survives="only a mean of 2^28 terms or more is so near to a midpoint"),
    M("kernels/round_tile.h", "known &= (Mask)(size < __builtin_inf());", "",
      "infinity and NaN are rounded as numbers"),
    M("kernels/round_tile.h", "known &= (Mask)(count > 0.0);", "",
      "the mean of nothing is any NaN"),
    M("kernels/round_tile.h", "return (beyond | is_tie) != 0 ? next : near;",
      "return near;", "means that are ties go to any side"),
    M("kernels/round_tile.h", "& (Mask)(((Wide)near & 1) != 0);", ";",
      "means that are ties go away from even"),
    M("kernels/round_tile.h", "(moved + (next - near) * 0.5) * n) + rest;",
      "(moved + (next - near) * 0.5) * n);",
      "the last bits of a sum do not count in its mean"),
    M("kernels/round_tile.h", "two_sum(rest_of_product(sum.s, q, n), sum.t, rest);",
      "two_sum(rest_of_product(sum.s, q, n), Vector{}, rest);",
      "the lower half of a sum does not count in its mean"),
    # Sums without rounding.
    M("kernels/short_rows.h", "if (!Inexact::raised() && Inexact::is_kept()) return;",
      "return;", "sums that were rounded are exact"),
    M("kernels/short_rows.h", "    if (!Inexact::raised()) {\n", "    {\n",
      "sums of few rows that were rounded are exact"),
    M("kernels/short_rows.h", "c += p - upper;", "",
      "the lower bits of elements are lost"),
    M("kernels/inexact.h", "kFlag = 0x21;", "kFlag = 0x20;",
      "a signalling NaN is infinite"),
    M("kernels/short_rows.h", "load(x + rest - width), false, rest)",
      "load(x + rest - width), false, width)", "elements are added twice"),
    M("kernels/short_rows.h",
      "keep<width>(load(matrix.row<type>(row + i)), true, columns)",
      "load(matrix.row<type>(row + i))", "short rows have the next row's elements"),
    M("kernels/short_rows.h",
      "enclosures.hi[i] * factor + Lane::underflow(matrix.columns);",
      "0;", "sums that were rounded have no bound"),
    M("kernels/round_tile.h", "(nearer_0 & between)) | (Wide)(between & 1));",
      "(nearer_0 & between)));", "the number below a value is not made odd"),
    M("kernels/round_tile.h", "(Mask)(lo < 0.0) ^ (Mask)(hi < 0.0);", "(Mask)(lo < 0.0);",
      "values below 0 are made odd on the wrong side"),
    M("kernels/round_tile.h", "__builtin_convertvector(between & 1, Integers);",
      "Integers{};", "half types are rounded twice"),
    M("kernels/round_tile.h",
      "(Integers)narrow + __builtin_convertvector(nearer_0, Integers)",
      "(Integers)narrow", "half types are rounded up before they are rounded"),
    # Exact sums.
    M("digits.h", "sticky = next << zeros != 0 ||", "sticky =",
      "the second digit of an exact sum does not break ties"),
    M("digits.h", " || any_of_first(value.digits, top - 1);", ";",
      "the lower digits of an exact sum do not break ties"),
    M("digits.h", "if (zeros > 0) m |= next >> (64 - zeros);", "",
      "the second digit of an exact sum is lost"),
    # Finishes.
    M("finish.h", "(rest_of_product(sum.s, q, n) + sum.t)", "sum.t",
      "the rest of a division is lost"),
    M("finish.h", "(rest_of_product(sum.s, q, q) + sum.t) * (0.5 * inverse);",
      "sum.t * (0.5 * inverse);", "the rest of a root is lost"),
    M("finish.h", "(rest_of_product(sum.s, q, q) + sum.t) * (0.5 * inverse);",
      "rest_of_product(sum.s, q, q) * (0.5 * inverse);",
      "the second number of a sum is lost in its root"),
    M("digits.h", "a_low * b_high) + a_low * b_low;", "a_low * b_high);",
      "a product of two halves is lost"),
    M("kernels/round_tile.h", "return {s, t - (s - q), sum.width * inverse};",
      "return {s, t - (s - q), Vector{}};", "what is finished is taken for exact"),
    M("kernels/round_tile.h", "return {q, Vector{}, sum.width * inverse};",
      "return {q, Vector{}, Vector{}};", "what is cheaply finished is taken for exact"),
    # Maxima and minima.
    M("kernels/keys.h", "kMax ? (kSizes ? 0 : kLeast + kInfinity + 1)",
      "kMax ? (kSizes ? 0 : kLeast + kInfinity)", "-inf is above all of a maximum"),
    M("kernels/keys.h", ": kLeast - kInfinity - 1", ": kLeast - kInfinity",
      "NaN and inf are not told apart in a minimum"),
    M("kernels/keys.h", "const Elements ordered = kSizes ? x & kSize : x ^",
      "const Elements ordered = kSizes ? x & kSize : x | 0 &",
      "floats below 0 are in the wrong order"),
    M("kernels/keys.h", "size > kInfinity ? static_cast<Key>(kFormat.quiet_nan()) : x",
      "x", "any NaN is returned"),
    M("kernels/keys.h", "return whole<bytes>(join(keys, load<bytes>(last)));",
      "return whole<bytes>(keys);", "the end of a row is forgotten"),
    M("kernels/keys.h", "    join_at(last);\n", "", "the last columns are forgotten"),
    M("max_min.cpp", "if (reshaped.rest.rows > 0)", "if (false)",
      "rows that are left of few columns are forgotten"),
    M("max_min.cpp", "kernel_.join(own.keys, n, keys);", "",
      "parts of threads are forgotten"),
    # Logarithms.
    M("logarithm.h", "(k * kLogOf2.low + log_of_inverse.low)", "log_of_inverse.low",
      "log 2 is short in logarithms"),
    M("logarithm.h", "scaled * c - rest_of_product(p, m, c)", "scaled * c",
      "a product before a logarithm is taken for exact"),
    M("logarithm.h", "scaled * c - rest_of_product(p, m, c)", "-rest_of_product(p, m, c)",
      "the second number of a sum is lost in its logarithm"),
    M("logarithm.h", "near_1 ? std::abs(z) * 0x1p-62 : 0x1p-67", "0x1p-67",
      "next to 1 logarithms are less exact",
      "what stays open is decided by more digits"),
    M("logarithm.h", "below.m == above.m && below.exponent == above.exponent", "true",
      "four digits are enough for every logarithm"),
    M("logarithm.h", "return {k < 0, {", "return {false, {", "logarithms have no sign"),
    M("reals.h", "artanh_of_inverse(places, 8749);\n  third.multiply(8);",
      "artanh_of_inverse(places, 8749);\n  third.multiply(7);", "log 2 is another"),
    M("reals.h", "(i % 2 == 0 ? even : odd).add(term);", "odd.add(term);",
      "a series has no signs"),
    M("kernels/exponentials.h", "multiply_add(k, fill(-kLogOf2), d)",
      "multiply_add(k, fill(-0x1.62e42fp-1), d)", "log 2 is short in plain exponentials"),
    M("dispatch.h", "kPlainExponential = 0x1p-35", "kPlainExponential = 0x1p-60",
      "plain exponentials are taken for better than they are"),
    M("kernels/exponentials.h", "r_low = (r_low + d_low)", "r_low = (r_low)",
      "what a shift rounds off is lost"),
    M("kernels/exponentials.h", "low = multiply_add(high + high, low, error);",
      "low = error;", "squares forget the second number"),
    M("kernels/exponentials.h", "1.25 * bound / x + 0x1p-40", "0x1p-60",
      "logarithms of many have no widths"),
    M("kernels/exponentials.h", "(m - 1.0) / (m + 1.0)", "(m - 1.0) / (m + 1.0000001)",
      "logarithms of many are wrong"),
    M("kernels/exponentials.h", "j = 13; j >= 3", "j = 7; j >= 3",
      "the series of logarithms of many is short"),
    M("kernels/exponentials.h", "is_nan != 0 ? fill(kNaN) : most", "most",
      "columns forget NaN"),
    M("log_results.h", "return as_great == 1;", "return true;",
      "of two that are as great one is forgotten"),
    M("log_results.h", "kFarScale = -1010", "kFarScale = -1009",
      "what is far below 0 is taken for twice as much"),
    M("log_results.h", "if (most < -800) {", "if (most < -500) {",
      "what is far below 0 is lost"),
    M("exponential_sums.h", "kMostExponent : 0)) return;", "kInfinity : 0)) return;",
      "shifts do not rise"),
    M("logarithm.h", "add_exactly(z.s, -0.5 * square, r)",
      "add_exactly(z.s, -0.25 * square, r)",
      "the logarithm of 1 and something more lacks its square"),
    M("results.h", "if (sum.s < -sum.width) {", "if (false) {",
      "sums below 0 are left to exact ones", "which say the same"),
    M("results.h", "if (negative) return format_.quiet_nan();\n        const Sized",
      "const Sized", "exact sums below 0 have logarithms"),
    M("ladder.cpp", "counts_ ? workspace.counts : nullptr", "nullptr",
      "means are of elements that do not count, too"),
    M("ladder.cpp", "terms_ - workspace.counts[i];", "workspace.counts[i];",
      "a mask that says what does not count is taken for its contrary"),
    M("finish.h", "return 1 / (root + 0x1p-600);", "return 1 / (root + 0x1p-400);",
      "small roots are taken for greater ones"),
    M("finish.h", "value.sticky || rest ||", "value.sticky ||",
      "what is left of a division does not break ties"),
    M("finish.h", "rest || any_of_first(sum.digits, top - 2);", "rest;",
      "the lower digits do not break ties of means"),
    M("finish.h", "three[0] << zeros != 0 || any_of_first(sum.digits, top - 2);",
      "three[0] << zeros != 0;", "the lower digits do not break ties of roots"),
    M("finish.h", "bool sticky = three[0] << zeros != 0 ||", "bool sticky =",
      "the third digit does not break ties of roots"),
    M("finish.h", "      sticky = sticky || (m & 1) != 0;\n", "",
      "the bit that is shifted out does not break ties of roots"),
    M("finish.h", "sticky || uint128{root} * root != m}", "sticky}",
      "what is left of a root does not break ties"),
    M("finish.h", "if (exponent % 2 != 0) {", "if (false) {",
      "exponents of roots are halved that are odd"),
    M("finish.h", "(65 - __builtin_clzll(third)) / 2",
      "(64 - __builtin_clzll(third)) / 2",
      "the third digit of a sum of integers is cut"),
    M("results.h",
      "if (finish.kNeedsTerms && terms == 0) return format_.quiet_nan();", "",
      "the mean of nothing is 0"),
    M("ladder.cpp", "(output_format_.is_float || request_.finish != Finish::none);",
      "output_format_.is_float;", "residues are finished that are not sums"),
    M("kernels/term_vectors.h", "(Wide)(((Words)x ^ sign) - sign);",
      "(Wide)((Words)x ^ sign);", "sizes of numbers below 0 are one too small"),
    M("kernels/term_vectors.h", "return x & 0xffffffff;", "return x;",
      "a magnitude has its neighbour beside it"),
    M("ladder.cpp", "  results_.finish_whole(sum, whole, size, terms);\n", "",
      "a checked sum of integers is not finished"),
    # Folds.
    M("kernels/folds.h", "(Integers)(a[0] <= head + head)", "~Integers{}",
      "a head that left its binade counts"),
    M("kernels/folds.h", "kStep - 52 <= unit;", "kStep - 52 <= unit + 1;",
      "the last fold is coarser than the squares"),
    M("kernels/folds.h", "const V t = TermVectors<term>::add(x, a[0] - s);",
      "const V t{};",
      "what is left of a square is lost"),
    M("kernels/folds.h", "      put(e);\n", "", "the rest of a product is lost"),
    M("exact_sum.h", "carry = digit[2] == 0;", "carry = 0;",
      "a carry stops at the next digit"),
    M("exact_sum.h", "(sum >> 64) + static_cast<std::uint64_t>(high >> 63);",
      "(sum >> 64);", "a part below 0 has no sign in the upper digits"),
    M("exact_sum.h", "uint128{stored[i]} + more[i] + carry;",
      "uint128{stored[i]} + more[i];", "merged states carry nothing"),
    M("exact_sum.h", "(more[1] & ~kTopBit) + carry;", "(more[1] & ~kTopBit);",
      "merged states of integers carry nothing"),
    M("exact_sum.h", "| (third != 0 ? kTopBit : 0);", ";",
      "a state of integers forgets that it is above 2^128"),
    M("exact_sum.h", "| ((stored[1] | more[1]) & kTopBit)", "",
      "merged states of integers forget that one was above 2^127"),
    M("exact_sum.h", "bit == 0 ? 0 : static_cast<std::uint64_t>(value >> (128 - bit))",
      "0", "the top of a shifted square is lost"),
    M("exact_sum.h", "fraction != 0 ? kNan : (negative ? kNegativeInfinite : kInfinite);",
      "kInfinite;",
      "NaN is infinite"),
    M("kernels/round_tile.h", "sum.width = bound * (1 + 0x1p-9);",
      "sum.width = Vector{};",
      "the bound does not count"),
    M("kernels/round_tile.h", "width += size * 0x1p-100;", "",
      "the roundings of the ends are not in the width",
      survives="the bounds of compensated sums leave more: (h + 4) u^2 s"),
    M("kernels/round_tile.h", "? size * 0x1p-50", "? size * 0",
      "the roundings of s and of the ends are not in the width"),
    M("kernels/round_tile.h", "size * 0x1p-22 +", "size * 0x1p-50 +",
      "ends that are rounded twice are taken for exact"),
    M("kernels/round_tile.h", "(size < least ? size : least);", "0;",
      "subnormal ends that are rounded twice are taken for exact"),
    M("kernels/round_tile.h", "           (HalfMask)(high <= 0x1.fffffep127f);",
      "           ~HalfMask{};",
      "an overflow on the way is infinite"),
    M("kernels/round_tile.h",
      "(Mask)(low == high) & (Mask)(size >= kLeastDecidable) & usual;",
      "(Mask)(low == high) & usual;",
      "sums are decided whose products underflowed",
      survives="bounds hold 2^-1020 for each term: what is so small is open anyway"),
    M("kernels/round_tile.h", "bits + 0x7fff + ((bits >> 16) & 1)", "bits + 0x8000",
      "ties of bfloat16 go up, not to even",
      survives="the sum is never at an end: a tie there may go either way"),
    M("kernels/round_tile.h", "+ 0xfff + ((size >> 13) & 1)", "+ 0x1000",
      "ties of float16 go up, not to even",
      survives="the sum is never at an end: a tie there may go either way"),
    M("kernels/round_tile.h", "magnitude < 65520.0f", "magnitude < 65504.5f",
      "sums below the threshold of overflow are infinite"),
    # Bounds of the kernels.
    M("kernels/lanes.h",
      "static_cast<double>(h) * kU; }", "static_cast<double>(h) * 0; }",
      "sums in binary64 are taken for exact"),
    M("kernels/lanes.h", "return depth * depth * (kU * kU);", "return 0 * depth;",
      "sums in two numbers are taken for exact"),
    M("kernels/lanes.h",
      "static_cast<double>(h) * kU32; }", "static_cast<double>(h) * 0; }",
      "sums in binary32 are taken for exact"),
    M("kernels/term_vectors.h", "type == Type::bfloat16 ? 0x1p-125 : 0;", "0;",
      "squares below the range of binary32 are taken for exact"),
    M("kernels/term_vectors.h", "kUnderflow = 0x1p-1020;  // of products",
      "kUnderflow = 0;",
      "products that underflow are taken for exact"),
    M("kernels/lanes.h",
      "kDegree == 1 ? r : e + r;", "kDegree == 1 ? r : r;",
      "the rounding error of a product is lost"),
    M("kernels/lanes.h", "both.c = (a.c + b.c) + r;", "both.c = a.c + b.c;",
      "the rounding error of a join is lost"),
    M("kernels/rows.h", "n / kStep + kLanes + ilog2(kLanes); }", "0 * n; }",
      "the additions of a row are not counted"),
    M("kernels/rows.h", "return Lane::factor(h) + Chain::factor(kRun - 1 + 3);",
      "return Lane::factor(h);", "the additions of a run are not counted"),
    M("kernels/rows.h",
      "(steps * steps + 16 * steps) * kU * lanes_q;", "0 * steps * lanes_q;",
      "the rests of a biased sum are taken for exact"),
    M("kernels/rows.h", "fits &= below[j] != 0;", "fits &= true;",
      "a head that overflowed stays"),
    M("kernels/rows.h",
      "joined.bound(factor, load", "joined.bound(0 * factor, load",
      "the sum of a row is taken for exact"),
    M("kernels/short_rows.h",
      "return Lane::factor((columns - 1) / kWidth + 1 + ilog2(kWidth));",
      "return Lane::factor(0 * columns);", "the sum of a short row is taken for exact"),
    M("kernels/short_rows.h", "((Mask)(s < head) & (Mask)(s >= head * 0x1p-20))",
      "(Mask)(s >= head * 0x1p-20)", "a head that is below a sum fits"),
    M("kernels/short_rows.h", "((Mask)(s < head) & (Mask)(s >= head * 0x1p-20))",
      "(Mask)(s < head)", "a head that is far above a sum fits",
      survives="the bound says how far it is"),
    M("kernels/short_rows.h", "head * (errors * 0x1p-52) +", "0 * (head * errors) +",
      "the rests of cut squares are taken for exact"),
    M("kernels/rows.h", "c += TermVectors<term>::add(x, head - s);", "",
      "the rests of squares are lost"),
    M("kernels/parts.h", "run % 2 * count + (i - in_block) + half",
      "run % 2 * count + (i - in_block) + 0 * half", "half of a row is added twice"),
    M("kernels/short_rows.h",
      "Lane::factor((columns - 1) / kNarrowWidth + ilog2(kNarrowWidth))",
      "Lane::factor(0 * ilog2(kNarrowWidth))",
      "the sum of a short row of halves is taken for exact"),
    M("kernels/rows.h", "add_to_enclosures(enclosures + row, fresh && begin == 0, count",
      "add_to_enclosures(enclosures + row, fresh, count",
      "the first part of a long row is lost"),
    M("kernels/columns.h",
      "Lane::factor(n / kRunRows + 1) + Chain::factor(kLogRowsPerPass + kPasses - 1);",
      "Lane::factor(n / kRunRows + 1);", "sums in binary32 are taken for exact"),
    M("kernels/columns.h", "row < rows ? get(row) : kZeros", "get(row < rows ? row : 0)",
      "rows that are not there are summed"),
    M("kernels/columns.h", "lane.bound(factor, underflow));",
      "lane.bound(0 * factor, underflow));",
      "the sum of a column is taken for exact"),
    M("kernels/columns.h", "lane.bound(factor, underflow));",
      "lane.bound(factor, Vector{}));",
      "squares that underflow are taken for exact"),
    M("kernels/columns.h", "add_to_enclosures(enclosures + j, fresh && begin == 0, count",
      "add_to_enclosures(enclosures + j, fresh, count",
      "the first rows of a long column are lost"),
    # Who decides.
    M("ladder.cpp", "request_.input_type != Type::float64 &&\n", "\n",
      "an overflow of squares of float64 is infinite"),
    M("ladder.cpp",
      "!(method == Method::narrow && request_.input_type == Type::bfloat16);",
      "true;", "an overflow of binary32 is infinite"),
    M("ladder.cpp", "input.bytes == 2 && is_exact(", "is_exact(",
      "sums of float32 lack their method"),
    M("ladder.cpp", "terms_ > kMaxAdditions)", "false)",
      "more additions than are allowed",
      survives="2^40 terms take hours"),
    M("ladder.cpp", "std::min<std::int64_t>(room, 62)",
      "std::min<std::int64_t>(room + 1, 62)", "a wrapped residue is taken for a sum"),
    M("results.h", "return of_sum(sum, digits, size, terms);",
      "return of_sum(sum, digits, 1, terms);",
      "integers lose digits that floats need"),
    M("exact_sum.h", "digits[2] += carries;", "",
      "terms of integers carry nothing beyond 128 bits"),
    M("exact_outputs.cpp", "sums(i), more(i), 0, sums.are_whole);",
      "sums(i), more(i), 0, false);",
      "parts of whole sums of integers are joined modulo 2^127"),
    M("pack.h", "return byte != 0;", "return byte;", "true is another number than 1"),
    # Masks.
    M("pack.h", "((x ^ other) & (says ^ none))", "(x ^ other)",
      "what does not count counts"),
    M("pack.h", "} else if ((*says != std::byte{0}) != counts) {", "} else if (false) {",
      "what does not count counts where a row is of one kind"),
    M("pack.h", "mask[j * stride] == std::byte{0} ? 0",
      "mask[j * stride] != std::byte{1} ? 0",
      "only 1 is true"),
    M("plan.cpp", "outer.input == inner.count * inner.input",
      "outer.input.element == inner.count * inner.input.element",
      "loops merge whose masks do not"),
    M("read.h", "!elements.small && !is_masked() &&", "!elements.small &&",
      "elements are read where they lie, whatever a mask says"),
    M("read.h", "matrix.row_stride == matrix.columns * matrix.stride &&",
      "matrix.row_stride.element == matrix.columns * matrix.stride.element &&",
      "rows are joined whose masks are not side by side"),
    M("sum.cpp", "fresh && block.column == 0", "fresh",
      "of joined rows only the last count"),
    M("schedule.cpp", "const StandardModes modes;", "",
      "rounding is what the caller chose"),
    M("results.h", "digits[1] == above && digits[2] == above &&", "digits[1] == above &&",
      "a checked sum above 2^128 fits"),
    # Terms with a sign.
    M("kernels/lanes.h", "void add_size(V x) { m += size_of(x); }",
      "void add_size(V x) { m += x; }", "the mass cancels as the sum does"),
    M("kernels/lanes.h", "underflow = mass < underflow ? mass : underflow;",
      "underflow = Vector{};", "a bound that underflows is 0",
      survives="such sums are exact, or their parts cancel to less than 2^-974"),
    # Sums without rounding.
    M("kernels/inexact.h", "static bool raised() { return (_mm_getcsr() & kFlag) != 0; }",
      "static bool raised() { return false; }",
      "what was rounded counts as exact, or the flag as not kept",
      survives="the probe finds that the flag is not kept, and two folds sum all"),
    M("kernels/rows.h", "if (Inexact::may_be_raised()) {", "if (false) {",
      "sums of rows that were rounded count as exact"),
    M("kernels/columns.h", "is_exact = !Inexact::may_be_raised();", "is_exact = true;",
      "sums of columns that were rounded count as exact"),
    M("kernels/unrounded_rows.h", "if (!Inexact::raised()) {\n          for",
      "if (true) {\n          for",
      "blocks of rows that were rounded count as exact"),
    M("kernels/unrounded_columns.h", "if (!Inexact::raised()) return true;",
      "return true;",
      "passes over columns that were rounded count as exact"),
    M("kernels/unrounded_rows.h", "if (!Inexact::raised()) {\n      add_to",
      "if (true) {\n      add_to",
      "joins of rows that were rounded count as exact"),
    M("kernels/unrounded_rows.h",
      "      add_otherwise(first, rest, enclosure);\n      for", "      for",
      "what strides left over is lost where the first block was rounded"),
    M("kernels/unrounded_rows.h", "rest = 0;\n          patience_", "patience_",
      "what strides left over counts again where a later block was rounded"),
    M("kernels/unrounded_rows.h", "if (rest == 0) return;", "return;",
      "what strides left over is not checked where there is nothing else"),
    M("kernels/unrounded_columns.h", "g) lanes[g] = before_[g];", "g) {}",
      "sums of columns that were rounded stay"),
    M("kernels/unrounded_rows.h", "low += sums[0] - upper;", "",
      "the lower parts of sums are lost"),
    M("kernels/unrounded_rows.h", "if (type == Type::float64) low += sums[1];", "",
      "the lower parts of float64 are lost"),
    M("kernels/unrounded_rows.h", "kParts == 2 ? sums[j + 1] : Vector{};",
      "Vector{};",
      "the lower parts of float64 are lost where joins were rounded"),
    M("kernels/unrounded_columns.h", "return sums[i * kParts + 1];", "return Vector{};",
      "the lower parts of columns of float64 are lost"),
    M("kernels/unrounded_columns.h", "put_in_order(two);", "",
      "the sums of columns of bfloat16 are those of others"),
    M("kernels/unrounded_columns.h", "return i < rows ? get(i) : kZeros;",
      "return get(i % rows);", "the first rows of the last pass count twice"),
    M("kernels/unrounded.h", "return {{}, sum, rest};", "return {{}, sum, Vector{}};",
      "what the sums of upper and of lower parts do not share is lost"),
    M("kernels/unrounded.h", "return {{}, sum, rest};", "return {{}, upper, lower};",
      "the sums of upper and of lower parts reach into each other in enclosures",
      survives="bounds keep what is lost, and exact sums follow: only time tells"),
    M("kernels/unrounded_rows.h", "if (fresh) make_zero(enclosures, rows);", "",
      "rows are added to what stood there before"),
    M("kernels/two_folds.h", "return more * more *", "return 0 * more *",
      "two folds are taken for exact"),
    M("kernels/two_folds.h", "<= Fold<term, type>::unit_for(least);", "<= 1 << 20;",
      "two folds have no bound"),
    M("kernels/two_folds.h", "<= Fold<term, type>::unit_for(least);",
      "<= Fold<term, type>::unit_for(least) + 16;",
      "two folds are taken for exact that are 16 bits too short"),
    M("kernels/two_folds.h", "const int head = over + log_steps + 1;",
      "const int head = over + log_steps - 3;",
      "a head has too little room"),
    M("kernels/two_folds.h", "return found <= over && found < kNotFinite &&",
      "return found < kNotFinite &&", "a head that elements do not fit stays"),
    M("kernels/two_folds.h", "return found <= over && found < kNotFinite &&",
      "return found <= over &&", "infinity fits a head of huge elements"),
    M("kernels/two_folds.h", "folds[i].a - 1.5f * start, folds[i].c};",
      "folds[i].a - 1.5f * start, 0 * folds[i].c};", "the rests of a row are lost"),
    M("kernels/two_folds.h", "low += widen_low(fold.c) + widen_high(fold.c);", "",
      "the rests of a row of halves are lost"),
    M("kernels/two_folds.h", "fold.a - middle, fold.c, bound",
      "fold.a - middle, 0 * fold.c, bound",
      "the rests of columns are lost"),
    M("kernels/two_folds.h", "block.finish(j, enclosures, fresh && begin == 0);",
      "block.finish(j, enclosures, fresh);", "the first rows of long columns are lost"),
    M("kernels/folds.h", "+ kLogSteps + TermOf<term>::kIsSigned;", "+ kLogSteps;",
      "signed terms move a head further than it has room"),
    M("kernels/folds.h", "f > 0 || TermOf<term>::kIsSigned;", "f > 0;",
      "a head has no room below"),
    M("kernels/fold_rows.h", "head != kNoHead && !TermOf<term>::kIsSigned;",
      "head != kNoHead;", "the head of signed terms is a guess that is not tested"),
    M("kernels/round_tile.h", "& (HalfMask)((HalfMask)low == (HalfMask)high);", ";",
      "zeros of both signs are the same result"),
    M("kernels/round_tile.h", "(bits >> 16 & 0x8000)", "(bits & 0)",
      "float16 results have no sign"),
    M("widen.h", "sign != 0 ? -0x1p-24f : 0x1p-24f;", "0x1p-24f;",
      "subnormal float16 elements have no sign"),
    M("kernels/term_vectors.h", "(low ^ 0x80000000) - 0x80000000 : low;", "low : low;",
      "integers of 32 bits below 0 have no sign"),
    M("results.h", "return negative ? bits | format_.sign() : bits;", "return bits;",
      "results below 0 have no sign"),
    M("results.h", "const double s = two_sum(hi, lo, t);",
      "const double s = hi + lo;\n  t = lo - (s - hi);",
      "the rest of a pair is lost where lo is larger than hi",
      survives="an enclosure so wide beside its sum decides nothing"),
    M("results.h", "return infinite_is_final || !is_signed_;", "return true;",
      "sums that overflow both ways on the way are NaN"),
    M("exact_sum.h", "flags == all ? 0 : flags;", "false ? 0 : flags;",
      "numbers below 0 are NaN"),
    M("exact_sum.h", "one ? flags : kNan;", "flags & kNan ? kNan : kInfinite;",
      "infinities of both signs are not NaN"),
    M("exact_sum.h", "carry = carry && digits[i] == 0;", "carry = false;",
      "minus a number carries nothing"),
    M("exact_sum.h", "stored[1] += more[1] + carry;", "stored[1] += more[1];",
      "merged states of signed integers carry nothing"),
    M("exact_sum.h", "x >> kSign != 0 ? -size : size, shift);", "size, shift);",
      "terms have no sign"),
    M("results.h", "i == size - 1 && above != 0;", "false;",
      "a residue below 0 is a sum above 2^63"),
    M("results.h", "if (negative) negate(digits, size);\n    with_finish",
      "with_finish", "the mean of integers below 0 is that of two's complement"),
    M("exact_sum.h", "3, 2, is_signed && format.is_signed};", "3, 2, is_signed};",
      "a residue above 2^63 of integers without sign is below 0"),
    M("exact_sum.h",
      "if (is_negative(sum, stored, sum.stored_digits)) negate(size, sum.stored_digits);",
      "",
      "a stored sum below 0 is too large"),
    M("exact_sum.h", "add_shifted(limit, terms, sum.term_bits);",
      "add_shifted(limit, terms, sum.term_bits + 1);",
      "a stored sum may be twice as large as all terms"),
    M("exact_sum.h", "add_shifted(limit, terms, sum.term_bits);",
      "add_shifted(limit, terms, sum.term_bits - 1);",
      "a stored sum may only be half as large as all terms"),
    M("ladder.cpp", "(is_signed ? 63 : 64) - bits", "64 - bits",
      "a signed residue may not be its sum",
      survives="2^32 terms take minutes"),
    M("results.h", "format_.is_signed && digits[2] >> 63 != 0;", "false;",
      "a checked sum below 0 never fits"),
    M("kernels/round_tile.h", "(Mask)(size >= kLeastDecidable) & usual;",
      "(Mask)(size >= kLeastDecidable);",
      "roots of sums whose widths underflow are guessed"),
    # Variances.
    M("moments.cpp", "a.width + b.width + size * 0x1p-99 + 0x1p-1000", "0.0",
      "what is left of sums of squares is taken for exact"),
    M("moments.cpp", "width + p * 0x1p-99}", "p * 0x1p-99}",
      "squares of sums are as exact as these are not",
      survives="sums of values err by less than the slack of their squares"),
    M("moments.cpp", "(rest.width < rest.s) & ", "",
      "variances that may be 0 are guessed",
      survives="ends of both signs, which do not round alike"),
    M("moments.cpp", "width * inverse * (1 + 0x1p-9) +", "width * 0 +",
      "the cheaper variance forgets the bound of the sum",
      survives="plain sums err by less than the width has for roundings"),
    M("moments.cpp", "(q + p) * 0x1p-49;", "0;",
      "the cheaper variance forgets its own roundings"),
    M("moments.cpp", "digits[0] = rest || more;", "digits[0] = more;",
      "what the first division leaves is lost",
      survives="what 192 bits do not show takes 2^60 terms or so"),
    M("moments.cpp", "digits[0] = rest || more;", "digits[0] = rest;",
      "what the second division leaves is lost",
      survives="what 192 bits do not show takes 2^60 terms or so"),
    M("moments.cpp", "min(q.first, 2 * s.first)", "max(q.first, 2 * s.first)",
      "digits of the numerator begin too high"),
    M("moments.cpp", "wraps = negative ? before < low : at[i] < low", "wraps = false",
      "carries are lost"),
    M("moments.cpp", "if (is_negative(of_values, values, of_values.digits)) negate",
      "if (false) negate", "sums below 0 are taken for huge ones"),
    M("moments.cpp", "terms <= std::max<std::int64_t>(0, ddof)", "terms <= 0",
      "variances of too few terms are divided by what is not above 0"),
    M("moments.cpp", "fits ? 1 : 0", "1", "residues of squares are taken for sums"),
    M("python/sums.cpp", "of_values[2] = ~std::uint64_t{0};", "of_values[2] = 0;",
      "stored sums of integers below 0 are taken for huge ones"),
]  # fmt: skip


def run(*command: str | Path, cwd: Path = ROOT, check: bool = True) -> int:
    """Run a command; its exit status, or 1 if it takes too long."""
    with open(WORK / "log", "a") as log:
        print(f"$ {shlex.join(map(str, command))}", file=log, flush=True)
        environment = {
            **os.environ,
            "HALFULP_SEED": os.environ.get("HALFULP_SEED", "1"),
            "PYTHONPATH": str(SITE),
        }
        try:
            status = subprocess.run(
                command, cwd=cwd, env=environment, stdout=log, stderr=log, timeout=_LIMIT
            ).returncode
        except subprocess.TimeoutExpired:
            status = 1
    if check and status:
        sys.exit(f"{shlex.join(map(str, command))} fails; see {WORK / 'log'}")
    return status


def build() -> None:
    run("ninja", "-C", BUILD, "run_cases", "_core")
    (module,) = BUILD.glob("_core*.so")
    shutil.copy2(module, SITE / "halfulp")


def is_killed() -> str:
    """What killed the mutant that is built, or nothing."""
    if run(BUILD / "run_cases", CASES, check=False):
        return "run_cases"
    tests = [sys.executable, "-m", "pytest", "-x", "-q", *EXACTNESS]
    return "tests" if run(*tests, check=False) else ""


def mutate(mutant: Mutant) -> str:
    """The text of the mutant's file; test_mutants.py tells if the table is stale."""
    text = (ROOT / "native" / mutant.file).read_text()
    return text.replace(mutant.original, mutant.mutated)


def prepare() -> None:
    """Copy the sources, configure, and build and test what no mutant is in."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    # With times of now: an earlier run may have left objects of a mutant.
    for folder in ("native", "tests/native"):
        shutil.copytree(ROOT / folder, SOURCE / folder, copy_function=shutil.copyfile)
    shutil.copyfile(ROOT / "CMakeLists.txt", SOURCE / "CMakeLists.txt")
    shutil.copytree(
        ROOT / "src/halfulp", SITE / "halfulp", ignore=shutil.ignore_patterns("*.so")
    )
    (WORK / "log").write_text("")
    options = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", BUILD, *options)
    build()
    run(sys.executable, "tests/native/make_cases.py", CASES)
    if killer := is_killed():
        sys.exit(f"{killer} fails without a mutant; see {WORK / 'log'}")


def main() -> int:
    """Run the mutants of the given numbers, or all; 1 if any was not as expected."""
    numbers = [int(n) for n in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    WORK.mkdir(parents=True, exist_ok=True)
    prepare()
    unexpected = []
    # One file after the other: a build is of what changed.
    for number in sorted(numbers, key=lambda n: (MUTANTS[n - 1].file, n)):
        mutant = MUTANTS[number - 1]
        file = SOURCE / "native" / mutant.file
        start = time.monotonic()
        file.write_text(mutate(mutant))
        try:
            build()
            killer = is_killed()
        finally:
            shutil.copyfile(ROOT / "native" / mutant.file, file)
        fate = f"killed by {killer}" if killer else "SURVIVES"
        if bool(killer) == bool(mutant.survives):
            unexpected.append(number)
            fate += " UNEXPECTEDLY"
        elif mutant.survives:
            fate += f": {mutant.survives}"
        seconds = time.monotonic() - start
        print(
            f"{number:3} {mutant.file}: {mutant.breaks}: {fate} ({seconds:.0f} s)",
            flush=True,
        )
    print(
        f"{len(list(numbers))} mutants, {len(unexpected)} unexpected {unexpected or ''}"
    )
    return bool(unexpected)


if __name__ == "__main__":
    sys.exit(main())
