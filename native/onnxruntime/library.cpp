// The reductions inside ONNX Runtime: the library that sessions load. No arithmetic.
// May include abi.h, infer_shape.h, node.h, reduce.h, reductions.h and runtime.h only.
//
// An operator of the domain "" takes the place of the runtime's own. Operators of one name
// must agree in their inputs, so there is one for each element type, for all versions: the
// node tells by its attributes and inputs what its version means.
#include <cstdio>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#if defined(__APPLE__)
#include <dlfcn.h>
#endif

#include "../reduce.h"
#include "../reductions.h"
#include "abi.h"
#include "infer_shape.h"
#include "node.h"
#include "runtime.h"

namespace halfulp::onnxruntime {
namespace {

// An entry of options in which the operators are. It is in the options themselves, and so
// goes where a copy of them goes; a session refuses a domain that was added twice.
constexpr char kRegistered[] = "halfulp.registered";

// A reduction's operator of one element type, in one runtime.
struct Operator : OrtCustomOp {
  const Reduction& reduction;
  const Type type;
  const OrtApi* const runtime;

  Operator(const Reduction& row, Type of, const OrtApi* in)
      : OrtCustomOp{}, reduction(row), type(of), runtime(in) {
    const auto zero = [](const OrtCustomOp*) { return 0; };
    const auto zero_at = [](const OrtCustomOp*, std::size_t) { return 0; };
    version = kApiVersion;
    GetName = [](const OrtCustomOp* op) { return of_op(op).reduction.operator_name; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputType = [](const OrtCustomOp* op, std::size_t i) {
      return static_cast<int>(i == 0 ? of_op(op).type : Type::int64);
    };
    GetInputTypeCount = [](const OrtCustomOp* op) {
      return std::size_t{of_op(op).reduction.versions.have(AxesPlace::input) ? 2U : 1U};
    };
    GetOutputType = [](const OrtCustomOp* op, std::size_t) {
      return static_cast<int>(of_op(op).type);
    };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
    GetInputCharacteristic = [](const OrtCustomOp*, std::size_t i) { return i == 0 ? 0 : 1; };
    GetOutputCharacteristic = zero_at;
    // The runtime calls these without asking whether they are null.
    GetInputMemoryType = zero_at;
    GetVariadicInputMinArity = zero;
    GetVariadicInputHomogeneity = zero;
    GetVariadicOutputMinArity = zero;
    GetVariadicOutputHomogeneity = zero;
    // Older runtimes crash before they call it, where an input has the empty name.
    if (runtime_of(in).is_newer) {
      InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
        const Api api(of_op(op).runtime);
        return guarded(
            api, [&] { ShapeInference(api, of_op(op).reduction.versions, context).run(); });
      };
    }
    // Not 1, or runtimes before 1.27 would take their own kernels for this operator's when
    // they fold constants, and fail.
    GetStartVersion = [](const OrtCustomOp*) { return 0; };
    GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                        void** kernel) {
      return guarded(Api(api), [&] {
        *kernel = new Node(api, of_op(op).reduction, of_op(op).type, info);
      });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      const Node& node = *static_cast<const Node*>(kernel);
      return guarded(node.api(), [&] { node.compute(context); });
    };
    KernelDestroy = [](void* kernel) { delete static_cast<Node*>(kernel); };
  }

  static const Operator& of_op(const OrtCustomOp* op) {
    return *static_cast<const Operator*>(op);
  }
};

// Whether the operator takes the place of the runtime's.
bool is_registered(const Reduction& reduction) {
  return reduction.term == Term::square && reduction.finish == Finish::none;
}

// The domain and the operators in it, for as long as the process lives.
OrtCustomOpDomain* make_domain(const OrtApi* runtime) {
  const Api api(runtime);
  OrtCustomOpDomain* domain = nullptr;
  check(api(CreateCustomOpDomain, "", &domain));
  try {
    for (const Reduction& reduction : kReductions) {
      if (!is_registered(reduction)) continue;
      for (const Format& format : kFormats) {
        if (!(reduction.versions.types() & set_of(format.type))) continue;
        check(api(CustomOpDomain_Add, domain, new Operator(reduction, format.type, runtime)));
      }
    }
  } catch (...) {
    api(ReleaseCustomOpDomain, domain);
    throw;
  }
  return domain;
}

// This library must stay loaded. ELF's linker has an option for that, macOS's has none.
void stay_loaded() {
#if defined(__APPLE__)
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&stay_loaded), &here)) {
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NODELETE);
  }
#endif
}

// Of 1.x; GetApi would log an error where it is too old.
int minor_release(const OrtApiBase* base) {
  int minor = 0;
  return std::sscanf(base->GetVersionString(), "1.%d", &minor) == 1 ? minor : 0;
}

OrtStatus* register_in(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  if (const OrtApi* found = base->GetApi(kApiVersion)) {
    const Api api(found);
    return guarded(api, [&] {
      static std::mutex mutex;
      const std::lock_guard<std::mutex> guard(mutex);
      Runtime& runtime = runtime_of(found);
      if (!runtime.domain) {
        runtime.is_newer = minor_release(base) >= static_cast<int>(kNewerApiVersion);
        stay_loaded();
        read_environment();
        runtime.domain = make_domain(found);
      }
      int is_registered = 0;
      check(api(HasSessionConfigEntry, options, kRegistered, &is_registered));
      if (is_registered) return;
      check(api(AddCustomOpDomain, options, runtime.domain));
      check(api(AddSessionConfigEntry, options, kRegistered, "1"));
    });
  }
  const Api api(base->GetApi(1));
  return guarded(api, [&] {
    throw std::runtime_error("halfulp: onnxruntime is " +
                             std::string(base->GetVersionString()) +
                             "; allowed: 1.17 and later");
  });
}

}  // namespace
}  // namespace halfulp::onnxruntime

// What onnxruntime looks up in a library of operators.
extern "C" __attribute__((visibility("default"))) halfulp::onnxruntime::OrtStatus*
RegisterCustomOps(halfulp::onnxruntime::OrtSessionOptions* options,
                  const halfulp::onnxruntime::OrtApiBase* base) {
  return halfulp::onnxruntime::register_in(options, base);
}
