#include "reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "accumulator.h"
#include "modes.h"
#include "rounding.h"

namespace halfulp {
namespace {

constexpr std::size_t kPackBytes = 64 * 1024;

struct Workspace {
  State states[kTile];
  alignas(64) std::byte packed[kPackBytes];
};

// Calls f(input offset, output offset) for every turn of all loops but the innermost.
template <class F>
void for_each_outer(const Loops& loops, F f) {
  std::int64_t index[kMaxRank] = {};
  std::ptrdiff_t input = 0;
  std::ptrdiff_t output = 0;
  for (;;) {
    f(input, output);
    int i = loops.size - 2;
    for (; i >= 0; --i) {
      const Loop& loop = loops.loops[i];
      input += loop.input;
      output += loop.output;
      if (++index[i] < loop.count) break;
      input -= loop.count * loop.input;
      output -= loop.count * loop.output;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

template <class T, bool swapped>
void copy_elements(std::byte* target, const std::byte* source, std::int64_t rows,
                   std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      T x;
      std::memcpy(&x, source + i * row_stride + j * stride, sizeof x);
      if constexpr (swapped) {
        if constexpr (sizeof x == 2) x = __builtin_bswap16(x);
        if constexpr (sizeof x == 4) x = __builtin_bswap32(x);
        if constexpr (sizeof x == 8) x = __builtin_bswap64(x);
      }
      std::memcpy(target, &x, sizeof x);
      target += sizeof x;
    }
  }
}

class Reduction {
 public:
  Reduction(const Plan& plan, const Request& request)
      : plan_(plan),
        request_(request),
        kept_(plan.kept.innermost()),
        reduced_(plan.reduced.innermost()),
        input_format_(format_of(request.input_type)),
        output_format_(format_of(request.output_type)),
        bytes_(input_format_.bytes),
        terms_(plan.reduced.count()),
        workspace_(new Workspace) {
    if (!input_format_.is_float) {
      method_ = Method::residue;
    } else if (std::max(input_format_.precision, output_format_.precision) <= 24) {
      method_ = Method::plain;
    } else {
      method_ = Method::compensated;
    }
    exact_ = request.checked || (input_format_.is_float && terms_ > kMaxAdditions);
    kernel_ = find_kernel(chosen_target(), plan.layout, method_, request.input_type);
  }

  void run() {
    const std::byte* input = request_.input + plan_.input_offset;
    std::byte* output = request_.output + plan_.output_offset;
    if (plan_.kept.count() == 0) return;
    for_each_outer(plan_.kept, [&](std::ptrdiff_t in, std::ptrdiff_t out) {
      for (std::int64_t begin = 0; begin < kept_.count; begin += kTile) {
        const std::int64_t n = std::min<std::int64_t>(kTile, kept_.count - begin);
        run_tile(input + in + begin * kept_.input, output + out + begin * kept_.output, n);
      }
    });
  }

 private:
  // Computes n outputs, neighbours along the innermost kept loop.
  void run_tile(const std::byte* input, std::byte* output, std::int64_t n) {
    State* states = workspace_->states;
    std::fill_n(states, n, State{});
    if (!exact_ && terms_ > 0) {
      for_each_outer(plan_.reduced, [&](std::ptrdiff_t in, std::ptrdiff_t) {
        if (plan_.layout == Layout::rows) {
          add_block(input + in, n, kept_.input, reduced_.count, reduced_.input);
        } else {
          add_block(input + in, reduced_.count, reduced_.input, n, kept_.input);
        }
      });
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint64_t bits = states[i].residue;
      if (exact_ || (method_ != Method::residue && !decided(states[i], &bits))) {
        bits = resolve(input + i * kept_.input);
      }
      store(output + i * kept_.output, bits);
    }
  }

  // Adds a matrix to the states of the tile, through a packed copy of a part at a time
  // unless its elements can be read where they are.
  void add_block(const std::byte* data, std::int64_t rows, std::ptrdiff_t row_stride,
                 std::int64_t columns, std::ptrdiff_t stride) {
    State* states = workspace_->states;
    if (readable(data, stride) && row_stride % bytes_ == 0) {
      kernel_(data, row_stride, rows, columns, states);
      return;
    }
    const std::int64_t width = std::min<std::int64_t>(columns, kPackBytes / bytes_);
    const std::int64_t height = std::max<std::int64_t>(1, kPackBytes / bytes_ / width);
    const bool by_rows = plan_.layout == Layout::rows;
    for (std::int64_t i = 0; i < rows; i += height) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const std::int64_t m = std::min(height, rows - i);
        const std::int64_t n = std::min(width, columns - j);
        pack(data + i * row_stride + j * stride, m, row_stride, n, stride);
        kernel_(workspace_->packed, n * bytes_, m, n, states + (by_rows ? i : j));
      }
    }
  }

