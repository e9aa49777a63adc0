#include "service/controller/rest/rest_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "base/temporary_folder.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/net/socket.h"
#include "service/client/sse.h"
#include "service/controller/rest/rest_fixture.h"

namespace longhaul::service {
namespace {

TEST_F(RestTest, AnswersErrorsWithCodeAndReason) {
  const std::string large(RestServer::kLargestBody + 1, ' ');
  const struct {
    const char* method;
    std::string path;
    std::string body;
    int status;
    const char* code;
  } kRows[] = {
      {"GET", "/v1/nothing", "", 404, "not_found"},
      {"GET", "/v1/jobs/none", "", 404, "not_found"},
      {"POST", "/v1/jobs/none/stop", "", 404, "not_found"},
      {"POST", "/v1/nodes/none/cordon", "", 404, "not_found"},
      {"DELETE", "/v1/jobs", "", 405, "method_not_allowed"},
      {"POST", "/v1/nodes", "{}", 405, "method_not_allowed"},
      {"POST", "/v1/jobs", "{", 400, "invalid_argument"},
      {"POST", "/v1/jobs", R"({"job": "bad"})", 400, "invalid_argument"},
      {"POST", "/v1/jobs", large, 413, "resource_exhausted"},
      {"GET", "/v1/events?after=x", "", 400, "invalid_argument"},
      {"GET", "/v1/" + std::string(2000, 'x'), "", 414, "out_of_range"},
  };
  for (const auto& row : kRows) {
    const auto [status, json] = Call(row.method, row.path, row.body);
    SCOPED_TRACE(std::string(row.method) + " " + row.path.substr(0, 40));
    EXPECT_EQ(status, row.status);
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json["error"]["code"], row.code);
    EXPECT_FALSE(json["error"]["message"].get<std::string>().empty());
  }
}

// More connections than any pool has threads, of clients that never send a whole request.
TEST_F(RestTest, AnswersWhileOthersHoldIdleConnections) {
  const Result<HostPort> address = ParseHostPort(service_->endpoint().rest.substr(7));
  std::vector<io::Fd> idle;
  for (int i = 0; i < 300; ++i) {
    auto socket = io::ConnectTcp(address->host, address->port);
    ASSERT_TRUE(socket.ok()) << socket.status();
    if (i % 2 == 0) ::send(socket->get(), "GET /v1/jobs HTT", 16, MSG_NOSIGNAL);
    idle.push_back(*std::move(socket));
  }
  EXPECT_EQ(Call("GET", "/v1/jobs").first, 200);
}

// What `curl -d @FILE` sends, below and above the 8 KiB to which some servers limit forms.
TEST_F(RestTest, NamesTheMediaTypeThatItExpects) {
  for (const size_t bytes : {100u, 9'391u, 1'000'000u}) {
    const std::string body = R"({"job": ")" + std::string(bytes, 'x') + "\"}";
    for (const char* type : {"application/x-www-form-urlencoded", "text/plain", ""}) {
      const auto result = http_->Post("/v1/jobs", httplib::Headers(), body, type);
      ASSERT_TRUE(result) << bytes << " bytes as " << type;
      EXPECT_EQ(result->status, 415) << bytes << " bytes as " << type;
      const Json json = Json::parse(result->body, nullptr, false);
      EXPECT_EQ(json["error"]["code"], "unsupported_media_type");
      const std::string message = json["error"]["message"];
      EXPECT_NE(message.find("application/json"), std::string::npos) << message;
      EXPECT_NE(message.find(type), std::string::npos) << message;
    }
    EXPECT_EQ(http_->Post("/v1/jobs", body, "Application/JSON; charset=utf-8")->status, 201);
  }
}

TEST_F(RestTest, SubmitsListsAndStopsAJob) {
  const auto [status, submitted] = Call("POST", "/v1/jobs", R"({"job": "x", "name": "first"})");
  ASSERT_EQ(status, 201);
  EXPECT_EQ(submitted["id"], "first-1");
  EXPECT_EQ(Call("GET", "/v1/jobs").second["jobs"].size(), 1u);
  EXPECT_EQ(Call("GET", "/v1/jobs/first").second["state"], "queued");
  const auto [stop_status, stopped] =
      Call("POST", "/v1/jobs/first-1/stop", R"({"reason": "enough"})");
  EXPECT_EQ(stop_status, 200);
  EXPECT_EQ(stopped["state"], "stopped");
  const Json events = Call("GET", "/v1/jobs/first-1/events").second;
  ASSERT_FALSE(events["events"].empty());
  EXPECT_EQ(events["events"].back()["kind"], "state");
  EXPECT_EQ(events["events"].back()["data"]["state"]["state"], "stopped");
  EXPECT_EQ(events["last"], events["events"].back()["id"]);
}

TEST_F(RestTest, StreamsAJobsEventsToItsEnd) {
  const std::string id = Submit();
  const Json before = Call("GET", "/v1/jobs/" + id + "/events").second;
  std::vector<uint64_t> ids;
  std::string last;
  const Status status =
      client_->Follow("/v1/jobs/" + id + "/events", {}, [&](const FeedEvent& event) {
        ids.push_back(event.id);
        if (event.kind == "state") last = event.data["state"]["state"].get<std::string>();
        if (ids.size() == before["events"].size()) Call("POST", "/v1/jobs/" + id + "/stop");
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(last, "stopped");
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), ids.size());
}

TEST_F(RestTest, GivesAWorkersLogByNumbersOnly) {
  const std::string id = Submit();
  const std::string attempt = directory_ + "/" + id + "/logs/attempt-2";
  std::filesystem::create_directories(attempt);
  std::ofstream(attempt + "/rank-1.log") << "one\ntwo\n";
  EXPECT_EQ(http_->Get("/v1/jobs/" + id + "/logs?rank=1")->body, "one\ntwo\n");
  EXPECT_EQ(http_->Get("/v1/jobs/" + id + "/logs?rank=1&bytes=4")->body, "two\n");
  EXPECT_EQ(Call("GET", "/v1/jobs/" + id + "/logs?rank=1&from=4").second["text"], "two\n");
  EXPECT_EQ(Call("GET", "/v1/jobs/" + id + "/logs?rank=0").first, 404);
  EXPECT_EQ(Call("GET", "/v1/jobs/" + id + "/logs?rank=../../x").first, 400);
  EXPECT_EQ(Call("GET", "/v1/jobs/" + id + "/logs?attempt=../2").first, 400);
}

// The workers of a job can write to its run directory.
TEST_F(RestTest, GivesNoFileThatAWorkerPutsInTheWayOfALog) {
  const std::string id = Submit();
  const std::string logs = directory_ + "/" + id + "/logs";
  const std::string path = "/v1/jobs/" + id + "/logs?rank=1&attempt=";
  const std::string secret = directory_ + "/secret";
  std::filesystem::create_directories(secret);
  std::ofstream(secret + "/rank-1.log") << "secret";
  std::filesystem::create_directories(logs + "/attempt-2");
  std::filesystem::create_symlink(secret + "/rank-1.log", logs + "/attempt-2/rank-1.log");
  EXPECT_EQ(Call("GET", path + "2").first, 404) << "a link to a file";
  std::filesystem::create_directory_symlink(secret, logs + "/attempt-3");
  EXPECT_EQ(Call("GET", path + "3").first, 404) << "a link to a folder";
  std::filesystem::create_directories(logs + "/attempt-4");
  ASSERT_EQ(mkfifo((logs + "/attempt-4/rank-1.log").c_str(), 0600), 0);
  EXPECT_EQ(Call("GET", path + "4").first, 404) << "a FIFO, which would block a thread";
}

TEST_F(RestTest, RefusesAnAddressThatOthersReach) {
  ControllerServiceOptions options;
  options.state_directory = directory_ + "/other";
  options.rest = "0.0.0.0:0";
  const Status status = ControllerService::Start(options).status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_NE(status.message().find("longhaul controller init"), std::string::npos) << status;
  options.rest = "127.0.0.1:0";
  options.agents = "0.0.0.0:0";
  EXPECT_EQ(ControllerService::Start(options).status().code(), Code::kPermissionDenied);
}

TEST_F(RestTest, SaysWhichPortIsInUse) {
  const std::string taken = service_->endpoint().rest.substr(7);
  for (const bool rest : {true, false}) {
    ControllerServiceOptions options;
    options.state_directory = directory_ + "/other";
    (rest ? options.rest : options.agents) = taken;
    const Status status = ControllerService::Start(options).status();
    EXPECT_EQ(status.code(), Code::kAlreadyExists);
    EXPECT_NE(status.message().find(taken), std::string::npos) << status;
    EXPECT_FALSE(std::filesystem::exists(options.state_directory)) << "nothing is left behind";
  }
}

TEST_F(RestTest, RefusesPathsThatLeaveTheirPlace) {
  const std::string id = Submit();
  const std::string kPaths[] = {"/v1/jobs/../../etc/passwd", "/v1/jobs/..%2F..%2Fetc/logs",
                                "/v1/jobs/%2e%2e/logs",      "/v1/jobs/" + id + "/logs/../../token",
                                "/v1/jobs/%00/logs",         "//etc/passwd"};
  for (const std::string& path : kPaths) {
    EXPECT_EQ(Call("GET", path).first, 404) << path;
  }
}

// What a browser does after a lost connection.
TEST_F(RestTest, AStreamGoesOnAfterTheLastEventSeen) {
  const std::string id = Submit();
  ASSERT_EQ(Call("POST", "/v1/jobs/" + id + "/stop").first, 200);
  const Json events = Call("GET", "/v1/jobs/" + id + "/events").second["events"];
  ASSERT_GE(events.size(), 2u);
  const std::string first = std::to_string(events[0]["id"].get<uint64_t>());
  const auto ids = [&](const std::string& query, const std::string& seen) {
    httplib::Headers headers;
    if (!seen.empty()) headers.emplace("Last-Event-ID", seen);
    const auto result = http_->Get("/v1/jobs/" + id + "/events" + query, headers);
    std::vector<uint64_t> got;
    if (!result || result->status != 200) return got;
    SseReader reader;
    const auto read = reader.Feed(result->body);
    if (!read.ok() || read->empty() || read->back().kind != "end") return got;
    for (const SseEvent& event : *read) {
      if (event.kind != "end") got.push_back(*ParseUint64(event.id));
    }
    return got;
  };
  std::vector<uint64_t> all;
  for (const Json& event : events) all.push_back(event["id"]);
  const std::vector<uint64_t> later(all.begin() + 1, all.end());
  EXPECT_EQ(ids("", ""), all);
  EXPECT_EQ(ids("", first), later);
  EXPECT_EQ(ids("?after=" + first, ""), later);
  EXPECT_EQ(ids("?after=0", first), later) << "the newer of the two counts";
  EXPECT_EQ(ids("", "nonsense"), all);
}

// A connection whose answer has begun.
class OpenStream {
 public:
  OpenStream(uint16_t port, const std::string& token)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string request =
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      return;
    }
    constexpr size_t kHead = 12;  // "HTTP/1.1 200"
    char head[kHead + 1] = {};
    if (::recv(socket_.get(), head, kHead, MSG_WAITALL) == static_cast<ssize_t>(kHead)) {
      status_ = std::atoi(head + 9);
    }
  }
  int status() const { return status_; }

  // All that the server still sends until it closes the connection.
  std::string Rest() {
    std::string text;
    char part[4096];
    for (ssize_t size; (size = ::recv(socket_.get(), part, sizeof part, 0)) > 0;) {
      text.append(part, size);
    }
    return text;
  }

 private:
  io::Fd socket_;
  int status_ = 0;
};

