#include "ladder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace halfulp {
namespace {

// Open outputs of a columns tile that lie this near share cache lines; so do rows of together
// as many elements.
constexpr std::int64_t kNearColumns = 16;
constexpr std::int64_t kNearElements = 32;

// Of so many terms, what may be zero after plain or compensated sums is summed exactly at once:
// the places of elements spread too far for anything else, mostly.
constexpr std::int64_t kManyPlain = 1 << 14;
constexpr std::int64_t kManyCompensated = 1 << 13;
// Of so many, if these places are known to.
constexpr std::int64_t kManyTerms = 128;

// One of so many outputs that is open is no sign of ties.
constexpr std::int64_t kFewOpen = 16;

bool may_be_zero(const Interval& sum) { return std::abs(sum.s) < sum.width; }

double power_of(double x, int degree) { return degree == 1 ? x : x * x; }

// Instead of kOpen, for the while: see resolve_zeros.
constexpr int kLater = 1;

// The method that sums are made by at first: the fastest that takes terms for exact where they
// are, and has bits to spare for the output.
Method first_method(Term term, const Format& input, const Format& output) {
  if (!input.is_float) return Method::residue;
  const bool narrow = input.bytes == 2 && is_exact(term, input.type, Type::float32);
  if (narrow && output.precision <= 11) return Method::narrow;
  const bool plain = is_exact(term, input.type, Type::float64) && output.precision <= 24 &&
                     !(facts_of(term).is_signed && input.bytes == 8);
  return plain ? Method::plain : Method::compensated;
}

}  // namespace

Ladder::Ladder(const Plan& plan, const Request& request, const Reader& reader,
               const Schedule& schedule, const ExactOutputs& exact_sums,
               std::int64_t exact_outputs_at_once, const Workspaces& parts)
    : request_(request),
      kept_(plan.kept.innermost()),
      input_format_(format_of(request.input_type)),
      output_format_(format_of(request.output_type)),
      by_rows_(plan.layout == Layout::rows),
      terms_(plan.reduced.count()),
      method_(first_method(request.term, input_format_, output_format_)),
      sums_exactly_(request.checked || (input_format_.is_float && terms_ > kMaxAdditions) ||
                    (needs_whole_sums() && !residues_are_sums(reader.memory_bytes()))),
      sums_(plan, request.term, request.input_type, method_, reader, schedule, parts),
      marks_(reader.of_marks()),
      exact_sums_(exact_sums),
      exact_outputs_at_once_(exact_outputs_at_once),
      results_(request.term, request.finish, output_format_),
      rounder_(output_format_.is_float ? &find_rounder(request.output_type) : nullptr) {
  if (counts_terms(request)) {
    counts_.emplace(plan, Term::value, kMarks, Method::residue, marks_, schedule, parts);
  }
}

bool Ladder::counts_terms(const Request& request) {
  const bool needs =
      with_finish(request.finish, [](auto finish) { return finish.kNeedsTerms; });
  return needs && request.counted != Counted::all;
}

void Ladder::climb(Place input, std::byte* output, std::int64_t n, Workspace& workspace) const {
  auto* results = reinterpret_cast<std::byte*>(workspace.results);
  count(input, n, workspace);
  if (sums_exactly_) {
    sum_exactly(input, output, n, workspace);
  } else {
    clear(method_, workspace.sums + n, kPadding);
    sums_.sum(method_, input, n, workspace.sums, workspace);
    if (method_ == Method::residue) {
      take_residues(n, workspace);
    } else if (results_.of_tile(*rounder_, workspace.sums, terms_of(workspace), n, results,
                                workspace.open)) {
      // A few sums in binary32 are open by their bounds, many as they are ties.
      if (method_ == Method::narrow && are_few_open(n, workspace)) {
        improve(method_, false, input, 0, n, workspace);
      } else {
        for_each_open(workspace, 0, n, [&](std::int64_t begin, std::int64_t end) {
          refine(method_, false, input, begin, end, workspace);
        });
      }
    }
  }
  store_results(output, kept_.output, results, output_format_.bytes, n);
}

