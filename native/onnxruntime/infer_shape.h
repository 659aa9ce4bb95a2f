// The shape of the result, as far as it follows from what ONNX Runtime tells before a run. It
// tells an axes input's shape, not its values, even where they are constant.
// May include abi.h, plan.h and reductions.h only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../plan.h"
#include "../reductions.h"
#include "abi.h"

namespace halfulp::onnxruntime {

// Sets the shape of the output, or nothing where anything is amiss: the kernel has the rules,
// and the words for what breaks them.
class ShapeInference {
 public:
  ShapeInference(Api api, const Versions& versions, OrtShapeInferContext* context)
      : api_(api), versions_(versions), context_(context) {}

  void run() {
    std::int64_t keepdims = 1, noop_with_empty_axes = 0;
    if (!read_data() || !read("keepdims", kInt, &keepdims, 1)) return;
    if (versions_.have_noop_with_empty_axes() &&
        !read("noop_with_empty_axes", kInt, &noop_with_empty_axes, 1)) {
      return;
    }
    std::int64_t axes[kMaxRank];
    std::size_t count = 0;
    if (versions_.have(AxesPlace::attribute) && !read("axes", kInts, axes, kMaxRank, &count)) {
      return;
    }
    const std::int64_t given = versions_.have(AxesPlace::input) ? length_of_axes_input() : 0;
    const bool is_known = given == 0;
    bool is_reduced[kMaxRank] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const auto rank = static_cast<std::int64_t>(rank_);
      if (axes[i] < -rank || axes[i] >= rank) return;
      is_reduced[axes[i] < 0 ? axes[i] + rank : axes[i]] = true;
    }
    if (count == 0 && !noop_with_empty_axes) std::fill_n(is_reduced, rank_, true);

    if (!is_known && !keepdims) {
      // Several axes may be the same; one removes one dimension, whichever.
      if (given == 1) set_output(std::vector<Dimension>(rank_ - 1));
      return;
    }
    std::vector<Dimension> result;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (is_known ? !is_reduced[i] : shape_[i] == 1) {
        result.push_back({shape_[i], symbols_[i]});
      } else if (keepdims) {
        result.push_back(is_known ? Dimension{1, ""} : Dimension{});
      }
    }
    set_output(std::move(result));
  }

 private:
  struct Dimension {
    std::int64_t size = -1;  // -1 if it is not known, or has a symbol
    std::string symbol;
  };

  bool succeeded(OrtStatus* status) const {
    if (status) api_(ReleaseStatus, status);
    return !status;
  }

  // Writes an attribute of integers and their number, if there is one. False if it does not
  // fit.
  bool read(const char* name, int type, std::int64_t* values, std::size_t most,
            std::size_t* count = nullptr) const {
    const OrtOpAttr* attribute = nullptr;
    if (!succeeded(api_(ShapeInferContext_GetAttribute, context_, name, &attribute))) {
      return true;
    }
    std::size_t bytes = 0;
    if (!succeeded(api_(ReadOpAttr, attribute, type, static_cast<void*>(values),
                        most * sizeof(std::int64_t), &bytes))) {
      return false;
    }
    if (count) *count = bytes / sizeof(std::int64_t);
    return true;
  }

  bool read_data() {
    OrtTensorTypeAndShapeInfo* data = nullptr;
    // An unknown rank is told as 0.
    return succeeded(api_(ShapeInferContext_GetInputTypeShape, context_, 0, &data)) &&
           succeeded(api_(GetTensorElementType, data, &type_)) &&
           succeeded(api_(GetDimensionsCount, data, &rank_)) && rank_ > 0 &&
           rank_ <= kMaxRank && succeeded(api_(GetDimensions, data, shape_, rank_)) &&
           succeeded(api_(GetSymbolicDimensions, data, symbols_, rank_));
  }

  // -1 if it is not known, 0 if there is none.
  std::int64_t length_of_axes_input() const {
    OrtTensorTypeAndShapeInfo* axes = nullptr;
    std::size_t inputs = 0, rank = 0;
    std::int64_t length = -1;
    if (!succeeded(api_(ShapeInferContext_GetInputCount, context_, &inputs))) return -1;
    if (inputs < 2 ||
        !succeeded(api_(ShapeInferContext_GetInputTypeShape, context_, 1, &axes))) {
      return 0;
    }
    if (!succeeded(api_(GetDimensionsCount, axes, &rank)) || rank != 1 ||
        !succeeded(api_(GetDimensions, axes, &length, 1))) {
      return -1;
    }
    return length;
  }

  void set_output(std::vector<Dimension> dimensions) {
    // The runtime takes the same symbol for the same size, and no symbol for a size of -1.
    static std::atomic<unsigned> unknown{0};
    std::vector<std::int64_t> sizes;
    std::vector<const char*> symbols;
    for (Dimension& d : dimensions) {
      if (d.size < 0 && d.symbol.empty()) {
        d.symbol = "halfulp_unknown_" + std::to_string(unknown++);
      }
      sizes.push_back(d.size);
      symbols.push_back(d.symbol.c_str());
    }
    OrtTensorTypeAndShapeInfo* info = nullptr;
    if (!succeeded(api_(CreateTensorTypeAndShapeInfo, &info))) return;
    if (succeeded(api_(SetTensorElementType, info, type_)) &&
        succeeded(api_(SetDimensions, info, sizes.data(), sizes.size())) &&
        succeeded(api_(SetSymbolicDimensions, info, symbols.data(), symbols.size()))) {
      succeeded(api_(ShapeInferContext_SetOutputTypeShape, context_, 0, info));
    }
    api_(ReleaseTensorTypeAndShapeInfo, info);
  }

  Api api_;
  const Versions& versions_;
  OrtShapeInferContext* context_;
  int type_ = 0;
  std::size_t rank_ = 0;
  std::int64_t shape_[kMaxRank];
  const char* symbols_[kMaxRank];
};

}  // namespace halfulp::onnxruntime
