// The kernel of one node of a reduction: attributes and inputs checked, then one call.
// May include abi.h, parallel.h, reduce.h, reductions.h and runtime.h only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../parallel.h"
#include "../reduce.h"
#include "../reductions.h"
#include "abi.h"
#include "runtime.h"

namespace halfulp::onnxruntime {

// The type of a node's elements, and of its results.
struct DataType {
  Type read_as;
  const SmallFormat* small = nullptr;  // if they are small integers

  // ONNX's.
  int code() const { return small ? static_cast<int>(small->type) : static_cast<int>(read_as); }
  int bytes() const { return small ? small->bytes : format_of(read_as).bytes; }
};

// The session's threads. How many they are the runtime does not tell: those that it lacks
// run after the others, and find all work done.
class SessionThreads : public Executor {
 public:
  SessionThreads(Api api, const OrtKernelContext* context) : api_(api), context_(context) {}

  int limit() const override { return thread_limit(); }

  void run(int count, const std::function<void()>& worker) const override {
    const auto call = [](void* user, std::size_t) {
      (*static_cast<const std::function<void()>*>(user))();
    };
    auto* user = const_cast<std::function<void()>*>(&worker);
    if (!succeeded(api_, api_(KernelContext_ParallelFor, context_, call, count, 0, user))) {
      worker();
    }
  }

 private:
  Api api_;
  const OrtKernelContext* context_;
};

// The kernel of one node. Which version it is of the runtime does not tell: it may have what
// any of them has.
class Node {
 public:
  Node(const OrtApi* runtime, const Reduction& reduction, DataType type,
       const OrtKernelInfo* info)
      : api_(runtime),
        is_newer_(runtime_of(runtime).is_newer),
        reduction_(reduction),
        type_(type) {
    const Api api = api_;
    const Versions& versions = reduction.versions;
    const std::string name = text_of([&](char* text, std::size_t* size) {
      return api(KernelInfo_GetNodeName, info, text, size);
    });
    const std::string output = text_of([&](char* text, std::size_t* size) {
      return api(KernelInfo_GetOutputName, info, 0, text, size);
    });
    where_ = name.empty() ? "node (output '" + output + "')" : "node '" + name + "'";
    where_ += std::string(" (") + reduction.operator_name + "): ";

    keepdims_ = flag(info, "keepdims", true);
    noop_with_empty_axes_ =
        versions.have_noop_with_empty_axes() && flag(info, "noop_with_empty_axes", false);
    std::size_t inputs = 0;
    check(api(KernelInfo_GetInputCount, info, &inputs));
    axes_are_input_ = versions.have(AxesPlace::input) && inputs > 1 &&
                      !text_of([&](char* text, std::size_t* size) {
                         return api(KernelInfo_GetInputName, info, 1, text, size);
                       }).empty();
    std::size_t size = 0;
    if (versions.have(AxesPlace::attribute) && has(info, "axes", &size)) {
      if (axes_are_input_) {
        fail("axes is given as attribute and as input; allowed: one of them");
      }
      if (size == 0 && is_no_list(info, "axes")) {
        fail("attribute axes has another type; allowed: INTS");
      }
      axes_.resize(size);
      if (size > 0) {
        check(api(KernelInfoGetAttributeArray_int64, info, "axes", axes_.data(), &size));
      }
    } else if (axes_are_input_) {
      if (const OrtValue* value = constant_input(info, 1)) {
        const Axes given = axes_of(value);
        axes_.assign(given.values, given.values + given.count);
        axes_are_input_ = false;
      }
    }
    if (axes_are_input_) return;
    if (const OrtValue* data = constant_input(info, 0)) {
      const auto memory = [&](const std::int64_t* shape, int rank) {
        std::size_t bytes = type_.bytes();
        for (int i = 0; i < rank; ++i) bytes *= static_cast<std::size_t>(shape[i]);
        folded_.emplace(Folded{{shape, shape + rank}, std::vector<std::byte>(bytes)});
        return folded_->content.data();
      };
      reduce_to(data, given_axes(), memory, own_threads());
    }
  }

