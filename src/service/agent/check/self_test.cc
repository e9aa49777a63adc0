#include "service/agent/check/self_test.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/time.h"
#include "io/clock.h"
#include "io/fd.h"

namespace longhaul::service {
namespace {

constexpr size_t kSize = 384;  // of the matrices: 3 x 576 KiB, so they leave the first cache
constexpr int kProducts = 5;
constexpr size_t kCopyBytes = 64 << 20;  // above the last cache of most processors
constexpr int kCopies = 4;
constexpr size_t kFileBytes = 16 << 20;
constexpr int kFiles = 2;
constexpr double kLeastFreeGib = 1;  // below, a job's logs and checkpoints would soon fail

double SecondsSince(Instant start) {
  return std::max(1e-9, static_cast<double>((io::MonotonicNow() - start).count()) * 1e-9);
}

proto::Measurement& Add(proto::SelfTestResult& result, const char* name, const char* unit) {
  proto::Measurement& measurement = *result.add_measurements();
  measurement.set_name(name);
  measurement.set_unit(unit);
  measurement.set_verdict("good");
  return measurement;
}

void SetBad(proto::Measurement& measurement, const std::string& why) {
  measurement.set_verdict("bad");
  measurement.set_detail(why);
}

// Small integers, so that no sum of a product is rounded.
std::vector<float> Integers(uint32_t step) {
  std::vector<float> values(kSize * kSize);
  uint32_t state = step;
  for (float& value : values) {
    state = state * 1'664'525u + 1'013'904'223u;  // Numerical Recipes' generator
    value = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return values;
}

void Multiply(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t k = 0; k < kSize; ++k) {
      const float factor = a[i * kSize + k];
      for (size_t j = 0; j < kSize; ++j) out[i * kSize + j] += factor * b[k * kSize + j];
    }
  }
}

void MeasureProduct(proto::SelfTestResult& result) {
  proto::Measurement& measurement = Add(result, kMatrixProduct, "GFLOP/s");
  const std::vector<float> a = Integers(1);
  const std::vector<float> b = Integers(2);
  std::vector<float> product(kSize * kSize);
  double best = 1e9;
  for (int i = 0; i < kProducts; ++i) {
    const Instant start = io::MonotonicNow();
    Multiply(a, b, product);
    best = std::min(best, SecondsSince(start));
    if (!IsProduct(a.data(), b.data(), product.data(), kSize)) {
      SetBad(measurement, "the matrix product has a wrong result");
    }
  }
  measurement.set_value(2.0 * kSize * kSize * kSize / best * 1e-9);
}

void MeasureMemory(proto::SelfTestResult& result) {
  proto::Measurement& measurement = Add(result, kMemoryCopy, "GB/s");
  std::vector<uint64_t> from(kCopyBytes / sizeof(uint64_t));
  std::vector<uint64_t> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = i * 0x9E3779B97F4A7C15u;
  double best = 1e9;
  for (int i = 0; i < kCopies; ++i) {
    const Instant start = io::MonotonicNow();
    std::memcpy(to.data(), from.data(), kCopyBytes);
    best = std::min(best, SecondsSince(start));
  }
  if (from != to) SetBad(measurement, "a copy in memory differs from the original");
  measurement.set_value(static_cast<double>(kCopyBytes) / best * 1e-9);
}

// Returns the seconds from the first write to the end of fsync.
Result<double> WriteFile(const std::string& path, std::span<const char> block) {
  const io::Fd file(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.valid()) return FromErrno(errno, "cannot create " + path);
  const Instant start = io::MonotonicNow();
  for (size_t at = 0; at < kFileBytes; at += block.size()) {
    const ssize_t written = write(file.get(), block.data(), block.size());
    if (written < 0) return FromErrno(errno, "cannot write " + path);
    if (static_cast<size_t>(written) != block.size()) {
      return Unavailable("cannot write all of a block to " + path + "; is the disk full?");
    }
  }
  if (fsync(file.get()) != 0) return FromErrno(errno, "cannot sync " + path);
  return SecondsSince(start);
}

void MeasureDisk(const std::string& directory, proto::SelfTestResult& result) {
  proto::Measurement& measurement = Add(result, kDiskWrite, "MB/s");
  const std::string path = directory + "/node-check." + std::to_string(getpid()) + ".tmp";
  const std::vector<char> block(1 << 20, 'x');
  double best = 1e9;
  for (int i = 0; i < kFiles; ++i) {
    unlink(path.c_str());  // of a check that was killed
    const Result<double> seconds = WriteFile(path, block);
    unlink(path.c_str());
    if (!seconds.ok()) return SetBad(measurement, seconds.status().message());
    best = std::min(best, *seconds);
  }
  measurement.set_value(static_cast<double>(kFileBytes) / best * 1e-6);
}

void MeasureFreeSpace(const std::string& directory, proto::SelfTestResult& result) {
  proto::Measurement& measurement = Add(result, kDiskFree, "GiB");
  struct statvfs space {};
  if (statvfs(directory.c_str(), &space) != 0) {
    return SetBad(measurement, FromErrno(errno, "cannot examine " + directory).message());
  }
  const double gib = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize) /
                     static_cast<double>(1u << 30);
  measurement.set_value(gib);
  if (gib < kLeastFreeGib) SetBad(measurement, "less than 1 GiB is free in " + directory);
}

}  // namespace

// x has different values for all columns, so that one wrong element changes the result, and two
// wrong ones of a row only cancel each other if their errors have the ratio of two of the values.
bool IsProduct(const float* a, const float* b, const float* product, size_t size) {
  std::vector<int64_t> b_x(size, 0);
  const auto x = [](size_t column) { return static_cast<int64_t>(column * column + 3); };
  for (size_t row = 0; row < size; ++row) {
    for (size_t column = 0; column < size; ++column) {
      b_x[row] += static_cast<int64_t>(b[row * size + column]) * x(column);
    }
  }
  for (size_t row = 0; row < size; ++row) {
    int64_t expected = 0;
    int64_t found = 0;
    for (size_t column = 0; column < size; ++column) {
      const float value = product[row * size + column];
      // Also false for NaN: no sum of products of such integers is larger.
      if (!(value >= -1e6f && value <= 1e6f)) return false;
      expected += static_cast<int64_t>(a[row * size + column]) * b_x[column];
      found += static_cast<int64_t>(value) * x(column);
      if (static_cast<float>(static_cast<int64_t>(value)) != value) return false;
    }
    if (expected != found) return false;
  }
  return true;
}

proto::SelfTestResult RunSelfTest(const std::string& directory) {
  proto::SelfTestResult result;
  result.set_received_at_ns(ToNanoseconds(io::Now()));
  MeasureProduct(result);
  MeasureMemory(result);
  MeasureDisk(directory, result);
  MeasureFreeSpace(directory, result);
  result.set_sent_at_ns(ToNanoseconds(io::Now()));
  return result;
}

}  // namespace longhaul::service
