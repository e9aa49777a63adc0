// A driver that only counts: the functions of cuda_api.h with scripted times, for tests.
//
// Every library in one. A stream is a clock that operations advance by what a made-up GPU would
// take; events read it. Any call can be made to fail, and every handle that lives is counted.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>

namespace {

struct State {
  int gpus = 8;
  int capability = 90;
  std::string failing;
  int fails_after = 0;  // calls that still succeed
  std::map<std::string, int> calls;
  std::set<void*> live;
  int device = 0;
  int open_groups = 0;
};
State state;

struct Object {
  int device = 0;
  double time_s = 0;
};

// 0, or the error where this call is to fail.
int Enter(const char* name) {
  ++state.calls[name];
  if (state.failing == name && state.fails_after-- <= 0) return 2;
  return 0;
}

int Make(const char* name, void** made, int device = -1) {
  if (const int error = Enter(name); error != 0) return error;
  auto* object = new Object{device < 0 ? state.device : device, 0};
  state.live.insert(object);
  *made = object;
  return 0;
}

int End(void* object) {
  if (state.live.erase(object) != 1) return 3;  // not from here, or freed twice
  delete static_cast<Object*>(object);
  return 0;
}

void Spend(void* stream, double seconds) { static_cast<Object*>(stream)->time_s += seconds; }

double FlopsPerSecond(int type) { return type == 28 ? 1.2e15 : type == 0 ? 50e12 : 600e12; }

void* blas_stream = nullptr;

}  // namespace

extern "C" {

// The functions that tests call.
void fake_reset(int gpus, int capability) {
  state.gpus = gpus;
  state.capability = capability;
  state.failing.clear();
  state.calls.clear();
  state.open_groups = 0;
}
void fake_fail(const char* name, int after) {
  state.failing = name;
  state.fails_after = after;
}
int fake_calls(const char* name) { return state.calls[name]; }
int fake_live() { return static_cast<int>(state.live.size()); }
int fake_open_groups() { return state.open_groups; }

int cuInit(unsigned) { return Enter("cuInit"); }
int cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, "NVIDIA H100 80GB HBM3", static_cast<size_t>(bytes));
  return Enter("cuDeviceGetName");
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{79} << 30;
  return Enter("cuDeviceTotalMem_v2");
}

int cudaGetDeviceCount(int* count) {
  *count = state.gpus;
  return Enter("cudaGetDeviceCount");
}
int cudaSetDevice(int device) {
  state.device = device;
  return Enter("cudaSetDevice");
}
int cudaDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? state.capability / 10 : attribute == 76 ? state.capability % 10 : 132;
  return Enter("cudaDeviceGetAttribute");
}
int cudaRuntimeGetVersion(int* version) {
  *version = 12040;
  return Enter("cudaRuntimeGetVersion");
}
const char* cudaGetErrorString(int) { return "scripted failure"; }
int cudaMalloc(void** memory, size_t) { return Make("cudaMalloc", memory); }
int cudaFree(void* memory) { return End(memory); }
int cudaMallocHost(void** memory, size_t) { return Make("cudaMallocHost", memory); }
int cudaFreeHost(void* memory) { return End(memory); }
int cudaMemcpyAsync(void*, const void*, size_t bytes, int kind, void* stream) {
  const double rate = kind == 3 ? 1.25e12 : kind == 1 ? 50e9 : 40e9;
  Spend(stream, static_cast<double>(bytes) / rate);
  return Enter("cudaMemcpyAsync");
}
int cudaMemsetAsync(void*, int, size_t, void* stream) {
  Spend(stream, 2e-6);
  return Enter("cudaMemsetAsync");
}
int cudaStreamCreate(void** stream) { return Make("cudaStreamCreate", stream); }
int cudaStreamDestroy(void* stream) { return End(stream); }
int cudaStreamSynchronize(void*) { return Enter("cudaStreamSynchronize"); }
int cudaEventCreate(void** event) { return Make("cudaEventCreate", event); }
int cudaEventDestroy(void* event) { return End(event); }
int cudaEventRecord(void* event, void* stream) {
  // An event of another GPU's context is an error on a real driver.
  if (static_cast<Object*>(stream)->device != state.device) return 4;
  static_cast<Object*>(event)->time_s = static_cast<Object*>(stream)->time_s;
  return Enter("cudaEventRecord");
}
int cudaEventSynchronize(void*) { return Enter("cudaEventSynchronize"); }
int cudaEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = static_cast<float>(
      1e3 * (static_cast<Object*>(end)->time_s - static_cast<Object*>(begin)->time_s));
  return Enter("cudaEventElapsedTime");
}

