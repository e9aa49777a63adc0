#include <httplib.h>

#include <algorithm>
#include <cctype>

#include "objects/store.h"

namespace longhaul::objects {
namespace {

class Http final : public Transport {
 public:
  explicit Http(const StoreOptions& options)
      : address_(options.scheme + "://" + options.host), client_(address_) {
    constexpr time_t kConnectSeconds = 10;
    constexpr time_t kQuietSeconds = 60;  // without a byte
    client_.set_connection_timeout(kConnectSeconds);
    client_.set_read_timeout(kQuietSeconds);
    client_.set_write_timeout(kQuietSeconds);
    client_.set_keep_alive(true);
    client_.set_url_encode(false);  // it is encoded as it was signed
    client_.set_tcp_nodelay(true);
    if (!options.certificates.empty()) client_.set_ca_cert_path(options.certificates);
  }

  Result<Answer> Send(const std::string& method, const std::string& target,
                      const std::map<std::string, std::string>& headers,
                      std::span<const std::byte> body, uint64_t limit) override {
    const std::lock_guard lock(mutex_);
    httplib::Request request;
    request.method = method;
    request.path = target;
    for (const auto& [name, value] : headers) request.headers.emplace(name, value);
    request.headers.emplace("Accept-Encoding", "identity");
    request.body.assign(reinterpret_cast<const char*>(body.data()), body.size());
    Answer answer;
    bool too_long = false;
    request.content_receiver = [&](const char* data, size_t bytes, uint64_t, uint64_t) {
      too_long = answer.body.size() + bytes > limit;
      if (!too_long) answer.body.append(data, bytes);
      return !too_long;
    };
    httplib::Response response;
    httplib::Error error = httplib::Error::Success;
    const bool sent = client_.send(request, response, error);
    if (too_long) {
      return ResourceExhausted("the answer has more than " + std::to_string(limit) + " bytes");
    }
    if (!sent) {
      return Unavailable("no answer from " + address_ + " (" + httplib::to_string(error) + ")");
    }
    answer.status = response.status;
    for (const auto& [name, value] : response.headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      answer.headers[lower] = value;
    }
    return answer;
  }

 private:
  const std::string address_;
  std::mutex mutex_;
  httplib::Client client_;
};

}  // namespace

std::unique_ptr<Transport> HttpTransport(const StoreOptions& options) {
  return std::make_unique<Http>(options);
}

}  // namespace longhaul::objects
