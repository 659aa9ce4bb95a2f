// The reductions as operators of PyTorch: the library that torch.ops.load_library loads. No
// arithmetic.
// May include exact_sum.h, plan.h, reduce.h, reductions.h, stable_abi.h and tensors.h only.
//
// An operator of the namespace halfulp for each row of the table, and for variances: schema and
// kernel for the CPU. Gradients, shapes without data and batches are registered in Python
// (src/halfulp/torch). What kernels throw PyTorch raises as errors of Python, so this library
// shares the C++ runtime with it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../exact_sum.h"
#include "../plan.h"
#include "../reduce.h"
#include "../reductions.h"
#include "stable_abi.h"
#include "tensors.h"

namespace halfulp::torch {
namespace {

// Marks the dimensions to reduce: all of them if none is named, as PyTorch has it.
void mark(const std::optional<List>& dims, int rank, bool* is_reduced) {
  const std::size_t count = dims ? dims->size() : 0;
  // As in PyTorch a scalar may be said to have one dimension.
  const std::int64_t most = std::max(1, rank);
  if (dims) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto axis = static_cast<std::int64_t>((*dims)[i]);
      if (axis < -most || axis >= most) {
        throw std::out_of_range("halfulp: dim " + std::to_string(axis) +
                                " is out of range; allowed: [" + std::to_string(-most) + ", " +
                                std::to_string(most - 1) + "]");
      }
      bool& marked = is_reduced[axis < 0 ? axis + most : axis];
      if (marked) {
        throw std::invalid_argument("halfulp: dim " + std::to_string(axis) +
                                    " is given twice; allowed: each once");
      }
      marked = true;
    }
  }
  if (count == 0) std::fill_n(is_reduced, rank, true);
}

// Reduces as `request` says, to results of the dtype that is asked for or that follows.
Value reduce_tensor(Request request, bool is_real, bool gives_elements, Value tensor, Value dim,
                    bool keepdim, Value dtype) {
  const Tensor input(tensor);
  std::optional<List> dims;
  if (const std::optional<Value> list = given(dim)) dims.emplace(*list);
  const std::optional<Value> dtype_given = given(dtype);
  const int input_rank = input.rank();
  bool is_reduced[kMaxRank] = {};
  mark(dims, input_rank, is_reduced);
  const DataType& type = input.type();
  const Format& format = format_of(type.read_as);
  const DataType* result_type = &type;
  if (dtype_given) {
    result_type = &data_type(integer_in(*dtype_given));
  } else if (!gives_elements && !format.is_float) {
    if (is_real) throw std::invalid_argument("halfulp: of integers dtype has to be given");
    result_type = &data_type(Type::int64);
  }
  const bool result_is_float = format_of(result_type->read_as).is_float;
  if ((format.is_float || request.spread != Spread::none) && !result_is_float) {
    throw std::invalid_argument("halfulp: dtype is no float type; allowed: float types");
  }
  if (result_type->small && !gives_elements) {
    throw std::invalid_argument("halfulp: dtype has less than 32 bits; allowed: wider ones");
  }

  std::int64_t sizes[kMaxRank];
  int rank = 0;
  std::ptrdiff_t strides[kMaxRank];
  const int bytes = type.small ? type.small->bytes : format.bytes;
  const std::int64_t* const input_sizes = input.sizes();
  const std::int64_t* const input_strides = input.strides();
  for (int i = 0; i < input_rank; ++i) {
    strides[i] = input_strides[i] * bytes;
    if (!is_reduced[i]) {
      sizes[rank++] = input_sizes[i];
    } else if (keepdim) {
      sizes[rank++] = 1;
    }
  }
  Tensor result(rank, sizes, result_type->number);
  request.input = input.data();
  request.output = result.mutable_data();
  request.input_type = type.read_as;
  request.output_type = result_type->read_as;
  request.small = type.small;
  const int result_bytes =
      result_type->small ? result_type->small->bytes : format_of(result_type->read_as).bytes;
  const Plan plan =
      make_plan(input_rank, input_sizes, strides, is_reduced, bytes, result_bytes);
  if (gives_elements && plan.reduced.count() == 0 && plan.kept.count() > 0) {
    throw std::invalid_argument("halfulp: no elements; allowed: at least one");
  }
  reduce(plan, request, TorchThreads());
  return result.release();
}

// The operator of a row: dtype is no argument of those whose results are elements.
template <const auto& rows, std::size_t i>
void reduce_by_row(Value* stack, std::uint64_t, std::uint64_t) {
  constexpr const Reduction& row = rows[i];
  constexpr bool kGivesElements = gives_elements(row.operation, row.term);
  Request request = {};
  request.operation = row.operation;
  request.term = row.term;
  request.finish = row.finish;
  stack[0] =
      reduce_tensor(request, row.finish != Finish::none || row.ord != 0, kGivesElements,
                    stack[0], stack[1], flag_in(stack[2]), kGivesElements ? 0 : stack[3]);
}

template <Spread spread>
void reduce_spread(Value* stack, std::uint64_t, std::uint64_t) {
  Request request = {};
  request.operation = Operation::sum;
  request.term = Term::square;
  request.finish = Finish::mean;
  request.spread = spread;
  request.ddof = static_cast<std::int64_t>(stack[2]);
  stack[0] =
      reduce_tensor(request, true, false, stack[0], stack[1], flag_in(stack[3]), stack[4]);
}

