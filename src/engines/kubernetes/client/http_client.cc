#include "engines/kubernetes/client/http_client.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr long kKeepAliveSeconds = 30;  // a dead peer is found within about three times of it
// kube-apiserver closes a connection that was idle for 90 s, and proxies do so earlier. libcurl
// keeps connections for 118 s, and a request on one that the server has closed failed (broken
// pipe).
constexpr long kLongestIdleSeconds = 30;
constexpr size_t kMaxFreeHandles = 64;
// libcurl allocates these buffers for each request. Its least sizes are enough for a bind and its
// answer, and larger ones only take longer: lists and watches have libcurl's default.
constexpr long kUploadBytes = 16 << 10;
constexpr long kAnswerBytes = 1 << 10;
constexpr long kListBytes = 16 << 10;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using StringList = std::unique_ptr<curl_slist, FreeList>;

StringList With(StringList list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  CHECK(longer != nullptr);  // out of memory
  (void)list.release();
  return StringList(longer);
}

template <typename Value>
void Set(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  CHECK(code == CURLE_OK) << "curl option " << option << ": " << curl_easy_strerror(code);
}

void SetBlob(CURL* easy, CURLoption option, const std::string& text) {
  curl_blob blob{};
  blob.data = const_cast<char*>(text.data());
  blob.len = text.size();
  blob.flags = CURL_BLOB_NOCOPY;  // the request or the settings keep it
  Set(easy, option, &blob);
}

long Milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// "https://host:port" as the two, without brackets.
std::pair<std::string, std::string> HostAndPort(const std::string& server) {
  const bool plain = server.starts_with("http://");
  std::string rest = server.substr(plain ? 7 : 8);
  rest = rest.substr(0, rest.find('/'));
  const size_t bracket = rest.rfind(']');
  const size_t colon = rest.find(':', bracket == rest.npos ? 0 : bracket);
  std::string port = colon == rest.npos ? (plain ? "80" : "443") : rest.substr(colon + 1);
  return {rest.substr(0, colon), std::move(port)};
}

bool IsLoopback(const std::string& server) {
  const std::string host = HostAndPort(server).first;
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace

// One request and what has come back.
struct HttpClient::Transfer {
  HttpClient* client = nullptr;
  RequestId id = 0;
  HttpRequest request;
  OnBytes on_bytes;  // of a stream only
  Done done;
  CURL* easy = nullptr;
  StringList headers;
  StringList connect_to;
  std::array<char, CURL_ERROR_SIZE> error{};
  HttpResponse response;
  std::string bytes;  // of a stream: not delivered
  bool too_long = false;

  bool streams() const { return on_bytes != nullptr && response.status / 100 == 2; }
};

Result<std::unique_ptr<HttpClient>> HttpClient::Create(io::EventLoop& loop, HttpSettings settings) {
  if (!settings.server.starts_with("https://") && !settings.server.starts_with("http://")) {
    return InvalidArgument("the API server's address is '" + Printable(settings.server) +
                           "', expected https://HOST:PORT");
  }
  if (settings.skip_tls_verification && !IsLoopback(settings.server)) {
    return InvalidArgument("the certificate of " + settings.server +
                           " must be verified, because its address is no loopback address");
  }
  std::signal(SIGPIPE, SIG_IGN);
  CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);  // further calls are counted
  ASSIGN_OR_RETURN(std::unique_ptr<TlsTrust> trust,
                   TlsTrust::Create(settings.certificate_authority));
  CURLM* const multi = curl_multi_init();
  CHECK(multi != nullptr);  // out of memory
  return std::unique_ptr<HttpClient>(
      new HttpClient(loop, std::move(settings), std::move(trust), multi));
}

HttpClient::HttpClient(io::EventLoop& loop, HttpSettings settings, std::unique_ptr<TlsTrust> trust,
                       CURLM* multi)
    : loop_(loop),
      settings_(std::move(settings)),
      trust_(std::move(trust)),
      loopback_(IsLoopback(settings_.server)),
      multi_(multi) {
  const auto set = [this](CURLMoption option, auto value) {
    CHECK(curl_multi_setopt(multi_, option, value) == CURLM_OK);
  };
  set(CURLMOPT_SOCKETFUNCTION, &HttpClient::OnSocket);
  set(CURLMOPT_SOCKETDATA, this);
  set(CURLMOPT_TIMERFUNCTION, &HttpClient::OnTimer);
  set(CURLMOPT_TIMERDATA, this);
  set(CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  set(CURLMOPT_MAXCONNECTS, static_cast<long>(settings_.kept_connections));
}

HttpClient::~HttpClient() {
  // From here on libcurl must not call back, except to close its sockets.
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, nullptr);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, nullptr);
  for (const curl_socket_t socket : std::exchange(watched_, {})) loop_.Unwatch(socket);
  if (timer_) loop_.Cancel(*timer_);
  for (auto& [id, transfer] : transfers_) {
    curl_multi_remove_handle(multi_, transfer->easy);
    curl_easy_cleanup(transfer->easy);
  }
  for (CURL* const easy : free_) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi_);
}

