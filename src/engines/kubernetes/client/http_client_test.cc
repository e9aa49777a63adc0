#include "engines/kubernetes/client/http_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include "engines/kubernetes/client/client_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

class HttpClientTest : public ClientFixture {
 protected:
  HttpClient& Make() {
    if (http_settings_.server.empty()) http_settings_.server = server_->address();
    http_ = *HttpClient::Create(*loop_, http_settings_);
    return *http_;
  }
  Result<HttpResponse> Get(const std::string& target) {
    HttpRequest request;
    request.method = "GET";
    request.target = target;
    request.credential = std::make_shared<const Credential>(Credential{"secret-word", "", "", {}});
    return Do(request);
  }
  Result<HttpResponse> Do(const HttpRequest& request) {
    std::optional<Result<HttpResponse>> got;
    http_->Send(request, [&got](Result<HttpResponse> response) { got = std::move(response); });
    while (!got) loop_->RunOnce(std::chrono::milliseconds(50));
    return *got;
  }
  HttpRequest Anonymous() {
    HttpRequest request;
    request.method = "GET";
    request.target = "/api/v1/pods";
    return request;
  }
  HttpRequest Watch() {
    HttpRequest request;
    request.method = "GET";
    request.target = "/api/v1/pods?watch=1";
    return request;
  }

  HttpSettings http_settings_;
  std::unique_ptr<HttpClient> http_;
};

TEST_F(HttpClientTest, RefusesAnAddressThatItMustNotUse) {
  for (const char* const server : {"", "10.0.0.1", "ftp://a", "file:///etc/passwd"}) {
    http_settings_.server = server;
    EXPECT_FALSE(HttpClient::Create(*loop_, http_settings_).ok()) << server;
  }
  http_settings_.server = "https://10.0.0.1:1";
  http_settings_.skip_tls_verification = true;
  EXPECT_FALSE(HttpClient::Create(*loop_, http_settings_).ok());
}

TEST_F(HttpClientTest, RefusesABodyOverTheLimit) {
  http_settings_.max_body_bytes = 100;
  Make();
  MakePod("a");
  const auto response = Get("/api/v1/pods");
  EXPECT_EQ(response.status().code(), Code::kResourceExhausted);
}

TEST_F(HttpClientTest, NamesTheServerAndNoSecretWhenThereIsNoResponse) {
  Make();
  Fault fault;
  fault.kind = Fault::Kind::kDrop;
  fault.times = 10;
  server_->Inject(fault);
  const auto response = Get("/api/v1/pods");
  EXPECT_EQ(response.status().code(), Code::kUnavailable);
  EXPECT_NE(response.status().message().find(server_->address()), std::string::npos);
  EXPECT_EQ(response.status().message().find("secret-word"), std::string::npos);
}

TEST_F(HttpClientTest, EndsARequestThatTakesTooLong) {
  http_settings_.request_timeout = std::chrono::milliseconds(20);
  Make();
  MakePod("a");
  Fault fault;
  fault.kind = Fault::Kind::kSilent;
  server_->Inject(fault);
  EXPECT_EQ(Get("/api/v1/pods?watch=1").status().code(), Code::kDeadlineExceeded);
}

TEST_F(HttpClientTest, StreamsWhatArrives) {
  Make();
  std::string received;
  http_->Open(
      Watch(), [&received](std::string_view bytes) { received += bytes; },
      [](const Result<HttpResponse>&) { FAIL(); });
  for (int i = 0; i < 3; ++i) {
    while (server_->requests() == 0) loop_->RunOnce(std::chrono::milliseconds(50));
    MakePod("p" + std::to_string(i));
    server_->Publish();
    const std::string want = "\"name\":\"p" + std::to_string(i) + "\"";
    while (received.find(want) == received.npos) loop_->RunOnce(std::chrono::milliseconds(50));
  }
}

