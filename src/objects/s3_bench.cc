// Puts or gets objects of a real S3 server, by this folder's store or by libcurl alone, and prints
// the rate and the processor time as JSON. `bench/objects/s3.py` runs pairs of it.
//
//   s3_bench HOW put|get BUCKET OBJECTS MIB CONNECTIONS
//
// HOW: `store` is Store from CONNECTIONS threads; `files` is ObjectFiles from one thread, a file
// after the other; `multi` is one thread with a libcurl multi handle and `easy` one libcurl easy
// handle a thread, both without anything of ours but the signature. Where the server is and who
// asks comes from the environment (objects/store.h). Contents are checked after a get.
#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "objects/files.h"
#include "objects/signature.h"
#include "objects/store.h"

using namespace longhaul;
using namespace longhaul::objects;

namespace {

struct Work {
  std::string how;
  bool put = false;
  std::string bucket;
  size_t objects = 0;
  size_t bytes = 0;  // of an object
  size_t connections = 0;
  StoreOptions options;
};

std::string KeyOf(size_t object) { return "bench/object-" + std::to_string(object); }

// What an object holds; another first byte for each.
class Contents {
 public:
  Contents(size_t objects, size_t bytes) : objects_(objects) {
    Random random(1);
    std::vector<std::byte> one(bytes);
    for (size_t i = 0; i < bytes; ++i) one[i] = static_cast<std::byte>(random.Below(256));
    for (size_t i = 0; i < objects; ++i) {
      objects_[i] = one;
      objects_[i][0] = static_cast<std::byte>(i);
    }
  }
  std::vector<std::vector<std::byte>>& all() { return objects_; }

 private:
  std::vector<std::vector<std::byte>> objects_;
};

using Memory = std::vector<std::vector<std::byte>>;

std::unique_ptr<Store> MakeStore(const Work& work) {
  return std::make_unique<Store>(
      work.options, HttpTransport(work.options), [] { return io::Now(); },
      [](Duration pause) { std::this_thread::sleep_for(pause); });
}

void Expect(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", ToString(status).c_str());
  std::exit(1);
}

// Calls `one` for each object, from as many threads as there are connections.
void FromThreads(const Work& work, const std::function<void(size_t thread, size_t object)>& one) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < work.connections; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = next++; i < work.objects; i = next++) one(t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ByStore(const Work& work, Memory& memory) {
  const auto store = MakeStore(work);
  FromThreads(work, [&](size_t, size_t i) {
    Expect(work.put ? store->Put(work.bucket, KeyOf(i), memory[i])
                    : store->GetRange(work.bucket, KeyOf(i), "", 0, memory[i]));
  });
}

void ByFiles(const Work& work, Memory& memory) {
  const auto files = ObjectFiles(MakeStore(work), {.requests = work.connections});
  for (size_t i = 0; i < work.objects; ++i) {
    const std::string path = "s3://" + work.bucket + "/" + KeyOf(i);
    if (work.put) {
      auto file = files->CreateBulk(path, work.bytes).value();
      Expect(file->AppendStable(memory[i]));
      Expect(file->Close());
    } else {
      Expect(files->Open(path).value()->Read(0, memory[i]));
    }
  }
}

// A request of libcurl's, with the buffer that it reads from or writes to.
class Plain {
 public:
  explicit Plain(const Work& work) : work_(work), handle_(curl_easy_init()) {}
  ~Plain() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(handle_);
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  CURL* handle() const { return handle_; }

  void Prepare(size_t object, std::vector<std::byte>& memory) {
    Request request;
    request.method = work_.put ? "PUT" : "GET";
    request.host = work_.options.host;
    request.path = "/" + work_.bucket + "/" + KeyOf(object);
    if (work_.put) request.body = memory;
    const auto signed_headers =
        Sign(request, work_.options.credentials, work_.options.region, io::Now());
    curl_slist_free_all(std::exchange(headers_, nullptr));
    for (const auto& [name, value] : signed_headers) {
      headers_ = curl_slist_append(headers_, (name + ": " + value).c_str());
    }
    to_ = memory;
    curl_easy_reset(handle_);
    const std::string url = work_.options.scheme + "://" + request.host + TargetOf(request);
    curl_easy_setopt(handle_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle_, CURLOPT_PROXY, "");
    curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(handle_, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(handle_, CURLOPT_PRIVATE, this);
    curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &Plain::Take);
    curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
    if (work_.put) {
      headers_ = curl_slist_append(headers_, "Content-Type:");
      curl_easy_setopt(handle_, CURLOPT_POST, 1L);
      curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, "PUT");
      curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(memory.size()));
      curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, reinterpret_cast<char*>(memory.data()));
    }
    curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers_);
  }

  void CheckDone(CURLcode code) const {
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    CHECK(code == CURLE_OK && status == 200);
    CHECK(work_.put || to_.empty());
  }

 private:
  static size_t Take(char* data, size_t size, size_t count, void* self) {
    auto* const plain = static_cast<Plain*>(self);
    const size_t bytes = size * count;
    if (plain->work_.put) return bytes;
    if (bytes > plain->to_.size()) return 0;
    std::memcpy(plain->to_.data(), data, bytes);
    plain->to_ = plain->to_.subspan(bytes);
    return bytes;
  }

  const Work& work_;
  CURL* const handle_;
  curl_slist* headers_ = nullptr;
  std::span<std::byte> to_;
};