TEST_F(RestTest, ManyStreamsLeaveRoomForOrdinaryRequests) {
  const Result<HostPort> address = ParseHostPort(service_->endpoint().rest.substr(7));
  const auto open = [&] {
    return std::make_unique<OpenStream>(address->port, service_->endpoint().token);
  };
  std::vector<std::unique_ptr<OpenStream>> streams;
  for (uint64_t i = 0; i < RestServer::kMostEventStreams; ++i) {
    streams.push_back(open());
    ASSERT_EQ(streams.back()->status(), 200) << i;
  }
  EXPECT_EQ(open()->status(), 429);
  EXPECT_EQ(Call("GET", "/v1/jobs").first, 200);
  EXPECT_EQ(Call("GET", "/v1/events").first, 200) << "asked for as JSON it is no stream";
  streams.pop_back();
  // The place is free once a notification finds that nobody reads.
  int status = 429;
  for (int i = 0; i < 200 && status == 429; ++i) {
    Submit();
    status = open()->status();
  }
  EXPECT_EQ(status, 200);
}

// The sockets of this process that listen on a port.
std::vector<int> Listeners(uint16_t port) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t flag_size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) == 0 && listens == 1 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_port == htons(port)) {
      found.push_back(fd);
    }
  }
  return found;
}

// A server without a service, so that a test can stop it and publish at any moment.
class RestServerTest : public testing::Test {
 protected:
  const TemporaryFolder folder_{testing::TempDir()};
  const std::unique_ptr<EventLog> log_ = *EventLog::Open(folder_.path() + "/events.db");
  NotificationFeed feed_{*log_};
  const std::unique_ptr<CoreLoop> loop_ = *CoreLoop::Create(CoreLoopOptions(), *log_, feed_);
  const std::unique_ptr<TokenStore> tokens_ =
      *TokenStore::Open(folder_.path() + "/tokens.json", "secret");
  AuditLog audit_{folder_.path() + "/audit.log", AuditLog::Limits()};
  const std::unique_ptr<RestServer> server_ =
      *RestServer::Start(RestServerOptions(), *loop_, feed_, *tokens_, audit_, nullptr);
};

