#include "service/client/rest_client.h"

#include <httplib.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/clock.h"
#include "service/client/sse.h"

namespace longhaul::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kRestConnectLimit = seconds(5);
// With several controllers: a machine that has disappeared must not delay the next one.
constexpr Duration kConnectLimitOfEach = seconds(1);
// How long a call tries several controllers in turn, of which none leads during a takeover.
constexpr Duration kTakeoverLimit = seconds(5);
// A submission prepares data and may measure the machine before it answers.
constexpr Duration kAnswerLimit = std::chrono::minutes(5);
// The server sends a comment every 15 s; three missing ones mean a dead connection.
constexpr Duration kSilenceLimit = seconds(45);
constexpr Duration kFirstRetryPause = milliseconds(50);
constexpr Duration kLongestRetryPause = seconds(1);

Code CodeOf(int http_status) {
  switch (http_status) {
    case 400:
      return Code::kInvalidArgument;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 405:
      return Code::kUnimplemented;
    case 409:
      return Code::kFailedPrecondition;
    case 413:
    case 429:
      return Code::kResourceExhausted;
    case 503:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

Status ErrorOf(int http_status, const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const Json& message = json["error"]["message"];
    if (message.is_string()) return Status(CodeOf(http_status), message.get<std::string>());
  }
  return Status(CodeOf(http_status), "the controller answered with HTTP status " +
                                         std::to_string(http_status) + ": " + Printable(body));
}

Status NoAnswer(const Endpoint& endpoint, httplib::Error error) {
  if (error == httplib::Error::SSLServerVerification || error == httplib::Error::SSLLoadingCerts) {
    const std::string with = endpoint.ca_file.empty() ? "the system's authorities"
                                                      : "the authority in " + endpoint.ca_file;
    return Unauthenticated("the certificate of " + endpoint.rest + " is not verified by " + with +
                           ", or is for another host: name the controller's tls/ca.crt with "
                           "--ca-file, and the host that the certificate is for");
  }
  return Unavailable("no answer from the controller at " + endpoint.rest + " (" +
                     httplib::to_string(error) + "): is it running?");
}

// OpenSSL compares the name, because httplib 0.11 compares addresses with memory that it has not
// set, and may accept the certificate of another address.
void VerifyHost(httplib::Client& client, const std::string& url) {
  SSL_CTX* const context = url.starts_with("https://") ? client.ssl_context() : nullptr;
  if (context == nullptr) return;
  X509_VERIFY_PARAM* const parameters = SSL_CTX_get0_param(context);
  const std::string host = HostOf(url);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) == 1) return;
  CHECK(X509_VERIFY_PARAM_set1_host(parameters, host.data(), host.size()) == 1);
}

uint64_t IdOf(const SseEvent& event) {
  const Result<uint64_t> id = ParseUint64(event.id);
  return id.ok() ? *id : 0;
}

}  // namespace

