// Tensors, lists and threads of LibTorch, as kernels use them.
// May include formats.h, parallel.h, plan.h and stable_abi.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "../formats.h"
#include "../parallel.h"
#include "../plan.h"
#include "stable_abi.h"

namespace halfulp::torch {

inline Api api;

inline void check(Error error) {
  if (error) throw std::runtime_error("halfulp: a call of PyTorch's C interface failed");
}

// An element type, by PyTorch's number of it.
struct DataType {
  std::int32_t number;
  Type read_as;
  const SmallFormat* small;  // if it is one that is read as a wider one
};

inline constexpr int kDataTypes = 13;
inline DataType data_types[kDataTypes];

inline void set_data_types() {
  int count = 0;
  const auto add = [&](std::int32_t number, Type type) {
    data_types[count++] = {number, type, nullptr};
  };
  add(api.aoti_torch_dtype_bfloat16(), Type::bfloat16);
  add(api.aoti_torch_dtype_float16(), Type::float16);
  add(api.aoti_torch_dtype_float32(), Type::float32);
  add(api.aoti_torch_dtype_float64(), Type::float64);
  add(api.aoti_torch_dtype_int32(), Type::int32);
  add(api.aoti_torch_dtype_int64(), Type::int64);
  add(api.aoti_torch_dtype_uint32(), Type::uint32);
  add(api.aoti_torch_dtype_uint64(), Type::uint64);
  const auto add_small = [&](std::int32_t number, SmallType type) {
    data_types[count++] = {number, format_of(type).read_as, &format_of(type)};
  };
  add_small(api.aoti_torch_dtype_bool(), SmallType::boolean);
  add_small(api.aoti_torch_dtype_int8(), SmallType::int8);
  add_small(api.aoti_torch_dtype_int16(), SmallType::int16);
  add_small(api.aoti_torch_dtype_uint8(), SmallType::uint8);
  add_small(api.aoti_torch_dtype_uint16(), SmallType::uint16);
}

inline const DataType& data_type(std::int32_t number) {
  for (const DataType& type : data_types) {
    if (type.number == number) return type;
  }
  throw std::invalid_argument("halfulp: no such dtype");
}

inline const DataType& data_type(Type type) {
  const DataType* found = data_types;
  while (found->read_as != type) ++found;
  return *found;
}

// A tensor, owned.
class Tensor {
 public:
  explicit Tensor(Value handle) : handle_(reinterpret_cast<AtenTensor*>(handle)) {}
  Tensor(int rank, const std::int64_t* sizes, std::int32_t dtype)
      : handle_(empty(rank, sizes, dtype)) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Tensor() {
    if (handle_) api.aoti_torch_delete_tensor_object(handle_);
  }

  int rank() const {
    std::int64_t rank = 0;
    check(api.aoti_torch_get_dim(handle_, &rank));
    if (rank > kMaxRank) {
      throw std::invalid_argument("halfulp: the tensor has " + std::to_string(rank) +
                                  " dimensions; allowed: up to " + std::to_string(kMaxRank));
    }
    return static_cast<int>(rank);
  }
  const std::int64_t* sizes() const {
    std::int64_t* sizes = nullptr;
    check(api.aoti_torch_get_sizes(handle_, &sizes));
    return sizes;
  }

  const DataType& type() const {
    std::int32_t number = 0;
    check(api.aoti_torch_get_dtype(handle_, &number));
    return data_type(number);
  }
  const std::int64_t* strides() const {
    std::int64_t* strides = nullptr;
    check(api.aoti_torch_get_strides(handle_, &strides));
    return strides;
  }
  const std::byte* data() const {
    const void* data = nullptr;
    check(api.torch_get_const_data_ptr(handle_, &data));
    return static_cast<const std::byte*>(data);
  }
  std::byte* mutable_data() const {
    void* data = nullptr;
    check(api.torch_get_mutable_data_ptr(handle_, &data));
    return static_cast<std::byte*>(data);
  }

  Value release() { return reinterpret_cast<Value>(std::exchange(handle_, nullptr)); }

 private:
  static AtenTensor* empty(int rank, const std::int64_t* sizes, std::int32_t dtype) {
    std::int64_t strides[kMaxRank];
    std::int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= std::max<std::int64_t>(1, sizes[i]);
    }
    AtenTensor* handle = nullptr;
    check(api.aoti_torch_empty_strided(rank, sizes, strides, dtype,
                                       api.aoti_torch_device_type_cpu(), 0, &handle));
    return handle;
  }

  AtenTensor* handle_;
};

// A list, owned.
class List {
 public:
  explicit List(Value value) : handle_(reinterpret_cast<StableList*>(value)) {}
  ~List() { api.torch_delete_list(handle_); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  std::size_t size() const {
    std::size_t size = 0;
    check(api.torch_list_size(handle_, &size));
    return size;
  }
  Value operator[](std::size_t i) const {
    Value value = 0;
    check(api.torch_list_get_item(handle_, i, &value));
    return value;
  }

 private:
  StableList* handle_;
};

// What an argument is, if it is not None.
inline std::optional<Value> given(Value argument) {
  auto* const pointer = reinterpret_cast<Value*>(argument);
  if (!pointer) return std::nullopt;
  const Value value = *pointer;
  if (api.torch_delete_stable_ivalue) {
    api.torch_delete_stable_ivalue(pointer);
  } else {
    delete pointer;  // as PyTorch's own headers have it
  }
  return value;
}

inline std::int32_t integer_in(Value value) {
  std::int32_t integer;
  std::memcpy(&integer, &value, sizeof integer);  // in the lowest bytes
  return integer;
}

inline bool flag_in(Value value) { return (value & 0xff) != 0; }

// PyTorch's threads, where halfulp's own limit is not less.
class TorchThreads : public Executor {
 public:
  int limit() const override {
    std::uint32_t threads = 1;
    check(api.torch_get_num_threads(&threads));
    return std::min(thread_limit(), std::max(1, static_cast<int>(threads)));
  }

  void run(int count, const std::function<void()>& worker) const override {
    const auto call = [](std::int64_t begin, std::int64_t end, void* context) {
      for (; begin < end; ++begin) (*static_cast<const std::function<void()>*>(context))();
    };
    auto* const context = const_cast<std::function<void()>*>(&worker);
    if (api.torch_parallel_for(0, count, 1, call, context)) worker();
  }
};

}  // namespace halfulp::torch