Terms Ladder::count(Place input, std::int64_t n, Workspace& workspace) const {
  if (!counts_) return terms_of(workspace);
  Enclosures counts = workspace.sums;  // not used, but pointers to add to
  counts.residue = workspace.counts;
  counts_->sum(Method::residue, input, n, counts, workspace);
  if (request_.counted == Counted::where_false) {
    for (std::int64_t i = 0; i < n; ++i) workspace.counts[i] = terms_ - workspace.counts[i];
  }
  return terms_of(workspace);
}

// How many terms the outputs of a tile have.
Terms Ladder::terms_of(const Workspace& workspace) const {
  return {terms_, counts_ ? workspace.counts : nullptr};
}

// Decides the open outputs of begin..end, whose sums `method` made: by the unit that their
// elements are multiples of (ties do not end in any other way), by closer rounding, by a better
// method, and in the end exactly. Units are `measured` once.
void Ladder::refine(Method method, bool measured, Place input, std::int64_t begin,
                    std::int64_t end, Workspace& workspace) const {
  const bool may_cancel = facts_of(request_.term).is_signed && method != Method::narrow;
  const bool plain = method == Method::plain;
  if (may_cancel && terms_ >= (plain ? kManyPlain : kManyCompensated)) {
    resolve_zeros(false, input, begin, end, workspace);
  }
  measured = measured || measure(input, begin, end, workspace);
  if (measured) take_exact(method, begin, end, workspace);
  decide(method, measured, begin, end, workspace);
  if (may_cancel && plain && terms_ >= kManyTerms) {
    resolve_zeros(measured, input, begin, end, workspace);
  }

  if (method != Method::compensated) {
    return improve(method, measured, input, begin, end, workspace);
  }
  for_each_open(workspace, begin, end, [&](std::int64_t from, std::int64_t to) {
    resolve_open(input, from, to, workspace);
  });
}

// Decides the open outputs of begin..end by a better method than `method`, and what it leaves
// open as refine does.
void Ladder::improve(Method method, bool measured, Place input, std::int64_t begin,
                     std::int64_t end, Workspace& workspace) const {
  const Method better = method == Method::narrow ? Method::plain : Method::compensated;
  for_each_open(workspace, begin, end, [&](std::int64_t from, std::int64_t to) {
    sums_.sum(better, input + from * kept_.input, to - from, workspace.sums + from, workspace);
    if (!measured) decide(better, false, from, to, workspace);
    refine(better, measured, input, from, to, workspace);
  });
}

// Whether few of the first n outputs are open.
bool Ladder::are_few_open(std::int64_t n, const Workspace& workspace) const {
  return std::count(workspace.open, workspace.open + n, kOpen) <= n / kFewOpen;
}

// Finds the units of the elements of outputs begin..end, and their greatest sizes, unless no
// sum is finite that is open.
bool Ladder::measure(Place input, std::int64_t begin, std::int64_t end,
                     Workspace& workspace) const {
  bool any = false;
  for (std::int64_t i = begin; i < end && !any; ++i) {
    any = workspace.open[i] == kOpen && std::isfinite(workspace.sums.hi[i]);
  }
  if (any) {
    sums_.sum(Method::units, input + begin * kept_.input, end - begin, workspace.units + begin,
              workspace);
  }
  return any;
}

// Whether the sum of any of the terms of output i is at most `bits`, a power of two, times what
// all of them are multiples of. Sums of terms that are not negative are at most that of all.
bool Ladder::fits(std::int64_t i, double bits, const Workspace& workspace) const {
  const TermFacts& term = facts_of(request_.term);
  const double unit = power_of(workspace.units.hi[i], term.degree);
  const double most = power_of(workspace.units.lo[i], term.degree);
  const double all = term.is_signed ? static_cast<double>(terms_) * most
                                    : workspace.sums.hi[i] + workspace.sums.lo[i];
  return all * (1 + 0x1p-9) <= bits * unit && most < 0x1p1000;
}

