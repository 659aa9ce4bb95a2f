#include "reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "exact_outputs.h"
#include "exact_sum.h"
#include "ladder.h"
#include "log_sum_exp.h"
#include "max_min.h"
#include "moments.h"
#include "products.h"
#include "read.h"
#include "schedule.h"
#include "workspace.h"

namespace halfulp {
namespace {

// Scratch memory of one call, shared by its threads, unless there are so many that each
// needs more for its smallest tile.
constexpr std::int64_t kMostScratch = 1024 * 1024;

constexpr std::ptrdiff_t kNearBytes = 64;

// A call of more elements is long: it takes up to 50 nanoseconds for each.
constexpr double kLongElements = 1 << 22;

// What an output takes that is summed exactly with others.
std::int64_t exact_bytes(const Plan& plan, const Request& request) {
  const SumFormat sum = sum_format(request.term, format_of(request.input_type));
  const bool by_rows = plan.layout == Layout::rows;
  return (by_rows ? 0 : Workspace::bytes_per_exact_column()) + 8 * sum.digits;
}

// Outputs that are summed exactly at once: many columns if all may be, or have to be; few rows,
// which a kernel takes one by one. They take up to half of a worker's share.
std::int64_t exact_outputs_at_once(const Plan& plan, const Request& request,
                                   std::int64_t workers) {
  const std::int64_t outputs = plan.kept.innermost().count;
  if (plan.layout == Layout::rows) return std::min<std::int64_t>(16, outputs);
  const Format& format = format_of(request.input_type);
  const bool cancels = facts_of(request.term).is_signed && format.is_float;
  const std::int64_t wanted = !format.is_float ? 512 : (cancels ? 256 : 64);
  if (outputs <= 64) return outputs;
  const std::int64_t share = (kMostScratch / workers - kPackBytes) / 2;
  const std::int64_t room = share / exact_bytes(plan, request) / 64 * 64;
  return std::min({std::max<std::int64_t>(64, room), wanted, outputs});
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
  const std::int64_t exact = request.adds ? 0 : exact_outputs_at_once(plan, request, workers);
  const std::int64_t share =
      kMostScratch / workers - kPackBytes - exact * exact_bytes(plan, request);
  const std::int64_t room = share / Workspace::bytes_per_output(request.adds) / 64 * 64;
  return std::max(kSmallestTile, std::min(wanted, room));
}

// One call: tiles shared out, each with a worker's memory.
class Call {
 public:
  Call(const Plan& plan, const Request& request, const Executor& executor)
      : Call(plan, request, executor,
             Schedule::workers_for(plan, format_of(request.input_type).bytes, executor)) {}

  void run() {
    schedule_.for_each_tile([this](const Tile& tile, std::size_t worker) {
      Workspace& workspace = worker == 0 ? first_ : *others_[worker - 1];
      workspace.pace.count(1);
      const Place input = Place{request_.input, request_.mask} + tile.input;
      std::byte* output = request_.output + tile.output;
      if (request_.adds) {
        copy_sums_before(tile);
        const StoredSums sums = {output, kept_.output, tile.outputs, false};
        exact_outputs_.add_outputs(input, sums, tile.outputs, workspace);
      } else if (moments_) {
        moments_->climb(input, output, tile.outputs, workspace);
      } else {
        ladder_.climb(input, output, tile.outputs, workspace);
      }
    });
  }

 private:
  Call(const Plan& plan, const Request& request, const Executor& executor, std::int64_t workers)
      : request_(request),
        kept_(plan.kept.innermost()),
        reader_(plan, request.input,
                {format_of(request.input_type).bytes, request.byte_swapped, request.small,
                 request.counted}),
        schedule_(plan, workers, widest_tile(plan, request, workers), executor, request.watch),
        at_once_(exact_outputs_at_once(plan, request, workers)),
        exact_outputs_(plan, request.term, request.input_type, request.adds, reader_, schedule_,
                       part_workspaces_),
        ladder_(plan, request, reader_, schedule_, exact_outputs_, at_once_, part_workspaces_),
        first_(tile(), needs(plan, false), request.watch, &room_) {
    if (request.spread != Spread::none) {
      moments_.emplace(plan, request, reader_, schedule_, ladder_, exact_outputs_, at_once_,
                       part_workspaces_);
    }
    // All memory is had before anything is written: a call is done whole or not at all.
    if (schedule_.workers() > 1) add_workspaces(plan, schedule_.workers() - 1, false, others_);
    if (schedule_.parts() > 1) add_workspaces(plan, schedule_.parts(), true, part_workspaces_);
  }

