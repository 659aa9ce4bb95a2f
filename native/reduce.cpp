#include "reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "exact_outputs.h"
#include "exact_sum.h"
#include "read.h"
#include "rounding.h"
#include "schedule.h"
#include "sum.h"
#include "workspace.h"

namespace halfulp {
namespace {

// Scratch memory of one call, shared by its threads, unless there are so many that each
// needs more for its smallest tile.
constexpr std::int64_t kMostScratch = 1024 * 1024;

constexpr std::ptrdiff_t kNearBytes = 64;

// A call of more elements is long: it takes up to 50 nanoseconds for each.
constexpr double kLongElements = 1 << 22;

// Outputs of a columns tile that lie this near share cache lines.
constexpr std::int64_t kNearColumns = 16;

// The method that sums are made by at first.
Method first_method(const Format& input, const Format& output) {
  if (!input.is_float) return Method::residue;
  const int precision = std::max(input.precision, output.precision);
  if (precision <= 11) return Method::narrow;
  return precision <= 24 ? Method::plain : Method::compensated;
}

// Outputs of a tile, at most: wide enough to read whole pages of a row; no wider than needed,
// to stay in the cache.
std::int64_t widest_tile(const Plan& plan, const Request& request, std::int64_t workers) {
  if (plan.layout == Layout::rows) return kSmallestTile;
  const std::int64_t bytes = format_of(request.input_type).bytes;
  const bool few_rows = plan.reduced.innermost().count < 64;
  const std::int64_t wanted =
      request.adds ? kExactBlockBytes / exact_rows_of(request.input_type) / bytes
                   : (few_rows ? 8192 / bytes : static_cast<std::int64_t>(kTile));
  const std::int64_t share = kMostScratch / workers - kPackBytes;
  const std::int64_t room = share / Workspace::bytes_per_output(request.adds) / 64 * 64;
  return std::max(kSmallestTile, std::min(wanted, room));
}

class Reduction {
 public:
  Reduction(const Plan& plan, const Request& request, const Executor& executor)
      : Reduction(plan, request, executor,
                  Schedule::workers_for(plan, format_of(request.input_type).bytes, executor)) {}

  void run() {
    schedule_.for_each_tile([this](const Tile& tile, std::size_t worker) {
      Workspace& workspace = *workspaces_[worker];
      workspace.pace.count(1);
      const std::byte* input = request_.input + tile.input;
      std::byte* output = request_.output + tile.output;
      if (request_.adds) {
        exact_outputs_.add_outputs(input, output, tile.outputs, workspace);
      } else {
        run_tile(input, output, tile.outputs, workspace);
      }
    });
  }

 private:
  Reduction(const Plan& plan, const Request& request, const Executor& executor,
            std::int64_t workers)
      : request_(request),
        kept_(plan.kept.innermost()),
        input_format_(format_of(request.input_type)),
        output_format_(format_of(request.output_type)),
        by_rows_(plan.layout == Layout::rows),
        terms_(plan.reduced.count()),
        method_(first_method(input_format_, output_format_)),
        reader_(plan, request.input, {request.input_type, request.byte_swapped, request.small}),
        exact_(request.checked || (input_format_.is_float && terms_ > kMaxAdditions) ||
               (!input_format_.is_float && output_format_.is_float && !residues_are_sums())),
        schedule_(plan, workers, widest_tile(plan, request, workers), executor, request.watch),
        sums_(plan, request.input_type, method_, reader_, schedule_, part_workspaces_),
        exact_outputs_(plan, request.input_type, reader_, schedule_, part_workspaces_) {
    if (input_format_.is_float) round_ = find_rounder(request.output_type).function;
    // All memory is had before anything is written: a call is done whole or not at all.
    workspaces_ = workspaces_for(plan, schedule_.workers(), false);
    if (schedule_.parts() > 1) {
      part_workspaces_ = workspaces_for(plan, schedule_.parts(), true);
    }
  }