TEST_F(RestServerTest, StopsAlsoWhenListeningHasEndedByItself) {
  const std::vector<int> listeners = Listeners(server_->port());
  ASSERT_EQ(listeners.size(), 1u);
  ASSERT_EQ(::shutdown(listeners[0], SHUT_RDWR), 0);
  while (!server_->ended()) std::this_thread::yield();
  server_->Stop();
  server_->Stop();  // and twice is as good as once
}

// `longhaul run` ends soon after its job. A page that follows it must not miss how the job ended.
TEST_F(RestServerTest, SendsAllThatWasPublishedToItsStreamsBeforeItStops) {
  constexpr size_t kEvents = 3'000;
  std::vector<std::unique_ptr<OpenStream>> streams;
  for (uint64_t i = 0; i < RestServer::kMostEventStreams; ++i) {
    streams.push_back(std::make_unique<OpenStream>(server_->port(), "secret"));
    ASSERT_EQ(streams.back()->status(), 200) << i;
  }
  std::vector<LoggedNotification> published(kEvents);
  for (size_t i = 0; i < kEvents; ++i) {
    published[i].id = i + 1;
    published[i].notification.mutable_step()->set_step(i);
  }
  feed_.Publish(published);
  feed_.Close();
  server_->Stop();
  const std::string last = "id: " + std::to_string(kEvents) + "\n";
  for (const auto& stream : streams) EXPECT_NE(stream->Rest().find(last), std::string::npos);
}

