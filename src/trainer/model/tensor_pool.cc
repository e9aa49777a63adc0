#include "trainer/model/tensor_pool.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "trainer/model/torch_version.h"

namespace longhaul::trainer {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 64;

// What a tensor's memory begins with, out of its sight.
struct Head {
  void* begin = nullptr;  // of the block
  size_t bytes = 0;       // of the block; 0: malloc's
};
static_assert(sizeof(Head) <= kAlignment);

class TensorPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LONGHAUL_ALLOCATE_CONST override {
    if (bytes == 0) return {nullptr, nullptr, &Delete, c10::Device(c10::DeviceType::CPU)};
    void* data = bytes < kPooledBytes ? Small(bytes) : Pooled(bytes);
    return {data, data, &Delete, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, size_t bytes) const LONGHAUL_COPY_DATA_OVERRIDE {
    std::memcpy(to, from, bytes);
  }

  void Trim() {
    const std::lock_guard lock(mutex_);
    for (auto& [bytes, blocks] : free_) {
      for (void* block : blocks) munmap(block, bytes);
    }
    free_.clear();
  }

 private:
  static void* WithHead(void* begin, size_t skip, size_t bytes) {
    char* data = static_cast<char*>(begin) + kAlignment + skip;
    *reinterpret_cast<Head*>(data - kAlignment) = {begin, bytes};
    return data;
  }

  // Small tensors are malloc's: it keeps their memory itself.
  static void* Small(size_t bytes) {
    void* begin = nullptr;
    if (posix_memalign(&begin, kAlignment, bytes + kAlignment) != 0) throw std::bad_alloc();
    return WithHead(begin, 0, 0);
  }

  // Blocks are reused by exact size, since each step allocates the same sizes again. One more page
  // leaves room for the head and for the varying place.
  void* Pooled(size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const size_t block_bytes = (bytes + 2 * kPage - 1) / kPage * kPage;
    std::vector<void*>& blocks = free_[block_bytes];
    void* begin = nullptr;
    if (blocks.empty()) {
      begin =
          mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (begin == MAP_FAILED) throw std::bad_alloc();
    } else {
      begin = blocks.back();
      blocks.pop_back();
    }
    // Tensors that all began at the same place of a page would contend for the same lines of the
    // caches: a different place for each.
    place_ = (place_ + 1) % 32;
    return WithHead(begin, place_ * kAlignment, block_bytes);
  }

  static void Delete(void* data);
  void Give(const Head& head) {
    const std::lock_guard lock(mutex_);
    free_[head.bytes].push_back(head.begin);
  }

  mutable std::mutex mutex_;
  mutable std::map<size_t, std::vector<void*>> free_;
  mutable size_t place_ = 0;
};

// libtorch uses it for as long as the process lives.
TensorPool& Pool() {
  static auto& pool = *new TensorPool;
  return pool;
}

void TensorPool::Delete(void* data) {
  if (data == nullptr) return;
  const Head head = *reinterpret_cast<Head*>(static_cast<char*>(data) - kAlignment);
  if (head.bytes == 0) {
    std::free(head.begin);
  } else {
    Pool().Give(head);
  }
}

}  // namespace

void InstallTensorPool() { c10::SetCPUAllocator(&Pool(), 100); }

void TrimTensorPool() { Pool().Trim(); }

}  // namespace longhaul::trainer
