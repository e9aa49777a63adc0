#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "objects/store.h"

namespace longhaul::objects {
namespace {

constexpr size_t kMaxHeaders = 1000;
constexpr long kStalledBytesPerSecond = 1024;
constexpr long kBufferBytes = 512 << 10;  // libcurl's most for what it receives
// How long to wait for a server's leave to send a body, where sending it without has failed.
constexpr long kLeaveMs = 5000;

// Frees the list of a request's headers.
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

HeaderList WithHeader(HeaderList list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  CHECK(longer != nullptr);  // out of memory
  (void)list.release();
  return HeaderList(longer);
}

// One request and what came back so far. libcurl calls its functions on the thread that sends.
class Exchange {
 public:
  explicit Exchange(const Outgoing& request) : request_(request) {}

  // Called with a whole line.
  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    return exchange->TakeHeader({data, size * count}) ? size * count : 0;
  }
  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    return exchange->TakeBody({data, size * count}) ? size * count : 0;
  }

  // Of the last answer whose first line has come; 0: none. A leave to continue (1xx) is none.
  bool answered() const { return answer_.status >= 200; }
  bool refused() const { return answer_.status >= 300; }
  bool too_long() const { return too_long_; }
  Answer Take() { return std::move(answer_); }
  void Restart() {
    answer_ = Answer();
    too_long_ = false;
  }

 private:
  bool TakeHeader(std::string_view line) {
    if (line.starts_with("HTTP/")) {
      answer_ = Answer();
      const size_t space = line.find(' ');
      const std::string_view code = space == line.npos ? "" : line.substr(space + 1, 3);
      const Result<uint64_t> status = ParseUint64(code);
      answer_.status = status.ok() ? static_cast<int>(*status) : 0;
      return true;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos || answer_.headers.size() >= kMaxHeaders) return true;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    answer_.headers[std::move(name)] = std::string(Trim(line.substr(colon + 1)));
    return true;
  }

  bool TakeBody(std::string_view part) {
    if (answer_.status / 100 == 2 && !request_.into.empty()) {
      too_long_ = part.size() > request_.into.size() - answer_.received;
      if (too_long_) return false;
      std::memcpy(request_.into.data() + answer_.received, part.data(), part.size());
      answer_.received += part.size();
      return true;
    }
    too_long_ = part.size() > request_.limit - answer_.body.size();
    if (!too_long_) answer_.body.append(part);
    return !too_long_;
  }

  const Outgoing& request_;
  Answer answer_;
  bool too_long_ = false;
};

class Http final : public Transport {
 public:
  explicit Http(const StoreOptions& options)
      : options_(options), address_(options.scheme + "://" + options.host) {
    CHECK(options.connections >= 1);
    // Once a process; libcurl counts further calls.
    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  }
  ~Http() override {
    for (CURL* handle : free_) curl_easy_cleanup(handle);
  }

  Result<Answer> Send(const Outgoing& request) override {
    const Lease lease(this);
    std::array<char, CURL_ERROR_SIZE> text{};
    Exchange exchange(request);
    CURLcode code = Perform(lease.handle(), request, /*ask_first=*/false, &exchange, text.data());
    const bool broken =
        code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING;
    if (broken && !exchange.answered() && !request.body.empty()) {
      // A server that refuses a request may close the connection during the body's transfer, and
      // its answer is lost. With a request for permission before the body, the answer is received.
      exchange.Restart();
      code = Perform(lease.handle(), request, /*ask_first=*/true, &exchange, text.data());
    }
    if (exchange.too_long()) {
      const uint64_t room =
          request.into.empty() ? request.limit : static_cast<uint64_t>(request.into.size());
      return ResourceExhausted("the answer has more than " + std::to_string(room) + " bytes");
    }
    // A refusal counts even if the connection broke after its first line.
    if (code == CURLE_OK || exchange.refused()) return exchange.Take();
    return Failure(code, text.data());
  }