void ByEasy(const Work& work, Memory& memory) {
  std::vector<std::unique_ptr<Plain>> plain;
  for (size_t t = 0; t < work.connections; ++t) plain.push_back(std::make_unique<Plain>(work));
  FromThreads(work, [&](size_t thread, size_t i) {
    plain[thread]->Prepare(i, memory[i]);
    plain[thread]->CheckDone(curl_easy_perform(plain[thread]->handle()));
  });
}

void ByMulti(const Work& work, Memory& memory) {
  CURLM* const multi = curl_multi_init();
  std::vector<std::unique_ptr<Plain>> plain;
  size_t next = 0, done = 0;
  const auto start = [&](Plain* each) {
    each->Prepare(next, memory[next]);
    ++next;
    curl_multi_add_handle(multi, each->handle());
  };
  while (plain.size() < std::min(work.connections, work.objects)) {
    plain.push_back(std::make_unique<Plain>(work));
    start(plain.back().get());
  }
  while (done < work.objects) {
    int running = 0, queued = 0;
    curl_multi_perform(multi, &running);
    while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
      char* self = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
      auto* const each = reinterpret_cast<Plain*>(self);
      each->CheckDone(message->data.result);
      curl_multi_remove_handle(multi, each->handle());
      ++done;
      if (next < work.objects) start(each);
    }
    if (done < work.objects) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  plain.clear();
  curl_multi_cleanup(multi);
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void Run(const Work& work, Memory& memory) {
  if (work.how == "store") return ByStore(work, memory);
  if (work.how == "files") return ByFiles(work, memory);
  if (work.how == "multi") return ByMulti(work, memory);
  CHECK(work.how == "easy");
  ByEasy(work, memory);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::fprintf(stderr, "usage: s3_bench HOW put|get BUCKET OBJECTS MIB CONNECTIONS\n");
    return 2;
  }
  Work work;
  work.how = arguments[1];
  work.put = std::strcmp(arguments[2], "put") == 0;
  work.bucket = arguments[3];
  work.objects = std::strtoul(arguments[4], nullptr, 10);
  work.bytes = std::strtoul(arguments[5], nullptr, 10) << 20;
  work.connections = std::strtoul(arguments[6], nullptr, 10);
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const auto options =
      OptionsFrom(variable, [](const std::string& path) { return io::ReadText(path, 1 << 20); });
  if (!options.ok()) {
    std::fprintf(stderr, "%s\n", ToString(options.status()).c_str());
    return 1;
  }
  work.options = *options;
  work.options.connections = work.connections;
  CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);

  Contents contents(work.objects, work.bytes);
  // Touched before the clock starts.
  Memory memory = contents.all();
  if (!work.put) {
    for (auto& each : memory) std::fill(each.begin(), each.end(), std::byte{0});
  }
  const double cpu = CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  Run(work, memory);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double used = CpuSeconds() - cpu;
  CHECK(memory == contents.all());
  const double mib = static_cast<double>(work.objects * work.bytes) / (1 << 20);
  std::printf("{\"how\": \"%s\", \"mib_per_s\": %.1f, \"cpu_s_per_gib\": %.3f}\n", work.how.c_str(),
              mib / took.count(), used / (mib / 1024));
  return 0;
}
