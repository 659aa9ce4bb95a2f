// What this folder calls of LibTorch's stable C interface. Includes nothing of halfulp.
//
// The interface only ever grows: what a release has, later ones have with the same meaning.
// Declared here by hand and looked up by name in the LibTorch that the process has loaded, it
// needs neither headers nor a library when this one is built.
#pragma once

#include <dlfcn.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace halfulp::torch {

// The release whose meaning of arguments kernels are registered with, 2.10: of each byte the
// highest are major and minor.
inline constexpr std::uint64_t kBuildVersion = std::uint64_t{2} << 56 | std::uint64_t{10} << 48;

using Error = std::int32_t;  // 0 is success

// An argument or a result of an operator: an integer, a flag or a handle in its lowest bytes.
// Handles of arguments are the kernel's, those of results the caller's. What may be None is
// null or a pointer to another of these, which whoever receives it frees.
using Value = std::uint64_t;
using BoxedKernel = void (*)(Value* stack, std::uint64_t arguments, std::uint64_t results);

struct AtenTensor;
struct StableList;
struct TorchLibrary;

using Range = void (*)(std::int64_t begin, std::int64_t end, void* context);

// REQUIRED(name, result, arguments): a function of release 2.10 and later; OPTIONAL: of later
// ones only, null where the release lacks it.
#define HALFULP_TORCH_FUNCTIONS(REQUIRED, OPTIONAL)                                            \
  /* Libraries of operators: those of a namespace, and kernels of a dispatch key. */           \
  REQUIRED(aoti_torch_library_init_fragment, Error,                                            \
           (const char* name, const char* file, std::uint32_t line, TorchLibrary**))           \
  REQUIRED(aoti_torch_library_init_impl, Error,                                                \
           (const char* name, const char* key, const char* file, std::uint32_t line,           \
            TorchLibrary**))                                                                   \
  REQUIRED(aoti_torch_library_def, Error, (TorchLibrary*, const char* schema))                 \
  REQUIRED(torch_library_impl, Error,                                                          \
           (TorchLibrary*, const char* name, BoxedKernel, std::uint64_t build_version))        \
  OPTIONAL(torch_library_def_with_tags, Error,                                                 \
           (TorchLibrary*, const char* schema, const std::int32_t* tags, std::int32_t count))  \
  OPTIONAL(torch_tag_pt2_compliant_tag, std::int32_t, ())                                      \
  /* Tensors. Sizes and strides are borrowed; strides count elements. */                       \
  REQUIRED(aoti_torch_delete_tensor_object, Error, (AtenTensor*))                              \
  REQUIRED(aoti_torch_get_dim, Error, (AtenTensor*, std::int64_t*))                            \
  REQUIRED(aoti_torch_get_sizes, Error, (AtenTensor*, std::int64_t**))                         \
  REQUIRED(aoti_torch_get_strides, Error, (AtenTensor*, std::int64_t**))                       \
  REQUIRED(aoti_torch_get_dtype, Error, (AtenTensor*, std::int32_t*))                          \
  REQUIRED(torch_get_const_data_ptr, Error, (AtenTensor*, const void**))                       \
  REQUIRED(torch_get_mutable_data_ptr, Error, (AtenTensor*, void**))                           \
  REQUIRED(                                                                                    \
      aoti_torch_empty_strided, Error,                                                         \
      (std::int64_t rank, const std::int64_t* sizes, const std::int64_t* strides,              \
       std::int32_t dtype, std::int32_t device_type, std::int32_t device_index, AtenTensor**)) \
  REQUIRED(aoti_torch_device_type_cpu, std::int32_t, ())                                       \
  REQUIRED(aoti_torch_dtype_bfloat16, std::int32_t, ())                                        \
  REQUIRED(aoti_torch_dtype_float16, std::int32_t, ())                                         \
  REQUIRED(aoti_torch_dtype_float32, std::int32_t, ())                                         \
  REQUIRED(aoti_torch_dtype_float64, std::int32_t, ())                                         \
  REQUIRED(aoti_torch_dtype_uint8, std::int32_t, ())                                           \
  REQUIRED(aoti_torch_dtype_uint16, std::int32_t, ())                                          \
  REQUIRED(aoti_torch_dtype_uint32, std::int32_t, ())                                          \
  REQUIRED(aoti_torch_dtype_uint64, std::int32_t, ())                                          \
  REQUIRED(aoti_torch_dtype_int8, std::int32_t, ())                                            \
  REQUIRED(aoti_torch_dtype_int16, std::int32_t, ())                                           \
  REQUIRED(aoti_torch_dtype_int32, std::int32_t, ())                                           \
  REQUIRED(aoti_torch_dtype_int64, std::int32_t, ())                                           \
  REQUIRED(aoti_torch_dtype_bool, std::int32_t, ())                                            \
  /* Lists, and what may be None. */                                                           \
  REQUIRED(torch_list_size, Error, (StableList*, std::size_t*))                                \
  REQUIRED(torch_list_get_item, Error, (StableList*, std::size_t, Value*))                     \
  REQUIRED(torch_delete_list, Error, (StableList*))                                            \
  OPTIONAL(torch_delete_stable_ivalue, Error, (Value*))                                        \
  /* Threads: calls function(begin, end, context) for parts of a range, on some at once. */    \
  REQUIRED(torch_parallel_for, Error,                                                          \
           (std::int64_t begin, std::int64_t end, std::int64_t grain, Range, void* context))   \
  REQUIRED(torch_get_num_threads, Error, (std::uint32_t*))

// LibTorch, loaded already: as a library of Python's, where others do not see it.
inline void* loaded() {
#if defined(__APPLE__)
  for (std::uint32_t i = 0; i < _dyld_image_count(); ++i) {
    const char* const name = _dyld_get_image_name(i);
    if (name && std::strstr(name, "libtorch_cpu.dylib")) {
      return dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    }
  }
  return nullptr;
#else
  return dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
#endif
}

struct Api {
#define HALFULP_DECLARE(name, result, arguments) result(*name) arguments = nullptr;
  HALFULP_TORCH_FUNCTIONS(HALFULP_DECLARE, HALFULP_DECLARE)
#undef HALFULP_DECLARE

  // Looks all up. Returns what is missing, empty if nothing is.
  std::string find() {
    void* const library = loaded();
    if (!library) return "libtorch_cpu loaded";
    std::string missing;
#define HALFULP_FIND(name) name = reinterpret_cast<decltype(name)>(dlsym(library, #name));
#define HALFULP_REQUIRE(name, result, arguments) HALFULP_FIND(name) if (!name) missing = #name;
#define HALFULP_TAKE(name, result, arguments) HALFULP_FIND(name)
    HALFULP_TORCH_FUNCTIONS(HALFULP_REQUIRE, HALFULP_TAKE)
#undef HALFULP_TAKE
#undef HALFULP_REQUIRE
#undef HALFULP_FIND
    return missing;
  }
};

#undef HALFULP_TORCH_FUNCTIONS

}  // namespace halfulp::torch
