#include "log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "enclosure.h"
#include "exact_exponentials.h"
#include "logarithm.h"
#include "read.h"
#include "results.h"
#include "schedule.h"

namespace halfulp {
namespace {

// Elements that lie apart are copied so many of a row at once: rows that are neighbours in
// memory are then read together.
constexpr Cut kCopies = {1, 256};

// Elements of an output that are read at once with those of others beside it.
constexpr std::int64_t kRows = 32;
// Of fewer outputs vectors would not be full.
constexpr std::int64_t kLanes = 16;
static_assert(kRows <= static_cast<std::int64_t>(kExponentialRows) &&
              kShortRow <= static_cast<std::int64_t>(kExponentialRows));

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What is known of one output: the sum of e^(x - shift) of its elements is high + low to within
// bound. If no element is finite the shift is not: infinite if that is the greatest, NaN if any
// is. Of integers the sum is of what they are more than the greatest, if there are any.
struct Sum {
  double& shift;
  double& high;
  double& low;
  double& bound;

  void set(const Sum& other) const {
    shift = other.shift;
    high = other.high;
    low = other.low;
    bound = other.bound;
  }
};

// The same of neighbouring outputs, an entry each, and kPadding more.
struct Sums {
  double* shift;
  double* high;
  double* low;
  double* bound;

  Sum operator[](std::int64_t i) const { return {shift[i], high[i], low[i], bound[i]}; }
  Sums operator+(std::int64_t i) const { return {shift + i, high + i, low + i, bound + i}; }
  void clear(std::int64_t n) const {
    std::fill_n(shift, n, -kInfinite);
    for (double* const each : {high, low, bound}) std::fill_n(each, n, 0);
  }
};

// Memory of one worker.
class Memory {
 public:
  Memory(std::int64_t outputs, bool of_integers, Watch* watch)
      : pace(watch), greatest(of_integers ? outputs : 0) {
    const std::int64_t n = outputs + static_cast<std::int64_t>(kPadding);
    constexpr std::int64_t kNumbers = 10;
    const std::int64_t size = kPackBytes + (kNumbers * 8 + 1) * n;
    bytes_.reset(new std::byte[size + 64]);
    packed = bytes_.get() + (-reinterpret_cast<std::uintptr_t>(bytes_.get()) & 63);
    auto* next = reinterpret_cast<double*>(packed + kPackBytes);
    for (double** each : {&sums.shift, &sums.high, &sums.low, &sums.bound, &more.shift,
                          &more.high, &more.low, &more.bound, &zeros, &results}) {
      *each = std::exchange(next, next + n);
    }
    open = reinterpret_cast<std::uint8_t*>(next);
    std::fill(sums.shift, next, 0);
  }

  Pace pace;
  std::byte* packed;  // kPackBytes, for elements that are copied
  Sums sums;
  Sums more;       // of a block; later, values and what these are known to within
  double* zeros;   // never anything else
  double* results; // of any type
  std::uint8_t* open;
  std::vector<int128> greatest;  // of integers

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

enum class Precision { plain, twofold };

// e^-700 = (high + low) * 2^-1010.
constexpr TwoNumbers kFarAway = {0x1.14f2b0fb9307fp+0, 0x1.57961a567de7ap-57};
constexpr double kFarShift = -700;
constexpr int kFarScale = -1010;

class Call {
 public:
  Call(const Plan& plan, const Request& request, const Executor& executor)
      : plan_(plan),
        request_(request),
        kept_(plan.kept.innermost()),
        input_(format_of(request.input_type)),
        output_(format_of(request.output_type)),
        is_plain_(input_.is_float && output_.precision <= 24),
        terms_(plan.reduced.count()),
        kernels_(find_exponentials(input_.is_float ? request.input_type : Type::float64)),
        powers_(find_exponentials(Type::float64)),
        reader_(plan, request.input,
                {format_of(request.input_type).bytes, request.byte_swapped, request.small,
                 request.counted}),
        schedule_(plan, Schedule::workers_for(plan, input_.bytes, executor), kSmallestTile,
                  executor, request.watch) {
    const auto make = [&](std::vector<std::unique_ptr<Memory>>& memories, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        memories.push_back(
            std::make_unique<Memory>(schedule_.tile(), !input_.is_float, request.watch));
      }
    };
    make(memories_, schedule_.workers());
    if (schedule_.parts() > 1) make(parts_, schedule_.parts());
  }