  // Decides one output that its state leaves open, by sums ever more exact of its terms.
  std::uint64_t resolve(const std::byte* input) {
    switch (request_.input_type) {
      case Type::bfloat16:
        return resolve_as<Type::bfloat16>(input);
      case Type::float16:
        return resolve_as<Type::float16>(input);
      case Type::float32:
        return resolve_as<Type::float32>(input);
      case Type::float64:
        return resolve_as<Type::float64>(input);
      case Type::int32:
        return resolve_as<Type::int32>(input);
      case Type::int64:
        return resolve_as<Type::int64>(input);
      case Type::uint32:
        return resolve_as<Type::uint32>(input);
      case Type::uint64:
        return resolve_as<Type::uint64>(input);
    }
    __builtin_unreachable();
  }

  template <Type type>
  std::uint64_t resolve_as(const std::byte* input) {
    if (method_ == Method::plain && !exact_) {
      const Function kernel =
          find_kernel(chosen_target(), Layout::rows, Method::compensated, type);
      State state{};
      for_each_chunk(
          input, [&](const std::byte* data, std::int64_t n) { kernel(data, 0, 1, n, &state); });
      std::uint64_t bits;
      if (decided(state, &bits)) return bits;
    }
    Accumulator<type> sum;
    for_each_chunk(input, [&](const std::byte* data, std::int64_t n) {
      const auto* x = reinterpret_cast<const Bits<type>*>(data);
      for (std::int64_t i = 0; i < n; ++i) sum.add(x[i]);
    });
    if constexpr (!format_of(type).is_float) {
      const std::uint64_t* digits = sum.digits();
      const int bits = 8 * output_format_.bytes - (output_format_.is_signed ? 1 : 0);
      if (digits[1] != 0 || digits[2] != 0 || (bits < 64 && digits[0] >> bits != 0)) {
        throw SumOverflow{{digits[0], digits[1], digits[2]}};
      }
    }
    return sum.result(output_format_);
  }

  // Calls f(data, n) for n elements side by side at a time, until all terms were seen.
  template <class F>
  void for_each_chunk(const std::byte* input, F f) {
    if (terms_ == 0) return;
    for_each_outer(plan_.reduced, [&](std::ptrdiff_t in, std::ptrdiff_t) {
      const std::byte* data = input + in;
      if (readable(data, reduced_.input)) {
        f(data, reduced_.count);
        return;
      }
      const std::int64_t chunk = kPackBytes / bytes_;
      for (std::int64_t i = 0; i < reduced_.count; i += chunk) {
        const std::int64_t n = std::min(chunk, reduced_.count - i);
        pack(data + i * reduced_.input, 1, 0, n, reduced_.input);
        f(workspace_->packed, n);
      }
    });
  }

  // Whether elements `stride` bytes apart can be read as an array of native, aligned ones.
  bool readable(const std::byte* data, std::ptrdiff_t stride) const {
    return stride == bytes_ && !request_.byte_swapped &&
           reinterpret_cast<std::uintptr_t>(data) % bytes_ == 0;
  }

  void pack(const std::byte* source, std::int64_t rows, std::ptrdiff_t row_stride,
            std::int64_t columns, std::ptrdiff_t stride) {
    switch (bytes_) {
      case 2:
        return pack_as<std::uint16_t>(source, rows, row_stride, columns, stride);
      case 4:
        return pack_as<std::uint32_t>(source, rows, row_stride, columns, stride);
      case 8:
        return pack_as<std::uint64_t>(source, rows, row_stride, columns, stride);
    }
  }

  template <class T>
  void pack_as(const std::byte* source, std::int64_t rows, std::ptrdiff_t row_stride,
               std::int64_t columns, std::ptrdiff_t stride) {
    const auto copy =
        request_.byte_swapped ? &copy_elements<T, true> : &copy_elements<T, false>;
    copy(workspace_->packed, source, rows, row_stride, columns, stride);
  }

  bool decided(const State& state, std::uint64_t* bits) const {
    return decide(output_format_, state, request_.input_type != Type::float64, bits);
  }

  void store(std::byte* output, std::uint64_t bits) const {
    // The low bytes of a little-endian integer come first.
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    std::memcpy(output, &bits, output_format_.bytes);
  }

  const Plan& plan_;
  const Request& request_;
  const Loop& kept_;
  const Loop& reduced_;
  const Format& input_format_;
  const Format& output_format_;
  const int bytes_;
  const std::int64_t terms_;
  Method method_;
  bool exact_;  // every output is resolved
  Function kernel_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace

void reduce(const Plan& plan, const Request& request) {
  const StandardModes modes;
  Reduction(plan, request).run();
}

}  // namespace halfulp
