// What library.cpp calls and implements of ONNX Runtime's C interface.
// Includes nothing of halfulp.
//
// The interface only ever grows at its end: what was at a place once stays there. Declared
// here by hand, it needs no header of a particular release.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::onnxruntime {

// The release that brought operators with a range of versions, 1.17.
inline constexpr std::uint32_t kApiVersion = 17;
// The release that brought the last entry below, 1.24.
inline constexpr std::uint32_t kNewerApiVersion = 24;

struct OrtCustomOpDomain;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtOpAttr;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;  // null is success; owned by whoever receives it
struct OrtTensorTypeAndShapeInfo;
struct OrtValue;

struct OrtApi {
  void (*functions[415])();  // as many as the runtime's version has
};

struct OrtApiBase {
  const OrtApi* (*GetApi)(std::uint32_t version);  // null if the runtime is older
  const char* (*GetVersionString)();
};

// A function of OrtApi: its place there and its type.
template <std::size_t place, class Type>
struct Entry {};

inline constexpr int kFail = 1;
inline constexpr int kInvalidArgument = 2;
inline constexpr Entry<0, OrtStatus*(int code, const char* message)> CreateStatus;
inline constexpr Entry<26, OrtStatus*(const char* name, OrtCustomOpDomain**)>
    CreateCustomOpDomain;
struct OrtCustomOp;
inline constexpr Entry<27, OrtStatus*(OrtCustomOpDomain*, const OrtCustomOp*)>
    CustomOpDomain_Add;
inline constexpr Entry<28, OrtStatus*(OrtSessionOptions*, OrtCustomOpDomain*)>
    AddCustomOpDomain;
inline constexpr Entry<51, OrtStatus*(OrtValue*, void**)> GetTensorMutableData;
inline constexpr Entry<60, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int*)>
    GetTensorElementType;
inline constexpr Entry<61, OrtStatus*(const OrtTensorTypeAndShapeInfo*, std::size_t*)>
    GetDimensionsCount;
inline constexpr Entry<62, OrtStatus*(const OrtTensorTypeAndShapeInfo*, std::int64_t*,
                                      std::size_t count)>
    GetDimensions;
inline constexpr Entry<57, OrtStatus*(OrtTensorTypeAndShapeInfo**)>
    CreateTensorTypeAndShapeInfo;
inline constexpr Entry<58, OrtStatus*(OrtTensorTypeAndShapeInfo*, int type)>
    SetTensorElementType;
inline constexpr Entry<59, OrtStatus*(OrtTensorTypeAndShapeInfo*, const std::int64_t*,
                                      std::size_t count)>
    SetDimensions;
inline constexpr Entry<63, OrtStatus*(const OrtTensorTypeAndShapeInfo*, const char**,
                                      std::size_t count)>
    GetSymbolicDimensions;
inline constexpr Entry<65, OrtStatus*(const OrtValue*, OrtTensorTypeAndShapeInfo**)>
    GetTensorTypeAndShape;
inline constexpr Entry<85, OrtStatus*(const OrtKernelInfo*, const char* name, float*)>
    KernelInfoGetAttribute_float;
inline constexpr Entry<86, OrtStatus*(const OrtKernelInfo*, const char* name, std::int64_t*)>
    KernelInfoGetAttribute_int64;
inline constexpr Entry<90, OrtStatus*(const OrtKernelContext*, std::size_t, const OrtValue**)>
    KernelContext_GetInput;
inline constexpr Entry<91, OrtStatus*(OrtKernelContext*, std::size_t, const std::int64_t* shape,
                                      std::size_t rank, OrtValue**)>
    KernelContext_GetOutput;
inline constexpr Entry<93, void(OrtStatus*)> ReleaseStatus;
inline constexpr Entry<99, void(OrtTensorTypeAndShapeInfo*)> ReleaseTensorTypeAndShapeInfo;
inline constexpr Entry<101, void(OrtCustomOpDomain*)> ReleaseCustomOpDomain;
inline constexpr Entry<130, OrtStatus*(OrtSessionOptions*, const char* name, const char* value)>
    AddSessionConfigEntry;
// These and the names: with null for the values they tell the size only.
inline constexpr Entry<162, OrtStatus*(const OrtKernelInfo*, const char* name, float*,
                                       std::size_t* size)>
    KernelInfoGetAttributeArray_float;
inline constexpr Entry<163, OrtStatus*(const OrtKernelInfo*, const char* name, std::int64_t*,
                                       std::size_t* size)>
    KernelInfoGetAttributeArray_int64;
inline constexpr Entry<230, OrtStatus*(const OrtKernelInfo*, std::size_t*)>
    KernelInfo_GetInputCount;