HttpClient::RequestId HttpClient::Send(HttpRequest request, Done done) {
  return Start(std::move(request), nullptr, std::move(done));
}

HttpClient::RequestId HttpClient::Open(HttpRequest request, OnBytes on_bytes, Done done) {
  CHECK(on_bytes != nullptr);
  return Start(std::move(request), std::move(on_bytes), std::move(done));
}

HttpClient::RequestId HttpClient::Start(HttpRequest request, OnBytes on_bytes, Done done) {
  auto transfer = std::make_unique<Transfer>();
  transfer->client = this;
  transfer->id = ++last_id_;
  transfer->request = std::move(request);
  transfer->on_bytes = std::move(on_bytes);
  transfer->done = std::move(done);
  if (free_.empty()) {
    transfer->easy = NewHandle();
  } else {
    transfer->easy = free_.back();
    free_.pop_back();
  }
  Prepare(*transfer);
  CHECK(curl_multi_add_handle(multi_, transfer->easy) == CURLM_OK);
  const RequestId id = transfer->id;
  transfers_.emplace(id, std::move(transfer));
  return id;
}

CURL* HttpClient::NewHandle() {
  CURL* const easy = curl_easy_init();
  CHECK(easy != nullptr);  // out of memory
  // The names in it have been checked, and are sent as they are.
  Set(easy, CURLOPT_PATH_AS_IS, 1L);
  Set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  Set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // Time-outs of name resolution would use SIGALRM, which other code may need.
  Set(easy, CURLOPT_NOSIGNAL, 1L);
  Set(easy, CURLOPT_TCP_NODELAY, 1L);
  Set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  Set(easy, CURLOPT_TCP_KEEPIDLE, kKeepAliveSeconds);
  Set(easy, CURLOPT_TCP_KEEPINTVL, kKeepAliveSeconds);
  Set(easy, CURLOPT_MAXAGE_CONN, kLongestIdleSeconds);
  Set(easy, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(settings_.connect_timeout));
  Set(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBytes);
  if (!settings_.proxy_url.empty()) Set(easy, CURLOPT_PROXY, settings_.proxy_url.c_str());
  // As Go's clients do: a proxy cannot reach this machine's loopback addresses.
  if (loopback_ || settings_.direct) Set(easy, CURLOPT_NOPROXY, "*");
  Set(easy, CURLOPT_USERAGENT, settings_.user_agent.c_str());
  Set(easy, CURLOPT_CLOSESOCKETFUNCTION, &HttpClient::OnClose);
  Set(easy, CURLOPT_CLOSESOCKETDATA, this);
  Set(easy, CURLOPT_HEADERFUNCTION, &HttpClient::OnHeader);
  Set(easy, CURLOPT_WRITEFUNCTION, &HttpClient::OnBody);
  Set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  Set(easy, CURLOPT_SSL_VERIFYPEER, settings_.skip_tls_verification ? 0L : 1L);
  Set(easy, CURLOPT_SSL_VERIFYHOST, settings_.skip_tls_verification ? 0L : 2L);
  trust_->Apply(easy);
  return easy;
}

