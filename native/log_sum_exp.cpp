#include "log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
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

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What is known of one output: the sum of e^(x - shift) of its elements is high + low to within
// bound, if any is finite. Of integers the shift is `greatest`, and the sum is of doubles.
struct Sum {
  double shift = 0;
  double high = 0;
  double low = 0;
  double bound = 0;
  bool any = false;
  bool is_nan = false;
  bool is_infinite = false;
  int128 greatest = 0;
};

// Memory of one worker.
struct Memory {
  Memory(std::int64_t outputs, Watch* watch)
      : pace(watch), bytes(new std::byte[kPackBytes + 64]), sums(outputs) {
    packed = bytes.get() + (-reinterpret_cast<std::uintptr_t>(bytes.get()) & 63);
  }
  Pace pace;
  std::unique_ptr<std::byte[]> bytes;
  std::byte* packed;
  std::vector<Sum> sums;
};

enum class Precision { plain, twofold };

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
    for (std::int64_t i = 0; i < schedule_.workers(); ++i) {
      memories_.push_back(std::make_unique<Memory>(schedule_.tile(), request.watch));
    }
    for (std::int64_t i = 0; i < schedule_.parts() && schedule_.parts() > 1; ++i) {
      parts_.push_back(std::make_unique<Memory>(schedule_.tile(), request.watch));
    }
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
    sum(first, input, n, memory.sums.data(), memory);
    for (std::int64_t i = 0; i < n; ++i) {
      const Place own = input + i * kept_.input;
      std::uint64_t bits;
      bool known = decide(memory.sums[i], &bits);
      if (!known && first == Precision::plain) {
        sum(Precision::twofold, own, 1, &memory.sums[i], memory);
        known = decide(memory.sums[i], &bits);
      }
      if (!known) bits = decide_exactly(own, memory);
      // The low bytes of a little-endian integer come first.
      std::memcpy(output + i * kept_.output, &bits, output_.bytes);
    }
  }

  // Sets the sums of n neighbouring outputs.
  void sum(Precision precision, Place input, std::int64_t n, Sum* sums, Memory& memory) const {
    std::fill_n(sums, n, Sum());
    if (terms_ == 0) return;
    if (!input_.is_float) return sum_integers(input, n, sums, memory);
    if (parts_.empty()) return sum_part(precision, plan_.reduced, input, n, sums, memory);
    std::mutex mutex;  // guards sums
    schedule_.for_each_part([&](const Part& part, std::size_t worker) {
      Memory& own = *parts_[worker];
      std::fill_n(own.sums.begin(), n, Sum());
      sum_part(precision, part.reduced, input + part.input, n, own.sums.data(), own);
      const std::lock_guard<std::mutex> guard(mutex);
      for (std::int64_t i = 0; i < n; ++i) join(sums[i], own.sums[i]);
    });
  }

  // Calls f(i, data, count) for elements of output i that lie side by side.
  template <class F>
  void for_each_stretch(const Loops& reduced, Place input, std::int64_t n, Memory& memory,
                        F f) const {
    const Loop& inner = reduced.innermost();
    const bool side_by_side = n > 1 && reader_.in_place(kept_.input);
    for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
      if (plan_.layout == Layout::columns && side_by_side) {
        return for_each_column(inner, input + offset, n, memory, f);
      }
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

  // The same where outputs lie side by side: a cache line of them is copied to rows.
  template <class F>
  void for_each_column(const Loop& inner, Place input, std::int64_t n, Memory& memory,
                       F f) const {
    constexpr std::int64_t kLine = 64;
    constexpr std::int64_t kRows = kPackBytes / kLine;
    const std::int64_t bytes = reader_.bytes();
    const std::int64_t wide = kLine / bytes;
    for (std::int64_t j = 0; j < inner.count; j += kRows) {
      const std::int64_t count = std::min(kRows, inner.count - j);
      memory.pace.count(count * n);
      for (std::int64_t i = 0; i < n; i += wide) {
        const std::int64_t outputs = std::min(wide, n - i);
        transpose(memory.packed, kRows, (input + j * inner.input).element + i * bytes, count,
                  inner.input.element, outputs, bytes);
        for (std::int64_t k = 0; k < outputs; ++k) {
          f(i + k, memory.packed + k * kRows * bytes, count);
        }
      }
    }
  }

  void sum_part(Precision precision, const Loops& reduced, Place input, std::int64_t n,
                Sum* sums, Memory& memory) const {
    const bool plain = precision == Precision::plain;
    const auto kernel = plain ? kernels_.plain : kernels_.twofold;
    const double share = plain ? kPlainExponential : kTwofoldExponential;
    for_each_stretch(reduced, input, n, memory,
                     [&](std::int64_t i, const std::byte* data, std::int64_t n) {
                       Sum& sum = sums[i];
                       const double greatest = kernels_.greatest(data, n);
                       sum.is_nan |= greatest != greatest;
                       sum.is_infinite |= greatest == kInfinite;
                       if (sum.is_nan || sum.is_infinite || greatest == -kInfinite) return;
                       if (!sum.any) {
                         sum.any = true;
                         sum.shift = greatest;
                       } else if (greatest > sum.shift + kMostExponent) {
                         shift(sum, greatest);
                       }
                       add(sum, kernel, share, data, n, sum.shift);
                     });
  }

  template <class Kernel>
  static void add(Sum& sum, Kernel kernel, double share, const std::byte* data, std::int64_t n,
                  double shift) {
    double high, low;
    kernel(data, n, shift, &high, &low);
    accumulate(sum.high, sum.low, sum.bound, high, low,
               high * share + static_cast<double>(n + kMostPadding) * kLeastExponential);
  }

  // Changes the shift to another, not less than it.
  void shift(Sum& sum, double to) const {
    if (to == sum.shift) return;
    double high, low;
    powers_.twofold(reinterpret_cast<const std::byte*>(&sum.shift), 1, to, &high, &low);
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

  void join(Sum& sum, Sum& other) const {
    sum.is_nan |= other.is_nan;
    sum.is_infinite |= other.is_infinite;
    if (!other.any) return;
    if (!sum.any) {
      other.is_nan |= sum.is_nan;
      other.is_infinite |= sum.is_infinite;
      sum = other;
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

  void sum_integers(Place input, std::int64_t n, Sum* sums, Memory& memory) const {
    for_each_stretch(plan_.reduced, input, n, memory,
                     [&](std::int64_t i, const std::byte* data, std::int64_t count) {
                       Sum& sum = sums[i];
                       for (std::int64_t j = 0; j < count; ++j) {
                         const int128 x = integer_at(data + j * input_.bytes);
                         if (!sum.any || x > sum.greatest) sum.greatest = x;
                         sum.any = true;
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
                                               sums[i].greatest);
                         }
                         add(sums[i], powers_.twofold, kTwofoldExponential,
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

  // The result, if what is known determines it.
  bool decide(const Sum& sum, std::uint64_t* result) const {
    if (sum.is_nan) {
      *result = output_.quiet_nan();
      return true;
    }
    if (sum.is_infinite) {
      *result = output_.infinity();
      return true;
    }
    if (!sum.any) {
      *result = nothing();
      return true;
    }
    if (terms_ == 1) {
      *result = round(input_.is_float ? Scaled::of(sum.shift) : Scaled::of(sum.greatest));
      return true;
    }
    const Interval log = log_of(interval_of(sum.high, sum.low, sum.bound));
    if (!(log.width < 1)) return false;
    if (!output_.is_float) {
      // The logarithm of two exponentials or more is above 0, and no whole number.
      const double width = log.width + 0x1p-40;
      const double least = std::floor(std::max(0.0, log.s - width));
      const bool negative = sum.greatest + static_cast<std::int64_t>(least) < 0;
      *result = static_cast<std::uint64_t>(sum.greatest) + static_cast<std::uint64_t>(least) +
                negative;
      return least == std::floor(log.s + width);
    }
    double shift = sum.shift;
    double shift_low = 0;
    if (!input_.is_float) {
      shift = static_cast<double>(sum.greatest);
      shift_low = static_cast<double>(sum.greatest - static_cast<int128>(shift));
    }
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
    std::int64_t finite = 0;
    double near_greatest = -kInfinite;
    Scaled greatest = {0, 0};
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
    visit([&](const Scaled& x, double near) {
      ++finite;
      const bool more = format.is_float ? near > near_greatest : x.m > greatest.m;
      if (finite > 1 && !more) return;
      near_greatest = near;
      greatest = x;
    });
    if (finite == 1) return round(greatest);
    return log_of_exponentials(greatest, output_, [&](auto f) {
      visit([&](const Scaled& x, double near) {
        f(x, format.is_float ? near_greatest - near : static_cast<double>(greatest.m - x.m));
      });
    });
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