class RestClient::Connection {
 public:
  explicit Connection(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

  // Posts `body`, or gets when there is none.
  Result<std::string> Call(const std::string& path, const std::optional<std::string>& body,
                           const char* accept);

  Status Follow(const std::string& path, const FollowOptions& options,
                const std::function<bool(const FeedEvent&)>& take);
  void Stop();
  std::string address() {
    const std::lock_guard lock(mutex_);
    return endpoint_.rest;
  }

 private:
  // How one connection of a stream ended.
  struct Ended {
    bool for_good = false;  // the caller or the job is done, or the server refused
    bool heard = false;     // something arrived
    Status status;
  };

  std::unique_ptr<httplib::Client> Open(Duration read_limit);
  Result<std::string> CallOnce(const std::string& path, const std::optional<std::string>& body,
                               const char* accept);
  Ended FollowOnce(const std::string& path, uint64_t& after,
                   const std::function<bool(const FeedEvent&)>& take,
                   const std::function<void()>& on_connected);
  bool Reload();
  // Turns to the next controller, if there are several. Returns whether all were tried since the
  // first one.
  bool TryNext();
  bool several() const;
  // With several controllers: fails in time if this one is paused. A call itself may take minutes.
  Status Probe();
  bool Pause(Duration pause);  // false when stopped

  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  Endpoint endpoint_;  // `rest` is the controller to call next
  size_t tried_ = 0;   // controllers that did not answer in succession
  bool stopped_ = false;
  std::vector<httplib::Client*> following_;
};

std::unique_ptr<httplib::Client> RestClient::Connection::Open(Duration read_limit) {
  std::lock_guard lock(mutex_);
  auto client = std::make_unique<httplib::Client>(endpoint_.rest);
  client->set_bearer_token_auth(endpoint_.token);
  client->set_connection_timeout(endpoint_.others.empty() ? kRestConnectLimit
                                                          : kConnectLimitOfEach);
  client->set_read_timeout(read_limit);
  client->set_url_encode(false);
  client->enable_server_certificate_verification(true);
  VerifyHost(*client, endpoint_.rest);
  if (!endpoint_.ca_file.empty()) client->set_ca_cert_path(endpoint_.ca_file);
  return client;
}

bool RestClient::Connection::Reload() {
  std::string file;
  {
    std::lock_guard lock(mutex_);
    file = endpoint_.file;
  }
  if (file.empty()) return false;
  Result<Endpoint> found = ReadEndpoint(file);
  if (!found.ok()) return false;
  std::lock_guard lock(mutex_);
  const bool changed = found->rest != endpoint_.rest || found->token != endpoint_.token;
  endpoint_ = *std::move(found);
  return changed;
}

bool RestClient::Connection::several() const { return !endpoint_.others.empty(); }

bool RestClient::Connection::TryNext() {
  const std::lock_guard lock(mutex_);
  if (!several()) return true;
  endpoint_.others.push_back(std::exchange(endpoint_.rest, endpoint_.others.front()));
  endpoint_.others.erase(endpoint_.others.begin());
  return ++tried_ % (endpoint_.others.size() + 1) == 0;
}

Status RestClient::Connection::Probe() {
  if (!several()) return {};
  const auto client = Open(kConnectLimitOfEach);
  if (!client->is_valid()) return {};  // the call reports it
  const httplib::Result result = client->Get("/v1/healthz");
  if (!result) return NoAnswer(endpoint_, result.error());
  return {};
}

Result<std::string> RestClient::Connection::Call(const std::string& path,
                                                 const std::optional<std::string>& body,
                                                 const char* accept) {
  const Instant begin = io::MonotonicNow();
  Result<std::string> answer = CallOnce(path, body, accept);
  if (!answer.ok() && answer.status().code() == Code::kUnavailable && Reload()) {
    answer = CallOnce(path, body, accept);
  }
  while (several() && answer.status().code() == Code::kUnavailable &&
         io::MonotonicNow() - begin < kTakeoverLimit) {
    if (TryNext() && !Pause(kFirstRetryPause)) break;
    answer = CallOnce(path, body, accept);
  }
  return answer;
}

Result<std::string> RestClient::Connection::CallOnce(const std::string& path,
                                                     const std::optional<std::string>& body,
                                                     const char* accept) {
  RETURN_IF_ERROR(Probe());
  const auto client = Open(kAnswerLimit);
  if (!client->is_valid())
    return InvalidArgument("expected the URL of a controller, such as http://127.0.0.1:8080, not " +
                           endpoint_.rest);
  const httplib::Headers headers = {{"Accept", accept}};
  const httplib::Result result = body.has_value()
                                     ? client->Post(path, headers, *body, "application/json")
                                     : client->Get(path, headers);
  if (!result) {
    return NoAnswer(endpoint_, result.error());
  }
  if (result->status < 200 || result->status > 299) return ErrorOf(result->status, result->body);
  return result->body;
}

bool RestClient::Connection::Pause(Duration pause) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, pause, [this] { return stopped_; });
  return !stopped_;
}

void RestClient::Connection::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (httplib::Client* client : following_) client->stop();
  wake_.notify_all();
}