  Workspaces workspaces_for(const Plan& plan, std::int64_t count, bool of_parts) const {
    const Loop& reduced = plan.reduced.innermost();
    const bool exact = request_.adds;
    const Matrix columns = {nullptr, reduced.count, reduced.input, kept_.count, kept_.input};
    Workspace::Needs needs;
    needs.layout = plan.layout;
    needs.exact = exact;
    // Columns whose sums are open are read one by one in the end.
    needs.packed = !by_rows_ || !reader_.in_place(reduced.input);
    needs.folded = !exact && !by_rows_ && reader_.folds(columns);
    needs.stored_bytes =
        exact && of_parts ? schedule_.tile() * 8 * sum_format(input_format_).stored_digits : 0;
    const std::int64_t tile = schedule_.tile();
    Workspaces workspaces(count);
    for (std::unique_ptr<Workspace>& workspace : workspaces) {
      workspace = std::make_unique<Workspace>(exact ? std::max(tile, kFoldedColumns) : tile,
                                              needs, request_.watch);
    }
    return workspaces;
  }

  // Computes n outputs, neighbours along the innermost kept loop.
  void run_tile(const std::byte* input, std::byte* output, std::int64_t n,
                Workspace& workspace) {
    auto* results = reinterpret_cast<std::byte*>(workspace.results);
    if (exact_) {
      for (std::int64_t i = 0; i < n; ++i) {
        try {
          set_result(results, i, resolve(input + i * kept_.input, workspace));
        } catch (SumOverflow& overflow) {
          overflow.output = output - request_.output + i * kept_.output;
          throw;
        }
      }
    } else {
      clear(method_, workspace.sums + n, kPadding);
      sums_.sum(method_, input, n, workspace.sums, workspace);
      if (method_ == Method::residue) {
        if (output_format_.is_float) {
          for (std::int64_t i = 0; i < n; ++i) {
            set_result(results, i,
                       round_digits(output_format_, &workspace.sums.residue[i], 1, 0));
          }
        } else if (output_format_.bytes == 8) {
          std::memcpy(results, workspace.sums.residue, n * 8);
        } else {
          auto* low = reinterpret_cast<std::uint32_t*>(results);
          for (std::int64_t i = 0; i < n; ++i) {
            low[i] = static_cast<std::uint32_t>(workspace.sums.residue[i]);
          }
        }
      } else if (round_(workspace.sums, n, workspace.results, workspace.open)) {
        for_each_run(workspace, 0, n, [&](std::int64_t begin, std::int64_t end) {
          refine(method_, input, begin, end, workspace);
        });
      }
    }
    if (kept_.output == output_format_.bytes) {
      std::memcpy(output, results, n * output_format_.bytes);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(output + i * kept_.output, results + i * output_format_.bytes,
                    output_format_.bytes);
      }
    }
  }

  void set_result(std::byte* results, std::int64_t i, std::uint64_t bits) const {
    // The low bytes of a little-endian integer come first.
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    std::memcpy(results + i * output_format_.bytes, &bits, output_format_.bytes);
  }

  // Calls f(begin, end) for runs of open outputs within begin..end.
  template <class F>
  void for_each_run(const Workspace& workspace, std::int64_t begin, std::int64_t end, F f) {
    const std::int64_t gap = by_rows_ ? 1 : kNearColumns;
    for (std::int64_t i = begin; i < end;) {
      const void* found = std::memchr(workspace.open + i, kOpen, end - i);
      if (!found) return;
      i = static_cast<const std::uint8_t*>(found) - workspace.open;
      std::int64_t last = i;
      for (std::int64_t j = i; j < end && j <= last + gap; ++j) {
        if (workspace.open[j]) last = j;
      }
      f(i, last + 1);
      i = last + 1;
    }
  }