 private:
  // A handle, and with it a connection, for one request.
  class Lease {
   public:
    explicit Lease(Http* http) : http_(*http), handle_(http->Acquire()) {}
    ~Lease() { http_.Release(handle_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    CURL* handle() const { return handle_; }

   private:
    Http& http_;
    CURL* const handle_;
  };

  // The one that was used last: its connection is the least likely to have been closed.
  CURL* Acquire() {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return !free_.empty() || handles_ < options_.connections; });
    if (free_.empty()) {
      ++handles_;
      CURL* const handle = curl_easy_init();
      CHECK(handle != nullptr);  // out of memory
      return handle;
    }
    CURL* const handle = free_.back();
    free_.pop_back();
    return handle;
  }

  void Release(CURL* handle) {
    curl_easy_reset(handle);  // keeps the connection
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(handle);
    }
    released_.notify_one();
  }

  // What is the same for all requests.
  void Prepare(CURL* handle) const {
    curl_easy_reset(handle);
    const auto set = [handle](CURLoption option, auto value) {
      CHECK(curl_easy_setopt(handle, option, value) == CURLE_OK);
    };
    set(CURLOPT_PATH_AS_IS, 1L);  // it is encoded as it was signed
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NOSIGNAL, 1L);  // other threads have signals of their own
    set(CURLOPT_TCP_NODELAY, 1L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_MAXCONNECTS, 1L);
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options_.connect_timeout));
    set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
    set(CURLOPT_LOW_SPEED_TIME, Milliseconds(options_.stall_timeout) / 1000);
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options_.certificates.empty()) set(CURLOPT_CAINFO, options_.certificates.c_str());
  }

  CURLcode Perform(CURL* handle, const Outgoing& request, bool ask_first, Exchange* exchange,
                   char* text) const {
    HeaderList headers;
    for (const auto& [name, value] : request.headers) {
      headers = WithHeader(std::move(headers), name + ": " + value);
    }
    // What libcurl would add by itself.
    headers = WithHeader(std::move(headers), "Accept:");
    headers = WithHeader(std::move(headers), "Content-Type:");
    headers = WithHeader(std::move(headers), "Accept-Encoding: identity");
    // Without this, libcurl requests permission by itself where the body has a MiB or more.
    if (ask_first) headers = WithHeader(std::move(headers), "Expect: 100-continue");

    Prepare(handle);
    const auto set = [handle](CURLoption option, auto value) {
      CHECK(curl_easy_setopt(handle, option, value) == CURLE_OK);
    };
    set(CURLOPT_ERRORBUFFER, text);
    set(CURLOPT_URL, (address_ + request.target).c_str());
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_HEADERFUNCTION, &Exchange::OnHeader);
    set(CURLOPT_HEADERDATA, exchange);
    set(CURLOPT_WRITEFUNCTION, &Exchange::OnBody);
    set(CURLOPT_WRITEDATA, exchange);
    if (request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      // Sent from where it lies.
      set(CURLOPT_POSTFIELDS,
          request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
      if (ask_first) set(CURLOPT_EXPECT_100_TIMEOUT_MS, kLeaveMs);
    }
    if (request.method != "HEAD") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    return curl_easy_perform(handle);
  }

  Status Failure(CURLcode code, const char* text) const {
    const std::string why =
        address_ + ": " + Printable(*text != '\0' ? text : curl_easy_strerror(code), 300);
    switch (code) {
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
      case CURLE_SSL_ISSUER_ERROR:
      case CURLE_SSL_CIPHER:
        return FailedPrecondition("the certificate is refused (AWS_CA_BUNDLE names others) of " +
                                  why);
      case CURLE_URL_MALFORMAT:
        return InvalidArgument("no address: " + why);
      default:
        return Unavailable("no answer from " + why);
    }
  }

  static long Milliseconds(Duration duration) {
    return static_cast<long>(
        std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  }

  const StoreOptions options_;
  const std::string address_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<CURL*> free_;
  size_t handles_ = 0;
};

}  // namespace

std::unique_ptr<Transport> HttpTransport(const StoreOptions& options) {
  return std::make_unique<Http>(options);
}

}  // namespace longhaul::objects