inline constexpr Entry<232,
                       OrtStatus*(const OrtKernelInfo*, std::size_t, char*, std::size_t* size)>
    KernelInfo_GetInputName;
inline constexpr Entry<233,
                       OrtStatus*(const OrtKernelInfo*, std::size_t, char*, std::size_t* size)>
    KernelInfo_GetOutputName;
inline constexpr Entry<237, OrtStatus*(const OrtSessionOptions*, const char* name, int* has)>
    HasSessionConfigEntry;
inline constexpr Entry<238, OrtStatus*(const OrtSessionOptions*, const char* name, char*,
                                       std::size_t* size)>
    GetSessionConfigEntry;
inline constexpr Entry<244, OrtStatus*(const OrtKernelInfo*, char*, std::size_t* size)>
    KernelInfo_GetNodeName;
inline constexpr Entry<249, OrtStatus*(const OrtKernelInfo*, std::size_t, int* is_constant,
                                       const OrtValue**)>
    KernelInfoGetConstantInput_tensor;
inline constexpr Entry<267, OrtStatus*(const OrtShapeInferContext*, std::size_t*)>
    ShapeInferContext_GetInputCount;
inline constexpr Entry<268, OrtStatus*(const OrtShapeInferContext*, std::size_t,
                                       OrtTensorTypeAndShapeInfo**)>  // the context's
    ShapeInferContext_GetInputTypeShape;
inline constexpr Entry<269, OrtStatus*(const OrtShapeInferContext*, const char* name,
                                       const OrtOpAttr**)>
    ShapeInferContext_GetAttribute;
inline constexpr Entry<270, OrtStatus*(const OrtShapeInferContext*, std::size_t,
                                       const OrtTensorTypeAndShapeInfo*)>
    ShapeInferContext_SetOutputTypeShape;
inline constexpr Entry<271,
                       OrtStatus*(OrtTensorTypeAndShapeInfo*, const char**, std::size_t count)>
    SetSymbolicDimensions;
inline constexpr int kInt = 1;
inline constexpr int kInts = 2;
inline constexpr Entry<272, OrtStatus*(const OrtOpAttr*, int type, void* values,
                                       std::size_t most, std::size_t* size)>  // in bytes
    ReadOpAttr;
// Calls f(user, i) for i < total on the session's threads, also if these are but the caller.
inline constexpr Entry<274, OrtStatus*(const OrtKernelContext*, void (*f)(void*, std::size_t),
                                       std::size_t total, std::size_t batches, void* user)>
    KernelContext_ParallelFor;

// Of the newer version: the dimensions lie where the value has them.
inline constexpr Entry<414, OrtStatus*(const OrtValue*, int* type, const std::int64_t**,
                                       std::size_t*)>
    GetTensorElementTypeAndShapeDataReference;

// Calls functions of one runtime.
class Api {
 public:
  explicit Api(const OrtApi* api) : api_(api) {}

  template <std::size_t place, class Result, class... Declared, class... Given>
  Result operator()(Entry<place, Result(Declared...)>, Given... arguments) const {
    using Function = Result (*)(Declared...);
    return reinterpret_cast<Function>(api_->functions[place])(arguments...);
  }

 private:
  const OrtApi* api_;
};

// What an operator tells about itself. Only the last ones may be null, and those that a
// newer one replaces.
struct OrtCustomOp {
  std::uint32_t version;  // of the interface
  void (*CreateKernel)();
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);  // null means the CPU
  int (*GetInputType)(const OrtCustomOp*, std::size_t);
  std::size_t (*GetInputTypeCount)(const OrtCustomOp*);
  int (*GetOutputType)(const OrtCustomOp*, std::size_t);
  std::size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)();
  void (*KernelDestroy)(void* kernel);
  int (*GetInputCharacteristic)(const OrtCustomOp*, std::size_t);  // 0 required, 1 optional
  int (*GetOutputCharacteristic)(const OrtCustomOp*, std::size_t);
  int (*GetInputMemoryType)(const OrtCustomOp*, std::size_t);  // 0 where the operator runs
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*,
                               void** kernel);
  OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext*);
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
  int (*GetStartVersion)(const OrtCustomOp*);
  int (*GetEndVersion)(const OrtCustomOp*);
  void (*GetMayInplace)();
  void (*ReleaseMayInplace)();
  void (*GetAliasMap)();
  void (*ReleaseAliasMap)();
};
static_assert(sizeof(void*) == 8 && sizeof(OrtCustomOp) == 208);
static_assert(offsetof(OrtCustomOp, GetName) == 16);
static_assert(offsetof(OrtCustomOp, KernelDestroy) == 72);
static_assert(offsetof(OrtCustomOp, CreateKernelV2) == 136);
static_assert(offsetof(OrtCustomOp, GetStartVersion) == 160);

}  // namespace halfulp::onnxruntime