  void run() {
    schedule_.for_each_tile([this](const Tile& tile, std::size_t worker) {
      Memory& memory = *memories_[worker];
      memory.pace.count(1);
      const Place input = Place{request_.input, request_.mask} + tile.input;
      reduce_tile(input, request_.output + tile.output, tile.outputs, memory);
    });
  }

 private:
  void reduce_tile(Place input, std::byte* output, std::int64_t n, Memory& memory) const {
    const Precision first = is_plain_ ? Precision::plain : Precision::twofold;
    const Sums& sums = memory.sums;
    sum(first, input, n, sums, memory);
    bool any_open = true;
    if (is_plain_) {
      const Sums& values = memory.more;
      std::copy_n(sums.bound, n, values.bound);
      kernels_.add_logarithms(n, sums.shift, sums.high, sums.low, values.bound, values.high);
      any_open = find_rounder(output_.type)
                     .function(Finish::none,
                               {values.high, memory.zeros, values.bound, nullptr}, {terms_, nullptr},
                               n, memory.results, memory.open);
      store_results(output, kept_.output, reinterpret_cast<const std::byte*>(memory.results),
                    output_.bytes, n);
    }
    for (std::int64_t i = 0; any_open && i < n; ++i) {
      if (is_plain_ && memory.open[i] != kOpen) continue;
      const Place own = input + i * kept_.input;
      std::uint64_t bits;
      bool known = decide(sums[i], memory, i, &bits);
      if (!known && first == Precision::plain) {
        sum(Precision::twofold, own, 1, sums + i, memory);
        known = decide(sums[i], memory, i, &bits);
      }
      if (!known) bits = decide_exactly(own, memory);
      // The low bytes of a little-endian integer come first.
      std::memcpy(output + i * kept_.output, &bits, output_.bytes);
    }
  }

  // Sets the sums of n neighbouring outputs.
  void sum(Precision precision, Place input, std::int64_t n, const Sums& sums,
           Memory& memory) const {
    sums.clear(n);
    if (terms_ == 0) return;
    if (!input_.is_float) return sum_integers(input, n, sums, memory);
    if (parts_.empty()) return sum_part(precision, plan_.reduced, input, n, sums, memory);
    std::mutex mutex;  // guards sums
    schedule_.for_each_part([&](const Part& part, std::size_t worker) {
      Memory& own = *parts_[worker];
      own.sums.clear(n);
      sum_part(precision, part.reduced, input + part.input, n, own.sums, own);
      const std::lock_guard<std::mutex> guard(mutex);
      for (std::int64_t i = 0; i < n; ++i) join(sums[i], own.sums[i]);
    });
  }

  // Calls f(i, data, count) for elements of output i that lie side by side.
  template <class F>
  void for_each_stretch(const Loops& reduced, Place input, std::int64_t n, Memory& memory,
                        F f) const {
    const Loop& inner = reduced.innermost();
    for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
      const Matrix matrix = {input + offset, n, kept_.input, inner.count, inner.input};
      reader_.for_each_block(matrix, kCopies, memory.packed, [&](const Block& block) {
        memory.pace.count(block.cost);
        for (std::int64_t i = 0; i < block.rows; ++i) {
          constexpr auto kMost = static_cast<std::int64_t>(kExponentialsAtOnce);
          for (std::int64_t j = 0; j < block.columns; j += kMost) {
            f(block.row + i, block.data + i * block.row_stride + j * reader_.bytes(),
              std::min(kMost, block.columns - j));
          }
        }
      });
    });
  }