  void compute(OrtKernelContext* context) const {
    const auto result_of = [&](const std::int64_t* shape, int rank) {
      OrtValue* result = nullptr;
      check(api_(KernelContext_GetOutput, context, 0, shape, rank, &result));
      return static_cast<std::byte*>(memory_of(result));
    };
    if (folded_) {
      const std::vector<std::int64_t>& shape = folded_->shape;
      std::byte* result = result_of(shape.data(), static_cast<int>(shape.size()));
      std::copy(folded_->content.begin(), folded_->content.end(), result);
      return;
    }
    const OrtValue* data = nullptr;
    check(api_(KernelContext_GetInput, context, 0, &data));
    Axes axes = given_axes();
    if (axes_are_input_) {
      const OrtValue* value = nullptr;
      check(api_(KernelContext_GetInput, context, 1, &value));
      axes = axes_of(value);
    }
    reduce_to(data, axes, result_of, SessionThreads(api_, context));
  }

  Api api() const { return api_; }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw std::invalid_argument(where_ + message);
  }

  struct Axes {
    const std::int64_t* values;
    std::int64_t count;
  };

  // What a node of constants gives. The runtime folds these only where its own kernels can.
  struct Folded {
    std::vector<std::int64_t> shape;
    std::vector<std::byte> content;
  };

  // Those that are not an input of the run.
  Axes given_axes() const { return {axes_.data(), static_cast<std::int64_t>(axes_.size())}; }

  // Null if it is no constant.
  const OrtValue* constant_input(const OrtKernelInfo* info, std::size_t i) const {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    check(api_(KernelInfoGetConstantInput_tensor, info, i, &is_constant, &value));
    return is_constant ? value : nullptr;
  }