TEST_F(HttpClientTest, EndsAStreamWithItsLastBytes) {
  Make();
  MakePod("a");
  Fault fault;
  fault.kind = Fault::Kind::kEndStream;
  server_->Inject(fault);
  std::string received;
  std::optional<Result<HttpResponse>> end;
  http_->Open(
      Watch(), [&](std::string_view bytes) { received += bytes; },
      [&](const Result<HttpResponse>& response) { end = response; });
  while (!end) loop_->RunOnce(std::chrono::milliseconds(50));
  EXPECT_TRUE(end->ok());
  EXPECT_TRUE(received.ends_with("}\n"));
}

TEST_F(HttpClientTest, MayCancelARequestWithinItsOwnCallback) {
  Make();
  MakePod("a");
  int calls = 0;
  HttpClient::RequestId id = 0;
  id = http_->Open(
      Watch(),
      [&](std::string_view) {
        ++calls;
        http_->Cancel(id);
        http_->Cancel(id);
      },
      [](const Result<HttpResponse>&) { FAIL(); });
  while (calls == 0) loop_->RunOnce(std::chrono::milliseconds(50));
  EXPECT_EQ(http_->open_requests(), 0u);
  EXPECT_EQ(Get("/api/v1/pods")->status, 200);
}

TEST_F(HttpClientTest, MayBeDestroyedWithRequestsUnderWay) {
  Make();
  http_->Open(
      Watch(), [](std::string_view) {}, [](const Result<HttpResponse>&) { FAIL(); });
  loop_->RunOnce(std::chrono::milliseconds(5));
  http_.reset();
  for (int i = 0; i < 5; ++i) loop_->RunOnce(std::chrono::milliseconds(2));
}

// The handles of ended requests are used again: a request must not have a part of the one before.
TEST_F(HttpClientTest, SendsNothingOfAnEarlierRequest) {
  Make();
  MakePod("kept");
  const std::string pods = "/api/v1/namespaces/ns/pods";
  const std::string pod = R"({"metadata":{"name":"a"},"spec":{"containers":[]}})";
  const std::string label = R"({"metadata":{"labels":{"a":"b"}}})";
  const struct {
    const char* method;
    std::string target, type, body;
    int want;
  } kRows[] = {{"POST", pods, "application/json", pod, 201},
               {"GET", pods + "/a", "", "", 200},
               {"PATCH", pods + "/a", "application/merge-patch+json", label, 200},
               {"POST", pods, "application/json", pod, 409},
               {"DELETE", pods + "/a", "application/json", "", 200},
               {"GET", pods + "/kept", "", "", 200},
               {"POST", pods, "application/json", pod, 201},
               {"GET", pods + "/kept", "", "", 200}};  // the GET before did not delete it
  for (const auto& row : kRows) {
    HttpRequest request;
    request.method = row.method;
    request.target = row.target;
    request.content_type = row.type;
    request.body = row.body;
    EXPECT_EQ(Do(request)->status, row.want) << row.method << " " << row.target;
  }
}

TEST_F(HttpClientTest, SendsNoTokenOfAnEarlierRequest) {
  server_->RequireToken("secret-word");
  Make();
  EXPECT_EQ(Get("/api/v1/pods")->status, 200);
  EXPECT_EQ(Do(Anonymous())->status, 401);
}

// The sockets of idle connections stay watched, so their numbers must be free once they are closed.
TEST_F(HttpClientTest, ItsSocketsAreWatchedNoLongerThanTheyAreOpen) {
  Make();
  EXPECT_EQ(Get("/api/v1/pods")->status, 200);
  http_.reset();
  std::vector<int> sockets;
  for (int i = 0; i < 8; ++i) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (const int socket : pair) {
      loop_->Watch(socket, false, [](bool, bool) {});  // fails for one that is watched
      sockets.push_back(socket);
    }
  }
  for (const int socket : sockets) {
    loop_->Unwatch(socket);
    ::close(socket);
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