  // The same of many outputs: calls f(i, data, row_stride, rows, columns) for elements of
  // `columns` outputs from i on, where `rows` of each are below each other.
  template <class F>
  void for_each_stripe(const Loops& reduced, Place input, std::int64_t n, Memory& memory,
                       F f) const {
    const Loop& inner = reduced.innermost();
    const std::int64_t bytes = reader_.bytes();
    for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
      const std::byte* const data = (input + offset).element;
      if (plan_.layout == Layout::columns) {
        for (std::int64_t j = 0; j < inner.count; j += kRows) {
          const std::int64_t rows = std::min(kRows, inner.count - j);
          memory.pace.count(rows * n);
          f(0, data + j * inner.input.element, inner.input.element, rows, n);
        }
        return;
      }
      const std::int64_t most = kPackBytes / bytes / inner.count / kLanes * kLanes;
      for (std::int64_t i = 0; i < n; i += most) {
        const std::int64_t columns = std::min(most, n - i);
        memory.pace.count(columns * inner.count);
        transpose(memory.packed, most, data + i * kept_.input.element, columns,
                  kept_.input.element, inner.count, bytes);
        f(i, memory.packed, most * bytes, inner.count, columns);
      }
    });
  }

  // Whether to add many outputs at once.
  bool by_stripes(const Loops& reduced, std::int64_t n) const {
    if (n < kLanes) return false;
    if (plan_.layout == Layout::columns) return reader_.in_place(kept_.input);
    const Loop& inner = reduced.innermost();
    return inner.count <= kShortRow && reader_.in_place(inner.input);
  }

  void sum_part(Precision precision, const Loops& reduced, Place input, std::int64_t n,
                const Sums& sums, Memory& memory) const {
    const bool plain = precision == Precision::plain;
    const auto& kernel = plain ? kernels_.plain : kernels_.twofold;
    const double share = plain ? kPlainExponential : kTwofoldExponential;
    if (!by_stripes(reduced, n)) {
      for_each_stretch(reduced, input, n, memory,
                       [&](std::int64_t i, const std::byte* data, std::int64_t n) {
                         const Sum sum = sums[i];
                         rise(sum, kernels_.greatest(data, n));
                         if (std::isfinite(sum.shift)) {
                           add(sum, kernel.row, share, data, n, sum.shift);
                         }
                       });
      return;
    }
    const Sums& more = memory.more;
    for_each_stripe(reduced, input, n, memory,
                    [&](std::int64_t i, const std::byte* data, std::ptrdiff_t row_stride,
                        std::int64_t rows, std::int64_t columns) {
                      const Sums to = sums + i;
                      kernels_.greatest_of_columns(data, row_stride, rows, columns, more.shift);
                      for (std::int64_t j = 0; j < columns; ++j) rise(to[j], more.shift[j]);
                      kernel.columns(data, row_stride, rows, columns, to.shift, more.high,
                                     more.low);
                      for (std::int64_t j = 0; j < columns; ++j) {
                        add(to[j], share, rows, more.high[j], more.low[j]);
                      }
                    });
  }

  // Changes the shift so that it suits elements of which this is the greatest, or NaN.
  void rise(const Sum& sum, double greatest) const {
    // Also false if either is NaN.
    if (greatest <= sum.shift + (sum.shift > -kInfinite ? kMostExponent : 0)) return;
    if (std::isfinite(sum.shift) && std::isfinite(greatest)) {
      shift(sum, greatest);
    } else if (sum.shift == sum.shift) {
      sum.shift = greatest;
    }
  }

  template <class Kernel>
  static void add(const Sum& sum, Kernel kernel, double share, const std::byte* data,
                  std::int64_t n, double shift) {
    double high, low;
    kernel(data, n, shift, &high, &low);
    add(sum, share, n, high, low);
  }

  // Adds what a kernel found.
  static void add(const Sum& sum, double share, std::int64_t n, double high, double low) {
    accumulate(sum.high, sum.low, sum.bound, high, low,
               high * share + static_cast<double>(n + kMostPadding) * kLeastExponential);
  }

  // Changes the shift to another, not less than it.
  void shift(const Sum& sum, double to) const {
    if (to == sum.shift) return;
    double high, low;
    powers_.twofold.row(reinterpret_cast<const std::byte*>(&sum.shift), 1, to, &high, &low);
    const double product = sum.high * high;
    const double rest = -rest_of_product(product, sum.high, high);
    const double few = static_cast<double>(2 + kMostPadding) * kLeastExponential;
    const double error = high * kTwofoldExponential + few;
    sum.bound = (sum.bound * (high + error) + (sum.high + sum.bound) * error) * (1 + 0x1p-20) +
                product * 0x1p-100 + 0x1p-1000;
    sum.low = rest + (sum.high * low + sum.low * high);
    sum.high = product;
    sum.shift = to;
  }

  void join(const Sum& sum, const Sum& other) const {
    if (!std::isfinite(sum.shift) || !std::isfinite(other.shift)) {
      // NaN, or the greater.
      if (!(sum.shift >= other.shift) && sum.shift == sum.shift) sum.set(other);
      return;
    }
    const double to = std::max(sum.shift, other.shift);
    shift(sum, to);
    shift(other, to);
    accumulate(sum.high, sum.low, sum.bound, other.high, other.low, other.bound);
  }

  // An integer of the input's type.
  int128 integer_at(const std::byte* data) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data, input_.bytes);
    if (!input_.is_signed) return bits;
    return input_.bytes == 4 ? int128{static_cast<std::int32_t>(bits)}
                             : int128{static_cast<std::int64_t>(bits)};
  }

  // What an integer is less than another: 0 or below, in binary64, if that matters.
  static double less_than(int128 x, int128 greatest) {
    const int128 difference = x - greatest;
    return difference < -1024 ? -kInfinite : static_cast<double>(difference);
  }

  void sum_integers(Place input, std::int64_t n, const Sums& sums, Memory& memory) const {
    for_each_stretch(plan_.reduced, input, n, memory,
                     [&](std::int64_t i, const std::byte* data, std::int64_t count) {
                       int128& greatest = memory.greatest[i];
                       if (sums.shift[i] != 0) greatest = integer_at(data);
                       sums.shift[i] = 0;
                       for (std::int64_t j = 0; j < count; ++j) {
                         greatest = std::max(greatest, integer_at(data + j * input_.bytes));
                       }
                     });
    for_each_stretch(plan_.reduced, input, n, memory,
                     [&](std::int64_t i, const std::byte* data, std::int64_t count) {
                       constexpr std::int64_t kFew = 64;
                       double less[kFew];
                       for (std::int64_t j = 0; j < count; j += kFew) {
                         const std::int64_t few = std::min(kFew, count - j);
                         for (std::int64_t k = 0; k < few; ++k) {
                           less[k] = less_than(integer_at(data + (j + k) * input_.bytes),
                                               memory.greatest[i]);
                         }
                         add(sums[i], powers_.twofold.row, kTwofoldExponential,
                             reinterpret_cast<const std::byte*>(less), few, 0);
                       }
                     });
  }

  std::uint64_t nothing() const {
    if (output_.is_float) return output_.infinity() | output_.sign();
    return output_.is_signed ? ~std::uint64_t{0} << (8 * output_.bytes - 1) : 0;
  }

  // A number that is known: 0 without a sign.
  std::uint64_t round(const Scaled& x) const {
    const bool negative = x.m < 0;
    const auto size = static_cast<uint128>(negative ? -x.m : x.m);
    if (!output_.is_float) return static_cast<std::uint64_t>(x.m);
    const std::uint64_t digits[] = {static_cast<std::uint64_t>(size),
                                    static_cast<std::uint64_t>(size >> 64)};
    const Leading value = leading_of({digits, 2, x.exponent});
    return round_to(output_, value.m, value.exponent, value.sticky) |
           (negative ? output_.sign() : 0);
  }

  // The result of output i of a tile, if what is known determines it.
  bool decide(const Sum& sum, const Memory& memory, std::int64_t i,
              std::uint64_t* result) const {
    if (!std::isfinite(sum.shift)) {
      *result = sum.shift == kInfinite    ? output_.infinity()
                : sum.shift == -kInfinite ? nothing()
                                          : output_.quiet_nan();
      return true;
    }
    const int128 greatest = input_.is_float ? 0 : memory.greatest[i];
    if (terms_ == 1) {
      *result = round(input_.is_float ? Scaled::of(sum.shift) : Scaled::of(greatest));
      return true;
    }
    const Interval log = log_of(interval_of(sum.high, sum.low, sum.bound));
    if (!(log.width < 1)) return false;
    if (!output_.is_float) {
      // The logarithm of two exponentials or more is above 0, and no whole number.
      const double width = log.width + 0x1p-40;
      const double least = std::floor(std::max(0.0, log.s - width));
      const bool negative = greatest + static_cast<std::int64_t>(least) < 0;
      *result = static_cast<std::uint64_t>(greatest) + static_cast<std::uint64_t>(least) +
                negative;
      return least == std::floor(log.s + width);
    }
    if (input_.is_float) return round_sum(sum.shift, 0, log, result);
    const auto near = static_cast<double>(greatest);
    return round_sum(near, static_cast<double>(greatest - static_cast<int128>(near)), log,
                     result);
  }

  // The result shift + shift_low + log, if that is known.
  bool round_sum(double shift, double shift_low, const Interval& log,
                 std::uint64_t* result) const {
    double rest, t;
    const double near = add_exactly(shift, log.s, rest);
    const double s = add_exactly(near, rest + (log.t + shift_low), t);
    const double lost = (std::abs(shift) + std::abs(log.s) + std::abs(near)) * 0x1p-103;
    const bool negative = s < 0;
    const Interval value = {std::abs(s), negative ? -t : t,
                            (log.width + lost) * (1 + 0x1p-8) + std::abs(s) * 0x1p-100};
    const bool same = round_ends(output_, value, result);
    if (negative) *result |= output_.sign();
    return same;
  }

  // The result of an output whose elements are all finite or -infinity.
  std::uint64_t decide_exactly(Place input, Memory& memory) const {
    const Format& format = input_;
    const auto visit = [&](auto f) {
      for_each_stretch(plan_.reduced, input, 1, memory,
                       [&](std::int64_t, const std::byte* data, std::int64_t n) {
                         for (std::int64_t j = 0; j < n; ++j, data += format.bytes) {
                           memory.pace.count(64);
                           if (format.is_float) {
                             const double x = float_at(data);
                             if (x != -kInfinite) f(Scaled::of(x), x);
                           } else {
                             const int128 x = integer_at(data);
                             f(Scaled::of(x), static_cast<double>(x));
                           }
                         }
                       });
    };
    std::int64_t finite = 0;
    double near_greatest = -kInfinite;
    Scaled greatest = {0, 0};
    visit([&](const Scaled& x, double near) {
      ++finite;
      const bool more = format.is_float ? near > near_greatest : x.m > greatest.m;
      if (finite > 1 && !more) return;
      near_greatest = near;
      greatest = x;
    });
    if (finite == 1) return round(greatest);
    std::uint64_t result;
    if (output_.is_float && decide_by_others(visit, greatest, near_greatest, &result)) {
      return result;
    }
    return log_of_exponentials(greatest, output_, [&](auto f) {
      visit([&](const Scaled& x, double near) {
        f(x, format.is_float ? near_greatest - near : static_cast<double>(greatest.m - x.m));
      });
    });
  }

  // The sum of e^(x - shift) of elements but the greatest, of which there are at least two more
  // or less: finite ones. False if another is as great.
  template <class Visit>
  bool sum_others(Visit visit, const Scaled& greatest, double near_greatest, double shift,
                  const Sum& sum) const {
    constexpr std::int64_t kFew = 64;
    double few[kFew];
    std::int64_t n = 0;
    std::int64_t as_great = 0;
    const auto flush = [&] {
      if (n > 0) {
        add(sum, powers_.twofold.row, kTwofoldExponential,
            reinterpret_cast<const std::byte*>(few), n, shift);
      }
      n = 0;
    };
    visit([&](const Scaled& x, double near) {
      const double other = input_.is_float ? near : less_than(x.m, greatest.m);
      if (other == (input_.is_float ? near_greatest : 0)) {
        ++as_great;
        return;
      }
      few[n++] = other;
      sum.shift = std::max(sum.shift, other);
      if (n == kFew) flush();
    });
    flush();
    return as_great == 1;
  }

  // The result, where one element is the greatest by far: the logarithm of 1 and the others'
  // exponentials less the greatest, which that sum has no place for.
  template <class Visit>
  bool decide_by_others(Visit visit, const Scaled& greatest, double near_greatest,
                        std::uint64_t* result) const {
    double most = -kInfinite, high = 0, low = 0, bound = 0;
    const double shift = input_.is_float ? near_greatest : 0;
    if (!sum_others(visit, greatest, near_greatest, shift, {most, high, low, bound})) {
      return false;
    }
    if (high > 0x1p-7) return false;
    if (near_greatest != 0 || high > 0x1p-700) {
      const Interval others = interval_of(high, low, bound);
      if (!(others.s >= 0x1p-860 && others.width < others.s)) return false;
      const Interval log = log_of_1_plus(others);
      const double shift_low =
          input_.is_float ? 0
                          : static_cast<double>(greatest.m - static_cast<int128>(near_greatest));
      return round_sum(near_greatest, shift_low, log, result);
    }
    // Of so little the logarithm is itself, and what is too little has no place in any type.
    if (most < -800) {
      *result = 0;
      return true;
    }
    high = low = bound = 0;
    sum_others(visit, greatest, near_greatest, kFarShift, {most, high, low, bound});
    const double product = high * kFarAway.high;
    const double rest = -rest_of_product(product, high, kFarAway.high);
    const double error = bound * 1.25 + product * 0x1p-98;
    const Interval value =
        interval_of(product, rest + (high * kFarAway.low + low * kFarAway.high), error);
    return round_ends(output_, value, result, kFarScale);
  }

  // A float of the input's type.
  double float_at(const std::byte* data) const { return kernels_.greatest(data, 1); }

  const Plan& plan_;
  const Request& request_;
  const Loop& kept_;
  const Format& input_;
  const Format& output_;
  const bool is_plain_;
  const std::int64_t terms_;
  const Exponentials& kernels_;
  const Exponentials& powers_;  // of binary64
  const Reader reader_;
  const Schedule schedule_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<Memory>> parts_;
};

}  // namespace

void reduce_exponentials(const Plan& plan, const Request& request, const Executor& executor) {
  if (plan.kept.count() > 0) Call(plan, request, executor).run();
}

}  // namespace halfulp
