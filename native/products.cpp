#include "products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "dispatch.h"
#include "read.h"
#include "schedule.h"
#include "sum.h"
#include "whole_product.h"
#include "workspace.h"

namespace halfulp {
namespace {

// Memory of one call, shared by its threads, as of sums.
constexpr std::int64_t kMostScratch = 1024 * 1024;

// Digits that what is open is multiplied in at first: enough for whatever may lie in the middle
// of two results.
constexpr std::size_t kFewDigits = 2;
// As many need no more memory.
constexpr std::size_t kReservedDigits = 64;

// Exponents so far from the ends of binary64's range that a product, cut to two numbers, is one
// there.
constexpr std::int64_t kNearExponent = 800;

std::uint64_t one_of(const Format& format) {
  return format.is_float ? static_cast<std::uint64_t>(format.emax) << (format.precision - 1)
                         : 1;
}

std::int64_t widest_tile(const Plan& plan, std::int64_t bytes, std::int64_t workers) {
  if (plan.layout == Layout::rows) return kSmallestTile;
  const bool few_rows = plan.reduced.innermost().count < 64;
  const std::int64_t wanted = few_rows ? 8192 / bytes : static_cast<std::int64_t>(kTile);
  const std::int64_t share = kMostScratch / workers - kPackBytes;
  const std::int64_t room = share / Workspace::bytes_per_output(false) / 64 * 64;
  return std::max(kSmallestTile, std::min(wanted, room));
}

class Products {
 public:
  Products(const Plan& plan, const Request& request, const Executor& executor)
      : Products(plan, request, executor,
                 Schedule::workers_for(plan, format_of(request.input_type).bytes, executor)) {}

  void run() {
    schedule_.for_each_tile([this](const Tile& tile, std::size_t worker) {
      Workspace& workspace = *workspaces_[worker];
      workspace.pace.count(1);
      multiply(Place{request_.input, request_.mask} + tile.input, tile, workspace,
               whole_[worker]);
    });
  }

 private:
  Products(const Plan& plan, const Request& request, const Executor& executor,
           std::int64_t workers)
      : plan_(plan),
        request_(request),
        kept_(plan.kept.innermost()),
        input_format_(format_of(request.input_type)),
        output_format_(format_of(request.output_type)),
        factors_(plan.reduced.count()),
        method_(input_format_.is_float ? Method::product : Method::residue_product),
        reader_(plan, request.input,
                {input_format_.bytes, request.byte_swapped, request.small, request.counted,
                 one_of(input_format_)}),
        schedule_(plan, workers, widest_tile(plan, input_format_.bytes, workers), executor,
                  request.watch),
        products_(plan, Term::value, request.input_type, method_, reader_, schedule_,
                  part_workspaces_),
        rounder_(output_format_.is_float ? &find_rounder(request.output_type) : nullptr) {
    // All memory is had before anything is written, but what more digits need.
    workspaces_ = workspaces_for(schedule_.workers());
    if (schedule_.parts() > 1) part_workspaces_ = workspaces_for(schedule_.parts());
    whole_.reserve(schedule_.workers());
    for (std::int64_t i = 0; i < schedule_.workers(); ++i) {
      whole_.emplace_back(kReservedDigits);
      whole_.back().set_digits(kFewDigits);
    }
  }

  Workspaces workspaces_for(std::int64_t count) const {
    const Loop& reduced = plan_.reduced.innermost();
    const bool by_columns = plan_.layout == Layout::columns;
    const Matrix columns = {
        {nullptr, nullptr}, reduced.count, reduced.input, kept_.count, kept_.input};
    Workspace::Needs needs = {};
    needs.layout = plan_.layout;
    // Columns that are open are read one by one.
    needs.packed = by_columns || !reader_.in_place(reduced.input) ||
                   reader_.joins(plan_.reduced, kept_, 1);
    needs.reshaped = by_columns && reader_.reshapes(columns);
    Workspaces workspaces(count);
    for (std::unique_ptr<Workspace>& workspace : workspaces) {
      workspace = std::make_unique<Workspace>(schedule_.tile(), needs, request_.watch);
    }
    return workspaces;
  }