int cublasCreate_v2(void** handle) { return Make("cublasCreate_v2", handle); }
int cublasDestroy_v2(void* handle) { return End(handle); }
int cublasSetStream_v2(void*, void* stream) {
  blas_stream = stream;
  return Enter("cublasSetStream_v2");
}
int cublasGemmEx(void*, int, int, int m, int n, int k, const void*, const void*, int type, int,
                 const void*, int, int, const void*, void*, int, int, int, int) {
  Spend(blas_stream, 5e-6 + 2.0 * m * n * k / FlopsPerSecond(type));
  return Enter("cublasGemmEx");
}
int cublasGemmStridedBatchedEx(void*, int, int, int m, int n, int k, const void*, const void*,
                               int type, int, long long, const void*, int, int, long long,
                               const void*, void*, int, int, long long, int batch, int, int) {
  Spend(blas_stream, 5e-6 + 2.0 * m * n * k * batch / FlopsPerSecond(type));
  return Enter("cublasGemmStridedBatchedEx");
}

#ifndef FAKE_WITHOUT_LT
int cublasLtCreate(void** handle) { return Make("cublasLtCreate", handle); }
int cublasLtDestroy(void* handle) { return End(handle); }
int cublasLtMatmulDescCreate(void** made, int, int) {
  return Make("cublasLtMatmulDescCreate", made);
}
int cublasLtMatmulDescDestroy(void* made) { return End(made); }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) {
  return Enter("cublasLtMatmulDescSetAttribute");
}
int cublasLtMatrixLayoutCreate(void** made, int, uint64_t rows, uint64_t columns, int64_t) {
  const int error = Make("cublasLtMatrixLayoutCreate", made);
  // cublasLtMatmul gets the size only as the columns and, through the time, the rows.
  if (error == 0) {
    *static_cast<Object*>(*made) = {static_cast<int>(columns), static_cast<double>(rows)};
  }
  return error;
}
int cublasLtMatrixLayoutDestroy(void* made) { return End(made); }
int cublasLtMatmulPreferenceCreate(void** made) {
  return Make("cublasLtMatmulPreferenceCreate", made);
}
int cublasLtMatmulPreferenceDestroy(void* made) { return End(made); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) {
  return Enter("cublasLtMatmulPreferenceSetAttribute");
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* returned) {
  *returned = 1;
  return Enter("cublasLtMatmulAlgoGetHeuristic");
}
int cublasLtMatmul(void*, void*, const void*, const void*, void* a, const void*, void* b,
                   const void*, const void*, void*, void*, void*, const void*, void*, size_t,
                   void* stream) {
  const auto* left = static_cast<Object*>(a);
  const auto* right = static_cast<Object*>(b);
  Spend(stream, 5e-6 + 2.0 * left->device * right->device * left->time_s / FlopsPerSecond(28));
  return Enter("cublasLtMatmul");
}
#endif

int ncclGetVersion(int* version) {
  *version = 22105;
  return Enter("ncclGetVersion");
}
const char* ncclGetErrorString(int) { return "scripted failure"; }
int ncclCommInitAll(void** communicators, int count, const int* devices) {
  if (const int error = Enter("ncclCommInitAll"); error != 0) return error;
  for (int i = 0; i < count; ++i) {
    auto* object = new Object{devices[i], static_cast<double>(count)};
    state.live.insert(object);
    communicators[i] = object;
  }
  return 0;
}
int ncclCommDestroy(void* communicator) { return End(communicator); }
int ncclGroupStart() {
  const int error = Enter("ncclGroupStart");
  if (error == 0) ++state.open_groups;
  return error;
}
int ncclGroupEnd() {
  --state.open_groups;
  return Enter("ncclGroupEnd");
}
// A GPU in the middle is slower than the others: the slowest counts.
static void SpendLink(void* communicator, void* stream, double through) {
  const double slow = static_cast<Object*>(communicator)->device == 1 ? 1.25 : 1;
  Spend(stream, slow * through / 350e9);
}
int ncclAllReduce(const void*, void*, size_t count, int, int, void* communicator, void* stream) {
  const double ranks = static_cast<Object*>(communicator)->time_s;
  Spend(stream, 10e-6);
  SpendLink(communicator, stream, 2 * 2.0 * static_cast<double>(count) * (ranks - 1) / ranks);
  return Enter("ncclAllReduce");
}
int ncclAllGather(const void*, void*, size_t sent, int, void* communicator, void* stream) {
  const double ranks = static_cast<Object*>(communicator)->time_s;
  Spend(stream, 10e-6);
  SpendLink(communicator, stream, 2.0 * static_cast<double>(sent) * (ranks - 1));
  return Enter("ncclAllGather");
}
int ncclReduceScatter(const void*, void*, size_t received, int, int, void* communicator,
                      void* stream) {
  const double ranks = static_cast<Object*>(communicator)->time_s;
  Spend(stream, 10e-6);
  SpendLink(communicator, stream, 2.0 * static_cast<double>(received) * (ranks - 1));
  return Enter("ncclReduceScatter");
}
int ncclSend(const void*, size_t count, int, int, void* communicator, void* stream) {
  SpendLink(communicator, stream, 2.0 * static_cast<double>(count));
  return Enter("ncclSend");
}
int ncclRecv(void*, size_t, int, int, void*, void*) { return Enter("ncclRecv"); }

}  // extern "C"
