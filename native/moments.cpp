#include "moments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "exact_sum.h"
#include "finish.h"
#include "results.h"
#include "rounding.h"

namespace halfulp {
namespace {

// Open outputs this near are summed again together.
constexpr std::int64_t kNear = 16;

// Floats by plain sums first, which have bits to spare for results of at most 24, of elements
// whose terms are exact; integers by residues, where these are the sums.
Moments::Methods methods_of(const Format& input, const Format& output,
                            std::int64_t memory_bytes, std::int64_t terms) {
  if (!input.is_float) {
    const std::int64_t room = 64 - 2 * (8 * memory_bytes - (input.is_signed ? 1 : 0));
    const bool fits = room > 0 && terms >> std::min<std::int64_t>(room, 62) == 0;
    return {{Method::residue}, fits ? 1 : 0};
  }
  const bool plain = input.bytes <= 4 && output.precision <= 24;
  const int count = plain ? 2 : 1;
  return {{plain ? Method::plain : Method::compensated, Method::compensated},
          terms <= kMaxAdditions ? count : 0};
}

using Mean = FinishOf<Finish::mean>;
using Root = FinishOf<Finish::root>;

// The square of an interval's number, about which nothing overflows or underflows. The
// roundings here are less than 2^-102 of it, which its width has, and as much to spare.
Interval square_of(const Interval& sum) {
  const double p = sum.s * sum.s;
  const double low = 2 * sum.s * sum.t - rest_of_product(p, sum.s, sum.s);
  const double width = (2 * std::abs(sum.s) + sum.width) * sum.width * (1 + 0x1p-50);
  const double s = p + low;
  return {s, low - (s - p), width + p * 0x1p-99};
}

// a - b, where the numbers are at most `size`; its roundings are less than 2^-102 of that.
Interval difference_of(const Interval& a, const Interval& b, double size) {
  double r, t;
  const double d = two_sum(a.s, -b.s, r);
  const double s = two_sum(d, r + (a.t - b.t), t);
  return {s, t, a.width + b.width + size * 0x1p-99 + 0x1p-1000};
}

// Encloses n sums of integers, of `size` digits each.
void enclose_all(const SumFormat& sum, const std::uint64_t* digits, int size, std::int64_t n,
                 const Enclosures& into) {
  for (std::int64_t i = 0; i < n; ++i) {
    enclose(sum, digits + i * size, size, into.hi[i], into.lo[i], into.bound[i]);
  }
}

// The variance of so many terms, from intervals of the sums of their values and squares: of
// infinite width where numbers could overflow, underflow by more than the width has, or be too
// many for means, and where it may be 0. Without branches, so that some are had at once.
template <bool is_deviation>
Interval spread_of(const Interval& values, const Interval& squares, std::int64_t terms,
                   std::int64_t divisor) {
  const Interval mean = Mean::of(square_of(values), terms);
  const Interval rest = difference_of(squares, mean, squares.s + mean.s);
  const bool usual = (std::abs(values.s) < 0x1p450) & (squares.s > 0x1p-800) &
                     (squares.s < 0x1p900) & (rest.s >= kLeastDecidable) &
                     (rest.width < rest.s) & (divisor > 0) & (divisor <= kMostDdof) &
                     (terms <= kMostDdof);
  Interval spread = Mean::of(rest, divisor);
  if (is_deviation) spread = Root::of(spread, terms);
  spread.width = usual ? spread.width : HUGE_VAL;
  return spread;
}

// The same, cheaper and wider, for results of at most 24 bits; by the inverses of the number of
// terms and of the divisor. All roundings are less than 2^-50 of both numbers.
template <bool is_deviation>
Interval near_spread_of(double s, double s_bound, double q, double q_bound, double inverse,
                        double inverse_divisor) {
  const double width = s_bound * (1 + 0x1p-9);
  const double p = s * s * inverse;
  const double rest = q - p;
  const double rest_width = q_bound * (1 + 0x1p-9) +
                            (2 * std::abs(s) + width) * width * inverse * (1 + 0x1p-9) +
                            (q + p) * 0x1p-49;
  const bool usual = (std::abs(s) < 0x1p450) & (q > 0x1p-800) & (q < 0x1p900) &
                     (rest > rest_width) & (inverse_divisor > 0);
  double v = rest * inverse_divisor;
  double v_width = rest_width * inverse_divisor;
  if (is_deviation) {
    v = std::sqrt(v);
    v_width /= v;
  }
  return {v, 0, usual ? v_width : HUGE_VAL};
}

// The digits of a number that are not 0: `size` from `first` on.
struct Span {
  const std::uint64_t* digits;
  int first;
  int size;
};

Span span_of(const std::uint64_t* digits, int size) {
  const int top = highest_of(digits, size);
  int first = 0;
  while (first < top && digits[first] == 0) ++first;
  return {digits + first, first, top + 1 - first};
}

// Adds a * n to digits, or subtracts it, from `at` on as far as it carries.
void add_product(std::uint64_t* at, const Span& a, std::uint64_t n, bool negative) {
  std::uint64_t carry = 0;
  int i = 0;
  for (; i < a.size || carry != 0; ++i) {
    const uint128 product = uint128{i < a.size ? a.digits[i] : 0} * n + carry;
    const auto low = static_cast<std::uint64_t>(product);
    const std::uint64_t before = at[i];
    at[i] = negative ? before - low : before + low;
    const bool wraps = negative ? before < low : at[i] < low;
    carry = static_cast<std::uint64_t>(product >> 64) + wraps;
  }
}

}  // namespace

// (n Q - S^2) / (n (n - ddof)), whose numerator is a whole number of squares of the unit of S.
std::uint64_t spread_of_exact_sums(const Format& input, const Format& output, Spread spread,
                                   std::int64_t ddof, const std::uint64_t* values,
                                   const std::uint64_t* squares, std::int64_t terms) {
  if (terms <= std::max<std::int64_t>(0, ddof)) return output.quiet_nan();
  const SumFormat of_values = sum_format(Term::value, input);
  const SumFormat of_squares = sum_format(Term::square, input);
  if (input.is_float && (flags_of(of_values, values) | flags_of(of_squares, squares)) != 0) {
    return output.quiet_nan();
  }
  std::uint64_t size[kMostDigits];
  std::copy_n(values, of_values.digits, size);
  if (is_negative(of_values, values, of_values.digits)) negate(size, of_values.digits);
  const Span s = span_of(size, of_values.digits);
  const Span q = span_of(squares, of_squares.digits);
  if (q.size == 0) return 0;
  // Digits of the numerator, above one that says whether divisions left anything, and three
  // that two divisors below 2^64 leave 64 bits of.
  constexpr int kBelow = 4;
  std::uint64_t digits[kBelow + 2 * kMostDigits + 4] = {};
  const int base = s.size == 0 ? q.first : std::min(q.first, 2 * s.first);
  const int top = std::max(q.first + q.size, 2 * (s.first + s.size)) - base + 2;
  std::uint64_t* const numerator = digits + kBelow;
  add_product(numerator + (q.first - base), q, static_cast<std::uint64_t>(terms), false);
  for (int i = 0; i < s.size; ++i) {
    add_product(numerator + (2 * s.first + i - base), s, s.digits[i], true);
  }
  const bool rest = divide(digits + 1, kBelow - 1 + top, static_cast<std::uint64_t>(terms));
  // Below 2^64, as neither is 2^63 in size.
  const std::uint64_t divisor =
      static_cast<std::uint64_t>(terms) - static_cast<std::uint64_t>(ddof);
  const bool more = divide(digits + 1, kBelow - 1 + top, divisor);
  digits[0] = rest || more;
  const Digits quotient = {digits, kBelow + top, of_squares.exponent + 64 * (base - kBelow)};
  const Leading value = spread == Spread::deviation
                            ? FinishOf<Finish::root>::of(quotient, terms)
                            : leading_of(quotient);
  return round_to(output, value.m, value.exponent, value.sticky);
}

Moments::Moments(const Plan& plan, const Request& request, const Reader& reader,
                 const Schedule& schedule, const Ladder& ladder, const ExactOutputs& squares,
                 std::int64_t exact_outputs_at_once, const Workspaces& parts)
    : request_(request),
      kept_(plan.kept.innermost()),
      input_format_(format_of(request.input_type)),
      output_format_(format_of(request.output_type)),
      terms_(plan.reduced.count()),
      methods_(methods_of(input_format_, output_format_, reader.memory_bytes(), terms_)),
      ladder_(ladder),
      values_(plan, Term::value, request.input_type, methods_.method[0], reader, schedule,
              parts),
      squares_(plan, Term::square, request.input_type, methods_.method[0], reader, schedule,
               parts),
      exact_values_(plan, Term::value, request.input_type, false, reader, schedule, parts),
      exact_squares_(squares),
      exact_outputs_at_once_(exact_outputs_at_once),
      rounder_(find_rounder(request.output_type)) {}

void Moments::climb(Place input, std::byte* output, std::int64_t n,
                    Workspace& workspace) const {
  const Terms terms = ladder_.count(input, n, workspace);
  std::fill_n(workspace.open, n, std::uint8_t{kOpen});
  for (int i = 0; i < methods_.count; ++i) {
    const Method method = methods_.method[i];
    workspace.for_each_open(0, n, kNear, [&](std::int64_t begin, std::int64_t end) {
      sum(method, input, begin, end, workspace);
      decide(method == Method::plain, begin, end, terms, workspace);
    });
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (terms[i] > std::max<std::int64_t>(0, request_.ddof)) continue;
    workspace.set_result(i, output_format_.quiet_nan(), output_format_.bytes);
  }
  workspace.for_each_open(0, n, kNear, [&](std::int64_t begin, std::int64_t end) {
    resolve(input, begin, end, terms, workspace);
  });
  store_results(output, kept_.output, reinterpret_cast<const std::byte*>(workspace.results),
                output_format_.bytes, n);
}

// Encloses the sums of outputs begin..end.
void Moments::sum(Method method, Place input, std::int64_t begin, std::int64_t end,
                  Workspace& workspace) const {
  const Place first = input + begin * kept_.input;
  for (const TileSums* sums : {&values_, &squares_}) {
    const Enclosures& into = sums == &values_ ? workspace.sums : workspace.squares;
    sums->sum(method, first, end - begin, into + begin, workspace);
    if (method != Method::residue) continue;
    const Term term = sums == &values_ ? Term::value : Term::square;
    enclose_all(sum_format(term, input_format_), into.residue + begin, 1, end - begin,
                into + begin);
  }
}

// Decides those outputs of begin..end whose enclosures do, if `near` by cheaper ones.
void Moments::decide(bool near, std::int64_t begin, std::int64_t end, const Terms& terms,
                     Workspace& workspace) const {
  constexpr std::int64_t kFew = 64;
  static_assert(kFew % kPadding == 0);
  double hi[kFew], lo[kFew], bound[kFew];
  std::byte results[kFew * sizeof(std::uint64_t)];
  std::uint8_t open[kFew];
  const std::int64_t bytes = output_format_.bytes;
  double inverse = 1 / static_cast<double>(terms_);
  double divisor = 1 / static_cast<double>(terms_ - request_.ddof);
  for (std::int64_t from = begin; from < end; from += kFew) {
    const std::int64_t few = std::min(kFew, end - from);
    const Enclosures values = workspace.sums + from;
    const Enclosures squares = workspace.squares + from;
    const Terms own = terms + from;
    const auto spread = [&](auto is_deviation) {
      for (std::int64_t i = 0; i < few; ++i) {
        Interval result;
        if (near) {
          inverse = own.own ? 1 / static_cast<double>(own[i]) : inverse;
          divisor = own.own ? 1 / static_cast<double>(own[i] - request_.ddof) : divisor;
          result = near_spread_of<is_deviation.value>(
              values.hi[i] + values.lo[i], values.bound[i], squares.hi[i] + squares.lo[i],
              squares.bound[i], inverse, divisor);
        } else {
          result = spread_of<is_deviation.value>(
              interval_of(values.hi[i], values.lo[i], values.bound[i]),
              interval_of(squares.hi[i], squares.lo[i], squares.bound[i]), own[i],
              own[i] - request_.ddof);
        }
        hi[i] = result.s;
        lo[i] = result.t;
        // Of no width, but of zeros: what is not known is not taken for known.
        const bool is_zero = result.s == 0 && result.t == 0 && result.width == 0;
        bound[i] = is_zero || result.width > 0 ? result.width : 0x1p-1074;
      }
    };
    if (request_.spread == Spread::deviation) {
      spread(std::true_type());
    } else {
      spread(std::false_type());
    }
    rounder_.function(Finish::none, {hi, lo, bound, nullptr}, {1, nullptr}, few, results, open);
    for (std::int64_t i = 0; i < few; ++i) {
      std::uint64_t bits = output_format_.quiet_nan();
      if (!open[i]) {
        std::memcpy(&bits, results + i * bytes, bytes);
      } else if (request_.input_type == Type::float64 || std::isfinite(squares.hi[i])) {
        continue;  // terms of other types are not infinite together
      }
      workspace.set_result(from + i, bits, bytes);
    }
  }
}

// Decides the open outputs of begin..end by their exact sums, some at a time.
void Moments::resolve(Place input, std::int64_t begin, std::int64_t end, const Terms& terms,
                      Workspace& workspace) const {
  const int of_values = sum_format(Term::value, input_format_).digits;
  const int of_squares = sum_format(Term::square, input_format_).digits;
  for (std::int64_t from = begin; from < end; from += exact_outputs_at_once_) {
    const std::int64_t n = std::min(exact_outputs_at_once_, end - from);
    const Place first = input + from * kept_.input;
    auto* const values = reinterpret_cast<std::uint64_t*>(workspace.part_sums());
    std::uint64_t* const squares = values + n * of_values;
    std::fill_n(values, n * (of_values + of_squares), 0);
    const auto add = [&](const ExactOutputs& sums, std::uint64_t* digits, int size) {
      if (n == 1) return sums.add_output(first, digits, workspace);
      auto* const stored = reinterpret_cast<std::byte*>(digits);
      sums.add_outputs(first, {stored, 8 * size, n, true}, n, workspace);
    };
    add(exact_values_, values, of_values);
    add(exact_squares_, squares, of_squares);
    if (!input_format_.is_float) {
      enclose_all(sum_format(Term::value, input_format_), values, of_values, n,
                  workspace.sums + from);
      enclose_all(sum_format(Term::square, input_format_), squares, of_squares, n,
                  workspace.squares + from);
      decide(false, from, from + n, terms, workspace);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (!workspace.open[from + i]) continue;
      const std::uint64_t bits = spread_of_exact_sums(
          input_format_, output_format_, request_.spread, request_.ddof, values + i * of_values,
          squares + i * of_squares, terms[from + i]);
      workspace.set_result(from + i, bits, output_format_.bytes);
    }
  }
}

}  // namespace halfulp