  // Sets the outputs of a tile.
  void multiply(Place input, const Tile& tile, Workspace& workspace,
                WholeProduct& whole) const {
    const std::int64_t n = tile.outputs;
    auto* const results = reinterpret_cast<std::byte*>(workspace.results);
    const std::int64_t bytes = output_format_.bytes;
    const bool by_residues = !input_format_.is_float && !output_format_.is_float;
    const auto set = [&](std::int64_t i, std::uint64_t bits) {
      std::memcpy(results + i * bytes, &bits, bytes);  // the low bytes come first
    };
    if (by_residues && !request_.checked) {
      products_.sum(method_, input, n, workspace.sums, workspace);
      for (std::int64_t i = 0; i < n; ++i) set(i, workspace.sums.residue[i]);
    } else if (!input_format_.is_float) {
      for (std::int64_t i = 0; i < n; ++i) {
        const Place first = input + i * kept_.input;
        if (by_residues) {
          set(i, checked_word(first, tile.output + i * kept_.output, workspace, whole));
        } else {
          set(i, multiply_exactly(first, workspace, whole));
        }
      }
    } else {
      clear(method_, workspace.sums + n, kPadding);
      products_.sum(method_, input, n, workspace.sums, workspace);
      if (round_near(n, workspace)) {
        const Enclosures& products = workspace.sums;
        for (std::int64_t i = 0; i < n; ++i) {
          if (workspace.open[i] == 0) continue;
          std::uint64_t bits;
          if (!round_product(output_format_, products.hi[i], products.lo[i],
                             products.residue[i], factors_, &bits)) {
            bits = multiply_exactly(input + i * kept_.input, workspace, whole);
          }
          set(i, bits);
        }
      }
    }
    store_results(request_.output + tile.output, kept_.output, results, bytes, n);
  }

  // Rounds the products of a tile that are easy and not near the ends of binary64's range;
  // returns whether any is open.
  bool round_near(std::int64_t n, Workspace& workspace) const {
    const Enclosures& products = workspace.sums;
    const double error = factors_ <= kMostFactors
                             ? std::ldexp(static_cast<double>(factors_), kLogProductError)
                             : std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto exponent = static_cast<std::int64_t>(products.residue[i]);
      const double size = std::abs(products.hi[i]);
      const bool near =
          size >= 1 && size < 16 && exponent >= -kNearExponent && exponent <= kNearExponent;
      const std::uint64_t bits = static_cast<std::uint64_t>(1023 + (near ? exponent : 0)) << 52;
      double power;
      std::memcpy(&power, &bits, sizeof power);
      products.hi[i] *= power;
      products.lo[i] *= power;
      products.residue[i] = near ? 0 : products.residue[i];
      // An enclosure without a bound decides nothing.
      products.bound[i] =
          near ? size * power * error : std::numeric_limits<double>::quiet_NaN();
    }
    return rounder_->function(Finish::none, products, {factors_, nullptr}, n, workspace.results,
                              workspace.open);
  }

  // Calls f(element, number of them) for all elements of one output, in blocks side by side.
  template <class F>
  void for_each_run(Place input, Workspace& workspace, F f) const {
    if (factors_ == 0) return;
    constexpr Cut kRowsCut = {1, kPackBytes};
    const Loop& inner = plan_.reduced.innermost();
    const auto run = [&](const Block& block) {
      f(block.data, block.columns);
      workspace.pace.count(block.cost);
    };
    if (reader_.joins(plan_.reduced, kept_, 1)) {
      Loops outer = plan_.reduced;
      const Loop& lines = outer.loops[--outer.size - 1];
      return for_each_outer(outer, [&](Step offset, std::ptrdiff_t) {
        const Matrix matrix = {input + offset, lines.count, lines.input, inner.count,
                               inner.input};
        reader_.for_each_joined(matrix, workspace.packed(), run);
      });
    }
    for_each_outer(plan_.reduced, [&](Step offset, std::ptrdiff_t) {
      const Matrix matrix = {input + offset, 1, {0, 0}, inner.count, inner.input};
      reader_.for_each_block(matrix, kRowsCut, workspace.packed(), run);
    });
  }