// Adds the terms of all elements of tensors of one dtype to an exact sum, given and returned as
// SumSquare stores it.
template <Term term>
void add_to_sum(Value* stack, std::uint64_t, std::uint64_t) {
  const Tensor before(stack[0]);
  const List list(stack[1]);
  std::vector<Tensor> tensors;
  tensors.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) tensors.emplace_back(list[i]);
  const std::int64_t size = before.rank() == 1 ? before.sizes()[0] : 0;
  for (const Tensor& input : tensors) {
    const DataType& type = input.type();
    if (type.small || before.type().read_as != Type::int64 || before.strides()[0] != 1 ||
        size != sum_format(term, format_of(type.read_as)).stored_digits) {
      throw std::invalid_argument("halfulp: the sum is none of this dtype");
    }
  }
  Tensor sum(1, &size, data_type(Type::int64).number);
  std::byte* const digits = sum.mutable_data();
  if (size > 0) std::memcpy(digits, before.data(), 8 * size);
  for (const Tensor& input : tensors) {
    const Format& format = format_of(input.type().read_as);
    std::ptrdiff_t strides[kMaxRank];
    bool is_reduced[kMaxRank];
    const int rank = input.rank();
    std::fill_n(is_reduced, rank, true);
    std::transform(input.strides(), input.strides() + rank, strides,
                   [&](std::int64_t stride) { return stride * format.bytes; });
    Request request = {};
    request.operation = Operation::sum;
    request.term = term;
    request.input = input.data();
    request.output = digits;
    request.input_type = request.output_type = format.type;
    request.adds = true;
    const auto sum_bytes = static_cast<int>(8 * size);
    const Plan plan =
        make_plan(rank, input.sizes(), strides, is_reduced, format.bytes, sum_bytes);
    reduce(plan, request, TorchThreads());
  }
  stack[0] = sum.release();
}

// Defines operators and their kernels. Neither library is ever destroyed: that would take the
// operators away.
class Registry {
  // What PyTorch names where an operator is registered twice; no path of the machine that
  // built the library.
  static constexpr char kFile[] = "halfulp";

 public:
  Registry() {
    check(api.aoti_torch_library_init_fragment("halfulp", kFile, 0, &definitions_));
    check(api.aoti_torch_library_init_impl("halfulp", "CPU", kFile, 0, &kernels_));
  }

  void add(const std::string& name, const std::string& arguments, BoxedKernel kernel) {
    const std::string schema = name + "(" + arguments + ") -> Tensor";
    if (api.torch_library_def_with_tags && api.torch_tag_pt2_compliant_tag) {
      const std::int32_t tag = api.torch_tag_pt2_compliant_tag();
      check(api.torch_library_def_with_tags(definitions_, schema.c_str(), &tag, 1));
    } else {
      check(api.aoti_torch_library_def(definitions_, schema.c_str()));
    }
    check(api.torch_library_impl(kernels_, name.c_str(), kernel, kBuildVersion));
  }

  template <const auto& rows, std::size_t... i>
  void add_rows(std::index_sequence<i...>) {
    (add(rows[i].name,
         std::string("Tensor input, int[1]? dim=None, bool keepdim=False") +
             (gives_elements(rows[i].operation, rows[i].term) ? ""
                                                              : ", *, ScalarType? dtype=None"),
         &reduce_by_row<rows, i>),
     ...);
  }
  template <const auto& rows>
  void add_rows() {
    add_rows<rows>(
        std::make_index_sequence<std::extent_v<std::remove_reference_t<decltype(rows)>>>{});
  }

 private:
  TorchLibrary* definitions_ = nullptr;
  TorchLibrary* kernels_ = nullptr;
};

void register_operators() {
  set_data_types();
  Registry registry;
  registry.add_rows<kReductions>();
  registry.add_rows<kNumpyReductions>();
  const std::string spread =
      "Tensor input, int[1]? dim=None, int correction=1, bool keepdim=False, *, "
      "ScalarType? dtype=None";
  registry.add("var", spread, &reduce_spread<Spread::variance>);
  registry.add("std", spread, &reduce_spread<Spread::deviation>);
  const std::string sums = "Tensor sum, Tensor[] tensors";
  registry.add("add_magnitudes", sums, &add_to_sum<Term::magnitude>);
  registry.add("add_squares", sums, &add_to_sum<Term::square>);
  read_environment();
}

// What went wrong when the library was loaded; empty if nothing did.
std::string load() noexcept {
  try {
    const std::string missing = api.find();
    if (!missing.empty()) {
      return "PyTorch has no " + missing + "; allowed: PyTorch 2.10 and later";
    }
    register_operators();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

const std::string* const error = new std::string(load());

}  // namespace
}  // namespace halfulp::torch

// What went wrong when the library was loaded; null if nothing did.
extern "C" __attribute__((visibility("default"))) const char* halfulp_torch_error() {
  return halfulp::torch::error->empty() ? nullptr : halfulp::torch::error->c_str();
}