  // Reduces data to the memory that result_of(shape, rank) returns.
  template <class ResultOf>
  void reduce_to(const OrtValue* data, Axes axes, ResultOf result_of,
                 const Executor& executor) const {
    std::int64_t shape[kMaxRank];
    const int rank = shape_of(data, "data", shape);
    bool is_reduced[kMaxRank] = {};
    mark(axes, rank, is_reduced);

    std::int64_t result_shape[kMaxRank];
    int result_rank = 0;
    std::ptrdiff_t strides[kMaxRank];
    const int bytes = type_.bytes();
    std::ptrdiff_t stride = bytes;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= shape[i];
    }
    for (int i = 0; i < rank; ++i) {
      if (!is_reduced[i]) {
        result_shape[result_rank++] = shape[i];
      } else if (keepdims_) {
        result_shape[result_rank++] = 1;
      }
    }
    std::byte* const result = result_of(result_shape, result_rank);
    const Plan plan = make_plan(rank, shape, strides, is_reduced, bytes, bytes);
    const Request request = {reduction_.operation,
                             reduction_.term,
                             reduction_.finish,
                             static_cast<const std::byte*>(memory_of(data)),
                             result,
                             type_.read_as,
                             type_.read_as,
                             false,
                             false,
                             type_.small};
    reduce(plan, request, executor);
    if (axes.count == 0 && noop_with_empty_axes_) keep_zeros(request, stride);
  }

  // The size of the list that an attribute is, 0 if it is something else.
  bool has(const OrtKernelInfo* info, const char* name, std::size_t* size) const {
    return succeeded(api_, api_(KernelInfoGetAttributeArray_int64, info, name, nullptr, size));
  }

  // Whether an attribute of no integers holds something else: the runtime does not tell types.
  bool is_no_list(const OrtKernelInfo* info, const char* name) const {
    std::int64_t integer;
    float real;
    std::size_t reals = 0;
    return succeeded(api_, api_(KernelInfoGetAttribute_int64, info, name, &integer)) ||
           succeeded(api_, api_(KernelInfoGetAttribute_float, info, name, &real)) ||
           (succeeded(api_,
                      api_(KernelInfoGetAttributeArray_float, info, name, nullptr, &reals)) &&
            reals > 0);
  }

  bool flag(const OrtKernelInfo* info, const char* name, bool otherwise) const {
    std::size_t size = 0;
    if (!has(info, name, &size)) return otherwise;
    std::int64_t value = 0;
    if (!succeeded(api_, api_(KernelInfoGetAttribute_int64, info, name, &value))) {
      fail(std::string("attribute ") + name + " has another type; allowed: INT");
    }
    if (value != 0 && value != 1) {
      fail(name + (" is " + std::to_string(value)) + "; allowed: 0 or 1");
    }
    return value == 1;
  }

  // Returns the rank and writes as many dimensions.
  int shape_of(const OrtValue* value, const char* what, std::int64_t* shape) const {
    std::size_t rank = 0;
    if (is_newer_) {
      int type;
      const std::int64_t* dimensions = nullptr;
      check(api_(GetTensorElementTypeAndShapeDataReference, value, &type, &dimensions, &rank));
      if (rank <= kMaxRank) std::copy_n(dimensions, rank, shape);
    } else {
      OrtTensorTypeAndShapeInfo* info = nullptr;
      check(api_(GetTensorTypeAndShape, value, &info));
      OrtStatus* status = api_(GetDimensionsCount, info, &rank);
      if (!status && rank <= kMaxRank) status = api_(GetDimensions, info, shape, rank);
      api_(ReleaseTensorTypeAndShapeInfo, info);
      check(status);
    }
    if (rank > kMaxRank) {
      fail(what + (" has rank " + std::to_string(rank)) + "; allowed: up to " +
           std::to_string(kMaxRank));
    }
    return static_cast<int>(rank);
  }

  void* memory_of(const OrtValue* value) const {
    void* memory = nullptr;
    check(api_(GetTensorMutableData, const_cast<OrtValue*>(value), &memory));
    return memory;
  }

  // What the axes input holds, where it lies.
  Axes axes_of(const OrtValue* value) const {
    std::int64_t shape[kMaxRank];
    const int rank = shape_of(value, "axes", shape);
    if (rank != 1) {
      fail("axes is a tensor(int64) of rank " + std::to_string(rank) +
           "; allowed: a 1-D tensor(int64)");
    }
    return {static_cast<const std::int64_t*>(memory_of(value)), shape[0]};
  }

  // Where each element is a reduction of itself, -0 stays -0: a sum of it would be +0.
  void keep_zeros(const Request& request, std::ptrdiff_t bytes) const {
    const Format& format = format_of(type_.read_as);
    const bool is_log =
        reduction_.operation == Operation::sum && reduction_.finish == Finish::log;
    const bool is_itself = facts_of(reduction_.term).is_signed && !is_log;
    if (!format.is_float || !is_itself) return;
    const auto copy = [&](auto zero) {
      zero = static_cast<decltype(zero)>(format.sign());
      const std::ptrdiff_t size = sizeof zero;
      for (std::ptrdiff_t at = 0; at < bytes; at += size) {
        if (std::memcmp(request.input + at, &zero, size) == 0) {
          std::memcpy(request.output + at, &zero, size);
        }
      }
    };
    if (format.bytes == 2) copy(std::uint16_t{});
    if (format.bytes == 4) copy(std::uint32_t{});
    if (format.bytes == 8) copy(std::uint64_t{});
  }

  // Marks the axes to reduce, empty axes decided: as src/halfulp/spec does.
  void mark(Axes axes, int rank, bool* is_reduced) const {
    for (std::int64_t i = 0; i < axes.count; ++i) {
      const std::int64_t axis = axes.values[i];
      if (axis < -rank || axis >= rank) {
        fail("axis " + std::to_string(axis) + " is out of range for rank " +
             std::to_string(rank) + "; allowed: " +
             (rank == 0 ? "none, a scalar has no axes"
                        : "[-" + std::to_string(rank) + ", " + std::to_string(rank - 1) + "]"));
      }
      is_reduced[axis < 0 ? axis + rank : axis] = true;
    }
    if (axes.count == 0 && !noop_with_empty_axes_) std::fill_n(is_reduced, rank, true);
  }

  Api api_;
  bool is_newer_;
  const Reduction& reduction_;
  DataType type_;
  std::string where_;  // how errors begin
  bool keepdims_;
  bool noop_with_empty_axes_;
  bool axes_are_input_;
  std::vector<std::int64_t> axes_;  // if they are not: those of the attribute or a constant
  std::optional<Folded> folded_;    // of a node of constants
};

}  // namespace halfulp::onnxruntime