RestClient::Connection::Ended RestClient::Connection::FollowOnce(
    const std::string& path, uint64_t& after, const std::function<bool(const FeedEvent&)>& take,
    const std::function<void()>& on_connected) {
  Ended ended;
  ended.status = Probe();
  if (!ended.status.ok()) return ended;
  const auto client = Open(kSilenceLimit);
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return ended;
    following_.push_back(client.get());
  }
  SseReader reader;
  int refused = 0;
  std::string refusal;
  const httplib::Headers headers = {{"Accept", "text/event-stream"},
                                    {"Last-Event-ID", std::to_string(after)}};
  const auto on_response = [&](const httplib::Response& response) {
    if (response.status == 200) {
      on_connected();
    } else {
      refused = response.status;
    }
    return true;
  };
  const auto on_bytes = [&](const char* data, size_t bytes) {
    if (refused != 0) {
      refusal.append(data, std::min<size_t>(bytes, 4096));
      return refusal.size() < 65536;
    }
    ended.heard = true;
    Result<std::vector<SseEvent>> events = reader.Feed({data, bytes});
    if (!events.ok()) {
      ended.for_good = true;
      ended.status = events.status();
      return false;
    }
    for (const SseEvent& event : *events) {
      if (event.kind == "end") {
        ended.for_good = true;
        return false;
      }
      const uint64_t id = IdOf(event);
      Json data_json = Json::parse(event.data, nullptr, /*allow_exceptions=*/false);
      if (id <= after || data_json.is_discarded()) continue;
      after = id;
      if (!take(FeedEvent{id, event.kind, std::move(data_json)})) {
        ended.for_good = true;
        return false;
      }
    }
    return true;
  };
  const httplib::Result result = client->Get(path, headers, on_response, on_bytes);
  {
    std::lock_guard lock(mutex_);
    std::erase(following_, client.get());
  }
  if (ended.for_good) return ended;
  if (refused != 0) {
    ended.status = ErrorOf(refused, refusal);
    // Too many streams or a restarting controller may pass; the rest won't.
    ended.for_good = refused != 429 && refused < 500;
    return ended;
  }
  ended.status = Unavailable("lost the connection to the controller at " + endpoint_.rest +
                             (result ? "" : " (" + httplib::to_string(result.error()) + ")"));
  return ended;
}

Status RestClient::Connection::Follow(const std::string& path, const FollowOptions& options,
                                      const std::function<bool(const FeedEvent&)>& take) {
  uint64_t after = options.after;
  bool connected = true;  // so that a first failure is reported
  Instant last_heard = io::MonotonicNow();
  Duration pause = kFirstRetryPause;
  const auto on_connected = [&] {
    if (!connected && options.on_connection) options.on_connection(true, "");
    connected = true;
    pause = kFirstRetryPause;
  };
  while (true) {
    const Ended ended = FollowOnce(path, after, take, on_connected);
    if (ended.for_good) return ended.status;
    if (ended.heard) last_heard = io::MonotonicNow();
    if (!Pause(pause)) return CancelledError("stopped");
    if (connected && options.on_connection) {
      options.on_connection(false, ended.status.message());
    }
    connected = false;
    if (io::MonotonicNow() - last_heard > options.patience) return ended.status;
    if (TryNext()) pause = std::min<Duration>(pause * 2, kLongestRetryPause);
    Reload();
  }
}

RestClient::RestClient(Endpoint endpoint)
    : connection_(std::make_unique<Connection>(std::move(endpoint))) {}
RestClient::~RestClient() = default;

Result<Json> RestClient::Get(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string body,
                   connection_->Call(path, std::nullopt, "application/json"));
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InternalError("the controller's answer is not JSON");
  return json;
}

Result<Json> RestClient::Post(const std::string& path, const Json& body) {
  ASSIGN_OR_RETURN(const std::string answer,
                   connection_->Call(path, body.dump(), "application/json"));
  Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InternalError("the controller's answer is not JSON");
  return json;
}

Result<std::string> RestClient::GetText(const std::string& path) {
  return connection_->Call(path, std::nullopt, "text/plain");
}

Status RestClient::Follow(const std::string& path, const FollowOptions& options,
                          const std::function<bool(const FeedEvent&)>& take) {
  return connection_->Follow(path, options, take);
}

std::string RestClient::address() const { return connection_->address(); }

void RestClient::Stop() { connection_->Stop(); }

std::string UrlEncode(const std::string& text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                       (byte >= 'A' && byte <= 'Z') || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kHex[byte >> 4];
      encoded += kHex[byte & 15];
    }
  }
  return encoded;
}

}  // namespace longhaul::service
