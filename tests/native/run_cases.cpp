// Runs cases made by make_cases.py through the native core, without Python: every
// instruction set of this processor, as many threads as told or 1, 2, 4 and 7, at once and,
// what is a sum, through exact sums.
// Prints what differs, and ends at the tenth. Then interrupts a call.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "../../native/dispatch.h"
#include "../../native/exact_sum.h"
#include "../../native/formats.h"
#include "../../native/parallel.h"
#include "../../native/plan.h"
#include "../../native/reduce.h"
#include "../../native/results.h"

using namespace halfulp;

namespace {

// A matrix of `rows` x `columns` reduced along one axis; then its elements, row by row, and
// the expected results.
struct Header {
  char operation[16], term[16], finish[16];
  std::int32_t input_type, output_type, axis, transposed;
  std::int32_t checked;  // of sums of integers: 1 if all fit, 2 if one does not
  std::int32_t unused;
  std::int64_t rows, columns;
};

Operation operation_named(const char* name) {
  for (std::size_t i = 0; i < std::size(kOperationNames); ++i) {
    if (std::strcmp(kOperationNames[i], name) == 0) return static_cast<Operation>(i);
  }
  std::fprintf(stderr, "no operation %s\n", name);
  std::exit(2);
}

Term term_named(const char* name) {
  for (const TermFacts& facts : kTerms) {
    if (std::strcmp(facts.name, name) == 0) return facts.term;
  }
  std::fprintf(stderr, "no term %s\n", name);
  std::exit(2);
}

Finish finish_named(const char* name) {
  for (const Finish finish : kFinishes) {
    const char* own = with_finish(finish, [](auto f) { return f.kName; });
    if (std::strcmp(own, name) == 0) return finish;
  }
  std::fprintf(stderr, "no finish %s\n", name);
  std::exit(2);
}

bool read(std::FILE* file, void* target, std::size_t bytes) {
  return std::fread(target, 1, bytes, file) == bytes;
}

// Whether a call ends that would take hours, when it shall.
bool is_interrupted(bool adds) {
  const std::vector<float> row(1 << 20, 1.0F);
  const std::int64_t shape[] = {std::int64_t{1} << 40, 1 << 20};
  const std::ptrdiff_t strides[] = {0, 4};
  const bool is_reduced[] = {true, true};
  std::uint64_t output[kMostDigits] = {};
  Watch watch([] { return true; });
  Request request = {Operation::sum,
                     Term::square,
                     Finish::none,
                     reinterpret_cast<const std::byte*>(row.data()),
                     reinterpret_cast<std::byte*>(output),
                     Type::float32,
                     Type::float32,
                     false,
                     false};
  request.adds = adds;
  request.watch = &watch;
  try {
    reduce(make_plan(2, shape, strides, is_reduced, 4, 4), request, own_threads());
  } catch (const Interrupted&) {
    return true;
  }
  return false;
}

// Whether a checked call says what does not fit: of two numbers 2^31 - 1, the sum and the root
// of the sum of their squares, but not their mean.
bool finds_what_does_not_fit() {
  const std::int32_t row[] = {2147483647, 2147483647};
  const std::int64_t shape[] = {2};
  const std::ptrdiff_t strides[] = {4};
  const bool is_reduced[] = {true};
  const auto excess = [&](Term term, Finish finish) -> std::uint64_t {
    std::int32_t output = 0;
    Request request = {Operation::sum,
                       term,
                       finish,
                       reinterpret_cast<const std::byte*>(row),
                       reinterpret_cast<std::byte*>(&output),
                       Type::int32,
                       Type::int32,
                       false,
                       true};
    try {
      reduce(make_plan(1, shape, strides, is_reduced, 4, 4), request, own_threads());
    } catch (const SumOverflow& overflow) {
      return overflow.sum[0];
    }
    return 0;
  };
  return excess(Term::magnitude, Finish::none) == 4294967294 &&
         excess(Term::square, Finish::root) == 3037000498 &&
         excess(Term::magnitude, Finish::root) == 0 &&
         excess(Term::magnitude, Finish::mean) == 0;
}

// Whether a stored sum of `terms` terms is told from what cannot be one: it is less than
// terms * 2^term_bits in size, and below 0 only if terms may be.
bool knows_stored_sums(Term term, const Format& format, std::uint64_t terms) {
  const SumFormat sum = sum_format(term, format);
  const auto is_stored = [&](const std::uint64_t* digits, std::uint64_t count) {
    return is_stored_sum(term, format, digits, count);
  };
  const auto add = [&](std::uint64_t* digits, std::uint64_t value) {
    for (int i = 0; i < sum.stored_digits; ++i) {
      digits[i] += value;
      if (digits[i] >= value) return;
      value = 1;
    }
  };
  std::uint64_t digits[kMostDigits] = {};
  if (!is_stored(digits, 0)) return false;
  add(digits, 1);
  if (is_stored(digits, 0) || !is_stored(digits, 1)) return false;
  if (sum.term_bits == 128) return true;  // any two digits may be one
  // All ones below terms * 2^term_bits, which the next number is.
  std::uint64_t least[kMostDigits + 2] = {};
  add_shifted(least, terms, sum.term_bits);
  std::uint64_t most[kMostDigits];
  std::copy_n(least, kMostDigits, most);
  for (int i = 0; i < sum.stored_digits && most[i]-- == 0; ++i) {
  }
  bool right = is_stored(most, terms) && !is_stored(least, terms);
  for (int i = 1; i < sum.stored_digits; ++i) {
    std::uint64_t larger[kMostDigits] = {};
    larger[i] = 1;
    const int above = 64 * i - sum.term_bits;  // it is 2^(64 i)
    const bool is_less = above < 0 || (above < 64 && std::uint64_t{1} << above < terms);
    right = right && is_stored(larger, terms) == is_less;
  }
  // The same below 0: never a sum of numbers without sign.
  const bool may_be = facts_of(term).is_signed && format.is_signed;
  const bool flags = format.is_float && !may_be;  // the highest bits are flags
  negate(most, sum.stored_digits);
  negate(least, sum.stored_digits);
  if (!flags) right = right && is_stored(most, terms) == may_be;
  right = right && !is_stored(least, terms);
  if (!right) {
    std::printf("stored sums of %lu terms: %s, type %d\n", static_cast<unsigned long>(terms),
                facts_of(term).name, static_cast<int>(format.type));
  }
  return right;
}

bool knows_stored_sums() {
  bool right = true;
  for (const TermFacts& facts : kTerms) {
    for (const Format& format : kFormats) {
      for (const std::uint64_t terms : {std::uint64_t{1}, std::uint64_t{3}, kMostTerms}) {
        right = right && knows_stored_sums(facts.term, format, terms);
      }
    }
  }
  return right;
}

}  // namespace

