// The functions of NVIDIA's libraries that calibration calls, found at run time.
//
// Run on one H100 (docs/hardware); NCCL is untested on hardware. Tests run against a fake driver
// that only counts (fake_cuda.cc). The build needs none of the libraries. Signatures and constants
// are those of the public headers (cuda_runtime_api.h, cuda.h, cublas_api.h, cublasLt.h of CUDA 12
// and 13; nccl.h of NCCL 2), with handles as void* and enumerations as int, as C passes them. The
// driver, the runtime and cuBLAS are required; without cublasLt there is no fp8, without NCCL there
// are no collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::trainer {

struct CudaPaths {
  std::vector<std::string> driver = {"libcuda.so.1"};
  std::vector<std::string> runtime = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
  std::vector<std::string> cublas = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  std::vector<std::string> cublas_lt = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  std::vector<std::string> nccl = {"libnccl.so.2", "libnccl.so"};
};

// The result of cublasLtMatmulAlgoGetHeuristic.
struct CublasLtHeuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

struct CudaApi {
  // libcuda
  int (*cuInit)(unsigned flags) = nullptr;
  int (*cuDeviceGetName)(char* name, int bytes, int device) = nullptr;
  int (*cuDeviceTotalMem_v2)(size_t* bytes, int device) = nullptr;
  // libcudart
  int (*cudaGetDeviceCount)(int* count) = nullptr;
  int (*cudaSetDevice)(int device) = nullptr;
  int (*cudaDeviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  int (*cudaRuntimeGetVersion)(int* version) = nullptr;
  const char* (*cudaGetErrorString)(int error) = nullptr;
  int (*cudaMalloc)(void** memory, size_t bytes) = nullptr;
  int (*cudaFree)(void* memory) = nullptr;
  int (*cudaMallocHost)(void** memory, size_t bytes) = nullptr;
  int (*cudaFreeHost)(void* memory) = nullptr;
  int (*cudaMemcpyAsync)(void* to, const void* from, size_t bytes, int kind,
                         void* stream) = nullptr;
  int (*cudaMemsetAsync)(void* memory, int value, size_t bytes, void* stream) = nullptr;
  int (*cudaStreamCreate)(void** stream) = nullptr;
  int (*cudaStreamDestroy)(void* stream) = nullptr;
  int (*cudaStreamSynchronize)(void* stream) = nullptr;
  int (*cudaEventCreate)(void** event) = nullptr;
  int (*cudaEventDestroy)(void* event) = nullptr;
  int (*cudaEventRecord)(void* event, void* stream) = nullptr;
  int (*cudaEventSynchronize)(void* event) = nullptr;
  int (*cudaEventElapsedTime)(float* milliseconds, void* begin, void* end) = nullptr;
  // libcublas
  int (*cublasCreate_v2)(void** handle) = nullptr;
  int (*cublasDestroy_v2)(void* handle) = nullptr;
  int (*cublasSetStream_v2)(void* handle, void* stream) = nullptr;
  int (*cublasGemmEx)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                      const void* alpha, const void* a, int type_a, int lda, const void* b,
                      int type_b, int ldb, const void* beta, void* c, int type_c, int ldc,
                      int compute, int algorithm) = nullptr;
  int (*cublasGemmStridedBatchedEx)(void* handle, int transpose_a, int transpose_b, int m, int n,
                                    int k, const void* alpha, const void* a, int type_a, int lda,
                                    long long stride_a, const void* b, int type_b, int ldb,
                                    long long stride_b, const void* beta, void* c, int type_c,
                                    int ldc, long long stride_c, int batch, int compute,
                                    int algorithm) = nullptr;
  // libcublasLt, for fp8
  int (*cublasLtCreate)(void** handle) = nullptr;
  int (*cublasLtDestroy)(void* handle) = nullptr;
  int (*cublasLtMatmulDescCreate)(void** description, int compute, int scale_type) = nullptr;
  int (*cublasLtMatmulDescDestroy)(void* description) = nullptr;
  int (*cublasLtMatmulDescSetAttribute)(void* description, int attribute, const void* value,
                                        size_t bytes) = nullptr;
  int (*cublasLtMatrixLayoutCreate)(void** layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading) = nullptr;
  int (*cublasLtMatrixLayoutDestroy)(void* layout) = nullptr;
  int (*cublasLtMatmulPreferenceCreate)(void** preference) = nullptr;
  int (*cublasLtMatmulPreferenceDestroy)(void* preference) = nullptr;
  int (*cublasLtMatmulPreferenceSetAttribute)(void* preference, int attribute, const void* value,
                                              size_t bytes) = nullptr;
  int (*cublasLtMatmulAlgoGetHeuristic)(void* handle, void* description, void* a, void* b, void* c,
                                        void* d, void* preference, int requested,
                                        CublasLtHeuristic* results, int* returned) = nullptr;
  int (*cublasLtMatmul)(void* handle, void* description, const void* alpha, const void* a,
                        void* layout_a, const void* b, void* layout_b, const void* beta,
                        const void* c, void* layout_c, void* d, void* layout_d,
                        const void* algorithm, void* workspace, size_t workspace_bytes,
                        void* stream) = nullptr;
  // libnccl
  int (*ncclGetVersion)(int* version) = nullptr;
  const char* (*ncclGetErrorString)(int error) = nullptr;
  int (*ncclCommInitAll)(void** communicators, int count, const int* devices) = nullptr;
  int (*ncclCommDestroy)(void* communicator) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int (*ncclAllReduce)(const void* from, void* to, size_t count, int type, int operation,
                       void* communicator, void* stream) = nullptr;
  int (*ncclAllGather)(const void* from, void* to, size_t sent, int type, void* communicator,
                       void* stream) = nullptr;
  int (*ncclReduceScatter)(const void* from, void* to, size_t received, int type, int operation,
                           void* communicator, void* stream) = nullptr;
  int (*ncclSend)(const void* from, size_t count, int type, int peer, void* communicator,
                  void* stream) = nullptr;
  int (*ncclRecv)(void* to, size_t count, int type, int peer, void* communicator,
                  void* stream) = nullptr;
};

// The libraries, which stay open until the object is destroyed.
class CudaLibraries {
 public:
  // kUnavailable, with the names that were tried, where a required library or function is missing.
  static Result<std::unique_ptr<CudaLibraries>> Open(const CudaPaths& paths);
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;
  ~CudaLibraries();

  const CudaApi& api() const { return api_; }
  bool has_fp8() const { return has_fp8_; }
  bool has_collectives() const { return has_collectives_; }
  // The reasons why one of the two is missing; sentences for a person.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  CudaLibraries() = default;

  CudaApi api_;
  bool has_fp8_ = false;
  bool has_collectives_ = false;
  std::vector<std::string> notes_;
  std::vector<void*> handles_;
};

}  // namespace longhaul::trainer
