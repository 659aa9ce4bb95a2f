/* A program in C that runs a model in ONNX Runtime with halfulp's library.
 *
 *     onnxruntime_host LIBONNXRUNTIME LIBRARY MODEL OPERATORS VALUE...
 *
 * feeds the values, at most 16 floats, as "data" and prints the bits of the float "reduced".
 * OPERATORS are the reductions for the library to take, as "ReduceSum,ReduceL2"; where they
 * are empty, the environment or the library decides. Declares what it calls by hand, as
 * native/onnxruntime/abi.h does and from the same source. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef struct {
  Function functions[275];
} OrtApi;
typedef struct {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)(void);
} OrtApiBase;

enum {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kCreateTensorWithDataAsOrtValue = 49,
  kGetTensorMutableData = 51,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
  kAddSessionConfigEntry = 130,
  kRegisterCustomOpsLibrary_V2 = 228
};

static const OrtApi* api;

static void check(void* status) {
  if (!status) return;
  const char* (*message)(void*) = (const char* (*)(void*))api->functions[kGetErrorMessage];
  fprintf(stderr, "%s\n", message(status));
  exit(3);
}

#define CALL(place, types, ...) check(((void*(*)types)api->functions[place])(__VA_ARGS__))
#define RELEASE(place, object) ((void (*)(void*))api->functions[place])(object)

int main(int count, char** arguments) {
  enum { kMostValues = 16 };
  if (count < 6 || count > 5 + kMostValues) return 2;
  void* runtime = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!runtime) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const OrtApiBase* (*base)(void);
  *(void**)&base = dlsym(runtime, "OrtGetApiBase");
  api = base()->GetApi(17);
  if (!api) return 2;

  void *env, *options, *session, *info, *data, *reduced = NULL;
  CALL(kCreateEnv, (int, const char*, void**), 4, "host", &env);
  CALL(kCreateSessionOptions, (void**), &options);
  if (*arguments[4]) {
    CALL(kAddSessionConfigEntry, (void*, const char*, const char*), options,
         "halfulp.operators", arguments[4]);
  }
  CALL(kRegisterCustomOpsLibrary_V2, (void*, const char*), options, arguments[2]);
  CALL(kCreateSession, (void*, const char*, void*, void**), env, arguments[3], options,
       &session);

  const int64_t shape[] = {count - 5};
  float values[kMostValues];
  for (int i = 5; i < count; ++i) values[i - 5] = strtof(arguments[i], NULL);
  const char* inputs[] = {"data"};
  const char* outputs[] = {"reduced"};
  CALL(kCreateCpuMemoryInfo, (int, int, void**), 0, 0, &info);
  CALL(kCreateTensorWithDataAsOrtValue,
       (void*, void*, size_t, const int64_t*, size_t, int, void**), info, values,
       shape[0] * sizeof *values, shape, 1, 1, &data);
  CALL(kRun, (void*, void*, const char**, void**, size_t, const char**, size_t, void**),
       session, NULL, inputs, &data, 1, outputs, 1, &reduced);
  uint32_t* result;
  CALL(kGetTensorMutableData, (void*, void**), reduced, (void**)&result);
  printf("%08x\n", *result);

  RELEASE(kReleaseValue, reduced);
  RELEASE(kReleaseValue, data);
  RELEASE(kReleaseMemoryInfo, info);
  RELEASE(kReleaseSession, session);
  RELEASE(kReleaseSessionOptions, options);
  RELEASE(kReleaseEnv, env);
  return 0;
}