  // Makes `whole` the product of all elements of one output, in as many digits as it has. Of
  // floats all are finite and none is 0.
  void multiply_whole(Place input, Workspace& workspace, WholeProduct& whole) const {
    for_each_run(input, workspace, [&](const std::byte* data, std::int64_t n) {
      constexpr std::int64_t kPiece = 1 << 12;  // between two looks at whether the call ends
      for (std::int64_t from = 0; from < n; from += kPiece) {
        const std::int64_t to = std::min(from + kPiece, n);
        for (std::int64_t i = from; i < to; ++i) {
          std::uint64_t bits = 0;
          std::memcpy(&bits, data + i * input_format_.bytes, input_format_.bytes);
          multiply_by(bits, whole);
        }
        workspace.pace.count((to - from) * static_cast<std::int64_t>(whole.digits()));
      }
    });
  }

  void multiply_by(std::uint64_t bits, WholeProduct& whole) const {
    const Format& format = input_format_;
    const bool negative = format.is_signed && (bits & format.sign()) != 0;
    if (!format.is_float) {
      if (negative) bits = 0 - bits;
      if (format.bytes == 4) bits &= 0xffffffff;
      return whole.multiply(bits, 0, negative);
    }
    const int kept = format.precision - 1;
    const int field = static_cast<int>((bits & ~format.sign()) >> kept);
    std::uint64_t m = bits & ((std::uint64_t{1} << kept) - 1);
    if (field > 0) m |= std::uint64_t{1} << kept;
    whole.multiply(m, std::max(field, 1) + format.least_exponent() - 1, negative);
  }

  // The product of one output, rounded: in more digits until these determine the result. A
  // product in the middle of two results has so few bits that the first digits hold it, and
  // every other one is told from the middle by some number of digits, at most its own.
  std::uint64_t multiply_exactly(Place input, Workspace& workspace, WholeProduct& whole) const {
    std::uint64_t bits;
    std::size_t digits = kFewDigits;
    for (;; digits *= 2) {
      whole.set_digits(digits);
      multiply_whole(input, workspace, whole);
      if (whole.round(output_format_, &bits)) return bits;
    }
  }

  // The product of integers of one output, if it fits.
  std::uint64_t checked_word(Place input, std::ptrdiff_t output, Workspace& workspace,
                             WholeProduct& whole) const {
    whole.set_digits(kFewDigits);
    multiply_whole(input, workspace, whole);
    const std::int64_t bits = whole.bits();
    const bool negative = whole.is_negative();
    const std::int64_t room = 8 * output_format_.bytes - (output_format_.is_signed ? 1 : 0);
    const std::uint64_t size = bits <= 64 ? whole.word() : 0;
    const bool is_least =
        negative && bits == room + 1 && size == std::uint64_t{1} << (bits - 1);
    const bool fits =
        output_format_.is_signed ? bits <= room || is_least : bits <= room && !negative;
    if (!fits) throw ProductOverflow{negative, bits - 1, output};
    return negative ? 0 - size : size;
  }

  const Plan& plan_;
  const Request& request_;
  const Loop& kept_;
  const Format& input_format_;
  const Format& output_format_;
  const std::int64_t factors_;  // of a product, those included that do not count
  const Method method_;
  const Reader reader_;
  const Schedule schedule_;
  const TileSums products_;
  const Rounder* const rounder_;  // of float outputs
  Workspaces workspaces_;
  Workspaces part_workspaces_;
  std::vector<WholeProduct> whole_;  // of each worker
};

}  // namespace

void reduce_products(const Plan& plan, const Request& request, const Executor& executor) {
  Products(plan, request, executor).run();
}

}  // namespace halfulp