  void add_workspaces(const Plan& plan, std::int64_t count, bool of_parts,
                      Workspaces& workspaces) const {
    workspaces.resize(count);
    for (std::unique_ptr<Workspace>& workspace : workspaces) {
      workspace = std::make_unique<Workspace>(tile(), needs(plan, of_parts), request_.watch);
    }
  }

  // Outputs that a workspace has room for.
  std::int64_t tile() const {
    const std::int64_t tile = schedule_.tile();
    return request_.adds ? std::max(tile, kReshapedColumns) : tile;
  }

  Workspace::Needs needs(const Plan& plan, bool of_parts) const {
    const Loop& reduced = plan.reduced.innermost();
    const bool by_columns = plan.layout == Layout::columns;
    const bool adds = request_.adds;
    const Matrix columns = {
        {nullptr, nullptr}, reduced.count, reduced.input, kept_.count, kept_.input};
    Workspace::Needs needs;
    needs.layout = plan.layout;
    needs.adds = adds;
    // Columns whose sums are open are read one by one in the end.
    needs.packed =
        by_columns || !reader_.in_place(reduced.input) || reader_.joins(plan.reduced, kept_, 1);
    needs.reshaped = !adds && by_columns && reader_.reshapes(columns);
    const SumFormat sum = sum_format(request_.term, format_of(request_.input_type));
    needs.exact_columns = by_columns && !adds ? at_once_ : 0;
    needs.part_bytes = adds ? (of_parts ? schedule_.tile() * 8 * sum.stored_digits : 0)
                            : at_once_ * 8 * sum.digits;
    needs.counts = !adds && Ladder::counts_terms(request_);
    if (request_.spread != Spread::none) {
      const Format& format = format_of(request_.input_type);
      needs.squares = true;
      needs.part_bytes += at_once_ * 8 * sum_format(Term::value, format).digits;
    }
    return needs;
  }

  void copy_sums_before(const Tile& tile) const {
    if (!request_.sums_before) return;
    const SumFormat sum = sum_format(request_.term, format_of(request_.input_type));
    for (std::int64_t i = 0; i < tile.outputs; ++i) {
      const std::ptrdiff_t at = tile.output + i * kept_.output;
      std::memcpy(request_.output + at, request_.sums_before + at, 8 * sum.stored_digits);
    }
  }

  const Request& request_;
  const Loop& kept_;
  const Reader reader_;
  const Schedule schedule_;
  const std::int64_t at_once_;  // outputs summed exactly
  const ExactOutputs exact_outputs_;
  const Ladder ladder_;
  std::optional<Moments> moments_;  // instead of the ladder, if the request is for them
  Workspace::Room room_;
  Workspace first_;    // of the worker that has number 0
  Workspaces others_;  // of those after it
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
  const bool near = (kept.count > 1 && kept.input.element <= kNearBytes) ||
                    (reduced.count > 1 && reduced.input.element <= kNearBytes);
  return elements * (near ? 1 : kAlone) > kLongElements;
}

void reduce(const Plan& plan, const Request& request, const Executor& executor) {
  if (plan.kept.count() == 0) return;
  switch (request.operation) {
    case Operation::exponentials:
      return reduce_exponentials(plan, request, executor);
    case Operation::max:
    case Operation::min:
      return reduce_max_min(plan, request, executor);
    case Operation::product:
      return reduce_products(plan, request, executor);
    case Operation::sum:
      return Call(plan, request, executor).run();
  }
}

}  // namespace halfulp