int main(int count, char** arguments) {
  std::FILE* file = count >= 2 ? std::fopen(arguments[1], "rb") : nullptr;
  if (!file) {
    std::fprintf(stderr, "usage: run_cases FILE [THREADS ...]\n");
    return 2;
  }
  std::vector<int> numbers;
  for (int i = 2; i < count; ++i) numbers.push_back(std::atoi(arguments[i]));
  if (numbers.empty()) numbers = {1, 2, 4, 7};
  set_bytes_per_thread(1);
  long compared = 0;
  long wrong = 0;
  for (Header header; read(file, &header, sizeof header);) {
    const Format& input = format_of(static_cast<Type>(header.input_type));
    const Format& output = format_of(static_cast<Type>(header.output_type));
    const std::int64_t shape[] = {header.rows, header.columns};
    const std::int64_t outputs = shape[1 - header.axis];
    const Term term = term_named(header.term);
    const Finish finish = finish_named(header.finish);
    std::vector<std::uint64_t> data((header.rows * header.columns * input.bytes + 7) / 8 + 1);
    std::vector<std::byte> want(outputs * output.bytes);
    std::vector<std::byte> got(want.size());
    if (!read(file, data.data(), header.rows * header.columns * input.bytes) ||
        !read(file, want.data(), want.size())) {
      std::fprintf(stderr, "truncated file\n");
      return 2;
    }
    std::ptrdiff_t strides[] = {header.columns * input.bytes, input.bytes};
    if (header.transposed) {
      strides[0] = input.bytes;
      strides[1] = header.rows * input.bytes;
    }
    const bool is_reduced[] = {header.axis == 0, header.axis == 1};
    const Plan plan = make_plan(2, shape, strides, is_reduced, input.bytes, output.bytes);
    const Operation operation = operation_named(header.operation);
    const Request request = {
        operation,  term,       finish,      reinterpret_cast<const std::byte*>(data.data()),
        got.data(), input.type, output.type, false,
        false};
    const int digits = sum_format(term, input).stored_digits;
    const Results results(term, finish, output);
    const Plan to_sums = make_plan(2, shape, strides, is_reduced, input.bytes, 8 * digits);
    for (const Target* const* target = available_targets(); *target; ++target) {
      choose_target((*target)->name);
      for (const int threads : numbers) {
        set_thread_limit(threads);
        reduce(plan, request, own_threads());
        bool same = std::memcmp(got.data(), want.data(), want.size()) == 0;
        compared += outputs;
        if (operation == Operation::sum) {
          std::vector<std::uint64_t> sums(outputs * digits);
          Request update = request;
          update.output = reinterpret_cast<std::byte*>(sums.data());
          update.adds = true;
          reduce(to_sums, update, own_threads());
          // Of integers they are less than the sums from 2^127 on.
          const bool all = input.is_float || (!output.is_float && finish == Finish::none);
          for (std::int64_t i = 0; i < outputs; ++i) {
            if (!all && sums[i * digits + 1] >> 63 != 0) continue;
            const std::uint64_t bits =
                results.of_exact_sum(input, &sums[i * digits], digits, shape[header.axis]);
            same = same && std::memcmp(&bits, &want[i * output.bytes], output.bytes) == 0;
          }
          compared += outputs;
        }
        if (header.checked != 0) {
          Request checked = request;
          checked.checked = true;
          bool fits = true;
          try {
            reduce(plan, checked, own_threads());
          } catch (const SumOverflow&) {
            fits = false;
          }
          same = same && fits == (header.checked == 1) &&
                 (!fits || std::memcmp(got.data(), want.data(), want.size()) == 0);
        }
        if (!same) {
          std::printf(
              "differs: %s %s %s, %s, %d threads, types %d to %d, (%ld, %ld), axis %d\n",
              header.operation, header.term, header.finish, (*target)->name, threads,
              header.input_type, header.output_type, static_cast<long>(header.rows),
              static_cast<long>(header.columns), header.axis);
          if (++wrong == 10) return 1;
        }
      }
    }
  }
  std::fclose(file);
  for (const Target* const* target = available_targets(); *target; ++target) {
    std::printf("%s ", (*target)->name);
  }
  set_thread_limit(4);
  if (!finds_what_does_not_fit()) {
    std::printf("| what does not fit is not found\n");
    return 1;
  }
  if (!knows_stored_sums()) return 1;
  if (!is_interrupted(false) || !is_interrupted(true)) return 1;
  std::printf("| %ld results compared, %ld calls differ\n", compared, wrong);
  return wrong != 0 || compared == 0;
}
