#include "log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "exponential_sums.h"
#include "log_results.h"
#include "read.h"
#include "schedule.h"

namespace halfulp {
namespace {

// Elements that lie apart are copied so many of a row at once: rows that are neighbours in
// memory are then read together.
constexpr Cut kCopies = {1, 256};

// An element takes as long as it takes to read so many: what a thread is worth.
constexpr int kWorth = 8;

// Elements of an output that are read at once with those of others beside it.
constexpr std::int64_t kRows = 32;
// Of fewer outputs vectors would not be full.
constexpr std::int64_t kLanes = 16;
static_assert(kRows <= static_cast<std::int64_t>(kExponentialRows) &&
              kShortRow <= static_cast<std::int64_t>(kExponentialRows));

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
  ExponentialSums sums;
  ExponentialSums more;  // of a block; later, values and what these are known to within
  double* zeros;         // never anything else
  double* results;       // of any type
  std::uint8_t* open;
  std::vector<int128> greatest;  // of integers

 private:
  std::unique_ptr<std::byte[]> bytes_;
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
        results_(input_, output_),
        reader_(plan, request.input,
                {format_of(request.input_type).bytes, request.byte_swapped, request.small,
                 request.counted}),
        schedule_(plan, Schedule::workers_for(plan, kWorth * input_.bytes, executor),
                  kSmallestTile, executor, request.watch) {
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
    const ExponentialSums& sums = memory.sums;
    sum(first, input, n, sums, memory);
    bool any_open = true;
    if (is_plain_) {
      const ExponentialSums& values = memory.more;
      std::copy_n(sums.bound, n, values.bound);
      kernels_.add_logarithms(n, sums.shift, sums.high, sums.low, values.bound, values.high);
      any_open = find_rounder(output_.type)
                     .function(Finish::none, {values.high, memory.zeros, values.bound, nullptr},
                               {terms_, nullptr}, n, memory.results, memory.open);
      store_results(output, kept_.output, reinterpret_cast<const std::byte*>(memory.results),
                    output_.bytes, n);
    }
    for (std::int64_t i = 0; any_open && i < n; ++i) {
      if (is_plain_ && memory.open[i] != kOpen) continue;
      const Place own = input + i * kept_.input;
      std::uint64_t bits;
      const int128 greatest = input_.is_float ? 0 : memory.greatest[i];
      bool known = results_.decide(sums[i], greatest, terms_, &bits);
      if (!known && first == Precision::plain) {
        sum(Precision::twofold, own, 1, sums + i, memory);
        known = results_.decide(sums[i], greatest, terms_, &bits);
      }
      if (!known) {
        bits = results_.decide_exactly([&](auto f) { for_each_finite(own, memory, f); });
      }
      // The low bytes of a little-endian integer come first.
      std::memcpy(output + i * kept_.output, &bits, output_.bytes);
    }
  }

  // Sets the sums of n neighbouring outputs.
  void sum(Precision precision, Place input, std::int64_t n, const ExponentialSums& sums,
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
                const ExponentialSums& sums, Memory& memory) const {
    const bool plain = precision == Precision::plain;
    const auto& kernel = plain ? kernels_.plain : kernels_.twofold;
    const double share = plain ? kPlainExponential : kTwofoldExponential;
    if (!by_stripes(reduced, n)) {
      for_each_stretch(reduced, input, n, memory,
                       [&](std::int64_t i, const std::byte* data, std::int64_t n) {
                         const ExponentialSum sum = sums[i];
                         rise(sum, kernels_.greatest(data, n));
                         if (std::isfinite(sum.shift)) {
                           double high, low;
                           kernel.row(data, n, sum.shift, &high, &low);
                           add(sum, share, n, high, low);
                         }
                       });
      return;
    }
    const ExponentialSums& more = memory.more;
    for_each_stripe(reduced, input, n, memory,
                    [&](std::int64_t i, const std::byte* data, std::ptrdiff_t row_stride,
                        std::int64_t rows, std::int64_t columns) {
                      const ExponentialSums to = sums + i;
                      kernels_.greatest_of_columns(data, row_stride, rows, columns, more.shift);
                      for (std::int64_t j = 0; j < columns; ++j) rise(to[j], more.shift[j]);
                      kernel.columns(data, row_stride, rows, columns, to.shift, more.high,
                                     more.low);
                      for (std::int64_t j = 0; j < columns; ++j) {
                        add(to[j], share, rows, more.high[j], more.low[j]);
                      }
                    });
  }

  // An integer of the input's type.
  int128 integer_at(const std::byte* data) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data, input_.bytes);
    if (!input_.is_signed) return bits;
    return input_.bytes == 4 ? int128{static_cast<std::int32_t>(bits)}
                             : int128{static_cast<std::int64_t>(bits)};
  }

  void sum_integers(Place input, std::int64_t n, const ExponentialSums& sums,
                    Memory& memory) const {
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
                         add_powers(sums[i], less, few, 0);
                       }
                     });
  }

  // Calls f(x, near) for the elements of an output that are finite, or integers.
  template <class F>
  void for_each_finite(Place input, Memory& memory, F f) const {
    for_each_stretch(plan_.reduced, input, 1, memory,
                     [&](std::int64_t, const std::byte* data, std::int64_t n) {
                       for (std::int64_t j = 0; j < n; ++j, data += input_.bytes) {
                         memory.pace.count(64);
                         if (input_.is_float) {
                           const double x = kernels_.greatest(data, 1);
                           if (x != -kInfinity) f(Scaled::of(x), x);
                         } else {
                           const int128 x = integer_at(data);
                           f(Scaled::of(x), static_cast<double>(x));
                         }
                       }
                     });
  }

  const Plan& plan_;
  const Request& request_;
  const Loop& kept_;
  const Format& input_;
  const Format& output_;
  const bool is_plain_;
  const std::int64_t terms_;
  const Exponentials& kernels_;
  const LogResults results_;
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
