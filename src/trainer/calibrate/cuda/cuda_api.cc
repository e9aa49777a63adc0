#include "trainer/calibrate/cuda/cuda_api.h"

#include <dlfcn.h>

#include "base/text.h"

namespace longhaul::trainer {
namespace {

// One library: its functions are looked up one by one, and the first missing one is reported.
class Library {
 public:
  Library(const std::vector<std::string>& names, std::vector<void*>& handles) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        name_ = name;
        handles.push_back(handle_);
        return;
      }
    }
    status_ = Unavailable("no " + Join(names, " or ") + " on this machine");
  }

  template <typename Function>
  void Get(const char* name, Function& function) {
    if (!status_.ok()) return;
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) status_ = Unavailable(name_ + " has no function " + name);
  }

  const Status& status() const { return status_; }

 private:
  void* handle_ = nullptr;
  std::string name_;
  Status status_;
};

Status LoadDriver(Library driver, CudaApi& api) {
  driver.Get("cuInit", api.cuInit);
  driver.Get("cuDeviceGetName", api.cuDeviceGetName);
  driver.Get("cuDeviceTotalMem_v2", api.cuDeviceTotalMem_v2);
  return driver.status();
}

Status LoadRuntime(Library runtime, CudaApi& api) {
  runtime.Get("cudaGetDeviceCount", api.cudaGetDeviceCount);
  runtime.Get("cudaSetDevice", api.cudaSetDevice);
  runtime.Get("cudaDeviceGetAttribute", api.cudaDeviceGetAttribute);
  runtime.Get("cudaRuntimeGetVersion", api.cudaRuntimeGetVersion);
  runtime.Get("cudaGetErrorString", api.cudaGetErrorString);
  runtime.Get("cudaMalloc", api.cudaMalloc);
  runtime.Get("cudaFree", api.cudaFree);
  runtime.Get("cudaMallocHost", api.cudaMallocHost);
  runtime.Get("cudaFreeHost", api.cudaFreeHost);
  runtime.Get("cudaMemcpyAsync", api.cudaMemcpyAsync);
  runtime.Get("cudaMemsetAsync", api.cudaMemsetAsync);
  runtime.Get("cudaStreamCreate", api.cudaStreamCreate);
  runtime.Get("cudaStreamDestroy", api.cudaStreamDestroy);
  runtime.Get("cudaStreamSynchronize", api.cudaStreamSynchronize);
  runtime.Get("cudaEventCreate", api.cudaEventCreate);
  runtime.Get("cudaEventDestroy", api.cudaEventDestroy);
  runtime.Get("cudaEventRecord", api.cudaEventRecord);
  runtime.Get("cudaEventSynchronize", api.cudaEventSynchronize);
  runtime.Get("cudaEventElapsedTime", api.cudaEventElapsedTime);
  return runtime.status();
}

Status LoadCublas(Library cublas, CudaApi& api) {
  cublas.Get("cublasCreate_v2", api.cublasCreate_v2);
  cublas.Get("cublasDestroy_v2", api.cublasDestroy_v2);
  cublas.Get("cublasSetStream_v2", api.cublasSetStream_v2);
  cublas.Get("cublasGemmEx", api.cublasGemmEx);
  cublas.Get("cublasGemmStridedBatchedEx", api.cublasGemmStridedBatchedEx);
  return cublas.status();
}

Status LoadCublasLt(Library lt, CudaApi& api) {
  lt.Get("cublasLtCreate", api.cublasLtCreate);
  lt.Get("cublasLtDestroy", api.cublasLtDestroy);
  lt.Get("cublasLtMatmulDescCreate", api.cublasLtMatmulDescCreate);
  lt.Get("cublasLtMatmulDescDestroy", api.cublasLtMatmulDescDestroy);
  lt.Get("cublasLtMatmulDescSetAttribute", api.cublasLtMatmulDescSetAttribute);
  lt.Get("cublasLtMatrixLayoutCreate", api.cublasLtMatrixLayoutCreate);
  lt.Get("cublasLtMatrixLayoutDestroy", api.cublasLtMatrixLayoutDestroy);
  lt.Get("cublasLtMatmulPreferenceCreate", api.cublasLtMatmulPreferenceCreate);
  lt.Get("cublasLtMatmulPreferenceDestroy", api.cublasLtMatmulPreferenceDestroy);
  lt.Get("cublasLtMatmulPreferenceSetAttribute", api.cublasLtMatmulPreferenceSetAttribute);
  lt.Get("cublasLtMatmulAlgoGetHeuristic", api.cublasLtMatmulAlgoGetHeuristic);
  lt.Get("cublasLtMatmul", api.cublasLtMatmul);
  return lt.status();
}

Status LoadNccl(Library nccl, CudaApi& api) {
  nccl.Get("ncclGetVersion", api.ncclGetVersion);
  nccl.Get("ncclGetErrorString", api.ncclGetErrorString);
  nccl.Get("ncclCommInitAll", api.ncclCommInitAll);
  nccl.Get("ncclCommDestroy", api.ncclCommDestroy);
  nccl.Get("ncclGroupStart", api.ncclGroupStart);
  nccl.Get("ncclGroupEnd", api.ncclGroupEnd);
  nccl.Get("ncclAllReduce", api.ncclAllReduce);
  nccl.Get("ncclAllGather", api.ncclAllGather);
  nccl.Get("ncclReduceScatter", api.ncclReduceScatter);
  nccl.Get("ncclSend", api.ncclSend);
  nccl.Get("ncclRecv", api.ncclRecv);
  return nccl.status();
}

}  // namespace

Result<std::unique_ptr<CudaLibraries>> CudaLibraries::Open(const CudaPaths& paths) {
  std::unique_ptr<CudaLibraries> libraries(new CudaLibraries());
  CudaApi& api = libraries->api_;
  std::vector<void*>& handles = libraries->handles_;
  RETURN_IF_ERROR(LoadDriver(Library(paths.driver, handles), api));
  RETURN_IF_ERROR(LoadRuntime(Library(paths.runtime, handles), api));
  RETURN_IF_ERROR(LoadCublas(Library(paths.cublas, handles), api));
  const Status lt = LoadCublasLt(Library(paths.cublas_lt, handles), api);
  libraries->has_fp8_ = lt.ok();
  if (!lt.ok()) libraries->notes_.push_back("fp8 is not measured: " + lt.message());
  const Status nccl = LoadNccl(Library(paths.nccl, handles), api);
  libraries->has_collectives_ = nccl.ok();
  if (!nccl.ok()) libraries->notes_.push_back("collectives are not measured: " + nccl.message());
  return libraries;
}

CudaLibraries::~CudaLibraries() {
  for (auto handle = handles_.rbegin(); handle != handles_.rend(); ++handle) dlclose(*handle);
}

}  // namespace longhaul::trainer