  // Decides the open outputs of begin..end, whose sums `method` made: by closer rounding, by
  // the grid that their elements lie on (ties do not end in any other way), by a better
  // method, and in the end exactly.
  void refine(Method method, const std::byte* input, std::int64_t begin, std::int64_t end,
              Workspace& workspace) {
    decide_run(method, begin, end, workspace, [](std::int64_t) { return 0.0; });

    const Enclosures& sums = workspace.sums;
    const Enclosures grids = workspace.grids + begin;
    bool any = false;
    std::fill_n(grids.hi, end - begin, 0.0);
    for (std::int64_t i = begin; i < end; ++i) {
      int& g = workspace.exponents[i];
      if (workspace.open[i] && method != Method::narrow &&
          grid_of(sums.hi[i], sums.lo[i], sums.bound[i], &g)) {
        workspace.grids.hi[i] = std::ldexp(3.0, 51 + g);
        any = true;
      }
    }
    if (any) {
      sums_.sum(Method::grid, input + begin * kept_.input, end - begin, grids, workspace);
      decide_run(method, begin, end, workspace, [&](std::int64_t i) {
        const bool fits = workspace.grids.hi[i] > 0 && workspace.grids.residue[i] == 0;
        return fits ? std::ldexp(1.0, 2 * workspace.exponents[i]) : 0.0;
      });
    }

    for_each_run(workspace, begin, end, [&](std::int64_t from, std::int64_t to) {
      if (method == Method::compensated) {
        for (std::int64_t i = from; i < to; ++i) {
          if (!workspace.open[i]) continue;
          set_result(reinterpret_cast<std::byte*>(workspace.results), i,
                     resolve(input + i * kept_.input, workspace));
          workspace.open[i] = false;
        }
        return;
      }
      const Method better = method == Method::narrow ? Method::plain : Method::compensated;
      sums_.sum(better, input + from * kept_.input, to - from, sums + from, workspace);
      refine(better, input, from, to, workspace);
    });
  }

  template <class Grid>
  void decide_run(Method method, std::int64_t begin, std::int64_t end, Workspace& workspace,
                  Grid grid) const {
    const Enclosures& sums = workspace.sums;
    const bool infinite_is_final =
        request_.input_type != Type::float64 &&
        !(method == Method::narrow && request_.input_type == Type::bfloat16);
    for (std::int64_t i = begin; i < end; ++i) {
      std::uint64_t bits;
      if (workspace.open[i] && decide(output_format_, sums.hi[i], sums.lo[i], sums.bound[i],
                                      infinite_is_final, grid(i), &bits)) {
        set_result(reinterpret_cast<std::byte*>(workspace.results), i, bits);
        workspace.open[i] = false;
      }
    }
  }

  // The result of one output from its exact sum.
  std::uint64_t resolve(const std::byte* input, Workspace& workspace) const {
    std::uint64_t digits[kMostDigits] = {};
    exact_outputs_.add_output(input, digits, workspace);
    if (!input_format_.is_float && !output_format_.is_float) {
      const int bits = 8 * output_format_.bytes - (output_format_.is_signed ? 1 : 0);
      if (digits[1] != 0 || digits[2] != 0 || (bits < 64 && digits[0] >> bits != 0)) {
        throw SumOverflow{{digits[0], digits[1], digits[2]}, 0};
      }
    }
    return round_sum(input_format_, digits, sum_format(input_format_).digits, output_format_);
  }

  // Whether no sum of integers reaches 2^64, so that its residue is all of it.
  bool residues_are_sums() const {
    const std::int64_t bits = 16 * reader_.stored_bytes() - (input_format_.is_signed ? 2 : 0);
    return bits < 64 && terms_ < std::int64_t{1} << std::min<std::int64_t>(64 - bits, 62);
  }

  const Request& request_;
  const Loop& kept_;
  const Format& input_format_;
  const Format& output_format_;
  const bool by_rows_;
  const std::int64_t terms_;
  const Method method_;
  const Reader reader_;
  const bool exact_;  // every output is summed exactly
  const Schedule schedule_;
  const TileSums sums_;
  const ExactOutputs exact_outputs_;
  decltype(Rounder::function) round_ = nullptr;
  Workspaces workspaces_;
  Workspaces part_workspaces_;
};

}  // namespace

void read_environment() {
  static_cast<void>(chosen_target());
  static_cast<void>(thread_limit());
}

bool is_long(const Plan& plan) {
  double elements = 1;
  for (const Loops* loops : {&plan.kept, &plan.reduced}) {
    elements *= static_cast<double>(std::max<std::int64_t>(1, loops->count()));
  }
  const Loop& kept = plan.kept.innermost();
  const Loop& reduced = plan.reduced.innermost();
  const bool near = (kept.count > 1 && kept.input <= kNearBytes) ||
                    (reduced.count > 1 && reduced.input <= kNearBytes);
  return elements * (near ? 1 : kAlone) > kLongElements;
}

void reduce(const Plan& plan, const Request& request, const Executor& executor) {
  if (plan.kept.count() > 0) Reduction(plan, request, executor).run();
}

}  // namespace halfulp