// Sets every option that differs between requests, because a handle that is used again keeps those
// of the request before.
void HttpClient::Prepare(Transfer& transfer) {
  CURL* const easy = transfer.easy;
  const HttpRequest& request = transfer.request;
  Set(easy, CURLOPT_PRIVATE, &transfer);
  Set(easy, CURLOPT_ERRORBUFFER, transfer.error.data());
  Set(easy, CURLOPT_HEADERDATA, &transfer);
  Set(easy, CURLOPT_WRITEDATA, &transfer);
  // A watch lasts for minutes: its owner notices silence by the missing lines.
  Set(easy, CURLOPT_TIMEOUT_MS, transfer.on_bytes ? 0L : Milliseconds(settings_.request_timeout));

  StringList headers = With(nullptr, ("Accept: " + request.accept).c_str());
  headers = With(std::move(headers), "Expect:");  // no round trip before a body
  headers = With(std::move(headers), request.content_type.empty()
                                         ? "Content-Type:"
                                         : "Content-Type: " + request.content_type);
  if (request.credential && !request.credential->token.empty()) {
    headers = With(std::move(headers), "Authorization: Bearer " + request.credential->token);
  }
  transfer.headers = std::move(headers);
  Set(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
  PrepareBody(transfer);
  const Credential* const credential = request.credential.get();
  if (credential != nullptr && !credential->client_certificate.empty()) {
    SetBlob(easy, CURLOPT_SSLCERT_BLOB, credential->client_certificate);
    SetBlob(easy, CURLOPT_SSLKEY_BLOB, credential->client_key);
  }
  PrepareAddress(transfer);
}

void HttpClient::PrepareBody(const Transfer& transfer) {
  CURL* const easy = transfer.easy;
  const HttpRequest& request = transfer.request;
  if (request.method == "GET") {
    Set(easy, CURLOPT_HTTPGET, 1L);
    Set(easy, CURLOPT_CUSTOMREQUEST, static_cast<const char*>(nullptr));
    Set(easy, CURLOPT_BUFFERSIZE, kListBytes);
    return;
  }
  // Also for PUT, PATCH and DELETE: this option is what makes libcurl send a body.
  Set(easy, CURLOPT_POST, 1L);
  Set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  Set(easy, CURLOPT_POSTFIELDS, request.body.c_str());  // sent from where it lies
  Set(easy, CURLOPT_CUSTOMREQUEST, request.method == "POST" ? nullptr : request.method.c_str());
  Set(easy, CURLOPT_BUFFERSIZE, kAnswerBytes);
}

void HttpClient::PrepareAddress(Transfer& transfer) {
  CURL* const easy = transfer.easy;
  const std::string& target = transfer.request.target;
  if (settings_.tls_server_name.empty()) {
    return Set(easy, CURLOPT_URL, (settings_.server + target).c_str());
  }
  // libcurl verifies the name in the URL: that is the certificate's, and the connection is made to
  // the server's address.
  const auto [host, port] = HostAndPort(settings_.server);
  const std::string& name = settings_.tls_server_name;
  Set(easy, CURLOPT_URL, ("https://" + name + ":" + port + target).c_str());
  transfer.connect_to = With(nullptr, name + ":" + port + ":" + host + ":" + port);
  Set(easy, CURLOPT_CONNECT_TO, transfer.connect_to.get());
}

void HttpClient::Cancel(RequestId request) {
  const auto found = transfers_.find(request);
  if (found == transfers_.end()) return;
  std::unique_ptr<Transfer> transfer = std::move(found->second);
  transfers_.erase(found);
  Release(std::move(transfer));
}

void HttpClient::Release(std::unique_ptr<Transfer> transfer) {
  curl_multi_remove_handle(multi_, transfer->easy);
  if (free_.size() >= kMaxFreeHandles) {
    curl_easy_cleanup(transfer->easy);
    return;
  }
  // Nothing of the transfer and its credential stays in the handle.
  CURL* const easy = transfer->easy;
  const auto clear = [easy](CURLoption option) { Set(easy, option, static_cast<void*>(nullptr)); };
  for (const CURLoption option : {CURLOPT_PRIVATE, CURLOPT_ERRORBUFFER, CURLOPT_HEADERDATA,
                                  CURLOPT_WRITEDATA, CURLOPT_HTTPHEADER, CURLOPT_POSTFIELDS}) {
    clear(option);
  }
  if (transfer->connect_to) clear(CURLOPT_CONNECT_TO);
  const Credential* const credential = transfer->request.credential.get();
  if (credential != nullptr && !credential->client_certificate.empty()) {
    clear(CURLOPT_SSLCERT_BLOB);
    clear(CURLOPT_SSLKEY_BLOB);
  }
  free_.push_back(easy);
}

int HttpClient::OnSocket(CURL*, curl_socket_t socket, int what, void* self, void* socket_data) {
  HttpClient& client = *static_cast<HttpClient*>(self);
  if (what == CURL_POLL_REMOVE) {
    client.idle_.insert(socket);
    curl_multi_assign(client.multi_, socket, nullptr);
    return 0;
  }
  if (socket_data == nullptr) client.UseSocket(socket, (what & CURL_POLL_OUT) != 0);
  client.loop_.WantWrite(socket, (what & CURL_POLL_OUT) != 0);
  client.loop_.WantRead(socket, (what & CURL_POLL_IN) != 0);
  return 0;
}

// A socket that libcurl has not used, or not since it was idle.
void HttpClient::UseSocket(curl_socket_t socket, bool want_write) {
  curl_multi_assign(multi_, socket, this);
  const bool kept = idle_.erase(socket) > 0;
  if (kept && watched_.contains(socket)) return;
  Forget(socket);  // a number that was closed without a report
  watched_.insert(socket);
  loop_.Watch(socket, want_write, [this, socket](bool readable, bool writable) {
    // The server has closed an idle connection, which libcurl finds out when it needs one.
    if (idle_.contains(socket)) return Forget(socket);
    Act(socket, (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
  });
}

void HttpClient::Forget(curl_socket_t socket) {
  idle_.erase(socket);
  if (watched_.erase(socket) > 0) loop_.Unwatch(socket);
}

int HttpClient::OnClose(void* self, curl_socket_t socket) {
  static_cast<HttpClient*>(self)->Forget(socket);
  return ::close(socket);
}

int HttpClient::OnTimer(CURLM*, long timeout_ms, void* self) {
  HttpClient& client = *static_cast<HttpClient*>(self);
  if (client.timer_) client.loop_.Cancel(*client.timer_);
  client.timer_.reset();
  if (timeout_ms < 0) return 0;
  client.timer_ = client.loop_.After(std::chrono::milliseconds(timeout_ms), [&client] {
    client.timer_.reset();
    client.Act(CURL_SOCKET_TIMEOUT, 0);
  });
  return 0;
}

size_t HttpClient::OnHeader(char* data, size_t size, size_t count, void* transfer) {
  HttpResponse& response = static_cast<Transfer*>(transfer)->response;
  const std::string_view line(data, size * count);
  constexpr std::string_view kRetryAfter = "retry-after:";
  if (line.starts_with("HTTP/")) {
    // Another first line follows a 1xx response and the one of a proxy.
    response = HttpResponse();
    const size_t space = line.find(' ');
    const std::string_view code = space == line.npos ? "" : line.substr(space + 1, 3);
    const Result<int64_t> status = ParseInt64(code);
    response.status = status.ok() ? static_cast<int>(*status) : 0;
  } else if (line.size() > kRetryAfter.size() &&
             strncasecmp(data, kRetryAfter.data(), kRetryAfter.size()) == 0) {
    response.retry_after = Trim(line.substr(kRetryAfter.size()));
  }
  return size * count;
}

size_t HttpClient::OnBody(char* data, size_t size, size_t count, void* self) {
  Transfer& transfer = *static_cast<Transfer*>(self);
  const std::string_view part(data, size * count);
  HttpClient& client = *transfer.client;
  if (transfer.streams()) {
    // Not delivered here: within its callbacks libcurl accepts no other calls.
    if (transfer.bytes.empty()) client.with_bytes_.push_back(transfer.id);
    transfer.bytes.append(part);
    return part.size();
  }
  transfer.too_long = part.size() > client.settings_.max_body_bytes - transfer.response.body.size();
  if (transfer.too_long) return 0;
  transfer.response.body.append(part);
  return part.size();
}

void HttpClient::Act(curl_socket_t socket, int events) {
  int running = 0;
  CHECK(curl_multi_socket_action(multi_, socket, events, &running) == CURLM_OK);
  Deliver();
}

void HttpClient::Deliver() {
  // Before the ends: the last bytes of a stream come with its end.
  for (const RequestId id : std::exchange(with_bytes_, {})) {
    const auto found = transfers_.find(id);
    if (found == transfers_.end()) continue;  // a callback has cancelled it
    Transfer& transfer = *found->second;
    const std::string bytes = std::exchange(transfer.bytes, {});
    // A copy, because the callback may cancel the request.
    const OnBytes on_bytes = transfer.on_bytes;
    on_bytes(bytes);
  }
  // Callbacks may add and cancel requests, which changes libcurl's queue: one message at a time.
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Transfer* done = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &done);
    const auto found = transfers_.find(done->id);
    CHECK(found != transfers_.end());
    std::unique_ptr<Transfer> transfer = std::move(found->second);
    transfers_.erase(found);
    const Done callback = std::move(transfer->done);
    Result<HttpResponse> result = code == CURLE_OK
                                      ? Result<HttpResponse>(std::move(transfer->response))
                                      : Result<HttpResponse>(Failure(code, *transfer));
    Release(std::move(transfer));
    callback(std::move(result));
  }
}

Status HttpClient::Failure(CURLcode code, const Transfer& transfer) const {
  if (transfer.too_long) {
    return ResourceExhausted(settings_.server + ": a response has more than " +
                             WithThousands(static_cast<int64_t>(settings_.max_body_bytes)) +
                             " bytes");
  }
  const char* const text =
      transfer.error[0] != '\0' ? transfer.error.data() : curl_easy_strerror(code);
  const std::string why = settings_.server + ": " + Printable(text, 300);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
      return FailedPrecondition(
          "the certificate of the API server is refused (certificate-authority must name its "
          "authority, and tls-server-name its name where that is not the host): " +
          why);
    case CURLE_SSL_CERTPROBLEM:
      return FailedPrecondition("the client certificate or its key is not usable: " + why);
    case CURLE_OPERATION_TIMEDOUT:
      return DeadlineExceeded("no response in time from " + why);
    case CURLE_URL_MALFORMAT:
      return InvalidArgument("not an address: " + why);
    default:
      return Unavailable("no response from " + why);
  }
}

}  // namespace longhaul::engines::kubernetes