TEST_F(RestTest, ABodyThatIsNoTextOrNoEndIsRefused) {
  EXPECT_EQ(Call("POST", "/v1/jobs", "{\"job\": \"\xff\"}").first, 400);
  EXPECT_EQ(Call("POST", "/v1/jobs", "{\"job\": " + std::string(500'000, '[')).first, 400);
  EXPECT_EQ(Call("POST", "/v1/jobs", std::string(1000, '\0')).first, 400);
  EXPECT_EQ(Call("GET", "/v1/jobs").first, 200);
}

// The document and the server: each path of one is a path of the other, and what the document
// promises to be in an answer is there.
class OpenApiTest : public RestTest {
 protected:
  OpenApiTest() : document_(YAML::LoadFile("docs/openapi.yaml")) {}

  YAML::Node Resolve(YAML::Node node) const {
    while (node["$ref"]) {
      const std::string reference = node["$ref"].as<std::string>();
      node.reset(document_);
      for (const std::string_view part : Split(std::string_view(reference).substr(2), '/')) {
        node.reset(node[std::string(part)]);
      }
    }
    return node;
  }

  void ExpectRequired(const YAML::Node& reference, const Json& json, const std::string& where) {
    const YAML::Node schema = Resolve(reference);
    for (const auto& name : schema["required"]) {
      EXPECT_TRUE(json.contains(name.as<std::string>())) << where << "." << name;
    }
    for (const auto& property : schema["properties"]) {
      const auto name = property.first.as<std::string>();
      if (json.contains(name) && json[name].is_object()) {
        ExpectRequired(property.second, json[name], where + "." + name);
      }
      if (json.contains(name) && json[name].is_array() && property.second["items"]) {
        for (const Json& item : json[name]) {
          if (item.is_object()) ExpectRequired(property.second["items"], item, where + "." + name);
        }
      }
    }
  }

  YAML::Node document_;
};

TEST_F(OpenApiTest, DescribesExactlyTheRoutesThereAre) {
  std::set<std::string> documented;
  for (const auto& path : document_["paths"]) {
    for (const auto& method : path.second) {
      std::string name = method.first.as<std::string>();
      std::transform(name.begin(), name.end(), name.begin(), ::toupper);
      documented.insert(name + " " + path.first.as<std::string>());
    }
  }
  const auto routes = RestApi::Routes();
  EXPECT_EQ(documented, std::set<std::string>(routes.begin(), routes.end()));
}

TEST_F(OpenApiTest, NamesTheRoleThatEachRouteNeeds) {
  for (const std::string& route : RestApi::Routes()) {
    const size_t space = route.find(' ');
    std::string method = route.substr(0, space);
    const std::string path = route.substr(space + 1);
    const std::optional<Role> needed = RestApi::RoleFor(method, path);
    std::transform(method.begin(), method.end(), method.begin(), ::tolower);
    const YAML::Node role = document_["paths"][path][method]["x-role"];
    EXPECT_EQ(role ? role.as<std::string>() : "", needed ? NameOf(*needed) : "") << route;
  }
}

TEST_F(OpenApiTest, PromisesWhatTheServerAnswers) {
  const std::string id = Submit();
  std::filesystem::create_directories(directory_ + "/" + id + "/logs/attempt-1");
  std::ofstream(directory_ + "/" + id + "/logs/attempt-1/rank-0.log") << "x";
  for (const auto& path : document_["paths"]) {
    for (const auto& method : path.second) {
      std::string url = path.first.as<std::string>();
      const size_t brace = url.find('{');
      if (brace != std::string::npos) url.replace(brace, url.find('}') - brace + 1, id);
      const bool post = method.first.as<std::string>() == "post";
      const bool submits = url == "/v1/jobs" && post;
      SCOPED_TRACE(method.first.as<std::string>() + " " + url);
      const auto [status, json] =
          Call(post ? "POST" : "GET", url, submits ? R"({"job": "x"})" : "");
      // There is no node: an error, of a form that is promised as well.
      const YAML::Node response = Resolve(method.second["responses"][std::to_string(status)]);
      ASSERT_TRUE(response.IsMap()) << "answers " << status << ", which is not described";
      const YAML::Node as_json = response["content"]["application/json"];
      if (as_json) {
        ASSERT_TRUE(json.is_object());
        ExpectRequired(as_json["schema"], json, url);
      }
    }
  }
}

TEST_F(OpenApiTest, SaysOfEveryBodyThatAnotherMediaTypeIsRefused) {
  const std::string id = Submit();
  for (const auto& path : document_["paths"]) {
    const YAML::Node post = path.second["post"];
    if (!post) continue;
    std::string url = path.first.as<std::string>();
    const size_t brace = url.find('{');
    if (brace != std::string::npos) url.replace(brace, url.find('}') - brace + 1, id);
    SCOPED_TRACE(url);
    EXPECT_EQ(http_->Post(url, "{}", "application/x-www-form-urlencoded")->status, 415);
    EXPECT_TRUE(post["responses"]["415"]);
    EXPECT_TRUE(post["requestBody"]["content"]["application/json"]);
  }
}

TEST_F(RestTest, RefusesReservationsOfWhatIsNotThere) {
  EXPECT_EQ(Call("GET", "/v1/reservations").second["reservations"], Json::array());
  const auto [status, json] =
      Call("POST", "/v1/reservations", R"({"name": "fans", "nodes": ["node-1"], "for": "1h"})");
  EXPECT_EQ(status, 404);
  EXPECT_EQ(json["error"]["message"], "reservation fans: there is no node or domain 'node-1'");
  EXPECT_EQ(Call("POST", "/v1/reservations", R"({"name": "fans", "for": "1h"})").first, 400);
  EXPECT_EQ(Call("POST", "/v1/reservations/fans/cancel").first, 404);
  EXPECT_EQ(Call("DELETE", "/v1/reservations").first, 405);
}

TEST_F(RestTest, MetricsNameEveryFamilyOnce) {
  Submit("small");
  const std::string text = http_->Get("/metrics")->body;
  EXPECT_NE(text.find("longhaul_job_state{job_id=\"small-1\",state=\"queued\"} 1\n"),
            std::string::npos)
      << text;
  std::set<std::string> helps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      EXPECT_TRUE(helps.insert(line.substr(7, line.find(' ', 7) - 7)).second) << line;
    }
  }
  EXPECT_GE(helps.size(), 12u);
}

// The one place that holds the values is the log; who asks for them by the token gets them.
TEST_F(RestTest, ShowsTheValuesOfAnEnvironmentOnlyOnRequest) {
  secret_ = "s3cret-value";
  const std::string id = Submit();
  for (const std::string& route : RestApi::Routes()) {
    if (!route.starts_with("GET ")) continue;
    std::string path = route.substr(4);
    const size_t brace = path.find('{');
    if (brace != std::string::npos) path.replace(brace, path.find('}') - brace + 1, id);
    const auto answer = http_->Get(path, {{"Accept", "application/json"}});
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->body.find(secret_), std::string::npos) << path;
  }
  for (const char* path : {"/v1/jobs", "/v1/jobs/job-1"}) {
    EXPECT_NE(http_->Get(path)->body.find("\"KEY\":\"<redacted>\""), std::string::npos) << path;
    const std::string whole = http_->Get(std::string(path) + "?environment=true")->body;
    EXPECT_NE(whole.find("\"KEY\":\"" + secret_ + "\""), std::string::npos) << whole;
    EXPECT_EQ(http_->Get(std::string(path) + "?environment=all")->status, 400);
  }
  EXPECT_EQ(http_->Post("/v1/jobs/" + id + "/stop", "{}", "application/json")->body.find(secret_),
            std::string::npos);
  const auto events = http_->Get("/v1/events?after=0", {{"Accept", "application/json"}});
  EXPECT_EQ(events->body.find(secret_), std::string::npos);
}

TEST_F(RestTest, ACheckNeedsNodesWithoutJobs) {
  EXPECT_EQ(Call("POST", "/v1/checks", "{}").first, 409);
  EXPECT_EQ(Call("POST", "/v1/checks", R"({"nodes": ["node-1"]})").first, 404);
  EXPECT_EQ(Call("POST", "/v1/checks", R"({"nodes": 1})").first, 400);
  EXPECT_EQ(Call("GET", "/v1/checks/1").first, 404);
  EXPECT_EQ(Call("GET", "/v1/checks/first").first, 400);
}

}  // namespace
}  // namespace longhaul::service