// Decides the open outputs of begin..end whose terms `method` adds without an error.
void Ladder::take_exact(Method method, std::int64_t begin, std::int64_t end,
                        Workspace& workspace) const {
  if (request_.finish == Finish::log) return;  // no number of binary64 but 1 has one that is
  constexpr std::int64_t kFew = 64;
  double exact[kFew + kPadding] = {};
  double zeros[kFew + kPadding] = {};
  std::uint64_t terms[kFew + kPadding] = {};
  std::int64_t place[kFew];
  std::uint8_t open[kFew + kPadding];
  std::byte results[(kFew + kPadding) * sizeof(std::uint64_t)];
  const bool narrow = method == Method::narrow;
  const double bits = narrow ? 0x1p24 : 0x1p53;
  // Of the numbers that are added none is subnormal.
  const double least = narrow ? 0x1p-126 : kLeastDecidable;
  const int degree = facts_of(request_.term).degree;
  const std::int64_t bytes = output_format_.bytes;
  const Enclosures& sums = workspace.sums;
  const Terms counts = terms_of(workspace);
  std::int64_t n = 0;
  const auto flush = [&] {
    results_.of_tile(*rounder_, {exact, zeros, zeros, nullptr}, {0, terms}, n, results, open);
    for (std::int64_t j = 0; j < n; ++j) {
      if (open[j] == kOpen) continue;
      std::memcpy(reinterpret_cast<std::byte*>(workspace.results) + place[j] * bytes,
                  results + j * bytes, bytes);
      workspace.open[place[j]] = false;
    }
    n = 0;
  };
  for (std::int64_t i = begin; i < end; ++i) {
    if (workspace.open[i] != kOpen || !fits(i, bits, workspace)) continue;
    if (power_of(workspace.units.hi[i], degree) < least) continue;
    exact[n] = sums.hi[i] + sums.lo[i];
    terms[n] = static_cast<std::uint64_t>(counts[i]);
    place[n] = i;
    if (++n == kFew) flush();
  }
  if (n > 0) flush();
}

// Sums exactly the open outputs of begin..end that may be zero, for all that is known of them.
// Most are, or as near as no better enclosure tells; but where terms are known not to spread
// far, compensated sums do.
void Ladder::resolve_zeros(bool measured, Place input, std::int64_t begin, std::int64_t end,
                           Workspace& workspace) const {
  const Enclosures& sums = workspace.sums;
  for (std::int64_t i = begin; i < end; ++i) {
    if (!workspace.open[i]) continue;
    const Interval sum = interval_of(sums.hi[i], sums.lo[i], sums.bound[i]);
    if (may_be_zero(sum) && !(measured && fits(i, 0x1p80, workspace))) continue;
    workspace.open[i] = kLater;
  }
  for_each_open(workspace, begin, end, [&](std::int64_t from, std::int64_t to) {
    resolve_open(input, from, to, workspace);
  });
  for (std::int64_t i = begin; i < end; ++i) {
    if (workspace.open[i]) workspace.open[i] = kOpen;
  }
}

// Decides the open outputs of begin..end by their exact sums, some at a time.
void Ladder::resolve_open(Place input, std::int64_t begin, std::int64_t end,
                          Workspace& workspace) const {
  const int digits = sum_format(request_.term, input_format_).digits;
  auto* const whole = reinterpret_cast<std::uint64_t*>(workspace.part_sums());
  for (std::int64_t from = begin; from < end; from += exact_outputs_at_once_) {
    const std::int64_t n = std::min(exact_outputs_at_once_, end - from);
    const Place first = input + from * kept_.input;
    std::fill_n(whole, n * digits, 0);
    if (n == 1) {
      exact_sums_.add_output(first, whole, workspace);
    } else {
      exact_sums_.add_outputs(first, {workspace.part_sums(), 8 * digits, n, true}, n,
                              workspace);
    }
    round_exact(whole, digits, from, n, workspace);
  }
}

// Rounds the exact sums of n outputs, in `size` digits each: of the open ones from `from` on,
// or of integers all.
void Ladder::round_exact(const std::uint64_t* digits, int size, std::int64_t from,
                         std::int64_t n, Workspace& workspace) const {
  const SumFormat sum = sum_format(request_.term, input_format_);
  const Terms terms = terms_of(workspace) + from;
  std::uint8_t* const open = workspace.open + from;
  if (!input_format_.is_float) {
    std::fill_n(open, n, std::uint8_t{kOpen});
    if (output_format_.is_float && terms_ <= kMaxAdditions) {
      const Enclosures sums = workspace.sums + from;
      for (std::int64_t i = 0; i < n; ++i) {
        enclose(sum, digits + i * size, size, sums.hi[i], sums.lo[i], sums.bound[i]);
      }
      clear(Method::compensated, sums + n, kPadding);
      auto* const results = reinterpret_cast<std::byte*>(workspace.results);
      if (!results_.of_tile(*rounder_, sums, terms, n, results + from * output_format_.bytes,
                            open)) {
        return;
      }
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (open[i] != kOpen) continue;
    const std::uint64_t* const own = digits + i * size;
    if (request_.checked) check(own, size, terms[i], from + i);
    workspace.set_result(from + i, results_.of_exact_sum(input_format_, own, size, terms[i]),
                         output_format_.bytes);
  }
}

// Throws if what becomes of an exact sum of integers, that of output i, does not fit.
void Ladder::check(const std::uint64_t* digits, int size, std::int64_t terms,
                   std::int64_t i) const {
  const SumFormat sum = sum_format(request_.term, input_format_);
  std::uint64_t whole[3] = {};
  std::copy_n(digits, size, whole);
  results_.finish_whole(sum, whole, size, terms);
  if (!results_.holds(whole)) throw SumOverflow{{whole[0], whole[1], whole[2]}, i};
}

// Decides those open outputs of begin..end whose enclosures do, with the units of their
// elements if these were measured.
void Ladder::decide(Method method, bool measured, std::int64_t begin, std::int64_t end,
                    Workspace& workspace) const {
  const Enclosures& sums = workspace.sums;
  const bool infinite_is_final =
      request_.input_type != Type::float64 &&
      !(method == Method::narrow && request_.input_type == Type::bfloat16);
  const int degree = facts_of(request_.term).degree;
  for (std::int64_t i = begin; i < end; ++i) {
    if (!workspace.open[i]) continue;
    std::uint64_t bits;
    const double unit = measured ? power_of(workspace.units.hi[i], degree) : 0;
    if (results_.decide(sums.hi[i], sums.lo[i], sums.bound[i], terms_of(workspace)[i],
                        infinite_is_final, unit >= 0x1p-1000 ? unit : 0, &bits)) {
      workspace.set_result(i, bits, output_format_.bytes);
    }
  }
}

// Sets all n outputs of a tile from their exact sums.
void Ladder::sum_exactly(Place input, std::byte* output, std::int64_t n,
                         Workspace& workspace) const {
  std::fill_n(workspace.open, n, std::uint8_t{kOpen});
  try {
    resolve_open(input, 0, n, workspace);
  } catch (SumOverflow& overflow) {
    overflow.output = output - request_.output + overflow.output * kept_.output;
    throw;
  }
}

// Sets results from residues of integers, which are their sums where more of these counts.
void Ladder::take_residues(std::int64_t n, Workspace& workspace) const {
  const std::uint64_t* const residues = workspace.sums.residue;
  if (needs_whole_sums()) {
    round_exact(residues, 1, 0, n, workspace);
  } else if (output_format_.bytes == 8) {
    std::memcpy(workspace.results, residues, n * 8);
  } else {
    auto* low = reinterpret_cast<std::uint32_t*>(workspace.results);
    for (std::int64_t i = 0; i < n; ++i) low[i] = static_cast<std::uint32_t>(residues[i]);
  }
}

// Whether results depend on more of a sum of integers than its residue.
bool Ladder::needs_whole_sums() const {
  return !input_format_.is_float &&
         (output_format_.is_float || request_.finish != Finish::none);
}

// Whether no sum of integers reaches 2^64 or, if they are signed, 2^63 in size, so that its
// residue is all of it.
bool Ladder::residues_are_sums(std::int64_t memory_bytes) const {
  const int degree = facts_of(request_.term).degree;
  const bool is_signed = input_format_.is_signed && facts_of(request_.term).is_signed;
  const std::int64_t bits = degree * (8 * memory_bytes - (input_format_.is_signed ? 1 : 0));
  const std::int64_t room = (is_signed ? 63 : 64) - bits;
  return room > 0 && terms_ < std::int64_t{1} << std::min<std::int64_t>(room, 62);
}

template <class F>
void Ladder::for_each_open(const Workspace& workspace, std::int64_t begin, std::int64_t end,
                           F f) const {
  const std::int64_t gap =
      by_rows_ ? 1 + kNearElements / std::max<std::int64_t>(terms_, 1) : kNearColumns;
  workspace.for_each_open(begin, end, gap, f);
}

}  // namespace halfulp
